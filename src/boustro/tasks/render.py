"""Answers shown: in every form but JSON lines and tables (`in_form`), and entities in text in a terminal, in plain text
and in HTML.

A label has a fixed colour; on a page, a label whose colour is taken gets the next free one (`page_colours`). The same
colours serve every page, notebook, report and plot. A mark has a line in its colour, which stands out from the page by
3 : 1, and a pale ground of the same colour. Entities may be nested, and of two that cross, the later one continues
after the earlier one. In plain text:

    [Jane Villanueva PER] of [United Airlines ORG] spoke.
    [Bank of [Port Lisse LOC] ORG] fell.
    [the old [city LOC…] FAC][… of Vellmar LOC]
"""

import hashlib
import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, TypeVar

from boustro.heads.factored import ALIASES, aliases
from boustro.options import quote_value
from boustro.output import as_json
from boustro.tasks import TOOL_FORMATS
from boustro.text.words import apart, join_words
from boustro.types import NO_LABEL, Entity

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shown:
    """Parts of an answer that forms show, besides its record.

    Attributes:
        given: The input by its names, which the record follows in JSON lines.
        text: The text that was asked about; `None` where nothing is marked in any form.
        marks: What is marked in it.
        said: What the answer says of the whole text, one label or several.
        title: What stands above the text.
        cells: What stands before the text on a line, with tabs between.
        labels: Those of the text with their probabilities, for labelling tools; `None` where these want the marks.
        several: Whether a text may have several labels.
        tagged: The words of each sentence, with their tags.
        is_document: Whether its sentences are a document, and not one of many.
    """

    given: Mapping[str, Any]
    text: str | None = None
    marks: Sequence[Entity] = ()
    said: Sequence[Entity] = ()
    title: str = ""
    cells: Sequence[str] = ()
    labels: Mapping[str, float] | None = None
    several: bool = False
    tagged: Sequence[tuple[Sequence[str], Sequence[str]]] = ()
    is_document: bool = True


def shown_score(score: float) -> str:
    """Return a probability for people: two decimals, and one digit of what is smaller, as 0.93 and 0.0004."""
    return f"{score:.2f}" if score >= 0.01 or score <= 0 else f"{score:.1g}"


def shown_number(value: float) -> str:
    """Return a number for people: four digits, and all of a whole number that has more."""
    return f"{value:.4g}" if abs(value) < 10**4 else f"{value:.0f}"


def cells_of(record: Mapping[str, Any], columns: Iterable[str]) -> list[Any]:
    """Return some values of a record as cells of a table: what is no text and no number is JSON."""
    values = [record[name] for name in columns]
    return [value if value is None or isinstance(value, (str, int, float)) else as_json(value) for value in values]


def as_mark(label: str, score: float | None) -> Entity:
    """Return a label as a mark over all of its own name."""
    return Entity(label, 0, len(label), score=score)


def in_form(shown: Shown, form: str, colour: bool = False) -> Any:
    """Show an answer in a form: text, html, conll or that of a labelling tool; with `colour`, for a terminal."""
    if form == "conll":
        from boustro.tasks.data.conll import format_conll, format_document

        return (format_document if shown.is_document else format_conll)(shown.tagged)
    if shown.text is None:
        return "\t".join(shown.cells)
    if form in TOOL_FORMATS:
        from boustro.tasks.data.annotations import TOOLS

        if shown.labels is None:
            return TOOLS[form].suggest(shown.text, entities=shown.marks)
        return TOOLS[form].suggest(shown.text, labels=shown.labels, several=shown.several)
    label, marks = _marked_names(shown.said)
    if form == "html":
        text = as_html(shown.text, shown.marks)
        if shown.title:
            return f"<p><b>{as_html(shown.title, [])}</b><br>{text}</p>"
        return f"<p dir=auto>{as_html(label, marks)} {text}</p>" if marks else f"<p dir=auto>{text}</p>"
    if not colour:
        return "\t".join([*shown.cells, shown.title or in_brackets(shown.text, shown.marks)])
    if not marks:
        return as_terminal(shown.text, shown.marks)
    if shown.marks:
        return as_terminal(shown.text, shown.marks).append(f"  {label}", style="bold")
    return as_terminal(label, marks).append(f"  {shown.text}", style="default")


def in_a_row(names: Iterable[str]) -> str:
    """Return the names of labels as one text, in which two sets of them never look alike: `"Food, drink"` is one."""
    return ", ".join(map(quote_value, names)) or NO_LABEL


def _marked_names(labels: Sequence[Entity]) -> tuple[str, list[Entity]]:
    """Return the names of labels as one text, and the labels as marks over their names in it."""
    ends = list(accumulate(len(quote_value(label.label)) + 2 for label in labels))
    starts = [0, *ends]
    placed = [replace(e, start=start, end=end - 2) for e, start, end in zip(labels, starts, ends, strict=False)]
    return in_a_row(label.label for label in labels), placed


