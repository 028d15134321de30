"""Offsets: which unit those of a file count (code points, UTF-16 units of JavaScript, bytes of UTF-8), and their words.

    "🚒 Ada left."    Ada is at [2, 5) in code points, at [3, 6) in UTF-16 units, at [5, 8) in bytes

Formats rarely say it, so the entities of a file decide together. An entity fits a unit in which it begins and ends at
the edges of words or, where it has its own text, in which this text stands there. The file's unit is the one that most
entities fit, code points if others fit as many. An entity with its own text is read in a unit that fits it, all others
in the file's unit. What is converted is a note, and so is an entity that another unit fits where the file's does not,
or where as many entities of the file fit both.

Entities over the characters of a text are then converted to entities over its words (`to_words`).

    "The Port Lisse-based firm."   LOC [4, 14)   →   words "Port" and "Lisse-based": LOC [1, 3), noted as widened

An entity that begins or ends inside a word is widened to whole words; white space at its ends is left out; a sentence
break inside it is removed. Each of these is a note. An entity that is outside the text or covers no word is a
`ValueError`: nothing is dropped.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from boustro.errors import count_of, shorten
from boustro.given import plain_value
from boustro.tasks import MARK_KEYS, PAIR_KEYS, RELATION_KEYS, TASKS
from boustro.tasks.data.reading import Note, as_dict
from boustro.text.words import EXTENDERS, LETTER, Placed
from boustro.types import Entity

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


class OffsetUnit(NamedTuple):
    """The unit of a file, and the others that as many of its entities fit."""

    name: str = CODE_POINTS
    rivals: frozenset[str] = frozenset()


class InCodePoints(dict[str, Any]):
    """A record whose places are in code points, whatever they look like."""


@dataclass(frozen=True)
class Offsets:
    """Where records of a task have places in characters.

    Attributes:
        texts: The keys of a record's texts, each time together.
        marks: The number of the text of each place, and its keys: one for both ends, or one for each.
        tuples: Rows of keys of which a tuple has the values.
    """

    texts: Sequence[tuple[str, ...]]
    marks: Sequence[tuple[int, tuple[str, ...]]]
    tuples: Sequence[tuple[str, ...]] = ()

    def find(self, record: Any) -> dict[tuple[str, ...], tuple[str, Span]]:
        """Return the places of a record by their keys, each with its text; none of what is no such record."""
        record = as_dict(record, *self.tuples)
        given = record if isinstance(record, Mapping) else {}
        texts = next((keys for keys in self.texts if all(isinstance(given.get(key), str) for key in keys)), ())
        found = {}
        for number, keys in self.marks if texts else ():
            place: Any = [given.get(key) for key in keys] if keys[1:] else given.get(keys[0])
            if isinstance(place, Mapping):
                place = [place.get("start"), place.get("end")]
            if isinstance(place, (list, tuple)) and [type(end) for end in place] == [int, int]:
                found[keys] = given[texts[number]], Span("the mark" if keys[1:] else keys[0], *place)
        return found

    def move(self, record: Any, keys: tuple[str, ...], span: Span) -> dict[str, Any]:
        """Return the record with a place in code points."""
        ends = span.start, span.end
        moved = dict(zip(keys, ends, strict=True)) if keys[1:] else {keys[0]: ends}
        return {**as_dict(record, *self.tuples), **moved}

    def unit(self, records: Iterable[Any]) -> OffsetUnit:
        """Return the unit of these records together; code points where all are converted already."""
        given = (record for record in records if not isinstance(record, InCodePoints))
        places = (place for record in given for place in self.find(record).values())
        return find_unit((text, [span]) for text, span in places if not text.isascii())  # there all units are equal

    def convert(self, record: Any, unit: OffsetUnit, where: str, notes: list[Note]) -> Any:
        """Return the record with its places in code points; what is no place stays, and is refused later."""
        places = {} if isinstance(record, InCodePoints) else self.find(record)
        for name, (text, span) in places.items():
            with suppress(ValueError):
                (converted,) = convert([span], text, unit, where, notes)
                record = self.move(record, name, converted)
        return InCodePoints(record) if places else record

    def convert_all(self, named: Iterable[tuple[str, Any]], notes: list[Note]) -> list[tuple[str, Any]]:
        """Convert (place, record) pairs, which have one unit."""
        records = list(named)
        unit = self.unit(record for _, record in records)
        return [(where, self.convert(record, unit, where, notes)) for where, record in records]


OFFSETS = {
    "pair": Offsets(PAIR_KEYS, ((0, MARK_KEYS[:2]), (1, MARK_KEYS[2:]))),
    "relation": Offsets(
        (RELATION_KEYS[:1],),
        tuple((0, (key,)) for key in RELATION_KEYS[1:]),
        (RELATION_KEYS, TASKS["relation"].suits.parts),
    ),
}
"""By task, of those whose records have places."""


def find_unit(given: Iterable[tuple[str, Sequence[Span]]]) -> OffsetUnit:
    """Return the unit of a file, by all its texts with their entities."""
    votes = Counter(unit for text, spans in given for span in spans for unit in fitting(span, text))
    name = max(CODECS, key=lambda unit: votes[unit])  # the first of several
    return OffsetUnit(name, frozenset(unit for unit in CODECS if unit != name and votes[unit] == votes[name]))


def convert(spans: Sequence[Span], text: str, unit: OffsetUnit, where: str, notes: list[Note]) -> list[Span]:
    """Convert entities to code points; `ValueError`, with the place, for one that is in no text."""
    return [_convert(span, text, unit, where, notes) for span in spans]


def fitting(span: Span, text: str) -> dict[str, tuple[int, int]]:
    """Return the units that an entity fits, with its place in code points."""
    places = {unit: place for unit in _units(text) if (place := _place(span, text, unit))}
    return {unit: place for unit, place in places.items() if _fits(span, text, *place)}


def stands(span: Span, text: str) -> bool:
    """Return whether an entity may be in a text, in any unit: where it has its own text, this stands there."""
    return bool(fitting(span, text) if span.text is not None else any(_place(span, text, u) for u in _units(text)))


def position(text: str, offset: int, unit: str) -> int | None:
    """Return a position in a unit as one in code points; `None` inside a character and outside the text.

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
    """Return whether texts are equal but for white space, which Label Studio also writes as a backslash and an n."""
    bare, other_bare = ("".join(text.replace("\\n", " ").split()) for text in (one, other))
    return bare == other_bare


