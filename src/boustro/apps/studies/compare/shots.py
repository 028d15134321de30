"""The scores of a comparison by K, as a figure and a table, from results.json alone.

The figure is Figure 1 of the backward-LM paper: the score against the number of training examples on a logarithmic
axis, one line per system, one dot per draw.
"""

import math
from statistics import fmean
from typing import Any

from boustro.apps.studies.report import Results, numbers
from boustro.apps.studies.report.blocks import Details, Figure, Prose, Section, Table
from boustro.apps.studies.report.charts import Colours, colour_names
from boustro.drawing.frames import Panel, frame_panels
from boustro.drawing.svg import WIDTH, Scale, dots, path, text, ticks

Points = list[dict[str, Any]]
EXPLAINED = {
    "sound": (
        "K examples per type or label are drawn at random, anew for each seed; the examples of a smaller K are among "
        "those of a larger one, and all systems get the same draws. No development set is used: settings were fixed "
        "beforehand, and what a head selects it selects by leaving out training examples."
    ),
    "own": "K examples in all are drawn at random, anew for each seed; a larger K has those of a smaller one.",
    "paper": (
        "The backward-LM paper's protocol, for comparison with its Figure 1: the first K sentences of each type that "
        "contain only this type and a mention of several words, and the three runs of a random search that are best on "
        "the development set. Where they are scored on that set, the scores are optimistic."
    ),
}


def by_examples(results: Results, points: Points) -> Section:
    """The figure and the table of points, each a system's at one K."""
    measure = f"{results['judged_on']} {results['task']['metric']}"
    columns, lines = _shots(points), _lines(points)
    what = "by the number of training examples (logarithmic): one dot per draw, lines at the means"
    figure = Figure(curve_figure(points, measure), f"{measure} {what}.")
    rows = [[x, *(numbers.spread(own[k]["score"]) if k in own else "" for k in columns)] for x, own in lines.items()]
    best = {i for i, own in enumerate(lines.values()) if any(p["to_best"]["name"] == p["name"] for p in own.values())}
    rules = " at entity level by conlleval's rules" if results["task"]["has_spans"] else ""
    caption = f"{measure}{rules}, mean and standard deviation; bold: best at some K"
    table = Table(caption, ["", *columns.values()], rows, frozenset(best))
    protocol = Details("How examples were drawn", [Prose(EXPLAINED[results["drawing"]])])
    return Section("shots", "Scores by the number of examples", [figure, table, protocol])


def curve_figure(points: Points, measure: str) -> str:
    """One panel per head (or one for all, where the head depends on K only), one line per encoder, one dot per draw."""
    panels, colours, marks = _frame(points)
    most, least = (f([n for p in points for n in p["sentences"]]) for f in (max, min))

    def draw(index: int, panel: Panel) -> str:
        own = sorted(list(panels.values())[index], key=lambda p: p["shots"])
        across = Scale(math.log(least), math.log(max(most, least * 2)), panel.left + 22, panel.right - 22)
        parts = []
        for shots, size in sorted({p["shots"]: fmean(p["sentences"]) for p in reversed(own)}.items()):
            parts.append(text(across(math.log(size)), panel.bottom + 16, f"{size:.0f}", "middle", "m"))
            parts.append(text(across(math.log(size)), panel.bottom + 31, f"K = {shots}", "middle", "m"))
        for name, style in colours.items():
            line = [p for p in own if p["name"] == name]
            means = [(across(math.log(fmean(p["sentences"]))), panel.scale(p["score"]["mean"])) for p in line]
            pairs = [pair for p in line for pair in zip(p["sentences"], p["score"]["values"], strict=True)]
            every = [(across(math.log(n)), panel.scale(v)) for n, v in pairs]
            parts += [path(means, f"l {style}"), dots(every, style, 3.4), dots(means, style, 7)]
        return "".join(parts)

    title = f"{measure} by the number of training examples"
    return frame_panels(title, list(panels), marks, draw, WIDTH, 220 if len(panels) == 1 else 150, colours, foot=40)


def _frame(points: Points) -> tuple[dict[str, Points], Colours, list[float]]:
    """Points by head (all together where no encoder has two heads at one K), encoders' colours, and the axis."""
    heads = dict.fromkeys(p["head"] for p in points)
    panels = {head: [p for p in points if p["head"] == head] for head in heads}
    if _one_head_per_shot(points):
        panels = {" · ".join(heads): points}
    values = [v for p in points for v in p["score"]["values"]]
    return panels, colour_names([p["name"] for p in points]), ticks(min(values), max(values))


def _one_head_per_shot(points: Points) -> bool:
    at = [(p["name"], p["shots"]) for p in points]
    return len(set(at)) == len(at)


def _lines(points: Points) -> dict[str, dict[int, dict[str, Any]]]:
    """The rows of a table, each with its points by K, the best at the largest K first.

    An encoder has several rows if it has several heads at one K.
    """
    lines: dict[str, dict[int, dict[str, Any]]] = {}
    for p in points:
        label = p["name"] if _one_head_per_shot(points) else f"{p['name']}: {p['head']}"
        lines.setdefault(label, {})[p["shots"]] = p

    def last(label: str) -> tuple[int, float]:
        most = max(lines[label])
        return -most, -lines[label][most]["score"]["mean"]

    return {label: lines[label] for label in sorted(lines, key=last)}


def _shots(points: Points) -> dict[int, str]:
    """Every K with its column head, which names the head where all encoders have the same one."""
    columns = {}
    for shots in sorted({p["shots"] for p in points}):
        heads = {p["head"] for p in points if p["shots"] == shots}
        same = _one_head_per_shot(points) and len(heads) == 1
        columns[shots] = f"K = {shots}" + (f": {heads.pop()}" if same else "")
    return columns
