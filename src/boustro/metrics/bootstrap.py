"""Is a difference of F1 reliable? A paired bootstrap over sentences and seeds.

All systems are scored on the same resampled sentences, many times; a system trained with several seeds also
has its seeds resampled. A system's score in a draw is the mean of its seeds' F1, as in the table, and the
interval holds the middle 95% of the differences. Where it holds 0, there is no reliable difference.

    counts of a system   (seeds, sentences, 3): entities in the reference, predicted, and in both

Letters: S seeds, N sentences, B draws of a block. Source: Berg-Kirkpatrick et al. 2012 for the sentences;
that runs should be resampled as well: Bouthillier et al. 2021, *Accounting for variance*.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boustro.metrics.spans import extract_spans
from boustro.types import Entity

BLOCK_DRAWS = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """F1 of the second system minus the first's, in points, and its 95% interval."""

    points: float
    low: float
    high: float

    @property
    def reliable(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


def sentence_counts(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> np.ndarray:
    """(sentences, 3) from tags."""
    return entity_counts([extract_spans(tags) for tags in gold], [extract_spans(tags) for tags in predicted])


def entity_counts(gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]) -> np.ndarray:
    """(sentences, 3) from entities."""
    rows = []
    for gold_entities, predicted_entities in zip(gold, predicted, strict=True):
        wanted, got = ({(e.label, e.start, e.end) for e in side} for side in (gold_entities, predicted_entities))
        rows.append((len(wanted), len(got), len(wanted & got)))
    return np.array(rows, np.int64).reshape(-1, 3)


def paired_bootstrap(first: np.ndarray, second: np.ndarray, draws: int = 2000, seed: int = 0) -> Difference:
    """Compare two systems by their counts, (sentences, 3) or (seeds, sentences, 3), on the same sentences."""
    drawn = bootstrap_f1([first, second], draws, seed)
    return difference(mean_f1(first), mean_f1(second), drawn[:, 0], drawn[:, 1])


def difference(first: float, second: float, first_drawn: np.ndarray, second_drawn: np.ndarray) -> Difference:
    """The second minus the first, with the interval that two columns of `bootstrap_f1` give."""
    low, high = np.quantile(second_drawn - first_drawn, [0.025, 0.975])
    return Difference(second - first, float(low), float(high))


def bootstrap_f1(systems: Sequence[np.ndarray], draws: int = 2000, seed: int = 0) -> np.ndarray:
    """(draws, systems): F1 of every system on the same resampled sentences.

    Raises `ValueError` when the systems were not scored on the same number of sentences.
    """
    stacked = [_with_seeds(counts).astype(float) for counts in systems]
    sizes = sorted({counts.shape[1] for counts in stacked})
    if len(sizes) > 1:
        raise ValueError(f"the systems were scored on different sentences: {' and '.join(map(str, sizes))}")
    generator = np.random.default_rng(seed)
    result = np.empty((draws, len(stacked)))
    for start in range(0, draws, BLOCK_DRAWS):
        size = min(BLOCK_DRAWS, draws - start)
        chosen = generator.integers(0, sizes[0], (size, sizes[0])) if sizes[0] else np.zeros((size, 0), int)
        times = np.stack([np.bincount(row, minlength=sizes[0]) for row in chosen]).astype(float)  # (B, N)
        for column, counts in enumerate(stacked):
            f1 = _f1(np.einsum("bn,snc->bsc", times, counts, optimize=True))  # (B, S)
            seeds = generator.integers(0, len(counts), (size, len(counts)))
            result[start : start + size, column] = np.take_along_axis(f1, seeds, 1).mean(1)
    return result


def mean_f1(counts: np.ndarray) -> float:
    """F1 in percent, the mean over seeds where there are several."""
    return float(_f1(_with_seeds(counts).sum(1)).mean())


def _with_seeds(counts: np.ndarray) -> np.ndarray:
    return counts[None] if counts.ndim == 2 else counts


def _f1(counts: np.ndarray) -> np.ndarray:
    """(..., 3) → (...): percent, 0 where there is nothing at all."""
    both = counts[..., 0] + counts[..., 1]
    return 200 * counts[..., 2] / np.maximum(both, 1)
