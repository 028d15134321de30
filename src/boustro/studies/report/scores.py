"""The first sections: the verdict, what was compared, the table of scores, the scores by type, and the cost."""

from typing import Any

from boustro.studies.report import numbers
from boustro.studies.report.blocks import Block, Cell, Code, Details, Figure, Prose, Section, Table
from boustro.studies.report.charts import f1_dots

MANY_TYPES = 10
TESTED = (
    "over the seeds that both have, with a 95% interval and a two-sided p by a paired bootstrap over sentences and "
    "seeds; p is corrected for the number of differences in the table (Holm), and what is below 0.05 is coloured. With "
    "one seed in common the interval covers the sentences alone, and there is no p."
)
Results = dict[str, Any]


def verdict(results: Results) -> str:
    """One sentence: what is best on dev, by how much, and whether that is reliable."""
    judged, systems = results["judged_on"], results["systems"]
    best = next(s for s in systems if s["name"] == results["best"])
    rest = sorted((s for s in systems if s is not best), key=lambda s: -s["dev"]["mean"])
    told = numbers.seeds(best["num_seeds"], results["seeds"])
    told = told if best["num_seeds"] == 1 else f"mean of {told}"
    stamp = f"Incomplete ({results['stamp']}): " if results.get("stamp") else ""
    opening = f"{stamp}{best['name']}{', best on dev,' if rest and judged != 'dev' else ''} reaches "
    opening += f"{best[judged]['mean']:.1f} {judged} F1 ({told})"
    known = [s for s in rest if s["to_best"] is not None]
    if not known:
        return f"{opening}; no other system shares a seed with it." if rest else f"{opening}."
    level = [s for s in known if not s["to_best"]["reliable"]]
    second = (level or known)[0]
    gap = second["to_best"]
    far = f"{abs(gap['points']):.1f} points {'below' if gap['points'] < 0 else 'above'} {second['name']}"
    if gap["num_seeds"] == 1:
        return f"{opening}, {far} ({numbers.interval(gap)}: no statement about reliability)."
    if level:
        more = f" or {len(level) - 1} more" if len(level) > 1 else ""
        told = f"{numbers.signed(gap['points']).removeprefix('+')} points, {numbers.interval(gap)}"
        return f"{opening}; no reliable difference to {second['name']}{more} ({told})."
    return f"{opening}, {far} ({numbers.interval(gap)})."


def compared(results: Results) -> Section:
    """What was compared, on what, and by which command."""
    judged, systems = results["judged_on"], results["systems"]
    rows = [
        [name, d["name"], f"{d['sentences']:,}", f"{d['words']:,}", f"{d['entities']:,}"]
        for name, d in results["data"].items()
    ]
    blocks: list[Block] = [
        Prose(f"{len(systems)} systems, {_seeds_told(results)}, judged on {judged}."),
        *([Prose(f"What differs: {_told(results['varied'])}.")] if results["varied"] else []),
        Table("The data", ["", "file", "sentences", "words", "entities"], rows),
        Code(results["command"]),
    ]
    if judged == "dev":
        blocks.append(
            Prose("The dev set also chose each tagger's best epoch, so its scores flatter all systems.", "note")
        )
    elif len(systems) > 1:
        blocks.append(Prose("Which system is best was decided on dev; test chooses nothing.", "note"))
    fewest = min(s["num_seeds"] for s in systems)
    if fewest == 2:
        blocks.append(Prose("Two seeds say little about the spread: give at least three.", "note"))
    if fewest == 1:
        blocks.append(
            Prose(
                "One seed says nothing about the spread, nor whether a difference is reliable: give at least three.",
                "note",
            )
        )
    if results["missing"]:
        blocks.append(Details(f"{len(results['missing'])} cells are missing", [Prose("; ".join(results["missing"]))]))
    return Section("compared", "What was compared", blocks)


def scores(results: Results) -> Section:
    """Every system's F1 and size."""
    systems, judged = results["systems"], results["judged_on"]
    sets = [name for name in ("dev", "test") if name in systems[0]]
    against = results["reference"]
    named = "against the best" if against == results["best"] else f"against {against}"
    heads = ["system", *(f"{n} F1" for n in sets), "P", "R", named, "LMs", "head"]
    rows, best = [], set()
    for index, s in enumerate(systems):
        partial = "" if s["num_seeds"] == results["seeds"] else f" ({numbers.seeds(s['num_seeds'], results['seeds'])})"
        difference = numbers.gap(s["to_reference"])
        sizes = [numbers.millions(s[f"{part}_parameters"]) for part in ("encoder", "head")]
        spreads = [numbers.spread(s[name]) for name in sets]
        spreads += [Cell(f"{s[name]['mean']:.1f}") for name in ("precision", "recall")]
        rows.append([s["name"] + partial, *spreads, difference, *sizes])
        best |= {index} if s["name"] == results["best"] else set()
    caption = (
        "Mean and standard deviation over seeds, entity level, by conlleval's rules; P and R are precision and recall "
        f"on {judged}. Differences from {against} on {judged} in points of F1, {TESTED} LMs and head: parameters."
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
    caption = f"F1 on {results['judged_on']}, precision / recall beside it, mean over seeds; differences {TESTED}"
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


def _seeds_told(results: Results) -> str:
    """3 seeds each, one seed each; 1 to 3 of 3 seeds each."""
    there = [s["num_seeds"] for s in results["systems"]]
    if min(there) == max(there):
        return f"{numbers.seeds(there[0], results['seeds'])} each"
    return f"{min(there)} to {max(there)} of {results['seeds']} seeds each"


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
