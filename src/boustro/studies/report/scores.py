"""The first sections: the verdict, what was compared, the table of scores, the scores by type, and the cost."""

from typing import Any

from boustro.studies.charts import f1_dots
from boustro.studies.report import numbers
from boustro.studies.report.blocks import Block, Cell, Code, Details, Figure, Prose, Section, Table

MANY_TYPES = 10
Results = dict[str, Any]


def verdict(results: Results) -> str:
    """One sentence: what is best, by how much, and whether that is reliable."""
    judged, systems = results["judged_on"], results["systems"]
    best, *rest = sorted(systems, key=lambda s: -s[judged]["mean"])
    seeds = f"mean of {results['seeds']} seeds" if results["seeds"] > 1 else "one seed"
    stamp = f"Incomplete ({results['stamp']}): " if results.get("stamp") else ""
    opening = f"{stamp}{best['name']} reaches {best[judged]['mean']:.1f} {judged} F1 ({seeds})"
    if not rest:
        return f"{opening}."
    second = rest[0]
    gap = second["to_best"]
    interval = f"95% interval {numbers.interval(gap)}"
    level = [s for s in rest if s["to_best"]["low"] <= 0]
    if level:
        more = f" or {len(level) - 1} more" if len(level) > 1 else ""
        return (
            f"{opening}; no reliable difference to {level[0]['name']}{more} ({gap['points']:.1f} points, {interval})."
        )
    return f"{opening}, {gap['points']:.1f} points above {second['name']} ({interval})."


def compared(results: Results) -> Section:
    """What was compared, on what, and by which command."""
    judged = results["judged_on"]
    rows = [
        [name, d["name"], f"{d['sentences']:,}", f"{d['words']:,}", f"{d['entities']:,}"]
        for name, d in results["data"].items()
    ]
    blocks: list[Block] = [
        Prose(f"{len(results['systems'])} systems, {results['seeds']} seeds each, judged on {judged}."),
        *([Prose(f"What differs: {_told(results['varied'])}.")] if results["varied"] else []),
        Table("The data", ["", "file", "sentences", "words", "entities"], rows),
        Code(results["command"]),
    ]
    if judged == "dev":
        blocks.append(
            Prose("The dev set also chose each tagger's best epoch, so its scores flatter all systems.", "note")
        )
    if 1 < results["seeds"] < 3:
        blocks.append(Prose("Two seeds say little about the spread: give at least three.", "note"))
    if results["seeds"] == 1:
        blocks.append(Prose("One seed says nothing about the spread: give at least three.", "note"))
    if results["missing"]:
        blocks.append(Details(f"{len(results['missing'])} cells are missing", [Prose("; ".join(results["missing"]))]))
    return Section("compared", "What was compared", blocks)


def scores(results: Results) -> Section:
    """Every system's F1 and size."""
    systems, judged = results["systems"], results["judged_on"]
    sets = [name for name in ("dev", "test") if name in systems[0]]
    against = results["reference"]
    named = "behind the best" if against == results["best"] else f"against {against}"
    heads = ["system", *(f"{n} F1" for n in sets), "P", "R", named, "LMs", "head"]
    rows, best = [], set()
    for index, s in enumerate(systems):
        partial = "" if s["num_seeds"] == results["seeds"] else f" ({s['num_seeds']} of {results['seeds']} seeds)"
        difference = Cell("–") if s["name"] == against else numbers.gap(s["to_reference"])
        sizes = [numbers.millions(s[f"{part}_parameters"]) for part in ("encoder", "head")]
        spreads = [numbers.spread(s[name]) for name in sets]
        spreads += [Cell(f"{s[name]['mean']:.1f}") for name in ("precision", "recall")]
        rows.append([s["name"] + partial, *spreads, difference, *sizes])
        best |= {index} if s["name"] == results["best"] else set()
    caption = (
        "Mean and standard deviation over seeds, entity level, by conlleval's rules; P and R are precision and recall "
        f"on {judged}. Differences from {against} on {judged} in points of F1, with a 95% interval by a paired "
        "bootstrap over sentences and seeds; coloured where 0 lies outside. LMs and head: parameters."
    )
    figure = Figure(f1_dots(systems, judged), f"{judged} F1 of every system; the stroke is the mean.")
    return Section("scores", "Scores", [Table(caption, heads, rows, frozenset(best)), figure])


