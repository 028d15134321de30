"""The options of `boustro lab pretrain`, the options that every training run has, and which of them decide the weights.

torch is not imported here, because a command's help lists these options.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from boustro.lab.objectives.split import PrefixSuffixOptions
from boustro.options import Count, CountOrZero, PositiveOrZero, Range, Seed, Share, ShareAboveZero, check_options
from boustro.text.places import LM, Folder
from boustro.types import Direction


class Steps(NamedTuple):
    """How a run changes its weights, besides the peak of the learning rate."""

    optimizer: Literal["muon", "adamw"] = "muon"
    """muon: Muon for weight matrices and AdamW for all other parameters; adamw: AdamW for all."""
    weight_decay: float = 0.1
    """Decoupled."""
    warmup: float = 0.03
    """Share of the steps in which the learning rate rises to its peak."""
    decay: float = 0.4
    """Share of the steps, at the end, in which the learning rate falls to 0."""


@dataclass(frozen=True, kw_only=True)
class OutputConfig:
    """Where a long run writes, and how it is stopped and continued."""

    out: Path
    save_minutes: PositiveOrZero = 10.0
    """Minutes between checkpoints."""
    resume: bool = False
    """Continue from the newest complete checkpoint; a finished run is left unchanged."""
    overwrite: bool = False
    """Start again: replace a finished run's folder and remove checkpoints."""
    dry_run: bool = False
    """Run a few steps, print the estimated cost of the whole run, and stop; nothing is written."""

    __post_init__ = check_options

    @property
    def again(self) -> str:
        """The command that continues a run that is stopped."""
        return "the same command" if self.resume else "the same command with --resume"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints, which is removed when the run is finished."""
        return self.out.with_name(self.out.name + ".checkpoints")


@dataclass(frozen=True, kw_only=True)
class RunConfig(OutputConfig):
    """The options that all trainings share; the config of a training adds its own, and sets its own defaults."""

    lr: PositiveOrZero = 2e-3
    """Peak learning rate."""
    seed: Seed = 1
    """Seed of the initial weights, the data order and dropout."""
    evaluations: CountOrZero = 8
    """How many times to measure the validation loss during the run."""

    @property
    def steps(self) -> Steps:
        """How the weights are changed."""
        return Steps()


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(RunConfig):
    """The options of `boustro lab pretrain`."""

    shards: tuple[Folder, ...]
    """Token shards to train on, written by boustro lab tokenize; one folder per corpus."""
    out: Path
    """Where to write the model folder."""
    objective: str = "causal"
    """Training objective: causal for forward and backward LMs, masked or another for masked LMs."""
    direction: Direction = "backward"
    """Reading direction of a causal LM."""
    preset: str | None = None
    """Architecture: gpt2-base, tiny, mini or small for a causal LM; bert-, eurobert-, electra- or biglm- and a size,
    such as bert-mini, for a masked LM; or a path to a transformers config.json. By default mini, or for a causal LM the
    architecture of --init-from."""
    mask_rate: ShareAboveZero = 0.15
    """Share of the pieces that a masked LM must predict (all objectives except causal and prefix-suffix)."""
    hide: Literal["piece", "word"] = "piece"
    """What is hidden as a unit: single pieces or whole words. For span: whether spans are runs of pieces or of
    words."""
    split: PrefixSuffixOptions = field(default_factory=PrefixSuffixOptions)
    """How the objective prefix-suffix splits documents and hides pieces."""
    init_from: LM | None = None
    """Initialise all weights from this LM, a folder or a name on the Hub, with the same architecture and tokenizer.
    Learned positions beyond --segment-length are dropped."""
    init_embeddings_from: LM | None = None
    """Initialise the embeddings (and a tied head) from this LM over the same tokenizer; wider embeddings are reduced
    to their principal components."""
    embeddings_of: LM | None = None
    """Freeze the embeddings of this LM over the same tokenizer, and train only a projection of them (causal LMs)."""
    sampled_pieces: CountOrZero = 0
    """Compute a causal LM's softmax over the batch's own pieces and about this many others, drawn by frequency; 0: over
    all pieces. The validation loss is always over all."""
    shares: tuple[float, ...] = ()
    """Sampling share of each corpus, in the order of --shards; by default by size."""
    alpha: PositiveOrZero = 1.0
    """Without --shares: corpora are sampled by size to this power; below 1, small corpora are read more often."""
    validation: Folder | None = None
    """Token shards for the validation loss and perplexity, made with the same tokenizer."""
    tokens: CountOrZero | None = None
    """Pieces to train on; by default one pass over the shards; 0 skips training."""
    segment_length: Annotated[int, Range(2, 2**20)] = 1024
    """Pieces per segment, and the model's context window."""
    batch_segments: Count = 8
    """Segments per optimiser step, over all processes."""
    micro_batch_segments: Count | None = None
    """Segments per forward pass in one process; by default chosen for the device."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """muon: Muon for weight matrices and AdamW for all other parameters; adamw: AdamW for all."""
    lr: PositiveOrZero = 5e-3
    """Peak learning rate."""
    warmup: Share = 0.03
    """Share of the steps in which the learning rate rises to its peak."""
    decay: Share = 0.4
    """Share of the steps, at the end, in which the learning rate falls to 0."""
    schedule: Literal["wsd", "cosine"] = "wsd"
    """Learning-rate schedule: wsd (warm-up, stable, decay), or warm-up and cosine decay (the paper's)."""
    compile: bool = True
    """Compile the model with torch.compile (needs a C++ compiler on a CPU)."""
    bf16: bool | None = None
    """Mixed precision in bf16, in Muon's steps too; by default where the hardware is fast at it."""
    save_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the weights in the model folder."""
    validation_pieces: Count = 400_000
    """How many pieces of the validation shards to measure, from their beginning."""

    @property
    def steps(self) -> Steps:
        return Steps(self.optimizer, warmup=self.warmup, decay=self.decay)

    @property
    def architecture(self) -> str:
        """A preset, a path to a config, or the LM that a causal run starts from."""
        like = self.init_from if self.objective == "causal" else None
        return self.preset or like or "mini"


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Train a language model on token shards and write a model folder."""
    from boustro.lab.pretrain import run

    return run.run_pretraining(config)


def run_facts(config: RunConfig, options: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """Return what decides a run's weights: its seed, its steps, the `options` named, and `more`, such as the data's
    hash.

    A checkpoint with other facts belongs to another run. The micro-batch, the number of processes, compilation and
    mixed precision are not facts: they only change rounding, so a run may be resumed with other values.
    """
    facts = config.steps._asdict() | {name: getattr(config, name) for name in ("lr", "seed", *options)} | more
    return json.loads(
        json.dumps(facts, default=lambda value: asdict(value) if isinstance(value, PrefixSuffixOptions) else str(value))
    )
