"""Where systems are right: the direction test, then scores by position, length and frequency in the training data."""

from typing import Any

from boustro.metrics.buckets import DIMENSIONS, ELSEWHERE, START
from boustro.studies.report import Results, numbers
from boustro.studies.report.blocks import Block, Details, Figure, Prose, Section, Table, TableCell
from boustro.studies.report.charts import colour_systems, context_lines, direction_dots

MOST_LINES, MANY = 4, 8
CONTEXT = {"before": DIMENSIONS["before"].title, "after": DIMENSIONS["after"].title}


def where(results: Results) -> Section:
    """F1 by bucket, the direction test first."""
    systems, title = results["systems"], "Where systems are right"
    if not results["task"]["has_positions"]:
        return Section("where", title, [Prose("A label of a whole text has no position, so there is nothing to show.")])
    blocks: list[Block] = [*_direction_test(results)]
    shown = [s for s in systems if s["name"] in results["pair"]] if len(systems) > MOST_LINES else systems
    if any(sum(counts) for s in shown for counts in s["buckets"]["before"].values()):
        colours = colour_systems(systems)
        if len({colours[s["name"]] for s in shown}) < len(shown):
            colours = colour_systems(shown)  # lines that cross need different colours
        figure = context_lines(shown, CONTEXT, colours)
        blocks.append(Figure(figure, "F1 by the number of words of the sentence before and after the entity."))
    for name, dimension in DIMENSIONS.items():
        if name != "position":
            table = _table(systems, name, dimension.title)
            blocks.append(table if len(systems) <= MANY else Details(dimension.title, [table]))
    return Section("where", title, blocks)


def _direction_test(results: Results) -> list[Block]:
    """A forward LM has read nothing of a sentence before its first entity: is it worse there?"""
    systems = results["systems"]
    rows: list[list[TableCell | str]] = []
    for s in systems:
        start, rest = (s["buckets"]["position"][b] for b in (START, ELSEWHERE))
        gap = "–"
        if sum(start[:2]) and sum(rest[:2]):
            gap = numbers.signed(200 * start[2] / sum(start[:2]) - 200 * rest[2] / sum(rest[:2]))
        rows.append([s["name"], numbers.f1(start), numbers.f1(rest), gap])
    caption = "Direction test: F1 with precision / recall; in brackets the number of entities in the reference"
    heads = ["system", *_sizes(systems[0], "position"), "start minus elsewhere"]
    blocks: list[Block] = [Prose(_direction_sentence(results), "key"), Table(caption, heads, rows)]
    testable = [s for s in systems if all(sum(s["buckets"]["position"][b][:2]) for b in (START, ELSEWHERE))]
    if testable:
        chart = direction_dots(testable, START, ELSEWHERE)
        text = "Direction test: the larger the distance between the dots, the more the position matters."
        blocks.append(Figure(chart, text))
    return blocks


def _direction_sentence(results: Results) -> str:
    first, second = results["pair_short"]
    opening = "Direction test: before an entity that starts a sentence, a forward LM has read nothing of the sentence."
    if any(s["context"] == "document" for s in results["systems"]):
        opening += " (With document context, as here, it has read the sentences before.)"
    if first == second or not results["pair_seeds"]:
        return opening
    start, rest = (numbers.points(results["direction_test"][b]) for b in (START, ELSEWHERE))
    return (
        f"{opening} There {second} is ahead of {first} by {start}, elsewhere by {rest}. Both p-values are corrected "
        "for two tests."
    )


def _table(systems: list[dict[str, Any]], name: str, title: str) -> Table:
    rows = [[s["name"], *(numbers.f1(c) for c in s["buckets"][name].values())] for s in systems]
    caption = f"{title}: F1 with precision / recall; in brackets the number of entities"
    return Table(caption, ["system", *_sizes(systems[0], name)], rows)


def _sizes(system: dict[str, Any], dimension: str) -> list[str]:
    """Every bucket with its number of entities, as column heads."""
    return [f"{b} ({c[0] // system['num_seeds']:,})" for b, c in system["buckets"][dimension].items()]
