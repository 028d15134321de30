"""Entities shown in text: in a terminal, in plain text and in HTML.

A label's name stands beside its colour, which is a fixed function of the label; on a page, a label whose colour is
taken gets the next free one (`page_colours`). Entities may hold each other, and of two that cross, the later one goes
on behind the earlier. In plain text:

    [Jane Villanueva PER] of [United Airlines ORG] spoke.
    [Bank of [Port Lisse LOC] ORG] fell.
    [the old [city LOC…] FAC][… of Vellmar LOC]
"""

import hashlib
import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TypeVar

from boustro.types import Entity

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Colour:
    """A terminal's style, a light and a dark background (each at least 4.5 : 1 against text), and an underline."""

    terminal: str
    light: str
    dark: str
    line: str = "none"


COLOURS = {
    "PER": Colour("cyan", "#cfe8fc", "#174a6e"),
    "LOC": Colour("green", "#d3f0d3", "#1d5229"),
    "ORG": Colour("yellow", "#fbe6b3", "#654a08"),
    "MISC": Colour("magenta", "#ecd9f7", "#562c73"),
}
SPARE = (
    Colour("red", "#f57fa7", "#9c3e60"),
    Colour("bright_yellow", "#fea669", "#45240d"),
    Colour("blue", "#9e9ffd", "#5957aa"),
    Colour("bright_cyan", "#29d5e4", "#00353a"),
    Colour("bright_green", "#b3ca65", "#5b6c02"),
    Colour("white", "#bbbec1", "#56585b"),
    Colour("bright_blue", "#1bb9fa", "#066c95"),
    Colour("bright_magenta", "#daa5fa", "#382443"),
    Colour("bright_red", "#fec5b5", "#873b26"),
    Colour("red underline", "#ff9fa2", "#67282d"),
    Colour("bright_yellow underline", "#e49921", "#885703"),
    Colour("bright_magenta underline", "#df86d7", "#763c72"),
    Colour("bright_cyan underline", "#8ce8dd", "#07635c"),
    Colour("bright_green underline", "#c5df9f", "#26330e"),
)
ALL_COLOURS = (*SPARE, *COLOURS.values())
LINES = ("none", "solid", "dashed", "dotted", "double")


def colours(label: str) -> Colour:
    """A fixed function of the label."""
    return COLOURS.get(label) or SPARE[_digest(label)[0] % len(SPARE)]


def page_colours(labels: Iterable[str]) -> dict[str, Colour]:
    """The colours of a page's labels, no two the same up to 90.

    A label whose own is taken gets the next free one; when all are taken, they come again with an underline.
    """
    chosen: dict[str, Colour] = {}
    for label in sorted(set(labels), key=lambda label: (label not in COLOURS, label)):
        own = ALL_COLOURS.index(colours(label))
        turned = (*ALL_COLOURS[own:], *ALL_COLOURS[:own])
        choice = (replace(colour, line=line) for line in LINES for colour in turned)
        chosen[label] = next((c for c in choice if c not in chosen.values()), turned[0])
    return chosen


@dataclass(frozen=True, slots=True)
class Run:
    """What of an entity stands inside one pair of brackets: all of it, or a part where another one crosses it."""

    entity: Entity
    start: int
    end: int
    nested: bool

    @property
    def begins(self) -> bool:
        """Whether the entity's first character is here."""
        return self.start == self.entity.start

    @property
    def ends(self) -> bool:
        """Whether the entity's last character is here."""
        return self.end == self.entity.end


def as_text(text: str, entities: Sequence[Entity]) -> str:
    """Plain text with entities in brackets."""
    return "".join(
        _weave(
            text,
            entities,
            lambda piece, _: piece,
            lambda run: "[" if run.begins else "[…",
            lambda run: f" {run.entity.label}]" if run.ends else f" {run.entity.label}…]",
        )
    )