def _units(text: str) -> Iterable[str]:
    return (CODE_POINTS,) if text.isascii() else CODECS


def place_span(span: Span, text: str, unit: OffsetUnit) -> tuple[str, tuple[int, int]] | None:
    """Return the unit that an entity is read in, and its place in code points; `None` for one that is in no text."""
    units = fitting(span, text)
    if place := units.get(unit.name) or (_place(span, text, unit.name) if span.text is None else None):
        return unit.name, place
    return next(iter(units.items()), None) if span.text is not None else None


def count_in(text: str, unit: str) -> int:
    """Return the length of a text in a unit."""
    codec, width = CODECS[unit]
    return len(text.encode(codec, "surrogatepass")) // width


def _convert(span: Span, text: str, unit: OffsetUnit, where: str, notes: list[Note]) -> Span:
    if (found := place_span(span, text, unit)) is None:
        raise ValueError(f"{where}: {_misplaced(span, text, unit.name)}")
    (read, place), units = found, fitting(span, text)
    shown = f"{span.label} {text[slice(*place)]!r}"
    if place != (span.start, span.end):
        moved = f"{shown} at {span.start}:{span.end} in {read} is at {place[0]}:{place[1]}"
        notes.append(Note(CONVERTED.format(read), where, moved))
    others = {key: text[slice(*other)] for key, other in units.items() if other != place}
    if span.text is None and others and (unit.name not in units or unit.rivals & others.keys()):
        other_unit, other = next(iter(others.items()))
        notes.append(Note(UNCLEAR, where, f"{shown}, read in {read}, would be {other!r} in {other_unit}"))
    return span._replace(start=place[0], end=place[1])


def _place(span: Span, text: str, unit: str) -> tuple[int, int] | None:
    start, end = position(text, span.start, unit), position(text, span.end, unit)
    return None if start is None or end is None or start >= end else (start, end)


def _fits(span: Span, text: str, start: int, end: int) -> bool:
    if span.text is not None:
        return same_letters(text[start:end], span.text)
    return not text[start].isspace() and is_edge(text, start) and is_edge(text, start + len(text[start:end].rstrip()))


def is_edge(text: str, place: int) -> bool:
    """Return whether no word goes on from one character to the next: between them in `"a b"`, `"a."` and `"中国"`."""
    return not place or not IN_WORD.match(text, place - 1)


def _misplaced(span: Span, text: str, unit: str) -> str:
    if (place := _place(span, text, unit)) is None or span.text is None:
        return f"the entity {span.label} [{span.start}, {span.end}) is outside the {len(text)} characters"
    return (
        f"the entity {span.text!r} differs from the text at {span.start}:{span.end}, {text[slice(*place)]!r}; "
        f"offsets count {', '.join(CODECS)} from 0"
    )


SPAN_KEY_NAMES = (("start", "start_offset"), ("end", "end_offset"), ("label", "type", "entity"))
"""Names of an entity's start, end and label in a dict."""
WIDENED = "entities widened to whole words"
TRIMMED = "entities with white space at their ends, which was left out"
JOINED = "sentence breaks removed because an entity extends over them"
REPEATED = "entities given more than once"