PAPER, INK = ("#ffffff", "#14171b"), ("#1b1f24", "#e6e9ed")
"""The ground and the text of pages, light and dark."""
TINT = 0.28  # of a mark's ground; with more of it the text on the palest dark line falls below 4.5 : 1


@dataclass(frozen=True, slots=True)
class Colour:
    """A terminal style, and the colour of lines on light and on dark pages; a mark has `line` below, or also above."""

    terminal: str
    light: str
    dark: str
    line: str = "solid"
    above: bool = False

    @property
    def grounds(self) -> tuple[str, str]:
        """The background of a mark, light and dark."""
        light, dark = (_mixed(edge, paper) for edge, paper in zip((self.light, self.dark), PAPER, strict=True))
        return light, dark

    def to_dict(self) -> dict[str, str]:
        """Return its parts, each the value of a CSS variable."""
        light, dark = self.grounds
        lines = {"light-line": self.light, "dark-line": self.dark, "line": self.line}
        return {"light": light, "dark": dark, **lines, "above": "3px" if self.above else "0px"}


COLOURS = (
    Colour("bright_blue", "#120e96", "#3b5efe"),
    Colour("green", "#16a56e", "#17780f"),
    Colour("yellow", "#c37902", "#f29b1d"),
    Colour("magenta", "#f615c6", "#c50576"),
    Colour("cyan", "#0e5471", "#0ec3f1"),
    Colour("red", "#7a342f", "#efbdb1"),
    Colour("bright_yellow", "#73630a", "#f8f41a"),
    Colour("bright_magenta", "#6e07f2", "#8c49bd"),
    Colour("bright_red", "#5b1907", "#b7875f"),
    Colour("bright_cyan", "#3c789c", "#74fefd"),
)
"""Searched for the largest least distance (OKLab) of any two to those who see all colours, and to those who see no red,
no green or no blue (Machado et al. 2009): 9, where that of Okabe and Ito's eight is 7.6. The first are those of the
kinds of names."""
LINE_STYLES = tuple((line, above) for above in (False, True) for line in ("solid", "dashed", "dotted", "double"))


def _mixed(edge: str, paper: str) -> str:
    """Return a tint of a colour on paper."""
    pairs = zip(bytes.fromhex(edge[1:]), bytes.fromhex(paper[1:]), strict=True)
    return "#" + bytes(round(TINT * e + (1 - TINT) * p) for e, p in pairs).hex()


def colours(label: str) -> Colour:
    """Return a fixed function of the label: that of its kind of name, else one of the others."""
    kinds, names = [kind[0] for kind in ALIASES], aliases(label)
    if names[0] in kinds:
        return COLOURS[kinds.index(names[0])]
    return COLOURS[len(kinds) + _digest(label)[0] % (len(COLOURS) - len(kinds))]


def page_colours(labels: Iterable[str], in_order: bool = False) -> dict[str, Colour]:
    """Return the colours of a page's labels, all different for up to 80 labels.

    A label whose colour is taken gets the next free one; when all are taken, colours repeat with another line. With
    `in_order` labels that come later change no colour of others.
    """
    chosen: dict[str, Colour] = {}
    named = dict.fromkeys(labels)
    for label in named if in_order else sorted(named, key=lambda label: (len(aliases(label)) < 2, label)):
        first = COLOURS.index(colours(label))
        turned = (*COLOURS[first:], *COLOURS[:first])
        choice = (replace(colour, line=line, above=above) for line, above in LINE_STYLES for colour in turned)
        chosen[label] = next((c for c in choice if c not in chosen.values()), turned[0])
    return chosen


@dataclass(frozen=True, slots=True)
class Bracket:
    """One pair of brackets: a whole entity, or a part of one that another entity crosses."""

    entity: Entity
    start: int
    end: int
    nested: bool

    @property
    def begins(self) -> bool:
        """Whether it contains the entity's first character."""
        return self.start == self.entity.start

    @property
    def ends(self) -> bool:
        """Whether it contains the entity's last character."""
        return self.end == self.entity.end


def in_brackets(text: str, entities: Sequence[Entity]) -> str:
    """Plain text with entities in brackets."""

    opening, closing = (lambda b: "[" + "…" * (not b.begins)), (lambda b: f" {b.entity.label}{'…' * (not b.ends)}]")
    return "".join(_weave(text, entities, lambda piece, _: piece, opening, closing))


def as_terminal(text: str, entities: Sequence[Entity]):
    """A rich Text with coloured entities; nested ones have brackets too."""
    from rich.text import Text

    def style(bracket: Bracket | None, weight: str) -> str:
        return "" if bracket is None else f"{weight} {colours(bracket.entity.label).terminal}"

    return Text.assemble(
        *_weave(
            text,
            entities,
            lambda piece, around: (piece, style(around, "bold")),
            lambda b: ("[" * b.nested + "…" * (not b.begins), style(b, "dim")),
            lambda b: (f" {b.entity.label}" + "…" * (not b.ends) + "]" * b.nested, style(b, "dim")),
        )
    )