def as_terminal(text: str, entities: Sequence[Entity]):
    """A rich Text with coloured entities; those inside of others have brackets too."""
    from rich.text import Text

    def style(run: Run | None, weight: str) -> str:
        return "" if run is None else f"{weight} {colours(run.entity.label).terminal}"

    return Text.assemble(
        *_weave(
            text,
            entities,
            lambda piece, run: (piece, style(run, "bold")),
            lambda run: ("[" * run.nested + "…" * (not run.begins), style(run, "dim")),
            lambda run: (f" {run.entity.label}" + "…" * (not run.ends) + "]" * run.nested, style(run, "dim")),
        )
    )


def mark(entity: Entity) -> tuple[str, str, str]:
    """How HTML shows an entity: the element, its attributes, and what stands beside the words."""
    title = "" if entity.score is None else f' title="score {entity.score:.2f}"'
    return "mark", f'class="{css_class(entity.label)}"{title}', entity.label


def as_html(text: str, entities: Sequence[Entity], show: Callable[[Entity], tuple[str, str, str]] = mark) -> str:
    """HTML with a <mark> an entity, or what `show` says; everything from outside is escaped."""

    def opening(run: Run) -> str:
        element, attributes, _ = show(run.entity)
        return f"<{element} {attributes}>{'' if run.begins else '<small>…</small>'}"

    def closing(run: Run) -> str:
        element, _, said = show(run.entity)
        return f" <small>{html.escape(said)}{'' if run.ends else '…'}</small></{element}>"

    return "".join(
        _weave(
            text,
            entities,
            lambda piece, _: html.escape(piece),
            opening,
            closing,
        )
    )


def css_class(label: str) -> str:
    """A class name that any label can be written as."""
    return "e-" + _digest(label).hex()[:8]


def css(labels: Iterable[str]) -> str:
    """Style rules of the marks of these labels, light and dark."""
    chosen = page_colours(labels).items()
    lines = {x: "" if c.line == "none" else f";border-bottom:3px {c.line}" for x, c in chosen}
    light = "".join(f".{css_class(x)}{{background:{c.light}{lines[x]}}}" for x, c in chosen)
    dark = "".join(f".{css_class(x)}{{background:{c.dark}{lines[x]}}}" for x, c in chosen)
    base = (
        "mark{color:inherit;border-radius:.3em;padding:.05em .3em}mark mark{outline:1px solid}"
        "mark small{font-weight:700;font-size:.75em}"
    )
    return f"{base}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def html_head(title: str, labels: Iterable[str]) -> str:
    """How a page of tagged paragraphs begins, up to its first paragraph; its language is not known."""
    return (
        "<!doctype html><html lang=und><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>:root{{color-scheme:light dark}}"
        "body{font:1.1rem/1.9 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;"
        f"overflow-wrap:anywhere}}{css(labels)}</style></head><body>"
    )


def word_entities(words: Sequence[str], spans: Sequence[Entity]) -> tuple[str, list[Entity]]:
    """Words joined by spaces, and entities over words as entities over its characters."""
    starts, position = [], 0
    for word in words:
        starts.append(position)
        position += len(word) + 1
    text = " ".join(words)
    placed = [(starts[s.start], starts[s.end - 1] + len(words[s.end - 1]), s) for s in spans]
    return text, [Entity(s.label, start, end, text[start:end], s.score) for start, end, s in placed]


def _weave(
    text: str,
    entities: Iterable[Entity],
    plain: Callable[[str, Run | None], T],
    opening: Callable[[Run], T],
    closing: Callable[[Run], T],
) -> Iterator[T]:
    """The text in order, and where entities open and close in it; what opens last closes first.

    `plain` gets a piece of text and the innermost entity around it.
    """
    waiting = [(e.start, -e.end, number, e) for number, e in enumerate(sorted(entities))]  # a heap, as it is sorted
    around: list[Run] = []
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
        around.append(Run(entity, start, end, nested=outer is not None))
        yield opening(around[-1])
        position = start
    yield plain(text[position:], None)


def _digest(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()
