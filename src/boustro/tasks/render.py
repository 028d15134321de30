"""Entities shown in text: in a terminal, in plain text and in HTML.

A label always has the same colour, in every output, and its name stands beside the colour. In plain text:

    [Jane Villanueva PER] of [United Airlines ORG] spoke.
"""

import hashlib
import html
from collections.abc import Iterator, Sequence

from boustro.types import Entity

# (terminal colour, light background, dark background): each at least 4.5 : 1 against the page's text.
COLOURS: dict[str, tuple[str, str, str]] = {
    "PER": ("cyan", "#cfe8fc", "#174a6e"),
    "LOC": ("green", "#d3f0d3", "#1d5229"),
    "ORG": ("yellow", "#fbe6b3", "#654a08"),
    "MISC": ("magenta", "#ecd9f7", "#562c73"),
}
SPARE = (
    ("red", "#fbd7d5", "#752320"),
    ("blue", "#d9dcfb", "#30367e"),
    ("bright_cyan", "#cdf0ee", "#0d5450"),
    ("bright_magenta", "#f9d5e8", "#70224e"),
    ("bright_green", "#e2eec0", "#475310"),
    ("bright_yellow", "#eee0d3", "#5e4330"),
)


def colours(label: str) -> tuple[str, str, str]:
    """Terminal colour, light and dark background: a fixed function of the label."""
    if label in COLOURS:
        return COLOURS[label]
    return SPARE[hashlib.sha256(label.encode()).digest()[0] % len(SPARE)]


def as_text(text: str, entities: Sequence[Entity]) -> str:
    """Plain text with entities in brackets."""
    parts = [piece if e is None else f"[{piece} {e.label}]" for piece, e in _pieces(text, entities)]
    return "".join(parts)


def as_terminal(text: str, entities: Sequence[Entity]):
    """A rich Text with coloured entities."""
    from rich.text import Text

    shown = Text()
    for piece, entity in _pieces(text, entities):
        if entity is None:
            shown.append(piece)
        else:
            shown.append(piece, style=f"bold {colours(entity.label)[0]}")
            shown.append(f" {entity.label}", style=f"dim {colours(entity.label)[0]}")
    return shown


def as_html(text: str, entities: Sequence[Entity]) -> str:
    """HTML with a <mark> an entity; everything from outside is escaped."""
    parts = []
    for piece, entity in _pieces(text, entities):
        shown = html.escape(piece)
        if entity is not None:
            title = "" if entity.score is None else f' title="score {entity.score:.2f}"'
            label = html.escape(entity.label)
            shown = f'<mark class="{css_class(entity.label)}"{title}>{shown} <small>{label}</small></mark>'
        parts.append(shown)
    return "".join(parts)


def css_class(label: str) -> str:
    """A class name that any label can be written as."""
    return "e-" + hashlib.sha256(label.encode()).hexdigest()[:8]


def css(labels: Sequence[str]) -> str:
    """Style rules of the marks of these labels, light and dark."""
    light = "".join(f".{css_class(x)}{{background:{colours(x)[1]}}}" for x in labels)
    dark = "".join(f".{css_class(x)}{{background:{colours(x)[2]}}}" for x in labels)
    base = "mark{color:inherit;border-radius:.3em;padding:.05em .3em}mark small{font-weight:700;font-size:.7em}"
    return f"{base}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def word_entities(words: Sequence[str], spans: Sequence[Entity]) -> tuple[str, list[Entity]]:
    """Words joined by spaces, and entities over words as entities over its characters."""
    starts, position = [], 0
    for word in words:
        starts.append(position)
        position += len(word) + 1
    text = " ".join(words)
    placed = [(starts[s.start], starts[s.end - 1] + len(words[s.end - 1]), s) for s in spans]
    return text, [Entity(s.label, start, end, text[start:end], s.score) for start, end, s in placed]


def _pieces(text: str, entities: Sequence[Entity]) -> Iterator[tuple[str, Entity | None]]:
    position = 0
    for entity in sorted(entities, key=lambda e: e.start):
        yield text[position : entity.start], None
        yield text[entity.start : entity.end], entity
        position = entity.end
    yield text[position:], None