def mark(entity: Entity) -> tuple[str, str, str]:
    """Return how HTML shows an entity: the element, its attributes, and the text after the words."""
    title = "" if entity.score is None else f' title="score {shown_score(entity.score)}"'
    return "mark", f'class="{css_class(entity.label)}"{title}', entity.label


def as_html(text: str, entities: Sequence[Entity], show: Callable[[Entity], tuple[str, str, str]] = mark) -> str:
    """HTML with one <mark> per entity, or the element that `show` returns; text and labels are escaped."""

    def opening(bracket: Bracket) -> str:
        element, attributes, _ = show(bracket.entity)
        return f"<{element} {attributes}>{'' if bracket.begins else '<small>…</small>'}"

    def closing(bracket: Bracket) -> str:
        element, _, label = show(bracket.entity)
        return f" <small>{html.escape(label)}{'' if bracket.ends else '…'}</small></{element}>"

    return "".join(_weave(text, entities, lambda piece, _: html.escape(piece), opening, closing))


def as_paragraph(text: str, entities: Sequence[Entity]) -> str:
    """Return the HTML of a text by itself, with its style rules, as a notebook shows it."""
    return f"<style>{css({entity.label for entity in entities})}</style><p dir=auto>{as_html(text, entities)}</p>"


def css_class(label: str) -> str:
    """Return a valid class name for any label."""
    return "e-" + _digest(label).hex()[:8]


def css(labels: Iterable[str], in_order: bool = False) -> str:
    """Return the style rules of these labels' marks, light and dark; for `in_order` see `page_colours`."""
    chosen = page_colours(labels, in_order).items()
    themes = ["", ""]
    for label, colour in chosen:
        for theme, (ground, edge) in enumerate(zip(colour.grounds, (colour.light, colour.dark), strict=True)):
            line = f"3px {colour.line} {edge}"
            above = f";border-top:{line}" if colour.above else ""
            themes[theme] += f".{css_class(label)}{{background:{ground};border-bottom:{line}{above}}}"
    base = (
        f"mark{{color:{INK[0]};border-radius:.3em;padding:.05em .3em}}mark mark{{outline:1px solid}}"
        "mark small{font-weight:700;font-size:.75em}"
    )
    return f"{base}{themes[0]}@media(prefers-color-scheme:dark){{mark{{color:{INK[1]}}}{themes[1]}}}"


def html_head(title: str, labels: Iterable[str]) -> str:
    """Return the start of a page of tagged paragraphs, up to its first paragraph; its language is unknown."""
    return (
        "<!doctype html><html lang=und><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>:root{{color-scheme:light dark}}"
        "body{font:1.1rem/1.9 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;"
        f"overflow-wrap:anywhere}}{css(labels)}</style></head><body>"
    )


def word_entities(
    words: Sequence[str], spans: Sequence[Entity], spaces: Sequence[bool] | None = None
) -> tuple[str, list[Entity]]:
    """Words joined as `join_words` does, and the entities over words as entities over this text's characters."""
    given = apart(words) if spaces is None else spaces
    ends = list(accumulate(len(word) + (n > 0 and given[n]) for n, word in enumerate(words)))
    text = join_words(words, given)
    placed = [(ends[s.start] - len(words[s.start]), ends[s.end - 1], s) for s in spans]
    return text, [Entity(s.label, start, end, text[start:end], s.score) for start, end, s in placed]


def _weave(
    text: str,
    entities: Iterable[Entity],
    plain: Callable[[str, Bracket | None], T],
    opening: Callable[[Bracket], T],
    closing: Callable[[Bracket], T],
) -> Iterator[T]:
    """Yield the text in order, with the brackets of entities, correctly nested.

    `plain` gets a piece of text and the innermost bracket around it.
    """
    waiting = [(e.start, -e.end, number, e) for number, e in enumerate(sorted(entities))]  # sorted, so a heap
    around: list[Bracket] = []
    position = 0
    while waiting or around:
        outer = around[-1] if around else None
        if outer and (not waiting or waiting[0][0] >= outer.end):
            yield plain(text[position : outer.end], outer)
            yield closing(around.pop())
            position = outer.end
            continue
        start, negative_end, number, entity = heappop(waiting)
        end = -negative_end
        if outer and end > outer.end:  # they cross: the rest waits for the outer one's end
            heappush(waiting, (outer.end, -end, number, entity))
            end = outer.end
        yield plain(text[position:start], outer)
        around.append(Bracket(entity, start, end, nested=outer is not None))
        yield opening(around[-1])
        position = start
    yield plain(text[position:], None)


def _digest(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()
