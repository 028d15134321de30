"""The blocks of a report: prose, tables, figures and examples, written once and rendered as HTML or Markdown.

    Table("Scores", ["system", "F1"], [["starter", TableCell("88.6", "± 0.3")]])
    →  <table><caption>Scores</caption>…            in HTML
    →  | system | F1 |  …  | starter | 88.6 (± 0.3) |   in Markdown

All text is escaped, except the SVG of a `Figure`, which comes from `report.charts`. Markdown leaves figures out:
every number in them is in a table as well.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

from boustro.metrics.spans import entity_keys
from boustro.tasks.render import as_html, css_class, in_brackets, word_entities
from boustro.types import Entity

UNKNOWN_CELL = "–"
"""A cell of which nothing is known, such as a score of no example."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A number or a name, with a `note` in small type; `share` (0 to 1) is drawn as a bar or as a background."""

    text: str
    note: str = ""
    share: float | None = None
    look: str = "bar"  # or "heat", the background
    mood: str = ""  # "good" or "bad"; "better" or "worse" colour the note only


@dataclass(frozen=True, slots=True)
class Table:
    """The first column names the row; the rows in `best` are bold."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[TableCell | str]]
    best: frozenset[int] = frozenset()

    @property
    def cells(self) -> list[list[TableCell]]:
        """The rows, with a `TableCell` for every text."""
        return [[TableCell(cell) if isinstance(cell, str) else cell for cell in row] for row in self.rows]

    def with_figures(self) -> "Table | None":
        """Return the table without the rows and columns in which nothing is known; `None` where that is all of it."""
        known = [[bool(cell.text and cell.text != UNKNOWN_CELL) for cell in row] for row in self.cells]
        rows = [n for n, row in enumerate(known) if any(row[1:]) or len(row) == 1]
        columns = [n for n in range(len(self.heads)) if n == 0 or any(known[row][n] for row in rows)]
        kept = [[self.rows[row][n] for n in columns] for row in rows]
        best = frozenset(n for n, row in enumerate(rows) if row in self.best)
        return Table(self.caption, [self.heads[n] for n in columns], kept, best) if rows else None


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; `kind` is empty, "note" or "key"."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted text."""

    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """SVG from `report.charts`, and what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class ExampleSentence:
    """One sentence with the reference and the answers of several systems: (system, entities)."""

    heading: str
    words: Sequence[str]
    gold: Sequence[Entity]
    answers: Sequence[tuple[str, Sequence[Entity]]]
    spaces: Sequence[bool] | None = None


@dataclass(frozen=True, slots=True)
class ExampleAnswers:
    """A text with some words marked, its reference, and the answers of several systems: (system, answer, score, right).

    `right` is None for an answer that is neither right nor wrong; `effects` are (word, how much it counted).
    """

    heading: str
    words: Sequence[str]
    marked: Sequence[Entity]
    reference: str
    answers: Sequence[tuple[str, str, float | None, bool | None]]
    effects: Sequence[tuple[str, float]] = ()
    spaces: Sequence[bool] | None = None

    @property
    def lines(self) -> list[tuple[str, str, str]]:
        """Who, what, and how sure, the reference first."""
        rows = [("reference", self.reference, "")]
        for who, said, score, right in self.answers:
            sign = "" if right is None else " ✓" if right else " ✗"
            rows.append((f"{who}{sign}", said, "" if score is None else f"{score:.2f}"))
        if self.effects:
            rows.append(("words", ", ".join(f"{word} {effect:+.2f}" for word, effect in self.effects), ""))
        return rows


@dataclass(frozen=True, slots=True)
class EntityText:
    """A text with entities over its characters."""

    text: str
    entities: Sequence[Entity]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are folded until the reader opens them, or open where `shown`."""

    summary: str
    blocks: "Sequence[ReportBlock]"
    shown: bool = False


