"""What kind of mistakes, and which types are taken for which."""

from typing import Any

from boustro.metrics.mistakes import KINDS
from boustro.studies.report import numbers
from boustro.studies.report.blocks import Block, Cell, Details, Figure, Prose, Section, Table
from boustro.studies.report.charts import mistake_bars

MANY_TYPES, MOST_CONFUSIONS = 12, 30
EXPLAINED = (
    "Each entity is set against one other at most. Type: the right words, another type. Boundary: the right type, "
    "words that overlap. Both: another type, words that overlap. Missed: nothing predicted is left that overlaps. "
    "Spurious: predicted, and nothing of the reference is left that overlaps."
)


def mistakes(results: dict[str, Any]) -> Section:
    """Counts of every kind, and how they change between systems."""
    systems = results["systems"]
    base_name = results["pair"][0]
    base = next(s for s in systems if s["name"] == base_name)
    rows: list[list[Cell | str]] = []
    for s in systems:
        row: list[Cell | str] = [s["name"]]
        for kind in KINDS:
            count, before = s["errors"][kind] / s["num_seeds"], base["errors"][kind] / base["num_seeds"]
            change = count - before
            better = (change > 0) == (kind == "correct")
            compared = s is not base and s["seeds"] == base["seeds"]
            mood = "" if abs(change) < 0.05 or not compared else "better" if better else "worse"
            note = numbers.signed(change) if compared else ""
            row.append(Cell(numbers.per_seed(s["errors"][kind], s["num_seeds"]), note, mood=mood))
        rows.append(row)
    caption = (
        f"Entities of {results['judged_on']}, mean over seeds; beside each count its change from {base_name}, where "
        "the seeds are the same"
    )
    figure = Figure(mistake_bars(systems), "Mistakes by kind; the number is their sum.")
    return Section(
        "mistakes", "Kinds of mistakes", [Prose(EXPLAINED), Table(caption, ["system", *KINDS], rows), figure]
    )


def confusions(results: dict[str, Any]) -> Section:
    """Types of the reference against predicted types."""
    systems = {s["name"]: s for s in results["systems"]}
    labels = sorted({x for s in systems.values() for g, p, _ in s["confusions"] for x in (g, p) if x is not None})
    pair = list(dict.fromkeys(results["pair"]))
    if len(labels) > MANY_TYPES:
        return Section("confusions", "Confusion of types", [_longest(systems, pair)])
    blocks: list[Block] = [_matrix(systems[name], labels) for name in pair]
    rest = [_matrix(s, labels) for name, s in systems.items() if name not in pair]
    if rest:
        blocks.append(Details("Every other system", rest))
    return Section("confusions", "Confusion of types", blocks)


def _matrix(system: dict[str, Any], labels: list[str]) -> Table:
    """A row a type of the reference, a column a predicted type; `none` for missed and spurious entities."""
    counts = {(g, p): n for g, p, n in system["confusions"]}
    keys = [*labels, None]
    most = max((n for (g, p), n in counts.items() if g != p), default=1)
    rows: list[list[Cell | str]] = []
    for gold in keys:
        row: list[Cell | str] = [gold or "none (spurious)"]
        for predicted in keys:
            count = counts.get((gold, predicted), 0)
            if gold is None and predicted is None:
                row.append("")
            elif gold == predicted:
                row.append(numbers.per_seed(count, system["num_seeds"]))
            else:
                row.append(Cell(numbers.per_seed(count, system["num_seeds"]), share=count / most, look="heat"))
        rows.append(row)
    caption = f"{system['name']}: rows are the reference, columns what was predicted; mean over seeds"
    return Table(caption, ["reference", *labels, "none (missed)"], rows)


def _longest(systems: dict[str, dict[str, Any]], pair: list[str]) -> Table:
    """Of many types only the pairs that are confused most often."""
    counts = {n: {(g, p): c / systems[n]["num_seeds"] for g, p, c in systems[n]["confusions"] if g != p} for n in pair}
    keys = {key for each in counts.values() for key in each}
    order = sorted(keys, key=lambda k: (-max(each.get(k, 0) for each in counts.values()), str(k)))
    rows = [
        [
            gold or "none (spurious)",
            predicted or "none (missed)",
            *(f"{counts[n].get((gold, predicted), 0):,.1f}" for n in pair),
        ]
        for gold, predicted in order[:MOST_CONFUSIONS]
    ]
    caption = f"The {len(rows)} most frequent of {len(keys)} confusions, mean over seeds; results.json holds them all"
    return Table(caption, ["reference", "predicted", *pair], rows)
