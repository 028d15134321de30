"""A few-shot study as one HTML file and as Markdown, both from results.json alone.

The figure is the paper's Figure 1: F1 against the number of training sentences on a logarithmic axis, a
line an encoder, every draw a dot. With one K there is no line: a row a system instead.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from boustro.studies.report import numbers
from boustro.studies.report.blocks import Block, Cell, Code, Details, Figure, Prose, Section, Table, to_markdown
from boustro.studies.report.charts import colour_names, spread_dots
from boustro.studies.report.frames import Panel, frame_panels, frame_rows
from boustro.studies.report.page import render_page
from boustro.studies.report.svg import WIDTH, Scale, dots, path, text, ticks

LANE = 11  # pixels
Points = list[dict[str, Any]]
EXPLAINED = {
    "sound": (
        "K sentences a type are drawn at random, several times over; the sentences of a smaller K are among those of "
        "a larger one, and all encoders get the same draws, heads and settings. Nothing is chosen on the judged "
        "sentences, and no development set is used: settings were fixed beforehand, and a strength of "
        "regularisation that is chosen is chosen by leaving out training sentences."
    ),
    "paper": (
        "The backward-LM paper's protocol, to place points on its Figure 1: the first K sentences of each type that "
        "hold this type alone and a mention of several words; its two-layer head under BIO tags; the three runs of "
        "a random search that are best on the development set."
    ),
}
OPTIMISTIC = "The runs were chosen on the same development set that they are judged on, so these figures flatter."


def verdict(results: Mapping[str, Any]) -> str:
    """One sentence: at the smallest and the largest K, which encoder is best, by how much, and whether reliably."""
    points = results["points"]
    told = []
    for shots in dict.fromkeys((min(p["shots"] for p in points), max(p["shots"] for p in points))):
        rivals = sorted((p for p in points if p["shots"] == shots), key=lambda p: -choosing_f1(p))
        best = rivals[0]
        said = f"at K = {shots} {best['name']} reaches {best['f1']['mean']:.1f} {results['judged_on']} F1"
        others = [p for p in rivals if p["system"] == best["system"] and p is not best]
        if others:
            gap = others[0]["to_best"]
            side = "below" if gap["points"] < 0 else "above"
            said += f", {abs(gap['points']):.1f} points {side} {others[0]['name']}"
            if gap["p_holm"] is not None:
                unsure = "" if gap["reliable"] else ", no reliable difference"
                said += f" ({numbers.chance(gap)}{unsure})"
        told.append(said)
    sentence = "; ".join(told)
    return sentence[0].upper() + sentence[1:] + "."


def choosing_f1(point: Mapping[str, Any]) -> float:
    """What decides which encoder is best: the mean F1 on dev of runs that were searched for there, else the table's."""
    runs = point["runs"]
    return sum(run["dev_f1"] for run in runs) / len(runs) if runs else point["f1"]["mean"]


def curve_figure(points: Points, judged: str) -> str:
    """A panel a system (a head over tags; which one may change with K), a line an encoder, every draw a dot."""
    systems = _panels(points)
    colours = colour_names([p["name"] for p in points])
    values = [v for p in points for v in p["f1"]["values"]]
    most, least = (f([n for p in points for n in p["sentences"]]) for f in (max, min))

    def draw(place: int, panel: Panel) -> str:
        own = list(systems.values())[place]
        across = Scale(math.log(least), math.log(max(most, least * 2)), panel.left + 22, panel.right - 22)
        parts = []
        for shots in sorted({p["shots"] for p in own}):
            middle = _middle(next(p for p in own if p["shots"] == shots))
            x = across(math.log(middle))
            parts.append(text(x, panel.bottom + 16, f"{middle:.0f}", "middle", "m"))
            parts.append(text(x, panel.bottom + 31, f"K = {shots}", "middle", "m"))
        for name, style in colours.items():
            line = sorted((p for p in own if p["name"] == name), key=lambda p: p["shots"])
            means = [(across(math.log(_middle(p))), panel.scale(p["f1"]["mean"])) for p in line]
            every = [
                (across(math.log(n)), panel.scale(v))
                for p in line
                for n, v in zip(p["sentences"], p["f1"]["values"], strict=True)
            ]
            parts += [path(means, f"l {style}"), dots(every, style, 3.4), dots(means, style, 7)] if means else []
        return "".join(parts)

    key = [(style, name) for name, style in colours.items()]
    title = f"{judged} F1 by the number of training sentences"
    height = 220 if len(systems) == 1 else 150
    return frame_panels(title, list(systems), ticks(min(values), max(values)), draw, WIDTH, height, key, foot=40)


