"""Where systems are right and wrong: kinds of mistakes, confusions, scores by bucket, and example sentences."""

from collections.abc import Sequence
from typing import Any

from boustro.apps.studies.report import StudyResults, numbers
from boustro.apps.studies.report.blocks import (
    Details,
    ExampleAnswers,
    ExampleSentence,
    Figure,
    Prose,
    ReportBlock,
    Section,
    Table,
    TableCell,
)
from boustro.apps.studies.report.buckets import DIMENSIONS, ELSEWHERE, INITIAL, OUTCOMES
from boustro.apps.studies.report.charts import colour_systems, context_lines, direction_dots, mistake_bars
from boustro.metrics.spans import SpanCounts
from boustro.text.words import join_words
from boustro.types import Entity

# a square table of more labels does not fit a page: then the most frequent confusions
MANY_LABELS, MOST_CONFUSIONS = 12, 30
MOST_LINES, MANY_SYSTEMS = 4, 8  # more lines hide each other; more systems make a table that is folded
NO_GOLD, NO_PREDICTION = "none (spurious)", "none (missed)"
EXPLAINED = (
    "Each entity is matched with at most one other. Type: the right words, another type. Boundary: the right type, "
    "overlapping words. Both: another type, overlapping words. Missed: an entity of the reference that no other "
    "prediction overlaps. Spurious: a prediction that no other entity of the reference overlaps."
)


def mistakes(results: StudyResults) -> Section | None:
    """Counts of every kind, and how they differ between systems.

    None for numbers, which are not right or wrong, and for words, whose only mistake is another label.
    """
    systems, task = results["systems"], results["task"]
    if not task["has_scores"] or (task["has_positions"] and not task["has_spans"]):
        return None
    base = next(s for s in systems if s["name"] == results["pair"][0])
    kinds = OUTCOMES if task["has_positions"] else ("right", "partly right", "wrong")
    kinds = [kind for kind in kinds if task["has_positions"] or any(s["errors"][kind] for s in systems)]
    rows = []
    for s in systems:
        row = [TableCell(s["name"])]
        for kind in kinds:
            count, before = s["errors"][kind] / s["num_seeds"], base["errors"][kind] / base["num_seeds"]
            change = count - before
            better = (change > 0) == (kind in ("correct", "right"))
            compared = s is not base and s["seeds"] == base["seeds"]
            # below 0.05 points a change is shown as 0.0
            unclear = kind == "partly right" or not compared or abs(change) < 0.05
            note = numbers.signed(change) if compared else ""
            mood = "" if unclear else "better" if better else "worse"
            row.append(TableCell(numbers.per_seed(s["errors"][kind], s["num_seeds"]), note, mood=mood))
        rows.append(row)
    caption = (
        f"{task['units'].capitalize()} of {results['judged_on']}, mean over seeds, with the change from "
        f"{base['name']} where the seeds are the same"
    )
    if not task["has_positions"]:
        caption = caption.replace(task["units"].capitalize(), task["examples"].capitalize(), 1)
        return Section("mistakes", "Right and wrong answers", [Table(caption, ["system", *kinds], rows)])
    figure = Figure(mistake_bars(systems), "Mistakes by kind; the number is their sum.")
    table, explained = Table(caption, ["system", *kinds], rows), Details("What the kinds are", [Prose(EXPLAINED)])
    return Section("mistakes", "Kinds of mistakes", [table, explained, figure])


def confusions(results: StudyResults) -> Section | None:
    """Labels of the reference against predicted labels."""
    if not results["task"]["has_confusions"]:
        return None
    systems, title = {s["name"]: s for s in results["systems"]}, f"Confusion of {results['task']['label']}s"
    labels = sorted({x for s in systems.values() for g, p, _ in s["confusions"] for x in (g, p) if x is not None})
    pair = list(dict.fromkeys(results["pair"]))
    if len(labels) > MANY_LABELS:
        return Section("confusions", title, [_most_frequent(systems, pair)])
    keys = [*labels, None] if results["task"]["has_positions"] else labels  # a text always has a label
    blocks: list[ReportBlock] = [_matrix(systems[name], keys) for name in pair]
    rest = [_matrix(s, keys) for name, s in systems.items() if name not in pair]
    if rest:
        blocks.append(Details("Every other system", rest))
    return Section("confusions", title, blocks)


