"""How systems learned, which layers they use, whether their scores are calibrated; their scores by K.

All of it is drawn from results.json alone. The figure by K is Figure 1 of the backward-LM paper: the score against the
number of training examples on a logarithmic axis, one line per system, one dot per draw.
"""

import math
from statistics import fmean
from typing import Any

from boustro.apps.drawing import WIDTH, Panel, Scale, dots, frame_panels, path, text_line, ticks
from boustro.apps.studies.report import StudyResults, charts, numbers
from boustro.apps.studies.report.blocks import Details, Figure, Prose, ReportBlock, Section, Table, TableCell
from boustro.apps.studies.report.charts import Colours, colour_names, colour_systems, layer_names

MANY_CURVES = 6  # more curves in one picture hide each other
Systems = list[dict[str, Any]]


def layers(results: StudyResults) -> Section | None:
    """Return the learned share of every layer, for each stream (one language model) that learns a mix of several."""
    several = ({n: mixes for n, mixes in s["layer_weights"].items() if len(mixes[0]) > 1} for s in results["systems"])
    pairs = zip(results["systems"], several, strict=True)
    systems = [{**s, "layer_weights": mixed} for s, mixed in pairs if mixed]
    if not systems:
        return None
    caption = (
        "Shares of the layers in the learned mix; layer 0 is the embeddings. Bars: mean over seeds; one dot per seed; "
        "dashed line: equal shares."
    )
    colours = colour_names([stream for s in systems for stream in s["layer_weights"]])
    figures = _figures(results, systems, charts.layer_bars, colours, caption)
    return Section("layers", "Learned layer weights", [*figures, _layer_table(systems)])


def curves(results: StudyResults) -> Section | None:
    """Return the dev score after every epoch of the systems that train in several."""
    systems = [s for s in results["systems"] if any(len(curve) > 1 for curve in s["dev_curves"])]
    if not systems:
        return None
    metric = results["task"]["metric"]
    caption = f"Dev {metric} after every epoch: one dot per seed, a line through their means."
    rows = []
    numbered = range(1, results["seeds"] + 1)
    for s in (s for s in systems if all(s["dev_curves"])):
        reached = {seed: f"{max(curve):.2f}" for seed, curve in zip(s["seeds"], s["dev_curves"], strict=True)}
        epochs = ", ".join(map(str, s["best_epochs"]))
        rows.append([s["name"], epochs, *(reached.get(seed, "–") for seed in numbered)])
    heads = ["system", "best epochs", *(f"best, seed {seed}" for seed in numbered)]
    table = Table(f"The selected epoch of every seed, and its dev {metric}", heads, rows)
    figures = _figures(results, systems, charts.learning_curves, colour_systems(results["systems"]), caption)
    return Section("curves", "Learning curves", [*figures, Details("As a table", [table])])


def reliability_section(results: StudyResults) -> Section | None:
    """Return whether answers with a score of 0.9 are right nine times in ten."""
    if not results["task"]["has_scores"]:
        return None
    systems, units = results["systems"], results["task"]["units"]
    bins = [f"{low:.1f}–{high:.1f}" for low, high, *_ in systems[0]["calibration"]["bins"]]
    rows = []
    for s in systems:
        cells = [
            TableCell(f"{100 * right:.0f}", f"{count / s['num_seeds']:,.0f}", right) if count else "–"
            for _, _, count, _, right in s["calibration"]["bins"]
        ]
        rows.append([s["name"], f"{100 * s['calibration']['error']:.1f}", *cells])
    explained = (
        f"Expected calibration error in points; then, for each range of scores, the percentage of right {units} and "
        "their number (mean over seeds)"
    )
    table = Table(explained, ["system", "error", *bins], rows)
    text = (
        "On the dashed line, answers with a score of 0.9 are right nine times in ten; below it the system is "
        "overconfident."
    )
    if results["task"]["has_spans"]:
        text = f"The score of a predicted entity is the geometric mean of its words' probabilities. {text}"
    caption = f"Percentage of predicted {units} that are right, by score; grey: how many have that score."
    figures = _figures(results, systems, charts.reliability_panels, colour_systems(systems), caption)
    tempered = [_temperatures(s) for s in systems if s.get("temperatures")]
    return Section("calibration", "Calibration", [Prose(text), *tempered, *figures, Details("As a table", [table])])


