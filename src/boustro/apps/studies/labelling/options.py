"""The options of `boustro label --simulate`. torch is not imported here: the command line lists them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from boustro.options import Count, Positive, Range, Seed, check_options


@dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    """A study with a simulated annotator, in place of a session."""

    simulate: bool = False
    """Let a simulated annotator answer with the gold of --train, and measure what its answers are worth."""
    dev: Path | None = None
    """Labelled sentences to score on. By default a fifth of --train, which is not answered."""
    encoders: tuple[str, ...] = ()
    """Encoders to compare; by default that of --encoder."""
    orders: tuple[Literal["uncertain", "diverse", "in-order", "random"], ...] = ("uncertain", "random", "in-order")
    """Orders to compare."""
    seeds: Count = 10
    """Runs of every order, each with sentences of its own to choose from."""
    words: Count = 6000
    """Words that the annotator reads at most."""
    goal: Annotated[float, Range(0, 100)] = 70.0
    """Entity F1 whose cost in words is reported."""
    growth: Positive = 1.2
    """Factor from one number of words at which the tagger is scored to the next; above 1."""
    first_seed: Seed = 1
    """The first of the seeds, which follow each other."""
    svg: Path | None = None
    """Write the curves to this file."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)