def _matrix(system: dict[str, Any], keys: Sequence[str | None]) -> Table:
    """Return one row per label of the reference, one column per predicted label; None for missed and spurious
    entities."""
    counts = {(g, p): n for g, p, n in system["confusions"]}
    most = max((n for (g, p), n in counts.items() if g != p), default=1)
    rows = []
    for gold in keys:
        row = [TableCell(gold or NO_GOLD)]
        for predicted in keys:
            count = counts.get((gold, predicted), 0)
            shown = numbers.per_seed(count, system["num_seeds"]) if gold or predicted else ""
            row.append(TableCell(shown, share=None if gold == predicted else count / most, look="heat"))
        rows.append(row)
    caption = f"{system['name']}: rows are the reference, columns the predictions; mean over seeds"
    return Table(caption, ["reference", *(key or NO_PREDICTION for key in keys)], rows)


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


def where(results: StudyResults) -> Section | None:
    """F1 by bucket, the direction test first; None for what has no position."""
    systems, heading = results["systems"], "Where systems are right"
    if not results["task"]["has_positions"]:
        return None
    blocks = _direction_test(results)
    shown = [s for s in systems if s["name"] in results["pair"]] if len(systems) > MOST_LINES else systems
    if any(sum(counts) for s in shown for counts in s["buckets"]["before"].values()):
        colours = colour_systems(systems)
        if len({colours[s["name"]] for s in shown}) < len(shown):
            colours = colour_systems(shown)  # lines that cross need different colours
        titles = {name: _in_units(DIMENSIONS[name].title, results) for name in ("before", "after")}
        figure = context_lines(shown, titles, colours)
        caption = "F1 by the number of words of the sentence before and after the entity."
        blocks.append(Figure(figure, _in_units(caption, results)))
    left_out = ("position",) if results["task"]["has_spans"] else ("position", "length")
    for name, dimension in DIMENSIONS.items():
        if name not in left_out:
            rows = [[s["name"], *(numbers.f1_text(c) for c in s["buckets"][name].values())] for s in systems]
            title = _in_units(dimension.title, results)
            caption = f"{title}: F1 with precision / recall; in brackets the number of {results['task']['units']}"
            table = Table(caption, ["system", *_sizes(systems[0], name)], rows)
            blocks.append(table if len(systems) <= MANY_SYSTEMS else Details(title, [table]))
    return Section("where", heading, blocks)


def _in_units(text: str, results: StudyResults) -> str:
    """Return the text, which is about the entity, about the word where words have labels."""
    return text if results["task"]["has_spans"] else text.replace("the entity", "the word")


def _direction_test(results: StudyResults) -> list[ReportBlock]:
    """A forward LM has read nothing of a sentence before its first entity: is it worse there?"""
    systems = results["systems"]
    rows, testable = [], []
    for s in systems:
        start, rest = (s["buckets"]["position"][b] for b in (INITIAL, ELSEWHERE))
        gap = "–"
        if sum(start[:2]) and sum(rest[:2]):
            gap = numbers.signed(SpanCounts(*start).f1 - SpanCounts(*rest).f1)
            testable.append(s)
        rows.append([s["name"], numbers.f1_text(start), numbers.f1_text(rest), gap])
    units = results["task"]["units"]
    caption = f"Direction test: F1 with precision / recall; in brackets the number of {units} in the reference"
    heads = ["system", *_sizes(systems[0], "position"), "start minus elsewhere"]
    blocks: list[ReportBlock] = [Prose(_direction_sentence(results), "key"), Table(caption, heads, rows)]
    if testable:
        chart = direction_dots(testable, INITIAL, ELSEWHERE)
        text = "Direction test: the larger the distance between the dots, the more the position matters."
        blocks.append(Figure(chart, text))
    return blocks


def _direction_sentence(results: StudyResults) -> str:
    first, second = results["pair_short"]
    unit = "an entity" if results["task"]["has_spans"] else "a word"
    opening = f"Direction test: before {unit} that starts a sentence, a forward LM has read nothing of the sentence."
    if any(s["context"] == "document" for s in results["systems"]):
        opening += " (With document context, as here, it has read the sentences before.)"
    if first == second or not results["pair_seeds"]:
        return opening
    start, rest = (numbers.points(results["direction_test"][b]) for b in (INITIAL, ELSEWHERE))
    return (
        f"{opening} There {second} is ahead of {first} by {start}, elsewhere by {rest}. Both p-values are corrected "
        "for two tests."
    )


