"""Which unit the offsets of a file count: code points, UTF-16 units (JavaScript) or bytes of UTF-8.

    "🚒 Ada left."    Ada is at [2, 5) in code points, at [3, 6) in UTF-16 units, at [5, 8) in bytes

Formats rarely say it, so the entities of a file decide together. An entity fits a unit in which it begins and ends at
the edges of words or, where it has its own text, in which this text stands there. The file's unit is the one that most
entities fit, code points if others fit as many. An entity with its own text is read in a unit that fits it, all others
in the file's unit. What is converted is a note, and so is an entity that another unit fits where the file's does not,
or where as many entities of the file fit both.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from boustro.tasks.data.reading import Note
from boustro.text.words import EXTENDERS, LETTER

CODE_POINTS, UTF_16, BYTES = "code points", "UTF-16 units", "bytes"
CODECS = {CODE_POINTS: ("utf-32-le", 4), UTF_16: ("utf-16-le", 2), BYTES: ("utf-8", 1)}
CONVERTED = "places given in {}, converted to code points"
UNCLEAR = "places that fit words in another unit of offsets than the one they are read in"
IN_WORD = re.compile(rf"{LETTER}{LETTER}|.[{EXTENDERS}]", re.DOTALL)


class Span(NamedTuple):
    """An entity over the characters of a text, in any unit, with its own text where it has one."""

    label: str
    start: int
    end: int
    text: str | None = None


class Unit(NamedTuple):
    """The unit of a file, and the others that as many of its entities fit."""

    name: str = CODE_POINTS
    rivals: frozenset[str] = frozenset()


class InCodePoints(dict[str, Any]):
    """A record whose places are in code points, whatever they look like."""


@dataclass(frozen=True)
class Offsets:
    """Where records of a task have places in characters.

    Attributes:
        find: The places of a record by name, each with its text; none of what is no such record.
        move: The record with a place, in code points.
    """

    find: Callable[[Any], Mapping[Any, tuple[str, Span]]]
    move: Callable[[Mapping[str, Any], Any, Span], Mapping[str, Any]]

    def unit(self, records: Iterable[Any]) -> Unit:
        """The unit of these records together; code points where all are converted already."""
        given = (record for record in records if not isinstance(record, InCodePoints))
        places = (place for record in given for place in self.find(record).values())
        return find_unit((text, [span]) for text, span in places if not text.isascii())  # there all units are equal

    def convert(self, record: Any, unit: Unit, where: str, notes: list[Note]) -> Any:
        """The record with its places in code points; what is no place stays, and is refused later."""
        places = {} if isinstance(record, InCodePoints) else self.find(record)
        for name, (text, span) in places.items():
            with suppress(ValueError):
                (found,) = convert([span], text, unit, where, notes)
                record = self.move(record, name, found)
        return InCodePoints(record) if places else record

    def convert_all(self, named: Iterable[tuple[str, Any]], notes: list[Note]) -> list[tuple[str, Any]]:
        """The same of (place, record) pairs, which have one unit."""
        records = list(named)
        unit = self.unit(record for _, record in records)
        return [(where, self.convert(record, unit, where, notes)) for where, record in records]


def find_unit(given: Iterable[tuple[str, Sequence[Span]]]) -> Unit:
    """The unit of a file, by all its texts with their entities."""
    votes = Counter(unit for text, spans in given for span in spans for unit in fitting(span, text))
    name = max(CODECS, key=lambda unit: votes[unit])  # the first of several
    return Unit(name, frozenset(unit for unit in CODECS if unit != name and votes[unit] == votes[name]))


def convert(spans: Sequence[Span], text: str, unit: Unit, where: str, notes: list[Note]) -> list[Span]:
    """The same entities in code points; `ValueError`, with the place, for one that is in no text."""
    return [_convert(span, text, unit, where, notes) for span in spans]


def fitting(span: Span, text: str) -> dict[str, tuple[int, int]]:
    """The units that an entity fits, with its place in code points."""
    places = {unit: place for unit in _units(text) if (place := _place(span, text, unit))}
    return {unit: place for unit, place in places.items() if _fits(span, text, *place)}


def position(text: str, offset: int, unit: str) -> int | None:
    """A position in a unit as one in code points; `None` inside a character and outside the text.

    `position("🚀 up", 3, UTF_16)` is 2.
    """
    if unit == CODE_POINTS or text.isascii():
        return offset if 0 <= offset <= len(text) else None
    codec, width = CODECS[unit]
    before = text.encode(codec, "surrogatepass")[: width * max(offset, 0)]
    try:
        return len(before.decode(codec)) if len(before) == width * offset else None
    except UnicodeDecodeError:
        return None


def same_letters(one: str, other: str) -> bool:
    """Whether texts are equal but for white space, which Label Studio also writes as a backslash and an n."""
    bare, own = ("".join(text.replace("\\n", " ").split()) for text in (one, other))
    return bare == own


def _units(text: str) -> Iterable[str]:
    return (CODE_POINTS,) if text.isascii() else CODECS


def _convert(span: Span, text: str, unit: Unit, where: str, notes: list[Note]) -> Span:
    units = fitting(span, text)
    place = units.get(unit.name) or (_place(span, text, unit.name) if span.text is None else None)
    read = unit.name
    if place is None and span.text is not None and units:
        read, place = next(iter(units.items()))
    if place is None:
        raise ValueError(f"{where}: {_misplaced(span, text, unit.name)}")
    shown = f"{span.label} {text[slice(*place)]!r}"
    if place != (span.start, span.end):
        moved = f"{shown} at {span.start}:{span.end} in {read} is at {place[0]}:{place[1]}"
        notes.append(Note(CONVERTED.format(read), where, moved))
    others = {own: text[slice(*other)] for own, other in units.items() if other != place}
    if span.text is None and others and (unit.name not in units or unit.rivals & others.keys()):
        own, other = next(iter(others.items()))
        notes.append(Note(UNCLEAR, where, f"{shown}, read in {read}, would be {other!r} in {own}"))
    return span._replace(start=place[0], end=place[1])


def _place(span: Span, text: str, unit: str) -> tuple[int, int] | None:
    start, end = position(text, span.start, unit), position(text, span.end, unit)
    return None if start is None or end is None or start >= end else (start, end)


def _fits(span: Span, text: str, start: int, end: int) -> bool:
    if span.text is not None:
        return same_letters(text[start:end], span.text)
    return not text[start].isspace() and _is_edge(text, start) and _is_edge(text, start + len(text[start:end].rstrip()))


def _is_edge(text: str, place: int) -> bool:
    """Whether no word goes on from one character to the next: between them in `"a b"`, `"a."` and `"中国"`."""
    return not place or not IN_WORD.match(text, place - 1)


def _misplaced(span: Span, text: str, unit: str) -> str:
    where = f"[{span.start}, {span.end})"
    if not _place(span, text, unit) or span.text is None:
        return f"the entity {span.label} {where} is outside the {len(text)} characters"
    there = text[slice(*(_place(span, text, unit) or ()))]
    return (
        f"the entity {span.text!r} differs from the text at {span.start}:{span.end}, {there!r}; "
        f"offsets count {', '.join(CODECS)} from 0"
    )
