"""Entities over the characters of a text, converted to entities over its words.

    "The Port Lisse-based firm."   LOC [4, 14)   →   words "Port" and "Lisse-based": LOC [1, 3), noted as widened

An entity that begins or ends inside a word is widened to whole words; white space at its ends is left out; a sentence
break inside it is removed. Each of these is a note. An entity that is outside the text or covers no word is a
`ValueError`: nothing is dropped. What the offsets count is found by `units`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from boustro.errors import shorten
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import Span
from boustro.text.words import Placed
from boustro.types import Entity

KEYS = (("start", "start_offset"), ("end", "end_offset"), ("label", "type", "entity"))
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
            raise ValueError(f"{where}: the entity {label} [{start}, {end}) is outside the {num_words} words")
    return [Entity(span.label, span.start, span.end) for span in spans]


def parse_spans(given: Any, where: str) -> list[Span]:
    """Entities as they are given, in any unit; `ValueError`, with the place, for one without a start, end or label."""
    spans = []
    for item in as_rows(given):
        parts: Sequence[Any] = item if isinstance(item, (list, tuple)) else []
        if isinstance(item, Mapping):
            parts = [next((item[k] for k in keys if item.get(k) is not None), None) for keys in KEYS]
        if len(parts) != 3 or [type(part) for part in parts] != [int, int, str]:
            raise ValueError(f"{where}: an entity is [start, end, label], got {shorten(item)}")
        start, end, label = parts
        own = item.get("text") if isinstance(item, Mapping) else None
        if not label.strip():
            raise ValueError(f"{where}: the entity [{start}, {end}) has an empty label")
        spans.append(Span(label, start, end, own if isinstance(own, str) and own else None))
    return spans


def as_rows(given: Any) -> Any:
    """A list of dicts, also from a dict of lists, as data sets store it."""
    columns = list(given.values()) if isinstance(given, Mapping) else []
    if not all(isinstance(values, list) for values in columns) or len({len(values) for values in columns}) != 1:
        return given
    return [dict(zip(given, values, strict=True)) for values in zip(*given.values(), strict=True)]


def join_sentences(parts: Sequence[Placed], spans: Sequence[Span], where: str, notes: list[Note]) -> list[Placed]:
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


def to_words(
    spans: Sequence[Span], places: Sequence[tuple[int, int]], text: str, where: str, notes: list[Note]
) -> tuple[Entity, ...]:
    """The same entities over words; `places` has each word's characters, in order."""
    starts, ends = [start for start, _ in places], [end for _, end in places]
    entities = []
    for span in spans:
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
        if first >= last:
            raise ValueError(f"{where}: the entity {span.label} [{span.start}, {span.end}) covers no word")
        start, end = starts[first], ends[last - 1]
        given, read = text[span.start : span.end], text[start:end]
        if start < span.start or end > span.end:
            notes.append(Note(WIDENED, where, f"{span.label} {given!r} widened to {read!r}"))
        elif given != read:
            notes.append(Note(TRIMMED, where, f"{span.label} {given!r} read as {read!r}"))
        entities.append(Entity(span.label, first, last))
    return distinct(entities, where, notes)


def distinct(entities: Sequence[Entity], where: str, notes: list[Note]) -> tuple[Entity, ...]:
    """Entities in order, each once."""
    once = tuple(sorted(set(entities)))
    notes += [Note(REPEATED, where)] * (len(entities) - len(once))
    return once
