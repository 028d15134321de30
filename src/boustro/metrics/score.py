"""What every score provides, and how it is shown as a table."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol


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
        """All figures, as JSON can hold them."""
        ...


def score_table(scores: Mapping[str, Any]) -> list[list[str]]:
    """The figures of `Score.to_dict` as rows of text, the heads first."""
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
        [label, *(f"{own[k]:.2f}" for k in ("precision", "recall", "f1")), f"{own[f'num_{counted}']:,}"]
        for label, own in rows.items()
    ]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (of a sample; 0 for one value) and the values."""
    return {
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "values": list(values),
    }
