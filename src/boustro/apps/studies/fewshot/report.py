"""The report and the table of a few-shot study, from results.json alone.

The figure is the paper's Figure 1: F1 against the number of training examples on a logarithmic axis, one line per
encoder, one dot per draw. With a single K there is no line, but one row per head.
"""

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from rich import table as terminal

from boustro.apps.studies.report import Results, StudyReport, data_blocks, made, numbers, plain
from boustro.apps.studies.report.blocks import Block, Code, Details, Figure, Prose, Section, Table, TableCell
from boustro.apps.studies.report.charts import Colours, colour_names, spread_dots
from boustro.drawing.frames import Panel, frame_panels, frame_rows
from boustro.drawing.svg import WIDTH, Scale, dots, path, text, ticks

LANE = 11  # pixels
Points = list[dict[str, Any]]
EXPLAINED = {
    "sound": (
        "K examples per type or label are drawn at random, several times; the examples of a smaller K are among those "
        "of a larger one, and all encoders get the same draws, heads and settings. Nothing is selected on the scored "
        "sentences, and no development set is used: settings were fixed beforehand, and a strength of "
        "regularisation, where it is selected, is selected by leaving out training sentences. So is what closed forms "
        "read of a text (the mean of its words, its first word, the principal axes of TF-IDF) or of a pair "
        "(differences and products, how the words match)."
    ),
    "paper": (
        "The backward-LM paper's protocol, for comparison with its Figure 1: the first K sentences of each type that "
        "contain only this type and a mention of several words; its two-layer head with BIO tags; the three runs of "
        "a random search that are best on the development set."
    ),
}
TESTED = (
    "p is from an exact sign-flip test over draws; p (Holm) is corrected for the number of differences in this table. "
    "Coloured where that is below 0.05."
)
OPTIMISTIC = "The runs were selected on the development set that they are scored on, so these scores are optimistic."


def summary(results: Results) -> str:
    """The best encoder at the largest K, what it does, and whether its lead over the next one is real."""
    points, task = results["points"], results["task"]
    most = max(point["shots"] for point in points)
    rivals = sorted((p for p in points if p["shots"] == most), key=lambda p: -selection_score(p))
    best = rivals[0]
    what = f"{plain.does(best, best['score']['mean'], task)} at K = {most}"
    others = [p for p in rivals if p["head"] == best["head"] and p is not best]
    if not others:
        return plain.told(best["name"], what, "")
    rival, draws = others[0], len(best["score"]["values"])
    gap, tests = rival["to_best"], sum(p["to_best"]["p_holm"] is not None for p in points)
    rest = plain.lead(gap["points"], rival["name"], gap["reliable"])
    if gap["p_holm"] is None:
        rest = f"no test can tell whether its lead over {rival['name']} is real"
    elif draws < (needed := plain.draws_needed(tests)):
        rest = (
            f"{draws} draw{'s' * (draws > 1)} cannot tell whether its lead over {rival['name']} is real, whatever it "
            f"is: give --draws {needed} or more"
        )
    return plain.told(best["name"], what, rest)


def verdict(results: Results) -> str:
    """The best encoder at the smallest and the largest K, by how much, and whether reliably; one sentence."""
    points = results["points"]
    parts = []
    for shots in dict.fromkeys((min(p["shots"] for p in points), max(p["shots"] for p in points))):
        rivals = sorted((p for p in points if p["shots"] == shots), key=lambda p: -selection_score(p))
        best = rivals[0]
        part = f"at K = {shots} {best['name']} reaches {best['score']['mean']:.1f} {_measure(results)}"
        others = [p for p in rivals if p["head"] == best["head"] and p is not best]
        if others:
            gap = others[0]["to_best"]
            side = "below" if gap["points"] < 0 else "above"
            part += f", {abs(gap['points']):.1f} points {side} {others[0]['name']}"
            if gap["p_holm"] is not None:
                part += f" ({numbers.chance(gap)}{'' if gap['reliable'] else ', no reliable difference'})"
        parts.append(part)
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:] + "."


def selection_score(point: Mapping[str, Any]) -> float:
    """What decides which encoder is best: the mean dev score of searched runs, else the reported score."""
    runs = point["runs"]
    return sum(run["dev_score"] for run in runs) / len(runs) if runs else point["score"]["mean"]


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


def dots_figure(points: Points, measure: str) -> str:
    """For a single K: one row per head, with one lane per encoder, one dot per draw, a vertical line at their mean."""
    panels, colours, marks = _frame(points)

    def draw(index: int, y: float, scale: Scale) -> str:
        own = list(panels.values())[index]
        tops = [y + LANE * (lane - (len(own) - 1) / 2) for lane in range(len(own))]
        return "".join(spread_dots(scale, t, p["score"], colours[p["name"]]) for t, p in zip(tops, own, strict=True))

    named = [(head, f"best {max(p['score']['mean'] for p in own):.1f}") for head, own in panels.items()]
    strip = LANE * len(colours) + 4
    return frame_rows(f"{measure} of every draw", named, marks, draw, measure, colours, strip)


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
        return -most, -selection_score(lines[label][most])

    return {label: lines[label] for label in sorted(lines, key=last)}


def _ranked(points: Points) -> Points:
    """By K and head, the best encoder first."""
    heads = [*dict.fromkeys(p["head"] for p in points)]
    return sorted(points, key=lambda p: (p["shots"], heads.index(p["head"]), -selection_score(p)))