def types(results: Results) -> Section:
    """Precision, recall and F1 of every type."""
    systems = {s["name"]: s for s in results["systems"]}
    first, second = results["pair"]
    labels = sorted({label for s in systems.values() for label in s["per_type"]})
    empty = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "num_entities": 0}
    rows = []
    for label in labels:
        sides = [systems[name]["per_type"].get(label, empty) for name in dict.fromkeys((first, second))]
        row: list[Cell | str] = [label, f"{max(s['num_entities'] for s in sides):,.0f}"]
        row += [Cell(f"{s['f1']:.1f}", f"{s['precision']:.1f} / {s['recall']:.1f}", s["f1"] / 100) for s in sides]
        if first != second:
            known = results["pair_by_type"].get(label)
            row.append(numbers.gap(known) if known else "–")
        rows.append(row)
    names = dict.fromkeys((first, second))
    heads = ["type", "entities", *dict.fromkeys(results["pair_short"]), *(["difference"] if first != second else [])]
    caption = (
        f"F1 on {results['judged_on']}, precision / recall beside it, mean over seeds; differences with a 95% interval"
    )
    blocks: list[Block] = [Table(caption, heads, rows)]
    if len(systems) > len(names):
        blocks.append(Details("Every system", [_all_types(systems, labels)], shown=len(labels) <= MANY_TYPES))
    return Section("types", "By type", blocks)


def _all_types(systems: dict[str, dict[str, Any]], labels: list[str]) -> Table:
    """Systems by types, the longer of the two downwards."""

    def cell(name: str, label: str) -> Cell:
        found = systems[name]["per_type"].get(label)
        if found is None:
            return Cell("0.0", "0 / 0")
        return Cell(f"{found['f1']:.1f}", f"{found['precision']:.0f} / {found['recall']:.0f}", found["f1"] / 100)

    caption = "F1, with precision / recall beside it"
    if len(labels) <= max(MANY_TYPES, len(systems)):
        return Table(caption, ["system", *labels], [[n, *(cell(n, x) for x in labels)] for n in systems])
    return Table(caption, ["type", *systems], [[x, *(cell(n, x) for n in systems)] for x in labels])


def _told(varied: dict[str, list[Any]]) -> str:
    return "; ".join(f"{name} ({', '.join(map(str, values))})" for name, values in varied.items())


def cost(results: Results) -> Section:
    """Parameters, bytes, seconds and words per second."""
    heads = ["system", "LMs", "head", "features", "training", "words/s", "all data", "peak memory"]
    rows: list[list[Cell | str]] = []
    words = sum(d["words"] for d in results["data"].values())
    gpu = any(c["gpu_peak_bytes"] for c in results["cost"].values())
    for s in results["systems"]:
        c = results["cost"][s["name"]]
        training = Cell(numbers.seconds(c["train_seconds"]["mean"]), numbers.spread(c["train_seconds"]).note)
        row = [s["name"], numbers.millions(s["encoder_parameters"])]
        row += [Cell(numbers.millions(s["head_parameters"]), numbers.size(s["head_bytes"]))]
        row += [numbers.size(s["feature_bytes"]), training, f"{c['words_per_second']:,.0f}"]
        row += [numbers.seconds(words / c["words_per_second"]), numbers.size(c["peak_bytes"])]
        rows.append(row + ([numbers.size(c["gpu_peak_bytes"])] if gpu else []))
    caption = (
        "LMs and head: parameters, and bytes of the head's file. Features: bytes on disk for all data sets, which "
        "systems with the same LMs share. Training: one head, from features, mean over seeds. Words/s: from words to "
        "tags, encoding included, without the cache. All data: reading every word of the data sets once at that speed. "
        "Peak memory: of the whole process while a cell was computed, mapped files left out."
    )
    return Section("cost", "Cost", [Table(caption, heads + (["GPU memory"] if gpu else []), rows)])
