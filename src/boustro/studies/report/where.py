"""Where systems are right: the direction test, then scores by position, length, and what training has shown."""

from typing import Any

from boustro.metrics.buckets import DIMENSIONS, ELSEWHERE, START
from boustro.studies.report import numbers
from boustro.studies.report.blocks import Block, Cell, Details, Figure, Prose, Section, Table
from boustro.studies.report.charts import colour_systems, context_lines, direction_dots

MOST_LINES, MANY = 4, 8
CONTEXT = {"before": DIMENSIONS["before"].title, "after": DIMENSIONS["after"].title}


def where(results: dict[str, Any]) -> Section:
    """F1 by bucket, the direction test first."""
    systems = results["systems"]
    blocks: list[Block] = [*_direction_test(results)]
    shown = [s for s in systems if s["name"] in results["pair"]] if len(systems) > MOST_LINES else systems
    if any(sum(counts) for s in shown for counts in s["buckets"]["before"].values()):
        colours = colour_systems(systems)
        if len({colours[s["name"]] for s in shown}) < len(shown):
            colours = colour_systems(shown)  # lines that cross need a colour each
        figure = context_lines(shown, CONTEXT, colours)
        blocks.append(Figure(figure, "F1 by how many words of the sentence stand before the entity, and after it."))
    for name, dimension in DIMENSIONS.items():
        if name != "position":
            table = _table(systems, name, dimension.title)
            blocks.append(table if len(systems) <= MANY else Details(dimension.title, [table]))
    return Section("where", "Where they are right", blocks)


def _direction_test(results: dict[str, Any]) -> list[Block]:
    """Before an entity that starts a sentence a forward LM has read nothing of it: is it worse there?"""
    systems = results["systems"]
    rows: list[list[Cell | str]] = []
    for s in systems:
        start, rest = (s["buckets"]["position"][b] for b in (START, ELSEWHERE))
        gap = "–"
        if sum(start[:2]) and sum(rest[:2]):
            gap = numbers.signed(200 * start[2] / sum(start[:2]) - 200 * rest[2] / sum(rest[:2]))
        rows.append([s["name"], numbers.f1(start), numbers.f1(rest), gap])
    first = systems[0]
    sizes = {b: first["buckets"]["position"][b][0] // first["num_seeds"] for b in (START, ELSEWHERE)}
    heads = ["system", *(f"{b} ({n:,})" for b, n in sizes.items()), "start minus elsewhere"]
    caption = "The direction test: F1 with precision / recall, and in brackets the number of entities of the reference"
    blocks: list[Block] = [Prose(_direction_sentence(results), "key"), Table(caption, heads, rows)]
    testable = [s for s in systems if all(sum(s["buckets"]["position"][b][:2]) for b in (START, ELSEWHERE))]
    if testable:
        chart = direction_dots(testable, START, ELSEWHERE)
        blocks.append(Figure(chart, "The direction test: the further apart the dots, the more the place matters."))
    return blocks


def _direction_sentence(results: dict[str, Any]) -> str:
    first, second = results["pair_short"]
    opening = "The direction test: before an entity that starts a sentence, a forward LM has read nothing of it."
    if any(s["context"] == "document" for s in results["systems"]):
        opening += " (Where the document is read, as here, it has read the sentences before.)"
    if first == second or not results["pair_seeds"]:
        return opening
    start, rest = (numbers.points(results["direction_test"][b]) for b in (START, ELSEWHERE))
    return (
        f"{opening} There {second} is ahead of {first} by {start}, elsewhere by {rest}. Each p is corrected for both."
    )


def _table(systems: list[dict[str, Any]], name: str, title: str) -> Table:
    first = systems[0]
    buckets = first["buckets"][name]
    heads = ["system", *(f"{b} ({c[0] // first['num_seeds']:,})" for b, c in buckets.items())]
    rows = [[s["name"], *(numbers.f1(c) for c in s["buckets"][name].values())] for s in systems]
    return Table(f"{title}: F1 with precision / recall, and in brackets the number of entities", heads, rows)
