"""What a run of `boustro language` is of, and how much its LMs read; a run that is continued keeps to it.

    OUT/plan.json     written at the start, and again after the probe

    minutes · 60 = what was spent before + 2 · (start of an LM + steps · seconds a step) + the memory's reading
                   + reserve(seeds) · minutes · 60

The memory is read without gradients, a third of a step's work for each LM, and by both. The reserve is for the vectors
of the labelled sentences, the tagger and the report.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from boustro.pretrain.plan import LEAST_STEPS, Plan
from boustro.store import fingerprint, hash_file
from boustro.studies.language.options import LanguageOptions
from boustro.tasks.data.fingerprint import data_fingerprint

RESERVE, MOST = 0.3, 0.75
"""The share of the time for a tagger and a report with one seed; the most with many."""
REMEMBER, MOST_REMEMBER = 2 / 3, 0.15
"""The time in which both LMs read a text for the memory, as a share of that in which one learns from it; the most that
it may be of all time."""


@dataclass(frozen=True)
class LanguagePlan(Plan):
    """What is decided; `steps` is 0 before the probe."""

    steps: int = 0
    """Steps of each LM."""
    tokens: int = 0
    """Pieces that each LM reads."""
    step_seconds: float = 0.0
    """What a step of the probe took."""
    documents: int = 0
    """Documents that the memory reads."""

    @property
    def lm_seconds(self) -> float:
        """What each LM is expected to take, without its start."""
        return self.step_seconds * self.steps


def inputs_key(text: Sequence[str], sets: Mapping[str, Sequence[Any]], options: LanguageOptions) -> str:
    """A fingerprint of the bytes of the text files, of the labelled sentences and of all options."""
    labelled = {name: data_fingerprint(examples) for name, examples in sets.items()}
    return fingerprint([hash_file(Path(file)) for file in text], labelled, asdict(options))


def reserve(seeds: int) -> float:
    """The share of the time for what follows LMs and memory: the tagger, and for each seed three in the report."""
    return min(MOST, RESERVE * (1 + 3 * seeds) / 4)


def decide(
    key: str, options: LanguageOptions, step_seconds: float, spent: float, num_pieces: int, num_documents: int
) -> LanguagePlan:
    """How many pieces fit the budget, at most `passes` over the text; `ValueError` where hardly any do.

    `spent` are the seconds before the LMs, and those of their starts.
    """
    step, share = options.segment_length * options.batch_segments, 1 - reserve(options.seeds)
    reading = REMEMBER * step_seconds * num_pieces / step
    remembered = min(1, MOST_REMEMBER * options.minutes * 60 / reading)
    spent += remembered * reading
    seconds = options.minutes * 60 * share - spent
    steps = min(int(seconds / 2 / step_seconds), options.passes * num_pieces // step)
    if steps < LEAST_STEPS:
        needed = (2 * LEAST_STEPS * step_seconds + spent) / share / 60
        raise ValueError(
            f"{max(steps, 0)} steps of {step:,} pieces fit {options.minutes:g} minutes and {num_pieces:,} pieces of "
            f"text, and {LEAST_STEPS} are the least; give --minutes {needed:.1f} or more, more text, or smaller batches"
        )
    return LanguagePlan(key, steps, steps * step, step_seconds, math.ceil(remembered * num_documents))
