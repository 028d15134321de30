"""The results of a scaling study as Markdown and as pictures: a table, a curve and a picture for each objective.

Losses of different objectives are of different things: a causal LM predicts every piece from those before it, a masked
one some pieces from all others, and how many depends on the objective. So they are never in one picture.
"""

from collections.abc import Mapping
from math import log10
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from boustro.apps.studies.scaling.curve import Curve
from boustro.drawing.frames import AXIS, Panel
from boustro.drawing.svg import NUM_SERIES, Scale, dots, path, picture, standalone, text, ticks

WIDTH, HEIGHT, TOP, ROOM = 500, 240, 40, 96
NOTE = "Losses of different objectives are of different things and cannot be compared with each other."
HEADS = ("size", "parameters", "pieces", "seed", "loss", "fitted", "seconds")
Results = Mapping[str, Any]


def print_tables(objectives: Mapping[str, Results]) -> None:
    """On standard output."""
    for objective, own in objectives.items():
        table = Table(*HEADS, title=objective)
        for row in rows(own):
            table.add_row(*row)
        Console(width=100).print(table)
        print(describe(own))
    print(NOTE)


def markdown(results: Results) -> str:
    """All runs and curves."""
    parts = ["# Scaling\n", NOTE + "\n"]
    if results["stamp"]:
        parts.append(f"Incomplete: {results['stamp']}.\n")
    for objective, own in results["objectives"].items():
        parts += [f"## {objective}\n", f"| {' | '.join(HEADS)} |", f"|---{'|---:' * (len(HEADS) - 1)}|"]
        parts += [f"| {' | '.join(row)} |" for row in rows(own)]
        parts.append(f"\n{describe(own)}\n")
    return "\n".join(parts)


def rows(own: Results) -> list[list[str]]:
    """The runs of an objective as text, from the smallest model and budget to the largest."""
    curve, found = _curve(own), []
    for run in sorted(own["runs"], key=lambda run: (run["num_parameters"], run["pieces_seen"], run["seed"])):
        fitted = f"{float(curve.loss(run['num_parameters'], run['pieces_seen'])):.3f}" if curve else ""
        sizes = [f"{run['num_parameters'] / 1e6:.2f}M", f"{run['pieces_seen']:,}", str(run["seed"])]
        found.append([run["size"], *sizes, f"{run['validation_loss']:.3f}", fitted, f"{run['seconds']:.0f}"])
    return found


def describe(own: Results) -> str:
    """The curve in one line, or why there is none."""
    curve = _curve(own)
    if curve is None:
        return own["refusal"]
    spread = {name: f" ({low:.2f} to {high:.2f})" for name, (low, high) in curve.spread.items()}
    line = (
        f"L = {curve.irreducible:.3f}{spread.get('irreducible', '')} + {curve.size_factor:.3g} · "
        f"N^-{curve.size_exponent:.3f}{spread.get('size_exponent', '')} + {curve.data_factor:.3g} · "
        f"D^-{curve.data_exponent:.3f}{spread.get('data_exponent', '')}; largest error {curve.largest_error:.2%}"
    )
    line += "; in brackets the lowest and highest value when each run is left out" if spread else ""
    return line + ("; an exponent is at the end of its range: these runs do not determine it" if curve.at_bound else "")


def draw(objective: str, own: Results) -> str:
    """Loss over pieces, a colour for each size, a dot for each run, the fitted curve as a line."""
    runs, curve = own["runs"], _curve(own)
    sizes = list(dict.fromkeys(run["size"] for run in sorted(runs, key=lambda run: run["num_parameters"])))
    pieces = [log10(run["pieces_seen"]) for run in runs]
    losses = [run["validation_loss"] for run in runs]
    panel = Panel(AXIS, TOP, WIDTH - ROOM, TOP + HEIGHT, ticks(min(losses), max(losses)))
    across = Scale(min(pieces), max(pieces) or 1, panel.left + 10, panel.right - 10)
    parts = [text(panel.left, 16, f"{objective}: validation loss (nats) by pieces read", style="b")]
    for mark in ticks(min(losses), max(losses)):
        y = panel.scale(mark)
        parts += [path([(panel.left, y), (panel.right, y)], "g"), text(AXIS - 6, y + 4, f"{mark:g}", "end", "m")]
    for budget in sorted({run["pieces_seen"] for run in runs}):
        parts.append(text(across(log10(budget)), panel.bottom + 18, _short(budget), "middle", "m"))
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
        parts.append(text(panel.right + 4, below, name))
    return standalone(picture(WIDTH, TOP + HEIGHT + 30, f"Loss curves of {objective}", *parts))


def _curve(own: Results) -> Curve | None:
    return Curve(**own["curve"]) if own["curve"] else None


def _short(count: float) -> str:
    """1,500,000 → 1.5M."""
    unit, name = (1e9, "B") if count >= 1e9 else (1e6, "M") if count >= 1e6 else (1e3, "k")
    return f"{count / unit:.3g}{name}"
