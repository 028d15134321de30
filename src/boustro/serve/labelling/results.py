"""The table of a simulation: F1 after some numbers of words, and the words that the goal costs."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from boustro.serve.labelling.simulate import at
from boustro.studies.core.run import spread

COLUMNS = (500, 1000, 2000, 4000, 8000)


def simulation_table(results: Mapping[str, Any]) -> Table:
    """One row per encoder and order; the last column compares the words to the goal with random order's."""
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
    for run in results["runs"]:
        scores = [_shown([at(curve, words) for curve in run["curves"]], "{:.1f}") for words in columns]
        table.add_row(run["encoder"], run["order"], *scores, _goal(run), _share(results, run))
    return table


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
