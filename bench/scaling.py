"""The results of `boustro lab scaling` as Markdown and pictures: a table, a curve and a picture for each objective.

python bench/scaling.py --results scaling/results.json --out scaling
"""

import json
from dataclasses import dataclass
from math import log10
from pathlib import Path
from statistics import fmean

import numpy as np
import tyro

from boustro.apps.drawing import AXIS, NUM_SERIES, Panel, Scale, dots, path, picture, standalone, text_line, ticks
from boustro.apps.studies.scaling.command import COLUMN_HEADS, NOTE, Results, curve_of, describe_curve, run_rows
from boustro.store import write_file

WIDTH, HEIGHT, TOP, ROOM = 500, 240, 40, 96


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is shown, and where."""

    results: Path
    """The results.json of a study."""
    out: Path
    """Folder for report.md and a picture for each objective."""


def main(options: Options) -> None:
    """Write the report."""
    results = json.loads(options.results.read_text("utf-8"))
    write_file(options.out / "report.md", markdown(results))
    for objective, outcome in results["objectives"].items():
        if outcome["runs"]:
            write_file(options.out / f"{objective}.svg", draw(objective, outcome))


def markdown(results: Results) -> str:
    """All runs and curves."""
    parts = ["# Scaling\n", NOTE + "\n"]
    if results["stamp"]:
        parts.append(f"Incomplete: {results['stamp']}.\n")
    for objective, outcome in results["objectives"].items():
        parts += [f"## {objective}\n", f"| {' | '.join(COLUMN_HEADS)} |", f"|---{'|---:' * (len(COLUMN_HEADS) - 1)}|"]
        parts += [f"| {' | '.join(row)} |" for row in run_rows(outcome)]
        parts.append(f"\n{describe_curve(outcome)}\n")
    return "\n".join(parts)


def draw(objective: str, results: Results) -> str:
    """Loss over pieces, a colour for each size, a dot for each run, the fitted curve as a line."""
    runs, curve = results["runs"], curve_of(results)
    sizes = list(dict.fromkeys(run["size"] for run in sorted(runs, key=lambda run: run["num_parameters"])))
    pieces = [log10(run["pieces_seen"]) for run in runs]
    losses = [run["validation_loss"] for run in runs]
    panel = Panel(AXIS, TOP, WIDTH - ROOM, TOP + HEIGHT, ticks(min(losses), max(losses)))
    across = Scale(min(pieces), max(pieces) or 1, panel.left + 10, panel.right - 10)
    parts = [text_line(panel.left, 16, f"{objective}: validation loss (nats) by pieces read", style="b")]
    for mark in ticks(min(losses), max(losses)):
        y = panel.scale(mark)
        parts += [path([(panel.left, y), (panel.right, y)], "g"), text_line(AXIS - 6, y + 4, f"{mark:g}", "end", "m")]
    for budget in sorted({run["pieces_seen"] for run in runs}):
        parts.append(text_line(across(log10(budget)), panel.bottom + 18, _short(budget), "middle", "m"))
    ends: list[tuple[float, str]] = []
    for number, size in enumerate(sizes):
        style, mine = f"s{number % NUM_SERIES}", [run for run in runs if run["size"] == size]
        mine.sort(key=lambda run: run["pieces_seen"])
        points = [(across(log10(run["pieces_seen"])), panel.scale(run["validation_loss"])) for run in mine]
        line = [(x, fmean(y for other, y in points if other == x)) for x in dict.fromkeys(x for x, _ in points)]
        if curve:
            places = np.linspace(min(pieces), max(pieces), 40)
            fitted = curve.loss(mine[0]["num_parameters"], 10**places)
            line = [(across(x), panel.scale(float(y))) for x, y in zip(places, fitted, strict=True)]
        parts += [path(line, f"l {style}"), dots(points, style, 7)]
        ends.append((line[-1][1] + 4, f"{size} {_short(mine[0]['num_parameters'])}"))
    below = 0.0
    for y, name in sorted(ends):  # one below the other where the curves end close together
        below = max(y, below + 14)
        parts.append(text_line(panel.right + 4, below, name))
    return standalone(picture(WIDTH, TOP + HEIGHT + 30, f"Loss curves of {objective}", *parts))


def _short(count: float) -> str:
    """1,500,000 → 1.5M."""
    unit, name = (1e9, "B") if count >= 1e9 else (1e6, "M") if count >= 1e6 else (1e3, "k")
    return f"{count / unit:.3g}{name}"


if __name__ == "__main__":
    main(tyro.cli(Options))
