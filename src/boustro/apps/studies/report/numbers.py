"""How a report writes numbers: 88.57 ± 0.27, +3.2 (2.4 to 4.0), 12.4 MB."""

from collections.abc import Mapping, Sequence
from typing import Any

from boustro.apps.studies.report.blocks import TableCell
from boustro.metrics.significance import interval_text, signed
from boustro.metrics.spans import SpanCounts


def spread_text(values: Mapping[str, Any]) -> TableCell:
    """Mean and standard deviation; none where there is one seed, or where every seed gives the same."""
    return TableCell(f"{values['mean']:.2f}", f"± {values['sd']:.2f}" if len({*values["values"]}) > 1 else "")


def gap_text(difference: Mapping[str, Any] | None) -> TableCell:
    """Return a difference in points with its 95% interval and p, coloured only where it is reliable; a dash for
    None."""
    if difference is None:
        return TableCell("–")
    low, high = difference["low"], difference["high"]
    mood = "" if not difference["reliable"] else "good" if difference["points"] > 0 else "bad"
    return TableCell(
        signed(difference["points"]), f"{interval_text(low, high, '', signs=True)}, {chance(difference)}", mood=mood
    )


def points(difference: Mapping[str, Any]) -> str:
    """3.2 points of F1 (95% interval 2.4 to 4.0, p = 0.002)."""
    return f"{signed(difference['points']).removeprefix('+')} points of F1 ({shown_interval(difference)})"


def shown_interval(difference: Mapping[str, Any]) -> str:
    """95% interval −0.3 to 1.2, p = 0.38; with one seed: 95% interval over examples only 2.4 to 4.0, one seed."""
    only = " over examples only" if difference["p_holm"] is None else ""
    return f"{interval_text(difference['low'], difference['high'], f'95% interval{only}')}, {chance(difference)}"


def chance(difference: Mapping[str, Any]) -> str:
    """Return the corrected p-value: p = 0.002; "one seed" where there is none."""
    p = difference["p_holm"]
    return "one seed" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def seeds(there: int, asked: int) -> str:
    """3 seeds, one seed, 2 of 3 seeds."""
    return f"{there} of {asked} seeds" if there != asked else "one seed" if there == 1 else f"{there} seeds"


def f1_text(counts: Sequence[int]) -> TableCell:
    """F1 of (reference, predicted, both), with precision / recall; a dash where both sides are empty."""
    if not sum(counts):
        return TableCell("–")
    scores, (gold, predicted, _) = SpanCounts(*counts), counts
    precision, recall = (f"{v:.0f}" if n else "–" for v, n in ((scores.precision, predicted), (scores.recall, gold)))
    return TableCell(f"{scores.f1:.1f}", f"{precision} / {recall}", scores.f1 / 100)


def millions(count: int) -> str:
    """Parameters: 5.2M, 0.03M."""
    return f"{count / 1e6:.1f}M" if count >= 1e6 else f"{count / 1e6:.2f}M"


def size(num_bytes: float | None) -> str:
    """Bytes with a unit; a dash for None."""
    if num_bytes is None:
        return "–"
    for unit in ("B", "kB", "MB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} GB"


def seconds(value: float) -> str:
    """0.4 s, 12 s, 3 min 40 s."""
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 120 else f"{value // 60:.0f} min {value % 60:.0f} s"


def per_seed(count: float, num_seeds: int) -> str:
    """Return a count summed over seeds, as the mean per seed."""
    return f"{count / num_seeds:,.0f}" if num_seeds == 1 else f"{count / num_seeds:,.1f}"
