"""The report and the table of a few-shot study, from results.json alone.

The figure is the paper's Figure 1: F1 against the number of training sentences on a logarithmic axis, one line per
encoder, one dot per draw. With a single K there is no line, but one row per head.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import table as terminal

from boustro.studies.report import Results, StudyReport, data_blocks, made, numbers
from boustro.studies.report.blocks import Block, Code, Details, Figure, Prose, Section, Table, TableCell
from boustro.studies.report.charts import colour_names, spread_dots
from boustro.studies.report.frames import Panel, frame_panels, frame_rows
from boustro.studies.report.svg import WIDTH, Scale, dots, path, text, ticks

LANE = 11  # pixels
Points = list[dict[str, Any]]
EXPLAINED = {
    "sound": (
        "K sentences per entity type are drawn at random, several times; the sentences of a smaller K are among those "
        "of a larger one, and all encoders get the same draws, heads and settings. Nothing is selected on the scored "
        "sentences, and no development set is used: settings were fixed beforehand, and a strength of "
        "regularisation, where it is selected, is selected by leaving out training sentences."
    ),
    "paper": (
        "The backward-LM paper's protocol, for comparison with its Figure 1: the first K sentences of each type that "
        "contain only this type and a mention of several words; its two-layer head with BIO tags; the three runs of "
        "a random search that are best on the development set."
    ),
}
OPTIMISTIC = "The runs were selected on the development set that they are scored on, so these scores are optimistic."


def verdict(results: Results) -> str:
    """The best encoder at the smallest and the largest K, by how much, and whether reliably; one sentence."""
    points = results["points"]
    parts = []
    for shots in dict.fromkeys((min(p["shots"] for p in points), max(p["shots"] for p in points))):
        rivals = sorted((p for p in points if p["shots"] == shots), key=lambda p: -selection_f1(p))
        best = rivals[0]
        part = f"at K = {shots} {best['name']} reaches {best['f1']['mean']:.1f} {results['judged_on']} F1"
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


def selection_f1(point: Mapping[str, Any]) -> float:
    """What decides which encoder is best: the mean dev F1 of runs that were searched for, else the reported F1."""
    runs = point["runs"]
    return sum(run["dev_f1"] for run in runs) / len(runs) if runs else point["f1"]["mean"]


def curve_figure(points: Points, judged: str) -> str:
    """One panel per head (or one for all, where the head depends on K only), one line per encoder, one dot per draw."""
    panels = _panels(points)
    colours = colour_names([p["name"] for p in points])
    values = [v for p in points for v in p["f1"]["values"]]
    most, least = (f([n for p in points for n in p["sentences"]]) for f in (max, min))

    def draw(index: int, panel: Panel) -> str:
        own = list(panels.values())[index]
        across = Scale(math.log(least), math.log(max(most, least * 2)), panel.left + 22, panel.right - 22)
        parts = []
        for shots in sorted({p["shots"] for p in own}):
            mean_size = _mean_sentences(next(p for p in own if p["shots"] == shots))
            x = across(math.log(mean_size))
            parts.append(text(x, panel.bottom + 16, f"{mean_size:.0f}", "middle", "m"))
            parts.append(text(x, panel.bottom + 31, f"K = {shots}", "middle", "m"))
        for name, style in colours.items():
            line = sorted((p for p in own if p["name"] == name), key=lambda p: p["shots"])
            means = [(across(math.log(_mean_sentences(p))), panel.scale(p["f1"]["mean"])) for p in line]
            every = [
                (across(math.log(n)), panel.scale(v))
                for p in line
                for n, v in zip(p["sentences"], p["f1"]["values"], strict=True)
            ]
            parts += [path(means, f"l {style}"), dots(every, style, 3.4), dots(means, style, 7)] if means else []
        return "".join(parts)

    title = f"{judged} F1 by the number of training sentences"
    height = 220 if len(panels) == 1 else 150
    return frame_panels(
        title, list(panels), ticks(min(values), max(values)), draw, WIDTH, height, _key(colours), foot=40
    )


def dots_figure(points: Points, judged: str) -> str:
    """For a single K: one row per head, with one lane per encoder, one dot per draw, a vertical line at their mean."""
    panels = _panels(points)
    colours = colour_names([p["name"] for p in points])
    values = [v for p in points for v in p["f1"]["values"]]

    def draw(index: int, y: float, scale: Scale) -> str:
        own = list(panels.values())[index]
        top = y - LANE * (len(own) - 1) / 2
        return "".join(
            spread_dots(scale, top + LANE * lane, p["f1"]["values"], p["f1"]["mean"], colours[p["name"]])
            for lane, p in enumerate(own)
        )

    named = [(head, f"best {max(p['f1']['mean'] for p in own):.1f}") for head, own in panels.items()]
    marks, strip = ticks(min(values), max(values)), LANE * len(colours) + 4
    return frame_rows(f"{judged} F1 of every draw", named, marks, draw, f"{judged} F1", _key(colours), strip)


def _key(colours: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(style, name) for name, style in colours.items()]


def _panels(points: Points) -> dict[str, Points]:
    """Points by head; all together where no encoder has two heads at one K."""
    heads = dict.fromkeys(p["head"] for p in points)
    if _one_head_per_shot(points):
        return {" · ".join(heads): points}
    return {head: [p for p in points if p["head"] == head] for head in heads}


def _mean_sentences(point: Mapping[str, Any]) -> float:
    sizes: Sequence[int] = point["sentences"]
    return sum(sizes) / len(sizes)


def _one_head_per_shot(points: Points) -> bool:
    at = [(p["name"], p["shots"]) for p in points]
    return len(set(at)) == len(at)


def _lines(points: Points) -> dict[str, dict[int, dict[str, Any]]]:
    """The rows of a table, each with its points by K. An encoder has several rows if it has several heads at one K."""
    lines: dict[str, dict[int, dict[str, Any]]] = {}
    for p in points:
        label = p["name"] if _one_head_per_shot(points) else f"{p['name']}: {p['head']}"
        lines.setdefault(label, {})[p["shots"]] = p
    return lines


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
        f1 = {k: p["f1"] for k, p in own.items()}
        table.add_row(label, *(f"{f1[k]['mean']:.2f} ± {f1[k]['sd']:.2f}" if k in f1 else "" for k in columns))
    return table


def compared(results: Results) -> Section:
    """The protocol, the data and the command."""
    blocks: list[Block] = [Prose(EXPLAINED[results["protocol"]]), *data_blocks(results)]
    if results["protocol"] == "paper" and results["judged_on"] == "dev":
        blocks.append(Prose(OPTIMISTIC, "note"))
    return Section("compared", "What was compared", blocks)


def scores(results: Results) -> Section:
    """The figure and the table."""
    points, judged = results["points"], results["judged_on"]
    each = "run" if results["protocol"] == "paper" else "draw"
    columns = _shots(points)
    if len(columns) > 1:
        caption = (
            f"{judged} F1 by the number of training sentences (logarithmic): one dot per {each}, lines at the means."
        )
        figure = Figure(curve_figure(points, judged), caption)
    else:
        caption = f"{judged} F1 at K = {next(iter(columns))}: one dot per {each}, a vertical line at their mean."
        figure = Figure(dots_figure(points, judged), caption)
    rows, best = [], set()
    for label, own in _lines(points).items():
        if any(p["to_best"]["name"] == p["name"] for p in own.values()):
            best.add(len(rows))
        rows.append([label, *(numbers.spread(own[k]["f1"]) if k in own else "" for k in columns)])
    caption = f"{judged} F1 at entity level by conlleval's rules, mean and standard deviation; bold: best at some K"
    table = Table(caption, ["", *columns.values()], rows, frozenset(best))
    return Section("scores", "F1 by the number of examples", [figure, table])


def differences(results: Results) -> Section:
    """Encoders against the best one with the same head, draw by draw."""
    rows: list[list[TableCell | str]] = []
    for p in results["points"]:
        gap = p["to_best"]
        if gap["name"] != p["name"]:
            chances = [f"{v:.3f}" if v is not None else "–" for v in (gap["p"], gap["p_holm"])]
            named = f"K = {p['shots']}: {p['name']} against {gap['name']} ({p['head']})"
            mood = "bad" if gap["reliable"] else ""
            rows.append([named, TableCell(numbers.signed(-gap["points"]), mood=mood), *chances])
    if not rows:
        return Section("differences", "Differences", [Prose("Only one encoder was compared.")])
    caption = (
        "Difference in points of F1 from the best encoder at the same K with the same head, mean over draws; p from an "
        "exact sign-flip test, and corrected for the number of differences in this table (Holm); coloured where the "
        "corrected p is below 0.05"
    )
    return Section("differences", "Differences", [Table(caption, ["", "points", "p", "p (Holm)"], rows)])


def types(results: Results) -> Section:
    """F1, precision and recall of every type."""
    labels = list(results["points"][0]["per_type"])
    rows: list[list[TableCell | str]] = [
        [f"K = {p['shots']}: {p['name']} ({p['head']})", *(numbers.f1(p["per_type"][label]) for label in labels)]
        for p in results["points"]
    ]
    caption = f"{results['judged_on']} F1 by entity type over all draws together, with precision / recall"
    return Section("types", "By type", [Table(caption, ["", *labels], rows)])


def made_of_draws(results: Results) -> Section:
    """The draws, the selected runs, notices, settings and versions."""
    words = {p["shots"]: p["words"] for p in results["points"]}
    rows: list[list[TableCell | str]] = []
    for shots, drawn in results["draws"].items():
        if own := words.get(int(shots)):
            sizes = [len(draw) for draw in drawn]
            sentences = f"{sum(sizes) / len(sizes):.0f} ({min(sizes)} to {max(sizes)})"
            rows.append([f"K = {shots}", sentences, f"{sum(own) / len(own):,.0f}"])
    blocks: list[Block] = [
        Table("Sentences and words per draw: mean (smallest to largest)", ["", "sentences", "words"], rows),
        Prose("results.json lists the sentences of every draw under draws, numbered from 0.", "note"),
    ]
    chosen = [f"K = {p['shots']} {p['name']}: {p['runs']}" for p in results["points"] if p["runs"]]
    if chosen:
        blocks.append(Details("Runs that the search selected", [Code("\n".join(chosen))]))
    return made(results, *blocks)


REPORT = StudyReport(verdict, (compared, scores, differences, types, made_of_draws))
