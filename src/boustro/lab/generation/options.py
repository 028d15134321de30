"""Options of writing, scoring and filling. torch is not imported here: command lines list them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from boustro.encoders.options import StartOptions
from boustro.options import Count, OptionError, PositiveOrZero, Range, Seed, ShareAboveZero, check_options
from boustro.text.places import TextPath

SearchedLengths = Annotated[int, Range(2, 64)]
DrawCount = Annotated[int, Range(1, 10_000)]
UNIGRAM_WEIGHT = 0.75
"""γ of f + b − γ · unigram, where the two LMs choose a piece together."""
MOST_TOKENS = 64  # a longer gap is a text of its own


@dataclass(frozen=True, kw_only=True)
class LMOptions(StartOptions):
    """How a command runs its LMs."""

    device: str | None = None
    """cpu, cuda or mps. By default the best available."""
    quiet: bool = False
    """Write nothing to standard error except errors."""


DEFAULT_LM = LMOptions()


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How text is written."""

    strategy: str | None = None
    """mask-predict (all places at once, the least confident again), blocks (the same, a block at a time), gibbs (place
    by place in random order, again and again), left-to-right, or causal (a causal LM's own generation). By default
    mask-predict, or causal for a causal LM."""
    length: Count | None = None
    """Pieces to write; for causal at most so many; with --num-length-candidates the longest length tried. By default
    32, or what a model that boustro lab seq2seq fine-tuned expects."""
    num_length_candidates: SearchedLengths | None = None
    """Write this many lengths up to --length (the likeliest ones of a fine-tuned model), and keep the text with the
    highest mean log-probability of a piece."""
    prompt_pieces: Count | None = None
    """Read only the first pieces of a prompt; how many were cut is said. By default nothing is cut."""
    steps: Count | None = None
    """mask-predict: how often the text is read; blocks: how often for each block; gibbs: how often each place is drawn.
    By default 10, or fewer for a shorter text."""
    block_length: Count = 8
    """blocks: pieces of a block."""
    hide_repeats: bool = False
    """mask-predict: write a piece again that is equal to the one before it, before the least confident ones."""
    temperature: PositiveOrZero | None = None
    """Sampling temperature; 0 takes the likeliest piece. By default 1 for gibbs, else 0."""
    top_p: ShareAboveZero = 1.0
    """Sample from the likeliest pieces that together have this probability."""
    seed: Seed = 1
    """Seed of sampling; each prompt has its own random numbers, whatever the batch."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range, and for more steps than pieces."""
        check_options(self)
        blocks = self.strategy == "blocks"
        most = min(self.block_length, self.longest) if blocks else self.longest
        if self.steps and self.steps > most and self.strategy not in ("gibbs", "left-to-right"):
            what = "block_length" if blocks else "length"
            raise OptionError(f"steps must be at most {what}, {most}, not {self.steps}: a step writes a piece or more")

    @property
    def longest(self) -> int:
        """The most pieces that are written."""
        return self.length or 32

    def num_steps(self, num_pieces: int) -> int:
        """Return the steps for a text (or block) of so many pieces."""
        return min(self.steps or 10, num_pieces)

    def sampling_temperature(self, default: float = 0.0) -> float:
        """Return the temperature, or a strategy's own default."""
        return default if self.temperature is None else self.temperature

    def lengths(self) -> list[int]:
        """Return the lengths to try: 32 in 4 candidates → [8, 16, 24, 32]."""
        count = self.num_length_candidates or 1
        return sorted({max(1, round(self.longest * (n + 1) / count)) for n in range(count)})


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """How a text is scored, given a prompt."""

    score: str | None = None
    """duel and left-to-right (likelihoods), one-shot, gold-order, pseudo-log-likelihood, or bound (below a likelihood).
    By default duel, or left-to-right for a causal LM."""
    pmi: bool = False
    """Subtract the score of the text without its prompt."""
    samples: DrawCount = 16
    """bound: how many random sets of hidden pieces are drawn."""
    seed: Seed = 1
    """bound: seed of the draws; each text has its own, whatever the batch."""

    __post_init__ = check_options


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Targets that written texts are scored against where no LM scores them."""

    target_key: str = "target"
    """The key of a text's target, or of a list of targets, or a text with keys."""
    train: TextPath | None = None
    """JSON lines with targets, of which the most typical is scored as a control (constant)."""
    by: str | None = None
    """Also score the texts of each value of this key apart, such as group or task."""
    json: Path | None = None
    """Write the scores to this file (- for standard output)."""


@dataclass(frozen=True, kw_only=True)
class InfillOptions:
    """How a forward and a backward LM fill a gap; the defaults are what measurement favoured (docs/generation.md)."""

    tokens_per_gap: str = "1-4"
    """Pieces of a gap: a number, or a range such as 1-4, of which the length with the best score is taken."""
    read_on: Count = 16
    """Pieces behind the gap that each LM also reads, because fillings are compared by the probability of that text."""
    unigram_weight: PositiveOrZero = UNIGRAM_WEIGHT
    """Weight of the unigram log-probability, which is taken off where both LMs choose a piece."""
    beam: Count = 4
    """Fillings of a gap that are kept in each step, of both LMs; without effect at a temperature above 0."""
    candidates: Count = 1
    """Fillings to give for each gap, the best first."""
    temperature: PositiveOrZero = 0.0
    """Draw pieces at this temperature, the surer LM first; 0 searches for the likeliest filling."""
    top_p: ShareAboveZero = 1.0
    """Draw from the likeliest pieces that hold this share of the probability."""
    seed: Seed = 1
    """Random seed of what is drawn."""

    def __post_init__(self) -> None:
        check_options(self)
        self.lengths()
        if self.temperature == 0 and self.candidates > self.beam * len(self.lengths()):
            raise OptionError(f"--candidates {self.candidates} needs a --beam of at least {self.candidates}")

    def lengths(self) -> range:
        """`"4"` → `range(4, 5)`, `"1-4"` → `range(1, 5)`; `OptionError` for anything else."""
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", self.tokens_per_gap.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= low <= high <= MOST_TOKENS:
            raise OptionError(
                f"tokens_per_gap must be a number from 1 to {MOST_TOKENS} or a range such as 1-4, "
                f"not {self.tokens_per_gap!r}"
            )
        return range(low, high + 1)