def _shots(points: Points) -> dict[int, str]:
    """Every K with its column head, which names the head where all encoders have the same one."""
    columns = {}
    for shots in sorted({p["shots"] for p in points}):
        heads = {p["head"] for p in points if p["shots"] == shots}
        same = _one_head_per_shot(points) and len(heads) == 1
        columns[shots] = f"K = {shots}" + (f": {heads.pop()}" if same else "")
    return columns


def shots_table(results: Results) -> terminal.Table:
    """The table on standard output: one column per K."""
    columns = _shots(results["points"])
    table = terminal.Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("encoder", no_wrap=True)
    for head in columns.values():
        table.add_column(head.replace(": ", "\n"), justify="right", no_wrap=True)
    for label, own in _lines(results["points"]).items():
        f1 = {k: p["score"] for k, p in own.items()}
        table.add_row(label, *(f"{f1[k]['mean']:.2f} ± {f1[k]['sd']:.2f}" if k in f1 else "" for k in columns))
    return table


def compared(results: Results) -> Section:
    """The protocol, the data and the command."""
    blocks: list[Block] = [*data_blocks(results), Details("The protocol", [Prose(EXPLAINED[results["protocol"]])])]
    if _searched(results) and results["judged_on"] == "dev":
        blocks.append(Prose(OPTIMISTIC, "note"))
    return Section("compared", "What was compared", blocks)


def scores(results: Results) -> Section:
    """The figure and the table."""
    points, measure = results["points"], _measure(results)
    each = "run" if _searched(results) else "draw"
    columns, lines = _shots(points), _lines(points)
    what = f"by the number of training examples (logarithmic): one dot per {each}, lines at the means"
    if len(columns) == 1:
        what = f"at K = {next(iter(columns))}: one dot per {each}, a vertical line at their mean"
    draw = curve_figure if len(columns) > 1 else dots_figure
    figure = Figure(draw(points, measure), f"{measure} {what}.")
    rows = [[x, *(numbers.spread(own[k]["score"]) if k in own else "" for k in columns)] for x, own in lines.items()]
    best = {i for i, own in enumerate(lines.values()) if any(p["to_best"]["name"] == p["name"] for p in own.values())}
    rules = " at entity level by conlleval's rules" if results["task"]["has_spans"] else ""
    caption = f"{measure}{rules}, mean and standard deviation; bold: best at some K"
    table = Table(caption, ["", *columns.values()], rows, frozenset(best))
    return Section("scores", "Scores by the number of examples", [figure, table])


def _searched(results: Results) -> bool:
    """Whether a random search selected the runs."""
    return any(point["runs"] for point in results["points"])


def _measure(results: Results) -> str:
    """What the scores are, such as dev F1."""
    return f"{results['judged_on']} {results['task']['metric']}"


def differences(results: Results) -> Section:
    """Encoders against the best one with the same head, draw by draw."""
    rows: list[list[TableCell | str]] = []
    for p in _ranked(results["points"]):
        gap = p["to_best"]
        if gap["name"] != p["name"]:
            chances = [f"{v:.3f}" if v is not None else "–" for v in (gap["p"], gap["p_holm"])]
            named = f"K = {p['shots']}: {p['name']} against {gap['name']} ({p['head']})"
            mood = "bad" if gap["reliable"] else ""
            rows.append([named, TableCell(numbers.signed(-gap["points"]), mood=mood), *chances])
    if not rows:
        return Section("differences", "Differences", [Prose("Only one encoder was compared.")])
    caption = "Difference in points from the best encoder at the same K with the same head, mean over draws"
    table = Table(caption, ["", "points", "p", "p (Holm)"], rows)
    return Section("differences", "Differences", [table, Details("How this was tested", [Prose(TESTED)])])


def types(results: Results) -> Section:
    """F1, precision and recall of every type."""
    labels = list(results["points"][0]["per_type"])
    rows: list[list[TableCell | str]] = [
        [f"K = {p['shots']}: {p['name']} ({p['head']})", *(numbers.f1(p["per_type"][label]) for label in labels)]
        for p in _ranked(results["points"])
    ]
    caption = f"F1 on {results['judged_on']} by {results['task']['label']} over all draws, with precision / recall"
    return Section("types", "By type", [Table(caption, ["", *labels], rows)])


def made_of_draws(results: Results) -> Section:
    """The draws, the selected runs, notices, settings and versions."""
    words = {p["shots"]: p["words"] for p in results["points"]}
    rows: list[list[TableCell | str]] = []
    for shots, drawn in results["draws"].items():
        if own := words.get(int(shots)):
            sizes = [len(draw) for draw in drawn]
            rows.append([f"K = {shots}", f"{fmean(sizes):.0f} ({min(sizes)} to {max(sizes)})", f"{fmean(own):,.0f}"])
    table = Table("Examples and words per draw: mean (smallest to largest)", ["", "examples", "words"], rows)
    note = Prose("results.json lists the examples of every draw under draws, numbered from 0.", "note")
    chosen = [f"K = {p['shots']} {p['name']}: {p['runs']}" for p in results["points"] if p["runs"]]
    runs = [Details("Runs that the search selected", [Code("\n".join(chosen))])] if chosen else []
    return made(results, table, note, *runs)


REPORT = StudyReport(summary, verdict, (compared, scores, differences, types, made_of_draws))
