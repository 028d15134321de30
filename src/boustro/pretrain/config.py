"""The options of all that trains LMs and what is joined to them, and the facts among them that decide the weights.

torch is not imported here: these are the options that a command's help lists.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from boustro.options import (
    Count,
    CountOrZero,
    Dropout,
    Positive,
    PositiveOrZero,
    Range,
    Seed,
    Share,
    ShareAboveZero,
    Width,
    check_options,
)
from boustro.store import fingerprint, read_json
from boustro.text.mixture import Corpora
from boustro.types import Direction

if TYPE_CHECKING:
    from boustro.models.lora import LoraShape

MOST_PIECES, MOST_WORKERS, MOST_HEADS, MOST_RANK = 2**20, 1024, 1024, 4096
MOST_LETTERS = 7  # as many as models.elmo.PAPER_FILTERS has widths
FACTS = (
    "objective mask_rate hide direction init_from init_embeddings_from tokens segment_length batch_segments "
    "optimizer lr weight_decay schedule warmup decay seed"
)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The options that all runs share; a run's own config adds what it trains, and has defaults of its own."""

    out: Path
    optimizer: Literal["muon", "adamw"] = "muon"
    """Muon + AdamW, or AdamW alone."""
    lr: PositiveOrZero = 2e-3
    """Peak learning rate."""
    weight_decay: PositiveOrZero = 0.1
    warmup: Share = 0.03
    """Share of the steps spent warming up."""
    decay: Share = 0.4
    """Share of the steps spent decaying to 0, at the end."""
    seed: Seed = 1
    save_minutes: PositiveOrZero = 10.0
    """Minutes between checkpoints."""
    evaluations: CountOrZero = 8
    """How often to measure the validation loss during the run."""
    resume: bool = False
    """Go on from the newest complete checkpoint; a finished run is left as it is."""
    overwrite: bool = False
    """Begin anew, replacing a finished run's folder and removing checkpoints."""
    dry_run: bool = False
    """Make a few steps, say what all of them would cost, and stop; nothing is written."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a value that its option does not take."""
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(RunConfig):
    """Everything that decides what a run computes."""

    shards: tuple[Path, ...]
    """Token shards to train on, as written by `boustro tokenize`; of several corpora, each by its share."""
    out: Path
    """Where the model folder is written."""
    objective: str = "causal"
    """What is hidden and asked for: causal, masked, span, replaced or sentence-pair (`boustro.pretrain.objectives`)."""
    direction: Direction = "backward"
    """Which way a causal LM reads."""
    preset: str | None = None
    """gpt2-base, tiny, mini or small; bert-, eurobert- or electra-mini and the like for masked LMs; or a path to a
    transformers config.json; by default a causal LM is like that of --init-from, if there is one, otherwise mini."""
    mask_rate: ShareAboveZero = 0.15
    """Share of the pieces that a masked LM must tell (of every objective but causal)."""
    hide: Literal["piece", "word"] = "piece"
    """Whether a masked LM's words are hidden whole; spans are of pieces or of words."""
    init_from: str | None = None
    """Start from all weights of this LM, a folder or a name on the hub, of the same architecture and tokenizer; of
    learned positions those that a segment reaches."""
    init_embeddings_from: str | None = None
    """Start from the embeddings (and the head tied to them) of this LM over the same tokenizer; wider ones are reduced
    to their principal components."""
    shares: tuple[float, ...] = ()
    """How much of the run each corpus gets, in the order of --shards; by default by size."""
    alpha: PositiveOrZero = 1.0
    """Without --shares: sizes count to this power; below 1, small corpora are read more often."""
    validation: Path | None = None
    """Token shards for validation loss and perplexity, made with the same tokenizer."""
    tokens: CountOrZero | None = None
    """Pieces to train on; by default one pass over the shards; 0 trains nothing."""
    segment_length: Annotated[int, Range(2, MOST_PIECES)] = 1024
    """Pieces a segment; also the model's window."""
    batch_segments: Count = 8
    """Segments an optimiser step, over all processes together."""
    micro_batch_segments: Count | None = None
    """Segments that go through the model at once in one process; by default what suits the device."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """Muon + AdamW, or AdamW alone (the paper's)."""
    lr: PositiveOrZero = 5e-3
    """Peak learning rate."""
    schedule: Literal["wsd", "cosine"] = "wsd"
    """Warm-up, stable, decay; or warm-up and cosine (the paper's)."""
    decay: Share = 0.4
    """Share of the steps spent decaying (wsd)."""
    data_workers: Annotated[int, Range(0, MOST_WORKERS)] = 0
    """Processes that read segments ahead of the model, for each process that trains."""
    compile: bool = True
    """Compile the model with torch.compile (needs a C++ compiler on a CPU)."""
    bf16: bool | None = None
    """Mixed precision, Muon's steps included; by default wherever the hardware is fast at it."""
    save_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the weights in the model folder."""
    validation_pieces: Count = 400_000
    """How much of the validation shards, from their beginning, is measured."""

    @property
    def architecture(self) -> str:
        """A preset, or where a config lies."""
        like = self.init_from if self.objective == "causal" else None
        return self.preset or like or "mini"

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie until the model folder is written."""
        return self.out.with_name(self.out.name + ".checkpoints")


@dataclass(frozen=True, kw_only=True)
class LoopConfig(RunConfig):
    """The options of a run of `pretrain.loop`."""

    @property
    def checkpoint(self) -> Path:
        """Where the checkpoint lies until the run is finished."""
        return self.out.with_name(self.out.name + ".checkpoint")


@dataclass(frozen=True, kw_only=True)
class FuseConfig(LoopConfig):
    """Everything that decides what a run computes."""

    forward: str
    """Spec of the forward LM, such as gpt2 or starter-forward."""
    backward: str
    """Spec of the backward LM, over the same vocabulary."""
    shards: Path
    """Token shards to train on, as written by `boustro tokenize` with the tokenizer of the two."""
    out: Path
    """Where the fusion folder is written; fused:OUT names it as an encoder."""
    kind: Literal["attention", "linear"] = "attention"
    """attention, or linear: the control that sees the two nearest states only."""
    width: Width | None = None
    """Of the fused states; by default the forward LM's."""
    num_heads: Annotated[int, Range(1, MOST_HEADS)] = 4
    lr: PositiveOrZero = 1e-2
    """Peak learning rate. A fifth of it learns far too slowly: the embeddings that it predicts through stay fixed."""
    train_lms: Literal["none", "backward", "both"] = "none"
    """LMs that are trained along; they lie in the folder then, as OUT/forward and OUT/backward."""
    lm_weight: PositiveOrZero = 1.0
    """Of the trained LMs' own losses beside that of the fusion."""
    validation: Path | None = None
    """Token shards for the validation loss."""
    tokens: CountOrZero | None = None
    """Pieces to train on; by default one pass over the shards; 0 leaves the first, random weights."""
    segment_length: Count = 255
    """Pieces a segment; at most one less than the LMs' window, which holds the sentinel as well."""
    batch_segments: Count = 16
    """Segments a step."""
    validation_pieces: Count = 200_000
    """How much of the validation shards, from their beginning, is measured."""


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(LoopConfig):
    """Everything that decides what a run computes."""

    out: Path
    """Where the ELMo's folder is written; elmo:OUT names it as an encoder."""
    width: Width = 128
    """Of a word's vector and of a state in one direction."""
    cells: Width = 512
    """Of an LSTM layer."""
    letter_window: Annotated[int, Range(1, MOST_LETTERS)] = 5
    """Letters that the widest convolution sees; the paper's sees 7."""
    num_targets: Annotated[int, Range(2, 2**24)] = 10_000
    """Words that can be predicted."""
    words: CountOrZero | None = None
    """Words to train on; by default one pass over the corpus; 0 trains nothing."""
    batch_words: Count = 2048
    """Words a step, about."""
    max_words: Count = 100
    """Longer sentences are cut into parts of this many words."""
    optimizer: Literal["muon", "adamw"] = "adamw"
    """Muon + AdamW, or AdamW alone."""
    weight_decay: PositiveOrZero = 0.01
    decay: Share = 0.5
    """Share of the steps spent decaying to 0, at the end."""


@dataclass(frozen=True, kw_only=True)
class AdaptConfig(LoopConfig):
    """The options of both ways."""

    lm: str
    """Spec of the LM, such as gpt2 or starter-forward; backward:PATH for one that does not say so itself."""
    out: Path
    """Where the folder is written; unmasked:OUT names it as an encoder (OUT itself after --blocks none)."""
    blocks: str = "all"
    """Blocks whose mask is removed: all, a range such as 3-4, or none: the control that keeps its mask."""
    rank: Annotated[int, Range(1, MOST_RANK)] = 16
    """Of the trained change to a matrix."""
    alpha: Positive = 32.0
    """The change counts alpha / rank times."""
    dropout: Dropout = 0.05
    """On what the adapter reads."""
    targets: tuple[str, ...] = ()
    """Names of the linear layers to adapt, such as q_proj v_proj; by default all of the blocks."""
    optimizer: Literal["adamw"] = "adamw"
    """AdamW."""
    lr: PositiveOrZero = 5e-4
    """Peak learning rate; less for a large LM."""
    weight_decay: PositiveOrZero = 0.0

    @property
    def shape(self) -> "LoraShape":
        """The adapter's."""
        from boustro.models.lora import LoraShape

        return LoraShape(rank=self.rank, alpha=self.alpha, dropout=self.dropout, targets=self.targets)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """What the adaptation by running text needs."""

    shards: Path | None = None
    """Token shards to train on, as written by `boustro tokenize` with the LM's tokenizer."""
    validation: Path | None = None
    """Token shards for the validation loss."""
    tokens: CountOrZero | None = None
    """Pieces to train on; by default one pass over the shards; 0 trains nothing."""
    segment_length: Count = 255
    """Pieces a segment; the LM's window holds a sentinel as well, where it has one."""
    batch_segments: Count = 16
    """Segments a step."""
    mask_rate: ShareAboveZero = 0.2
    """Share of the pieces that are hidden and asked for."""
    mask_piece: str | None = None
    """What stands for a hidden piece; by default the tokenizer's mask piece, or else _ (LLM2Vec's)."""
    validation_pieces: Count = 200_000
    """How much of the validation shards, from their beginning, is measured."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a value that its option does not take."""
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """What the adaptation by labelled sentences needs."""

    train: Path | None = None
    """Labelled sentences to train on: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the hub."""
    dev: Path | None = None
    """Labelled sentences whose loss and entity F1 are measured."""
    epochs: CountOrZero = 3
    batch_pieces: Count = 1024
    """Pieces a step, about, padding among them."""
    context: Literal["sentence", "document"] = "document"
    """What the LM reads: the sentence alone, or the document around it where the data name documents."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a value that its option does not take."""
        check_options(self)


def run_facts(config: PretrainConfig, corpora: Corpora) -> dict[str, Any]:
    """What decides a run's weights: a checkpoint of other facts is another run's.

    The micro-batch, the number of processes, compilation and mixed precision are not among them: they change
    how the same sums are rounded, and a run may go on with others.
    """
    facts = {name: getattr(config, name) for name in FACTS.split()}
    return {"shards": corpora.fingerprint, "preset": _architecture(config.architecture), **facts}


def options_as_json(config: Any) -> dict[str, Any]:
    """A run's options as training.json keeps them, paths as text."""
    return json.loads(json.dumps(asdict(config), default=str))


def _architecture(preset: str) -> str:
    """A preset by its name, a config.json by what it says."""

    from boustro.models.presets import PRESETS

    path = Path(preset)
    if preset in PRESETS or not path.exists():
        return preset
    return fingerprint(read_json(path / "config.json" if path.is_dir() else path))