def _sizes(system: dict[str, Any], dimension: str) -> list[str]:
    """Return every bucket with its number of entities, as column heads."""
    return [f"{b} ({c[0] // system['num_seeds']:,})" for b, c in system["buckets"][dimension].items()]


def sentences(results: StudyResults) -> Section:
    """Where two systems differ: groups of units, then examples."""
    title, (first, second) = "Where two systems differ", results["pair_short"]
    groups, task, both = results["cases"], results["task"], " and ".join(results["pair"])
    if first == second:
        return Section("cases", title, [Prose("There is only one system, so there is nothing to compare it with.")])
    if not results["pair_seeds"]:
        return Section("cases", title, [Prose(f"{both} have no seed in common, so they cannot be compared.")])
    seed, units = f"seed {results['pair_seeds'][0]}", task["units" if task["has_positions"] else "examples"]
    rows = [
        [
            g["title"],
            f"{g['entities']:,}",
            *(f"{r:.1f}" for r in g["recall"]),
            numbers.signed(g["recall"][1] - g["recall"][0]),
            *(numbers.per_seed(g[key], g["num_seeds"]) for key in ("fixed", "broken")),
        ]
        for g in groups
    ]
    heads = [f"{units} of the reference" if task["has_positions"] else units, "number"]
    heads += [f"{first}: {task['credit']}", f"{second}: {task['credit']}", "change"]
    caption = f"Fixed: {second} has it right and {first} has not; broken: the opposite."
    if not task["has_positions"]:
        caption = f"Fixed: {second} is better by a quarter or more; broken: the opposite."
    table = Table(f"{caption} Mean over the seeds that both have", [*heads, "fixed", "broken"], rows)
    blocks: list[ReportBlock] = [Prose(f"{both}."), table]
    shown = [g for g in groups if g["sentences"]]
    if not shown:
        blocks.append(Prose(f"With {seed} the two agree on all {units} of the reference."))
        return Section("cases", title, blocks)
    for g in shown:
        count = "1 example" if len(g["sentences"]) == 1 else f"{len(g['sentences'])} examples"
        examples = [_example(s, results) for s in g["sentences"]]
        blocks.append(Details(f"{g['title'][0].upper()}{g['title'][1:]}: {count}", examples, shown=g is shown[0]))
    note = (
        f"Examples of {seed}, those whose right answer has the highest score first. ✗ marks a mistake; the number "
        "beside an answer is its score."
    )
    return Section("cases", title, [*blocks, Prose(note, "note")])


def confident(results: StudyResults) -> Section | None:
    """Return the mistakes that a system is surest of: of the model, or of the reference."""
    shown, name = results["mistakes"], results["pair"][1]
    if not shown:
        return None
    title = "Most confident mistakes" if results["task"]["has_scores"] else "Largest errors"
    text = f"Of {name} with seed {results['pair_seeds'][0]}. Some of these may be mistakes of the reference."
    if any(s.get("effects") for s in shown):
        text += " Below an answer: how much less probable it is without a word (and, below 0, how much more)."
    return Section("confident", title, [Prose(text), *(_example(s, results) for s in shown)])


def _example(shown: dict[str, Any], results: StudyResults) -> ExampleSentence | ExampleAnswers:
    first, second = results["pair_short"]
    short = dict(zip(results["pair"], results["pair_short"], strict=True))
    where = shown["where"] or f"number {shown['number']}"
    if "reference" in shown:
        answers = [
            (short.get(who, who), a["said"], a["score"], a["credit"] >= 0.5 if results["task"]["has_scores"] else None)
            for who, a in shown["answers"].items()
        ]
        heading = " · ".join(part for part in (shown["kind"], shown["title"], where) if part)
        marked = [Entity("answer", *span) for span in shown["marked"]]
        return ExampleAnswers(
            heading, shown["words"], marked, shown["reference"], answers, shown["effects"], shown["spaces"]
        )
    right = first if shown["kind"] == "broken" else second
    label, start, end = shown["entity"]
    name = join_words(shown["words"][start:end], shown["spaces"][start:end])
    heading = f"{shown['kind']}: {right} has “{name}” as {label}, with score {shown['score']:.2f} ({where})"
    answers = [(str(who), [Entity(*place, score=p) for *place, p in spans]) for who, spans in shown["answers"].items()]
    answers = [(short.get(who, who), entities) for who, entities in answers]
    return ExampleSentence(heading, shown["words"], [Entity(*e) for e in shown["gold"]], answers, shown["spaces"])
