"""The options of a pretraining run, and the facts among them that decide its weights."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from boustro.models.presets import PRESETS
from boustro.objectives.causal import Direction
from boustro.options import (
    Count,
    CountOrZero,
    Positive,
    PositiveOrZero,
    Range,
    Seed,
    Share,
    ShareAboveZero,
    check_options,
)
from boustro.store import fingerprint
from boustro.text.mixture import Corpora

MOST_PIECES, MOST_WORKERS = 2**20, 1024
FACTS = (
    "objective mask_rate hide direction init_from init_embeddings_from tokens segment_length batch_segments "
    "optimizer lr weight_decay schedule warmup decay seed"
)


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
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
    lr: Positive = 5e-3
    """Peak learning rate."""
    weight_decay: PositiveOrZero = 0.1
    schedule: Literal["wsd", "cosine"] = "wsd"
    """Warm-up, stable, decay; or warm-up and cosine (the paper's)."""
    warmup: Share = 0.03
    """Share of the steps spent warming up."""
    decay: Share = 0.4
    """Share of the steps spent decaying (wsd)."""
    seed: Seed = 1
    data_workers: Annotated[int, Range(0, MOST_WORKERS)] = 0
    """Processes that read segments ahead of the model, for each process that trains."""
    compile: bool = True
    """Compile the model with torch.compile (needs a C++ compiler on a CPU)."""
    bf16: bool | None = None
    """Mixed precision, Muon's steps included; by default wherever the hardware is fast at it."""
    save_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the weights in the model folder."""
    save_minutes: PositiveOrZero = 10.0
    """Minutes between checkpoints."""
    validation_pieces: Count = 400_000
    """How much of the validation shards, from their beginning, is measured."""
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

    @property
    def architecture(self) -> str:
        """A preset, or where a config lies."""
        like = self.init_from if self.objective == "causal" else None
        return self.preset or like or "mini"

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie until the model folder is written."""
        return self.out.with_name(self.out.name + ".checkpoints")


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
    path = Path(preset)
    if preset in PRESETS or not path.exists():
        return preset
    return fingerprint(json.loads((path / "config.json" if path.is_dir() else path).read_text("utf-8")))
