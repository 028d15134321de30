"""Protocol of scores, and how they are shown as a table; calibration, and scores of predicted numbers.

Calibration is whether predicted entities with a score of 0.9 are correct nine times in ten.

In bins of equal width the mean score is compared with the share that is correct. The expected calibration error is the
mean distance of the two, weighted by the number of entities:

    ECE = Σ_b  n_b / n · |right_b - score_b|          (Guo et al. 2017, equation 5)

    scores 0.95 0.95, one of them correct  →  one bin, score 0.95, right 0.5, ECE 0.45

Missed entities have no score and do not count.

Predicted numbers have Pearson's and Spearman's correlation with the reference:

    gold 1 2 3, predicted 10 20 90   →  Pearson 91.8, Spearman 100

Both are 0 where one side is constant; see `metrics.significance` for equal values.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar, Protocol

import numpy as np


class Score(Protocol):
    """Scores of answers, in percent, with a signature that says how they were computed."""

    measure: ClassVar[str]
    """What `value` is."""

    @property
    def value(self) -> float:
        """The score by which models are compared."""
        ...

    @property
    def signature(self) -> Mapping[str, str]:
        """Metric, data, version, …"""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, as JSON can hold them."""
        ...


SPELT = {"pearson": "Pearson", "mcc": "MCC", "macro_f1": "macro F1", "micro_f1": "micro F1"}


class ShownScore:
    """How a score shows itself: `F1 80.4 (precision 78.1, recall 82.9)` by itself, a table where it is printed."""

    __slots__ = ()

    def __repr__(self: Any) -> str:
        main = self.measure.rpartition(" ")[2].lower()
        figures = {name: value for name, value in self.to_dict().items() if isinstance(value, float) and name != main}
        others = ", ".join(f"{SPELT.get(name, name.replace('_', ' '))} {three(v)}" for name, v in figures.items())
        return f"{self.measure} {three(self.value)}{others and f' ({others})'}"

    def __str__(self: Any) -> str:
        return score_text(self.to_dict())

    def _repr_html_(self: Any) -> str:
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in score_table(self.to_dict())]
        return f"<table><tr>{'</tr><tr>'.join([rows[0].replace('td>', 'th>'), *rows[1:]])}</tr></table>"


def three(value: float) -> str:
    """Three significant digits: `80.4`, `5.71`, `100`."""
    return f"{value:#.3g}".rstrip(".") if value else "0"


def score_text(scores: Mapping[str, Any]) -> str:
    """`score_table` with its columns one below the other."""
    table = score_table(scores)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    padded = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in table)
    return "\n".join(map("  ".join, padded))


def score_table(scores: Mapping[str, Any]) -> list[list[str]]:
    """Return the figures of `Score.to_dict` as rows of text, the heads first."""
    if "per_type" in scores:
        return _per_label(scores["per_type"] | {"all": scores}, "type", "entities")
    if "per_label" in scores:
        counted = "texts" if "num_texts" in scores else "words"
        if "accuracy" not in scores:  # several labels per text
            total = {**scores, "num_texts": scores["num_labels"]}
            return _per_label({**scores["per_label"], "all": total}, "label", counted)
        total = ["all", "", "", f"accuracy {scores['accuracy']:.2f}", f"{scores[f'num_{counted}']:,}"]
        return [*_per_label(scores["per_label"], "label", counted), total]
    if "per_pos" in scores:
        rows = _per_label(scores["per_pos"] | {"all": scores}, "part of speech", "gold", "words")
        rows += [[name, "", "", f"{f1:.2f}", ""] for name, f1 in scores["baselines"].items()]
        return [*rows, ["lemma in training", "", "", f"{scores['coverage']:.2f}%", ""]]
    figures = {name: value for name, value in scores.items() if isinstance(value, (int, float))}
    shown = [f"{value:,}" if isinstance(value, int) else f"{value:.2f}" for value in figures.values()]
    return [[name.removeprefix("num_").replace("_", " ") for name in figures], shown]


def _per_label(
    rows: Mapping[str, Mapping[str, Any]], what: str, counted: str, shown: str | None = None
) -> list[list[str]]:
    heads = [what, "precision", "recall", "F1", shown or counted]
    return [heads] + [
        [label, *(f"{figures[k]:.2f}" for k in ("precision", "recall", "f1")), f"{figures[f'num_{counted}']:,}"]
        for label, figures in rows.items()
    ]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (of a sample; 0 for one value) and the values."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "values": list(values),
    }


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


@dataclass(frozen=True, slots=True, repr=False)
class CorrelationScore(ShownScore):
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
        """Return the output of `--json`."""
        return {name: getattr(self, name) for name in ("pearson", "spearman", "num_pairs", "signature")}


def score_correlation(
    gold: Sequence[float], predicted: Sequence[float], signature: dict[str, str] | None = None
) -> CorrelationScore:
    """Compare numbers; `ValueError` where there are not as many of both."""
    from boustro.metrics.significance import pearson, spearman  # which imports scores of spans

    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold scores and {len(predicted)} predicted ones")
    values = np.column_stack([gold, predicted]).astype(float).reshape(1, -1, 2)
    once = np.ones(values.shape[:2])
    by_value, by_rank = (float(f(values, once)[0, 0]) if len(gold) else 0.0 for f in (pearson, spearman))
    return CorrelationScore(by_value, by_rank, len(gold), {"metric": "Spearman", **(signature or {})})
