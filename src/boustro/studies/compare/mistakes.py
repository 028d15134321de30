"""Kinds of mistakes, and which labels are confused with which."""

from typing import Any

from boustro.metrics.mistakes import KINDS
from boustro.studies.report import Results, numbers
from boustro.studies.report.blocks import Block, Details, Figure, Prose, Section, Table, TableCell
from boustro.studies.report.charts import mistake_bars

MANY_LABELS, MOST_CONFUSIONS = 12, 30
NO_GOLD, NO_PREDICTION = "none (spurious)", "none (missed)"
EXPLAINED = (
    "Each entity is matched with at most one other. Type: the right words, another type. Boundary: the right type, "
    "overlapping words. Both: another type, overlapping words. Missed: an entity of the reference that no other "
    "prediction overlaps. Spurious: a prediction that no other entity of the reference overlaps."
)


def mistakes(results: Results) -> Section:
    """Counts of every kind, and how they differ between systems."""
    systems = results["systems"]
    base_name = results["pair"][0]
    base = next(s for s in systems if s["name"] == base_name)
    kinds = KINDS if results["task"]["has_positions"] else KINDS[:2]  # one label per text is right or wrong
    rows: list[list[TableCell | str]] = []
    for s in systems:
        row: list[TableCell | str] = [s["name"]]
        for kind in kinds:
            count, before = s["errors"][kind] / s["num_seeds"], base["errors"][kind] / base["num_seeds"]
            change = count - before
            better = (change > 0) == (kind == "correct")
            compared = s is not base and s["seeds"] == base["seeds"]
            mood = "" if abs(change) < 0.05 or not compared else "better" if better else "worse"
            note = numbers.signed(change) if compared else ""
            row.append(TableCell(numbers.per_seed(s["errors"][kind], s["num_seeds"]), note, mood=mood))
        rows.append(row)
    caption = (
        f"{results['task']['units'].capitalize()} of {results['judged_on']}, mean over seeds, with the change from "
        f"{base_name} where the seeds are the same"
    )
    heads = kinds if kinds is KINDS else ("correct", "wrong")
    blocks: list[Block] = [Table(caption, ["system", *heads], rows)]
    if results["task"]["has_positions"]:
        figure = Figure(mistake_bars(systems), "Mistakes by kind; the number is their sum.")
        blocks = [Prose(EXPLAINED), *blocks, figure]
    return Section("mistakes", "Kinds of mistakes", blocks)


def confusions(results: Results) -> Section:
    """Labels of the reference against predicted labels."""
    systems, title = {s["name"]: s for s in results["systems"]}, f"Confusion of {results['task']['label']}s"
    labels = sorted({x for s in systems.values() for g, p, _ in s["confusions"] for x in (g, p) if x is not None})
    pair = list(dict.fromkeys(results["pair"]))
    if len(labels) > MANY_LABELS:
        return Section("confusions", title, [_most_frequent(systems, pair)])
    blocks: list[Block] = [_matrix(systems[name], labels) for name in pair]
    rest = [_matrix(s, labels) for name, s in systems.items() if name not in pair]
    if rest:
        blocks.append(Details("Every other system", rest))
    return Section("confusions", title, blocks)


def _matrix(system: dict[str, Any], labels: list[str]) -> Table:
    """One row per label of the reference, one column per predicted label; `none` for missed and spurious entities."""
    counts = {(g, p): n for g, p, n in system["confusions"]}
    keys = [*labels, None]
    most = max((n for (g, p), n in counts.items() if g != p), default=1)
    rows: list[list[TableCell | str]] = []
    for gold in keys:
        row: list[TableCell | str] = [gold or NO_GOLD]
        for predicted in keys:
            count = counts.get((gold, predicted), 0)
            if gold is None and predicted is None:
                row.append("")
            elif gold == predicted:
                row.append(numbers.per_seed(count, system["num_seeds"]))
            else:
                row.append(TableCell(numbers.per_seed(count, system["num_seeds"]), share=count / most, look="heat"))
        rows.append(row)
    caption = f"{system['name']}: rows are the reference, columns the predictions; mean over seeds"
    return Table(caption, ["reference", *labels, NO_PREDICTION], rows)


def _most_frequent(systems: dict[str, dict[str, Any]], pair: list[str]) -> Table:
    """With many labels, only the most frequent confusions."""
    counts = {n: {(g, p): c / systems[n]["num_seeds"] for g, p, c in systems[n]["confusions"] if g != p} for n in pair}
    keys = {key for each in counts.values() for key in each}
    order = sorted(keys, key=lambda k: (-max(each.get(k, 0) for each in counts.values()), str(k)))
    rows = [
        [gold or NO_GOLD, predicted or NO_PREDICTION, *(f"{counts[n].get((gold, predicted), 0):,.1f}" for n in pair)]
        for gold, predicted in order[:MOST_CONFUSIONS]
    ]
    caption = f"The {len(rows)} most frequent of {len(keys)} confusions, mean over seeds; all are in results.json"
    return Table(caption, ["reference", "predicted", *pair], rows)