def dots_figure(points: Points, judged: str) -> str:
    """Of one K: a row a system, and in it a lane an encoder, every draw a dot, a stroke for their mean."""
    systems = _panels(points)
    colours = colour_names([p["name"] for p in points])
    values = [v for p in points for v in p["f1"]["values"]]

    def draw(place: int, y: float, scale: Scale) -> str:
        own = list(systems.values())[place]
        top = y - LANE * (len(own) - 1) / 2
        return "".join(
            spread_dots(scale, top + LANE * lane, p["f1"]["values"], p["f1"]["mean"], colours[p["name"]])
            for lane, p in enumerate(own)
        )

    named = [(system, f"best {max(p['f1']['mean'] for p in own):.1f}") for system, own in systems.items()]
    key = [(style, name) for name, style in colours.items()]
    title = f"{judged} F1 of every draw"
    return frame_rows(title, named, ticks(min(values), max(values)), draw, f"{judged} F1", key, LANE * len(colours) + 4)


def by_system(points: Points) -> dict[str, dict[int, dict[str, Any]]]:
    """A line of a table each: its points by K. An encoder has several if it has several systems at one K."""
    lines: dict[str, dict[int, dict[str, Any]]] = {}
    for p in points:
        label = p["name"] if _one_system_a_shot(points) else f"{p['name']}: {p['system']}"
        lines.setdefault(label, {})[p["shots"]] = p
    return lines


def column_head(points: Points, shots: int) -> str:
    """K, and the system where all encoders have the same one."""
    systems = {p["system"] for p in points if p["shots"] == shots}
    return f"K = {shots}" + (f": {systems.pop()}" if _one_system_a_shot(points) and len(systems) == 1 else "")


def _one_system_a_shot(points: Points) -> bool:
    at = [(p["name"], p["shots"]) for p in points]
    return len(set(at)) == len(at)


def compared(results: dict[str, Any]) -> Section:
    """The protocol, the data and the command."""
    rows = [[name, d["name"], f"{d['sentences']:,}"] for name, d in results["data"].items()]
    blocks: list[Block] = [Prose(EXPLAINED[results["protocol"]]), Table("The data", ["", "file", "sentences"], rows)]
    if results["protocol"] == "paper" and results["judged_on"] == "dev":
        blocks.append(Prose(OPTIMISTIC, "note"))
    return Section("compared", "What was compared", [*blocks, Code(results["command"])])


def scores(results: dict[str, Any]) -> Section:
    """The figure and the table."""
    points, judged = results["points"], results["judged_on"]
    each = "run" if results["protocol"] == "paper" else "draw"
    shots = sorted({p["shots"] for p in points})
    if len(shots) > 1:
        caption = f"{judged} F1 by the number of training sentences (logarithmic): a line through the means, "
        figure = Figure(curve_figure(points, judged), f"{caption}every {each} a dot.")
    else:
        caption = f"{judged} F1 at K = {shots[0]}: every {each} a dot, a stroke for their mean."
        figure = Figure(dots_figure(points, judged), caption)
    rows, best = [], set()
    for label, own in by_system(points).items():
        cells: list[Cell | str] = [numbers.spread(own[k]["f1"]) if k in own else "" for k in shots]
        if any(p["to_best"]["name"] == p["name"] for p in own.values()):
            best.add(len(rows))
        rows.append([label, *cells])
    heads = ["", *(column_head(points, k) for k in shots)]
    told = (
        f"{judged} F1 at entity level by conlleval's rules, mean and standard deviation; in bold the encoders that are "
        "best at some K"
    )
    return Section("scores", "F1 by the number of examples", [figure, Table(told, heads, rows, frozenset(best))])


