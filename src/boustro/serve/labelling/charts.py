"""The pictures of labelling: a session's learning curve, and the curves of a simulation."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from boustro.serve.labelling.curve import Point
from boustro.studies.report.frames import AXIS, HEAD, Panel
from boustro.studies.report.svg import BOLD_LETTER, WIDTH, Scale, dots, path, picture, shorten, text, ticks

HEIGHT, FOOT, KEY = 170, 44, 18


def session_curve(points: Sequence[Point]) -> str:
    """F1 by words read, for the side panel; empty without points."""
    if not points:
        return ""
    panel = Panel(AXIS, 10, WIDTH - 8, 110, [0, 25, 50, 75, 100])
    across = Scale(0, max(points[-1].words, 1), panel.left, panel.right)
    line = [(across(p.words), panel.scale(p.f1)) for p in points]
    last = points[-1]
    parts = [*_grid(panel, [0, 50, 100]), path(line, "l s0"), dots(line, "s0", 4)]
    parts += [
        text(panel.left, 126, "0", "start", "m"),
        text(panel.right, 126, f"{last.words:,} words read", "end", "m"),
    ]
    title = f"F1 by words read: {last.f1:.1f} after {last.words:,} words"
    return picture(WIDTH, 132, title, *parts)


def simulation_curves(results: Mapping[str, Any]) -> str:
    """One panel per encoder, one line per order through the means, one dot per run; words on a logarithmic axis."""
    encoders = list(dict.fromkeys(run["encoder"] for run in results["runs"]))
    orders = list(dict.fromkeys(run["order"] for run in results["runs"]))
    styles = {order: f"s{i}" for i, order in enumerate(orders)}
    values = [p["f1"] for run in results["runs"] for curve in run["curves"] for p in curve]
    words = [p["words"] for run in results["runs"] for curve in run["curves"] for p in curve]
    marks = ticks(min(values), max(*values, results["goal"]), 5)
    parts, x = [], 0.0
    for order in orders:
        parts += [dots([(x + 5, 12)], styles[order], 8), text(x + 13, 16, order)]
        x += 30 + BOLD_LETTER * len(order)
    for row, encoder in enumerate(encoders):
        top = KEY + HEAD + row * (HEIGHT + HEAD + FOOT)
        panel = Panel(AXIS, top, WIDTH - 8, top + HEIGHT, marks)
        across = LogScale(min(words), max(words), panel.left + 6, panel.right - 6)
        parts += [text(panel.left, top - 8, shorten(encoder, 44), style="b"), *_grid(panel, marks)]
        goal = panel.scale(results["goal"])
        parts.append(path([(panel.left, goal), (panel.right, goal)], "d"))
        for mark in _marks(min(words), max(words)):
            parts.append(text(across(mark), panel.bottom + 16, f"{mark:,}", "middle", "m"))
        parts.append(text((panel.left + panel.right) / 2, panel.bottom + 32, "words read", "middle", "m"))
        for run in results["runs"]:
            if run["encoder"] == encoder:
                every = [(across(p["words"]), panel.scale(p["f1"])) for curve in run["curves"] for p in curve]
                line = [(across(p["words"]), panel.scale(p["f1"])) for p in mean_curve(run["curves"])]
                parts += [dots(every, styles[run["order"]], 2), path(line, f"l {styles[run['order']]}")]
    height = KEY + len(encoders) * (HEIGHT + HEAD + FOOT)
    return picture(WIDTH, height, "Entity F1 by the words that an annotator read", *parts)


def mean_curve(curves: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, float]]:
    """The mean of curves that were scored after about the same numbers of words."""
    found = []
    for points in zip(*curves, strict=False):
        found.append({key: sum(p[key] for p in points) / len(points) for key in ("words", "f1")})
    return found


class LogScale(Scale):
    """A logarithmic map from data to pixels."""

    def __call__(self, value: float) -> float:
        shown = Scale(math.log(self.low), math.log(max(self.high, self.low * 1.01)), self.start, self.stop)
        return shown(math.log(value))


def _grid(panel: Panel, marks: Sequence[float]) -> list[str]:
    parts = []
    for mark in marks:
        y = panel.scale(mark)
        parts += [path([(panel.left, y), (panel.right, y)], "g"), text(AXIS - 6, y + 4, f"{mark:g}", "end", "m")]
    return parts


def _marks(low: float, high: float) -> list[int]:
    """250, 500, 1,000, …"""
    return [n for n in (250 * 2**i for i in range(12)) if low <= n <= high]
