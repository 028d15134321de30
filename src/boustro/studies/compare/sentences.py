"""The case study as a section: groups of entities, then example sentences of both systems."""

from typing import Any

from boustro.studies.report import Results, numbers
from boustro.studies.report.blocks import Block, Details, ExampleSentence, Prose, Section, Table
from boustro.types import Entity

TITLE = "Where two systems differ"


def sentences(results: Results) -> Section:
    """Where the two systems differ."""
    first, second = results["pair_short"]
    groups, units = results["cases"], results["task"]["units"]
    if first == second:
        return Section("cases", TITLE, [Prose("There is only one system, so there is nothing to compare it with.")])
    if not results["pair_seeds"]:
        text = f"{results['pair'][0]} and {results['pair'][1]} have no seed in common, so they cannot be compared."
        return Section("cases", TITLE, [Prose(text)])
    seed = f"seed {results['pair_seeds'][0]}"
    short = dict(zip(results["pair"], results["pair_short"], strict=True))
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
    heads = [
        f"{units} of the reference",
        "number",
        f"{first}: recall",
        f"{second}: recall",
        "change",
        "fixed",
        "broken",
    ]
    caption = (
        f"Fixed: {second} has it right and {first} has not; broken: the opposite. Mean over the seeds that both have"
    )
    blocks: list[Block] = [
        Prose(f"{results['pair'][0]} and {results['pair'][1]}."),
        Table(caption, heads, rows),
    ]
    examples = [
        Details(
            f"{g['title'][0].upper()}{g['title'][1:]}: {_count(len(g['sentences']))}",
            [_example(s, first, second, short) for s in g["sentences"]],
        )
        for g in groups
        if g["sentences"]
    ]
    if not examples:
        text = Prose(f"With {seed} the two agree on all {units} of the reference.")
        return Section("cases", TITLE, [*blocks, text])
    opened = Details(examples[0].summary, examples[0].blocks, shown=True)
    note = (
        f"Sentences of {seed}, those whose right answer has the highest score first. ✗ marks a mistake; the number "
        "beside a label is its score."
    )
    return Section("cases", TITLE, [*blocks, opened, *examples[1:], Prose(note, "note")])


def _count(sentences: int) -> str:
    return "1 sentence" if sentences == 1 else f"{sentences} sentences"


def _example(shown: dict[str, Any], first: str, second: str, short: dict[str, str]) -> ExampleSentence:
    right = second if shown["kind"] == "fixed" else first
    label, start, end = shown["entity"]
    name = " ".join(shown["words"][start:end])
    where = shown["where"] or f"sentence {shown['number']}"
    return ExampleSentence(
        f"{shown['kind']}: {right} has “{name}” as {label}, with score {shown['score']:.2f} ({where})",
        shown["words"],
        [Entity(*e) for e in shown["gold"]],
        [
            (short.get(str(who), str(who)), [Entity(e[0], e[1], e[2], "", e[3]) for e in found])
            for who, found in shown["answers"].items()
        ],
    )
