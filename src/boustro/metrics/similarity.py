"""Scores of predicted numbers: Pearson's and Spearman's correlation with the reference.

    gold 1 2 3, predicted 10 20 90   →  Pearson 91.8, Spearman 100

Both are 0 where one side is constant; see `metrics.significance` for equal values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from boustro.metrics.significance import pearson, spearman


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
    values = np.column_stack([gold, predicted]).astype(float).reshape(1, -1, 2)
    once = np.ones(values.shape[:2])
    by_value, by_rank = (float(f(values, once)[0, 0]) if len(gold) else 0.0 for f in (pearson, spearman))
    return CorrelationScore(by_value, by_rank, len(gold), {"metric": "Spearman", **(signature or {})})
