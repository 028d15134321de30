"""The table of a simulation, F1 after some numbers of words and the words that the goal costs, and its curves."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from boustro.apps.studies.labelling.simulate import at
from boustro.drawing.frames import AXIS, HEAD, Panel
from boustro.drawing.svg import BOLD_LETTER, WIDTH, Scale, dots, path, picture, shorten, text, ticks
from boustro.metrics.score import spread

HEIGHT, FOOT, KEY = 170, 44, 18
COLUMNS = (500, 1000, 2000, 4000, 8000)


def simulation_table(results: Mapping[str, Any]) -> Table:
    """One row per encoder and order, the best after most words first.

    The last column compares the words to the goal with random order's.
    """
    most = results["budgets"][-1]
    columns = [words for words in COLUMNS if words <= most] or [most]
    goal, num_seeds = results["goal"], len(results["seeds"])
    table = Table(title=f"Entity F1 by words read: mean and standard deviation of {num_seeds} runs")
    for name in (
        "encoder",
        "order",
        *(f"{words:,} words" for words in columns),
        f"words to F1 {goal:g}",
        "of random's",
    ):
        table.add_column(name, justify="left" if name in ("encoder", "order") else "right")
    for run in sorted(results["runs"], key=lambda run: -sum(c[-1]["f1"] for c in run["curves"]) / len(run["curves"])):
        scores = [_shown([at(curve, words) for curve in run["curves"]], "{:.1f}") for words in columns]
        table.add_row(run["encoder"], run["order"], *scores, _goal(run), _share(results, run))
    return table


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
        parts += [text(panel.left, top - 8, shorten(encoder, 44), style="b"), *panel.grid(marks)]
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


def _marks(low: float, high: float) -> list[int]:
    """250, 500, 1,000, …"""
    return [n for n in (250 * 2**i for i in range(12)) if low <= n <= high]


def _goal(run: Mapping[str, Any]) -> str:
    costs = run["words_to_goal"]["all"]
    reached = [c for c in costs if c is not None]
    if not reached:
        return "not reached"
    shown = _shown(reached, "{:,.0f}")
    return shown if len(reached) == len(costs) else f"{shown} ({len(reached)} of {len(costs)} runs)"


def _share(results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """The mean words to the goal as a share of random order's; only where every run of both reached it."""
    pair = [run, *(r for r in results["runs"] if r["encoder"] == run["encoder"] and r["order"] == "random")]
    if len(pair) < 2 or any(None in r["words_to_goal"]["all"] for r in pair):
        return "–"
    return f"{run['words_to_goal']['mean'] / pair[1]['words_to_goal']['mean']:.2f}"


def _shown(values: Sequence[float], form: str) -> str:
    found = spread(values)
    return f"{form.format(found['mean'])} ± {form.format(found['sd'])}"