def read_spans(given: Any, num_words: int, where: str) -> list[Entity]:
    """Entities over words, from `[start, end, label]` lists or dicts; `ValueError` for anything else."""
    spans = parse_spans(given, where)
    for label, start, end, _ in spans:
        if not 0 <= start < end <= num_words:
            raise ValueError(
                f"{where}: the entity {label} [{start}, {end}) is outside the {count_of(num_words, 'words')}"
            )
    return [Entity(span.label, span.start, span.end) for span in spans]


def parse_spans(given: Any, where: str) -> list[Span]:
    """Entities as they are given, in any unit; `ValueError`, with the place, for one without a start, end or label."""
    spans = []
    for item in as_rows(given):
        one: Any = [item.start, item.end, item.label] if isinstance(item, Entity) else item
        parts: list[Any] = [None if key is None else plain_value(one[key]) for key in span_keys(one)]
        if [type(part) for part in parts] != [int, int, str]:
            raise ValueError(f"{where}: an entity is [start, end, label], got {shorten(item)}")
        start, end, label = parts
        quoted = item.get("text") if isinstance(item, Mapping) else None
        if not label.strip():
            raise ValueError(f"{where}: the entity [{start}, {end}) has an empty label")
        spans.append(Span(label, start, end, quoted if isinstance(quoted, str) and quoted else None))
    return spans


def span_keys(item: Any) -> Sequence[Any]:
    """Return the keys, or the places in a list, of an entity's start, end and label; `None` for what it has not."""
    if isinstance(item, Mapping):
        return [next((key for key in keys if item.get(key) is not None), None) for keys in SPAN_KEY_NAMES]
    kinds = [type(plain_value(part)) for part in item] if isinstance(item, (list, tuple)) else ()
    return (1, 2, 0) if kinds == [str, int, int] else (0, 1, 2) if len(kinds) == 3 else (None,) * 3


def as_rows(given: Any) -> Any:
    """Return a list of dicts, also from a dict of lists, as data sets store it."""
    columns = list(given.values()) if isinstance(given, Mapping) else []
    if not all(isinstance(values, list) for values in columns) or len({len(values) for values in columns}) != 1:
        return given
    return [dict(zip(given, values, strict=True)) for values in zip(*given.values(), strict=True)]


def join_shared(parts: Sequence[Placed], spans: Sequence[Span], where: str, notes: list[Note]) -> list[Placed]:
    """Sentences of one text, with those that share an entity joined."""
    joined: list[Placed] = []
    for part in parts:
        before = joined[-1] if joined else None
        if before and any(s.start < before.places[-1][1] and part.places[0][0] < s.end for s in spans):
            notes.append(Note(JOINED, where, f"no sentence break after {before.sentence.words[-1]!r}"))
            spaced = before.places[-1][1] < part.places[0][0]
            spaces = (*(before.sentence.spaces or ()), spaced, *(part.sentence.spaces or ())[1:])
            whole = replace(before.sentence, words=before.sentence.words + part.sentence.words, spaces=spaces)
            joined[-1] = Placed(whole, before.places + part.places)
        else:
            joined.append(part)
    return joined


def word_span(places: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """Return the words [first, last + 1) that share a character with `[start, end)`; `None` for white space. `places`
    has each word's characters, in order."""
    first, last = bisect_right(places, start, key=lambda p: p[1]), bisect_left(places, end, key=lambda p: p[0])
    return (first, last) if first < last else None


def to_words(
    spans: Sequence[Span], places: Sequence[tuple[int, int]], text: str, where: str, notes: list[Note]
) -> tuple[Entity, ...]:
    """Move entities from characters to words; `places` has each word's characters, in order."""
    entities = []
    for span in spans:
        if (words := word_span(places, span.start, span.end)) is None:
            raise ValueError(f"{where}: the entity {span.label} [{span.start}, {span.end}) covers no word")
        start, end = places[words[0]][0], places[words[1] - 1][1]
        given, read = text[span.start : span.end], text[start:end]
        if start < span.start or end > span.end:
            notes.append(Note(WIDENED, where, f"{span.label} {given!r} widened to {read!r}"))
        elif given != read:
            notes.append(Note(TRIMMED, where, f"{span.label} {given!r} read as {read!r}"))
        entities.append(Entity(span.label, *words))
    return distinct_entities(entities, where, notes)


def distinct_entities(entities: Sequence[Entity], where: str, notes: list[Note]) -> tuple[Entity, ...]:
    """Entities in order, each once."""
    once = tuple(sorted(set(entities)))
    notes += [Note(REPEATED, where)] * (len(entities) - len(once))
    return once
