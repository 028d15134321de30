"""Scores of predicted numbers: Pearson's and Spearman's correlation with the reference.

    gold 1 2 3, predicted 10 20 90   →  Pearson 91.8, Spearman 100

Both are 0 where one side is constant. Spearman's is Pearson's of the ranks; equal values share their mean rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True, slots=True)
class CorrelationScore:
    """Correlations, in percent; `signature` describes the metric and the data."""

    pearson: float
    spearman: float
    num_pairs: int
    signature: dict[str, str] = field(default_factory=dict)
    measure: ClassVar[str] = "Spearman"

    @property
    def value(self) -> float:
        """Spearman's correlation, by which models are compared."""
        return self.spearman

    def to_dict(self) -> dict[str, Any]:
        """The output of `--json`."""
        return {name: getattr(self, name) for name in ("pearson", "spearman", "num_pairs", "signature")}


def score_correlation(
    gold: Sequence[float], predicted: Sequence[float], signature: dict[str, str] | None = None
) -> CorrelationScore:
    """Compare numbers; `ValueError` where there are not as many of both."""
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold scores and {len(predicted)} predicted ones")
    x, y = np.asarray(gold, float), np.asarray(predicted, float)
    pearson, spearman = correlation(x, y), correlation(ranks(x), ranks(y))
    return CorrelationScore(100 * pearson, 100 * spearman, len(x), {"metric": "Spearman", **(signature or {})})


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation, from -1 to 1; 0 where one side is constant."""
    x, y = x - x.mean() if len(x) else x, y - y.mean() if len(y) else y
    scale = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale > 0 else 0.0


def ranks(x: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share their mean rank: `[5, 9, 5]` → `[1.5, 3, 1.5]`."""
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[group]
