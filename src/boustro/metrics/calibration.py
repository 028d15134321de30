"""Calibration: whether predicted entities with a score of 0.9 are correct nine times in ten.

In bins of equal width the mean score is compared with the share that is correct. The expected calibration error is the
mean distance of the two, weighted by the number of entities:

    ECE = Σ_b  n_b / n · |right_b - score_b|          (Guo et al. 2017, equation 5)

    scores 0.95 0.95, one of them correct  →  one bin, score 0.95, right 0.5, ECE 0.45

Missed entities have no score and do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Bin:
    """Entities with `low` ≤ score < `high` (the last bin includes 1); shares between 0 and 1."""

    low: float
    high: float
    count: int
    mean_score: float
    right: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """All bins, empty ones too, and the expected calibration error between 0 and 1."""

    bins: tuple[Bin, ...]
    error: float


def reliability(scores: Sequence[float], right: Sequence[bool], num_bins: int = 10) -> Reliability:
    """Bins and error of entities with these scores; `ValueError` for a score outside [0, 1]."""
    values, truth = np.asarray(scores, float), np.asarray(right, float)
    if values.shape != truth.shape:
        raise ValueError(f"{len(values)} scores, but {len(truth)} judgements")
    if len(values) and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError("a score is outside [0, 1]; probabilities are expected")
    places = np.minimum((values * num_bins).astype(int), num_bins - 1)
    counts = np.bincount(places, minlength=num_bins)
    sums, hits = (np.bincount(places, weights=w, minlength=num_bins) for w in (values, truth))
    safe = np.maximum(counts, 1)
    bins = tuple(
        Bin(b / num_bins, (b + 1) / num_bins, int(counts[b]), float(sums[b] / safe[b]), float(hits[b] / safe[b]))
        for b in range(num_bins)
    )
    return Reliability(bins, float(np.abs(sums - hits).sum() / max(len(values), 1)))
