"""What can be chosen about a scaling study. torch is not imported here: command lines list these options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from boustro.choose import unknown
from boustro.options import Count, OptionError, PositiveOrZero, Range, check_options
from boustro.text.places import Folder
from boustro.types import Direction

SIZES = ("tiny", "mini", "small")


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """Sizes × budgets × objectives × seeds, and how each run is trained."""

    shards: tuple[Folder, ...]
    """Token shards to train on, written by boustro tokenize."""
    validation: Folder
    """Token shards on which the loss is measured, made with the same tokenizer."""
    out: Path
    """Output folder for cells, results and drawings. A study that stopped there is continued."""
    budgets: tuple[Count, ...]
    """Pieces to train on; every budget is a run of its own, whose learning rate falls to 0 at its end."""
    sizes: tuple[str, ...] = SIZES
    """Presets: sizes that every objective has (tiny, mini, small), or paths of transformers configs."""
    objectives: tuple[Literal["causal", "masked", "prefix-suffix", "span", "replaced"], ...] = (
        "causal",
        "masked",
        "prefix-suffix",
    )
    """Training objectives. Their losses are of different things and are not compared."""
    seeds: Annotated[int, Range(1, 100)] = 1
    """Number of seeds; the seeds 1, 2, … are used."""
    direction: Direction = "forward"
    """Reading direction of causal LMs."""
    segment_length: Annotated[int, Range(2, 2**20)] = 256
    """Pieces per segment."""
    batch_segments: Count = 16
    """Segments per step."""
    lr: PositiveOrZero = 5e-3
    """Peak learning rate of all runs."""
    validation_pieces: Count = 200_000
    """How many pieces of the validation shards to measure, from their beginning."""
    compile: bool = True
    """Compile the models with torch.compile, which pays off in runs of more than a few minutes."""
    save_minutes: PositiveOrZero = 10.0
    """Minutes between checkpoints of a run."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range, and for budgets of less than a step."""
        check_options(self)
        if not (self.sizes and self.budgets and self.objectives):
            raise OptionError("give at least one of --sizes, --budgets and --objectives")
        for size in self.sizes:
            if size not in SIZES and not Path(size).exists():
                raise OptionError(f"--sizes: {unknown(size, SIZES, 'size')}, or the path of a config.json")
        step = self.batch_segments * self.segment_length
        if min(self.budgets) < step:
            raise OptionError(f"a step reads {step:,} pieces, more than a budget of {min(self.budgets):,}")
