"""Is a difference of F1 reliable? A paired bootstrap over sentences.

Both systems are scored on the same resampled sentences, many times; the interval holds the middle 95% of
the differences. Where it holds 0, there is no reliable difference. Source: Berg-Kirkpatrick et al. 2012.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boustro.metrics.spans import extract_spans


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
    """(sentences, 3): entities in the reference, predicted, and in both."""
    rows = []
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        wanted, got = set(extract_spans(gold_tags)), set(extract_spans(predicted_tags))
        rows.append((len(wanted), len(got), len(wanted & got)))
    return np.array(rows, np.int64).reshape(-1, 3)


def paired_bootstrap(first: np.ndarray, second: np.ndarray, draws: int = 2000, seed: int = 0) -> Difference:
    """Compare two systems by their `sentence_counts` (summed over seeds) on the same sentences."""
    if first.shape != second.shape:
        raise ValueError(f"the systems were scored on different sentences: {first.shape[0]} and {second.shape[0]}")
    generator = np.random.default_rng(seed)
    differences = np.empty(draws)
    for draw in range(draws):
        times = np.bincount(generator.integers(0, len(first), len(first)), minlength=len(first))
        differences[draw] = _f1(times @ second) - _f1(times @ first)
    low, high = np.quantile(differences, [0.025, 0.975])
    return Difference(_f1(second.sum(0)) - _f1(first.sum(0)), float(low), float(high))


def _f1(counts: np.ndarray) -> float:
    gold, predicted, correct = counts
    return float(200 * correct / (gold + predicted)) if gold + predicted else 0.0
