"""How systems learned, which layers they use, and whether their scores are calibrated."""

from typing import Any

from boustro.apps.studies.report import Results, charts
from boustro.apps.studies.report.blocks import Block, Details, Figure, Prose, Section, Table, TableCell
from boustro.apps.studies.report.charts import Colours, colour_names, colour_systems, layer_names

MANY = 6
Systems = list[dict[str, Any]]


def layers(results: Results) -> Section:
    """The learned share of every layer, for each stream (one language model) that has several."""
    several = ({n: own for n, own in s["layer_weights"].items() if len(own[0]) > 1} for s in results["systems"])
    pairs = zip(results["systems"], several, strict=True)
    systems = [{**s, "layer_weights": mixed} for s, mixed in pairs if mixed]
    if not systems:
        text = "No system learns a mix of several layers, so there is nothing to show."
        return Section("layers", "Learned layer weights", [Prose(text)])
    caption = (
        "Shares of the layers in the learned mix; layer 0 is the embeddings. Bars: mean over seeds; one dot per seed; "
        "dashed line: equal shares."
    )
    colours = colour_names([stream for s in systems for stream in s["layer_weights"]])
    figures = _figures(results, systems, charts.layer_bars, colours, caption)
    return Section("layers", "Learned layer weights", [*figures, _layer_table(systems)])


def curves(results: Results) -> Section:
    """The dev score after every epoch."""
    systems = [s for s in results["systems"] if any(s["dev_curves"])]
    if not systems:
        return Section("curves", "Learning curves", [Prose("No system trains in epochs, so there is no curve.")])
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


def calibration(results: Results) -> Section | None:
    """Whether answers with a score of 0.9 are right nine times in ten."""
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
    """What `--calibrate` found, mean over seeds."""
    own = system["temperatures"]
    mean = {name: sum(each[name] for each in own) / len(own) for name in ("temperature", "error_before", "error")}
    return Prose(
        f"{system['name']}: scores have a temperature of {mean['temperature']:.2f}, chosen on parts of the training "
        f"set that were left out; there the error fell from {100 * mean['error_before']:.1f} to "
        f"{100 * mean['error']:.1f} points."
    )


def _figures(results: Results, systems: Systems, draw: Any, colours: Colours, caption: str) -> list[Block]:
    """All systems in one figure; of many, the pair first and the rest folded."""
    if len(systems) <= MANY:
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