def differences(results: dict[str, Any]) -> Section:
    """Encoders against the best under the same head, draw by draw."""
    rows: list[list[Cell | str]] = []
    for p in results["points"]:
        gap = p["to_best"]
        if gap["name"] != p["name"]:
            chances = [f"{v:.3f}" if v is not None else "–" for v in (gap["p"], gap["p_holm"])]
            named = f"K = {p['shots']}: {p['name']} against {gap['name']} ({p['system']})"
            rows.append([named, Cell(numbers.signed(-gap["points"]), mood="bad" if gap["reliable"] else ""), *chances])
    if not rows:
        return Section("differences", "Differences", [Prose("Only one encoder was compared.")])
    caption = (
        "Points of F1 from the best encoder at the same K under the same head, the mean over draws; p by an exact test "
        "that flips the signs of the differences, then corrected for the number of differences in this table (Holm); "
        "coloured where that is below 0.05"
    )
    return Section("differences", "Differences", [Table(caption, ["", "points", "p", "p (Holm)"], rows)])


def types(results: dict[str, Any]) -> Section:
    """F1, precision and recall of every type."""
    labels = list(results["points"][0]["per_type"])
    rows: list[list[Cell | str]] = [
        [f"K = {p['shots']}: {p['name']} ({p['system']})", *(numbers.f1(p["per_type"][label]) for label in labels)]
        for p in results["points"]
    ]
    caption = f"{results['judged_on']} F1 by entity type over all draws together, precision and recall beside it"
    return Section("types", "By type", [Table(caption, ["", *labels], rows)])


def made(results: dict[str, Any]) -> Section:
    """How many sentences, settings, versions, and what was noticed."""
    rows: list[list[Cell | str]] = []
    for shots, drawn in results["draws"].items():
        sizes = [len(draw) for draw in drawn]
        words = next(p["words"] for p in results["points"] if p["shots"] == int(shots))
        sentences = f"{sum(sizes) / len(sizes):.0f} ({min(sizes)} to {max(sizes)})"
        rows.append([f"K = {shots}", sentences, f"{sum(words) / len(words):,.0f}"])
    facts = {key: results[key] for key in ("options", "budget", "data", "signature", "versions")}
    blocks: list[Block] = [
        Table("Sentences and words of a draw: mean (least to most)", ["", "sentences", "words"], rows),
        Prose("The numbers of the sentences of every draw, from 0, stand in results.json under draws.", "note"),
        *(Prose(f"Note: {notice}.", "note") for notice in results["notices"]),
    ]
    chosen = [f"K = {p['shots']} {p['name']}: {p['runs']}" for p in results["points"] if p["runs"]]
    if chosen:
        blocks.append(Details("Runs that the search chose", [Code("\n".join(chosen))]))
    settings = json.dumps(facts, indent=1, ensure_ascii=False)
    return Section("made", "How this was made", [*blocks, Details("Settings, data, versions", [Code(settings)])])


SECTIONS = (compared, scores, differences, types, made)


def render_html(results: dict[str, Any]) -> str:
    """The whole report."""
    return render_page(results, verdict(results), [section(results) for section in SECTIONS], [])


def render_markdown(results: dict[str, Any]) -> str:
    """The same without the figure, whose numbers stand in the table."""
    parts = [f"# {results['title']}\n", f"{verdict(results)}\n"]
    for section in (make(results) for make in SECTIONS):
        parts += [f"## {section.title}\n", *(told for block in section.blocks if (told := to_markdown(block)))]
    return "\n".join(parts)


def _panels(points: Points) -> dict[str, Points]:
    """Points by system; all together where no K has two systems of one encoder."""
    if _one_system_a_shot(points):
        return {" · ".join(dict.fromkeys(p["system"] for p in points)): points}
    return {
        system: [p for p in points if p["system"] == system] for system in dict.fromkeys(p["system"] for p in points)
    }


def _middle(point: Mapping[str, Any]) -> float:
    """The mean number of sentences of a draw."""
    sizes: Sequence[int] = point["sentences"]
    return sum(sizes) / len(sizes)
