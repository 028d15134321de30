"""The case study as a section: groups of entities, then sentences side by side, the surest first."""

from typing import Any

from boustro.studies.report import numbers
from boustro.studies.report.blocks import Block, Cell, Details, Example, Prose, Section, Table
from boustro.types import Entity


def sentences(results: dict[str, Any]) -> Section:
    """Where the two systems differ."""
    first, second = results["pair_short"]
    groups = results["cases"]
    if first == second:
        return Section("cases", "Where two differ", [Prose("There is only one system, so nothing to set beside it.")])
    if not results["pair_seeds"]:
        text = (
            f"{results['pair'][0]} and {results['pair'][1]} have no seed in common, so they cannot be set side by side."
        )
        return Section("cases", "Where two differ", [Prose(text)])
    seed = f"seed {results['pair_seeds'][0]}"
    short = dict(zip(results["pair"], results["pair_short"], strict=True))
    rows: list[list[Cell | str]] = []
    for g in groups:
        change = g["recall"][1] - g["recall"][0]
        fixed, broken = (numbers.per_seed(g[key], g["num_seeds"]) for key in ("fixed", "broken"))
        row = [g["title"], f"{g['entities']:,}", *(f"{r:.1f}" for r in g["recall"])]
        rows.append([*row, numbers.signed(change), fixed, broken])
    heads = [
        "entities of the reference",
        "how many",
        f"{first}: recall",
        f"{second}: recall",
        "change",
        "fixed",
        "broken",
    ]
    caption = (
        f"Fixed: {second} has it right and {first} has not; broken: the other way round. Mean over the seeds that both "
        "have"
    )
    blocks: list[Block] = [
        Prose(f"{results['pair'][0]} and {results['pair'][1]}, set side by side."),
        Table(caption, heads, rows),
    ]
    told = False
    for g in groups:
        if g["sentences"]:
            named = f"{g['title'][0].upper()}{g['title'][1:]}: {_sentences(len(g['sentences']))}"
            blocks.append(Details(named, [_example(s, first, second, short) for s in g["sentences"]], shown=not told))
            told = True
    if not told:
        blocks.append(Prose(f"With {seed} the two agree on every entity of the reference."))
    else:
        blocks.append(
            Prose(
                f"Sentences of {seed}, those whose right answer was surest first. ✗ marks what is wrong; the "
                "number beside a type is its score.",
                "note",
            )
        )
    return Section("cases", "Where two differ", blocks)


def _sentences(count: int) -> str:
    return "1 sentence" if count == 1 else f"{count} sentences"


def _example(shown: dict[str, Any], first: str, second: str, short: dict[str, str]) -> Example:
    right = second if shown["kind"] == "fixed" else first
    label, start, end = shown["entity"]
    name = " ".join(shown["words"][start:end])
    place = shown["where"] or f"sentence {shown['number']}"
    return Example(
        f"{shown['kind']}: {right} has “{name}” as {label}, with {shown['score']:.2f} ({place})",
        shown["words"],
        [Entity(*e) for e in shown["gold"]],
        [
            (short.get(str(who), str(who)), [Entity(e[0], e[1], e[2], "", e[3]) for e in found])
            for who, found in shown["answers"].items()
        ],
    )
