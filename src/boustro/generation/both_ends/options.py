"""How gaps are filled: the one declaration of these options. torch is not imported here: command lines list them."""

import re
from dataclasses import dataclass

from boustro.encoders.options import StartOptions
from boustro.options import Count, OptionError, PositiveOrZero, Seed, ShareAboveZero, check_options

UNIGRAM_WEIGHT = 0.75
"""γ of f + b − γ · unigram, where the two LMs choose a piece together."""
MOST_TOKENS = 64


@dataclass(frozen=True, kw_only=True)
class InfillOptions(StartOptions):
    """How a forward and a backward LM fill a gap; the defaults are what measurement favoured (docs/generation.md)."""

    tokens_per_gap: str = "1-4"
    """Pieces of a gap: a number, or a range such as 1-4, of which the length with the best score is taken."""
    variant: str = "beam"
    """Who writes next: surer-first, alternate, forward-closed and backward-closed (one LM writes, both choose the last
    piece), forward, backward, or beam (the best of several fillings of both LMs)."""
    ranking: str = "around"
    """How fillings of a gap are compared: joint (the score of both LMs, the sum over pieces), mean (the same divided by
    their number) or around (each LM also reads on into the text behind the gap)."""
    read_on: Count = 16
    """Pieces behind the gap that each LM reads for the ranking around."""
    unigram_weight: PositiveOrZero = UNIGRAM_WEIGHT
    """Weight of the unigram log-probability, which is taken off where both LMs choose a piece."""
    beam: Count = 4
    """Fillings that the variant beam keeps in each step."""
    candidates: Count = 1
    """Fillings to give for each gap, the best first."""
    temperature: PositiveOrZero = 0.0
    """Draw pieces at this temperature; 0 takes the likeliest."""
    top_p: ShareAboveZero = 1.0
    """Draw from the likeliest pieces that hold this share of the probability."""
    seed: Seed = 1
    """Random seed of what is drawn."""

    def __post_init__(self) -> None:
        check_options(self)
        self.lengths()
        if self.variant == "beam" and self.temperature > 0:
            raise OptionError("the variant beam draws nothing; leave out --temperature, or choose surer-first")
        if self.candidates > 1 and self.variant != "beam" and self.temperature == 0:
            raise OptionError("several --candidates need --variant beam, or a --temperature above 0")
        if self.variant == "beam" and self.candidates > self.beam * len(self.lengths()):
            raise OptionError(f"--candidates {self.candidates} needs a --beam of at least {self.candidates}")

    def lengths(self) -> range:
        """`"4"` → `range(4, 5)`, `"1-4"` → `range(1, 5)`; `OptionError` for anything else."""
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", self.tokens_per_gap.strip())
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= low <= high <= MOST_TOKENS:
            raise OptionError(
                f"tokens_per_gap must be a number from 1 to {MOST_TOKENS} or a range such as 1-4, "
                f"not {self.tokens_per_gap!r}"
            )
        return range(low, high + 1)