def _temperatures(system: dict[str, Any]) -> Prose:
    """Say which temperature `--calibrate` found, mean over seeds."""
    seeds = system["temperatures"]
    mean = {name: sum(each[name] for each in seeds) / len(seeds) for name in ("temperature", "error_before", "error")}
    return Prose(
        f"{system['name']}: scores have a temperature of {mean['temperature']:.2f}, chosen on parts of the training "
        f"set that were left out; there the error fell from {100 * mean['error_before']:.1f} to "
        f"{100 * mean['error']:.1f} points."
    )


def _figures(results: StudyResults, systems: Systems, draw: Any, colours: Colours, caption: str) -> list[ReportBlock]:
    """Return all systems in one figure; of many, the pair first and the rest folded."""
    if len(systems) <= MANY_CURVES:
        return [Figure(draw(systems, colours), caption)]
    pair = [s for s in systems if s["name"] in results["pair"]] or systems[:2]
    rest = [s for s in systems if s not in pair]
    return [Figure(draw(pair, colours), caption), Details("Every other system", [Figure(draw(rest, colours), caption)])]


def _layer_table(systems: Systems) -> Details:
    rows = []
    most = max(len(w[0]) for s in systems for w in s["layer_weights"].values())
    for s in systems:
        for stream, seeds in s["layer_weights"].items():
            means = [sum(values) / len(values) for values in zip(*seeds, strict=True)]
            names = layer_names(s["layers"], len(means))
            cells = [
                TableCell(f"{m:.2f}", "" if n == str(i) else f"layer {n}", m)
                for i, (m, n) in enumerate(zip(means, names, strict=True))
            ]
            rows.append([f"{s['name']}: {stream}", *cells, *[""] * (most - len(means))])
    return Details("As a table", [Table("Mean over seeds", ["system: language model", *map(str, range(most))], rows)])


Points = list[dict[str, Any]]
DRAWS_EXPLAINED = {
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


def by_examples(results: StudyResults, points: Points) -> Section:
    """Return the figure and the table of points, each a system's at one K."""
    measure = f"{results['judged_on']} {results['task']['metric']}"
    columns, lines = _shots(points), _lines(points)
    what = "by the number of training examples (logarithmic): one dot per draw, lines at the means"
    figures = [Figure(curve_figure(points, measure), f"{measure} {what}.")] if len(columns) > 1 else []
    rows = [
        [x, *(numbers.spread_text(line[k]["score"]) if k in line else "" for k in columns)] for x, line in lines.items()
    ]
    best = {i for i, line in enumerate(lines.values()) if any(p["to_best"]["name"] == p["name"] for p in line.values())}
    rules = " at entity level by conlleval's rules" if results["task"]["has_spans"] else ""
    caption = f"{measure}{rules}, mean and standard deviation; bold: best at some K"
    table = Table(caption, ["", *columns.values()], rows, frozenset(best))
    protocol = Details("How examples were drawn", [Prose(DRAWS_EXPLAINED[results["drawing"]])])
    return Section("shots", "Scores by the number of examples", [*figures, table, protocol])


def curve_figure(points: Points, measure: str) -> str:
    """Return one panel per head (or one for all, where the head depends on K only), one line per encoder, one dot per
    draw."""
    panels, colours, marks = _frame(points)
    most, least = (f([n for p in points for n in p["sentences"]]) for f in (max, min))

    def draw(index: int, panel: Panel) -> str:
        panel_points = sorted(list(panels.values())[index], key=lambda p: p["shots"])
        across = Scale(math.log(least), math.log(max(most, least * 2)), panel.left + 22, panel.right - 22)
        parts = []
        for shots, size in sorted({p["shots"]: fmean(p["sentences"]) for p in reversed(panel_points)}.items()):
            parts.append(text_line(across(math.log(size)), panel.bottom + 16, f"{size:.0f}", "middle", "m"))
            parts.append(text_line(across(math.log(size)), panel.bottom + 31, f"K = {shots}", "middle", "m"))
        for name, style in colours.items():
            line = [p for p in panel_points if p["name"] == name]
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
    """Return the rows of a table, each with its points by K, the best at the largest K first.

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
    """Return every K with its column head, which names the head where all encoders have the same one."""
    columns = {}
    for shots in sorted({p["shots"] for p in points}):
        heads = {p["head"] for p in points if p["shots"] == shots}
        same = _one_head_per_shot(points) and len(heads) == 1
        columns[shots] = f"K = {shots}" + (f": {heads.pop()}" if same else "")
    return columns