ReportBlock = Table | Prose | Code | Figure | ExampleSentence | ExampleAnswers | EntityText | Details


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, its anchor in the table of contents, and its blocks."""

    key: str
    title: str
    blocks: Sequence[ReportBlock] = field(default_factory=tuple)


def to_html(block: ReportBlock) -> str:
    """Return one block as HTML."""
    match block:
        case Prose():
            kind = f' class="{block.kind}"' if block.kind else ""
            return f"<p{kind}>{html.escape(block.text)}</p>"
        case Code():
            return f"<pre>{html.escape(block.text)}</pre>"
        case Figure():
            return f"<figure>{block.svg}<figcaption>{html.escape(block.caption)}</figcaption></figure>"
        case EntityText():
            return f"<p dir=auto>{as_html(block.text, block.entities)}</p>"
        case Details():
            inner = "".join(to_html(b) for b in block.blocks)
            shown = " open" if block.shown else ""
            return f"<details{shown}><summary>{html.escape(block.summary)}</summary>{inner}</details>"
        case Table():
            return _html_table(table) if (table := block.with_figures()) else ""
        case ExampleSentence():
            lines = [("reference", as_html(*_placed(block, block.gold)))]
            for who, entities in block.answers:
                right = entity_keys(entities) == entity_keys(block.gold)
                lines.append((f"{who} {'✓' if right else '✗'}", _marked(block, entities)))
            return _framed(block.heading, "", lines)
        case ExampleAnswers():
            said = [
                (who, html.escape(what) + (f" <small>{sure}</small>" if sure else ""))
                for who, what, sure in block.lines
            ]
            shown = f"<div dir=auto>{as_html(*_placed(block, block.marked))}</div>"
            return _framed(block.heading, shown, said)


def to_markdown(block: ReportBlock) -> str:
    """Return one block as Markdown; empty for a figure."""
    match block:
        case Prose():
            return block.text + "\n"
        case Code():
            return "\n".join(f"    {line}" for line in block.text.rstrip("\n").split("\n")) + "\n"
        case Figure():
            return ""
        case EntityText():
            return in_brackets(block.text, block.entities) + "\n"
        case Details():
            return "\n".join([f"**{block.summary}**\n", *(t for b in block.blocks if (t := to_markdown(b)))])
        case Table():
            if (table := block.with_figures()) is None:
                return ""
            rows = [[f"{c.text} ({c.note})" if c.note else c.text for c in row] for row in table.cells]
            head, *lines = [
                "| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in [table.heads, *rows]
            ]
            return "\n".join([table.caption, "", head, "|---|" + "---:|" * (len(table.heads) - 1), *lines]) + "\n"
        case ExampleSentence():
            answers = [("reference", block.gold), *block.answers]
            width = max(len(who) for who, _ in answers)
            lines = [f"    {who:{width}}  {in_brackets(*_placed(block, e))}" for who, e in answers]
            return "\n".join([f"{block.heading}\n", *lines]) + "\n"
        case ExampleAnswers():
            width = max(len(who) for who, *_ in block.lines)
            lines = [f"    {who:{width}}  {what} {sure}".rstrip() for who, what, sure in block.lines]
            text = in_brackets(*_placed(block, block.marked))
            return "\n".join([f"{block.heading}\n", f"    {text}", *lines]) + "\n"


def _placed(block: ExampleSentence | ExampleAnswers, spans: Sequence[Entity]) -> tuple[str, list[Entity]]:
    """Return the text of an example as it was given, and entities over its characters."""
    return word_entities(block.words, spans, block.spaces)


def _html_table(table: Table) -> str:
    head = "".join(f"<th scope=col>{html.escape(h)}</th>" for h in table.heads)
    body = []
    for index, (first, *rest) in enumerate(table.cells):
        best = " class=best" if index in table.best else ""
        short = " class=short" if len(first.text) <= 46 else ""  # such a name stays on one line
        cells = "".join(map(_html_cell, rest))
        body.append(f"<tr{best}><th scope=row{short}>{html.escape(first.text)}</th>{cells}</tr>")
    return (
        f"<div class=scroll tabindex=0><table><caption>{html.escape(table.caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _html_cell(cell: TableCell) -> str:
    kinds = " ".join(k for k in (cell.mood, cell.look if cell.share is not None else "") if k)
    given = f' class="{kinds}"' if kinds else ""
    if cell.share is not None:
        given += f' style="--v:{min(max(cell.share, 0), 1):.3f}"'
    note = f" <small>{html.escape(cell.note)}</small>" if cell.note else ""
    return f"<td{given}>{html.escape(cell.text)}{note}</td>"


def _framed(heading: str, text: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return an example; `text` and the second of each line are HTML."""
    body = "".join(f"<dt>{html.escape(who)}</dt><dd dir=auto>{what}</dd>" for who, what in lines)
    return f"<div class=example><p>{html.escape(heading)}</p>{text}<dl>{body}</dl></div>"


def _marked(example: ExampleSentence, entities: Sequence[Entity]) -> str:
    """Return a sentence with its entities and scores; wrong ones are marked, and missed ones that no wrong one
    overlaps."""
    gold = example.gold
    wanted, predicted = entity_keys(gold), entity_keys(entities)
    wrong = [e for e in entities if (e.label, e.start, e.end) not in wanted]
    missed = [g for g in gold if not any(g.start < w.end and w.start < g.end for w in wrong)]
    shown = [*entities, *(g for g in missed if (g.label, g.start, g.end) not in predicted)]
    text, placed = _placed(example, shown)
    original = dict(zip(placed, shown, strict=True))

    def show(entity: Entity) -> tuple[str, str, str]:
        if original[entity] not in entities:
            return "span", 'class="missed"', f"{entity.label} missed"
        score = "" if entity.score is None else f" {entity.score:.2f}"
        look, sign = (" wrong", " ✗") if original[entity] in wrong else ("", "")
        return "mark", f'class="{css_class(entity.label)}{look}"', f"{entity.label}{score}{sign}"

    return as_html(text, placed, show)
