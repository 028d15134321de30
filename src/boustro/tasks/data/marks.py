"""Labels of parts of texts, where they stand in JSON: for whoever changes a text and moves what counts its characters.

    {"text": "Ada left.", "entities": [[0, 3, "PER"]]}
    →  the part [0, 3) of the text under ("text",): its start is under ("entities", 0, 0), its end under
       ("entities", 0, 1), its label under ("entities", 0, 2)

All forms that the readers here know are found, at any depth: entities, exports of labelling tools, the places of
relations and pairs, answers in a context, words and their tags. What an entity is, the readers say (`units`,
`records`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from boustro.tasks import QUESTION_KEYS, TEXT_KEYS, WORD_KEYS
from boustro.tasks.data.annotations import text_of
from boustro.tasks.data.records import (
    SPAN_KEYS,
    TAG_KEYS,
    first_list,
    is_marked_text,
    is_named,
    is_text_pair,
    places_of,
    words_of,
)
from boustro.tasks.data.units import CODECS, OFFSETS, Offsets, Span, as_rows, count_in, span_keys, stands

Keys = tuple[Any, ...]
"""Where a value stands in JSON: `("entities", 0, "start")`."""
TOOL_FIELDS = ("data", "fields")
"""What the exports of labelling tools have their text in."""
ANSWER_START = "answer_start"
"""Where an answer begins, in SQuAD's form."""

LABEL_LISTS = "labels"
"""What the names of lists of labels end in, in the exports of labelling tools."""


class Marked(NamedTuple):
    """A text whose characters labels count, or a list whose words they count, and where it stands."""

    keys: Keys
    whole: str | list[str]


class Mark(NamedTuple):
    """A label in JSON.

    Attributes:
        of: What it counts.
        span: The part that it labels, in any unit; in code points where it says no place.
        parts: Where its `start`, `end`, own `text` and `label` stand.
    """

    of: Marked
    span: Span
    parts: dict[Keys, str]

    @property
    def may_differ(self) -> bool:
        """Whether its place may be another in another unit."""
        return isinstance(self.of.whole, str) and not self.of.whole.isascii() and "start" in self.parts.values()


def find_marks(value: Any, named: Sequence[str] = (), of: Marked | None = None, keys: Keys = ()) -> Iterator[Mark]:
    """Yield the labels in a value of JSON.

    Args:
        value: A record, or what holds records.
        named: The keys of texts, besides those that the tasks read.
        of: What stands around the value.
        keys: Where the value stands.
    """
    if not isinstance(value, (Mapping, list)):
        return
    items = [*(value.items() if isinstance(value, Mapping) else enumerate(value))]
    if of and (mark := _mark(value, {key: (*keys, key) for key, _ in items}, of)):
        yield mark
        return
    if isinstance(value, Mapping):
        of = _marked(value, named, keys) or of
        yield from (mark for one in OFFSETS.values() for mark in _of_task(value, keys, one))
        yield from _of_words(value, keys, of)
        yield from _of_columns(value, keys, of)
    elif is_text_pair(value) or is_marked_text(value):
        of = Marked((*keys, 0), value[0])
    elif of and is_named(value):
        yield from _of_name(value, keys, of)
    for key, one in items:
        yield from find_marks(one, named, of, (*keys, key))


def _of_name(value: Sequence[str], keys: Keys, of: Marked) -> Iterator[Mark]:
    """Yield the label of a name, `["Ada", "PER"]`, in a list of entities."""
    is_entity = len(keys) > 1 and keys[-2] in (*SPAN_KEYS, 1) and isinstance(keys[-1], int)
    if is_entity and isinstance(of.whole, str):
        with suppress(ValueError):
            ((_, start, end),) = places_of(of.whole, [value], "")
            yield Mark(of, Span("", start, end), {(*keys, 0): "text", (*keys, 1): "label"})


def _mark(item: Any, places: Mapping[Any, Keys], of: Marked) -> Mark | None:
    """Return the label that an object or a list is, whose values stand at these places; `None` for any other."""
    start, end, label = span_keys(item)
    labels, quoted = [] if label is None else [label], None
    if isinstance(item, Mapping):
        start = ANSWER_START if start is None else start
        labels += [key for key, one in item.items() if str(key).endswith(LABEL_LISTS) and isinstance(one, list)]
        quoted = item.get("text")
    quoted = quoted if isinstance(quoted, str) and quoted else None
    first, last = (item[key] if key in places else None for key in (start, end))
    if type(first) is not int or not (labels or quoted):
        return None
    if end is not None:
        spans = [Span("", first, last, quoted)] if type(last) is int else []
    else:  # an answer ends where its text does
        spans = [Span("", first, first + count_in(quoted, unit), quoted) for unit in CODECS] if quoted else []
    span = next((one for one in spans if not isinstance(of.whole, str) or stands(one, of.whole)), None)
    if span is None:
        return None
    said = {start: "start", end: "end", "text" if quoted else None: "text"} | dict.fromkeys(labels, "label")
    parts = dict[Keys, str]()
    for key, says in said.items():
        several = range(len(item[key])) if key is not None and isinstance(item[key], list) else None
        ends = [] if key is None else [places[key]] if several is None else [(*places[key], n) for n in several]
        parts |= dict.fromkeys(ends, says)
    return Mark(of, span, parts)


def _marked(record: Mapping[str, Any], named: Sequence[str], keys: Keys) -> Marked | None:
    """Return the text of a record, else its words; `None` where it has none of its own."""
    for name in (*named, *TEXT_KEYS, QUESTION_KEYS[0]):
        if isinstance(record.get(name), str):
            return Marked((*keys, name), record[name])
    for part in TOOL_FIELDS:
        with suppress(ValueError):
            text = text_of(record.get(part), None, "")
            return Marked((*keys, part, next(name for name, one in record[part].items() if one is text)), text)
    if name := _words_key(record):
        return Marked((*keys, name), record[name])
    texts = {name: one for name, one in record.items() if isinstance(one, str) and not keys}  # under a key of its own
    longest = max(texts, key=lambda name: len(texts[name]), default=None)
    return None if longest is None else Marked((longest,), texts[longest])


def _words_key(record: Mapping[str, Any]) -> str | None:
    return first_list(record, WORD_KEYS, lambda words: bool(words) and all(isinstance(word, str) for word in words))


def _of_words(record: Mapping[str, Any], keys: Keys, of: Marked | None) -> Iterator[Mark]:
    """Yield the words of a record in the text that it has too, and the tags of its words."""
    if (name := _words_key(record)) is None:
        return
    words = Marked((*keys, name), record[name])
    with suppress(ValueError):
        places = words_of(words.whole, of.whole, "")[1] if of and isinstance(of.whole, str) else None
        for number, place in enumerate(places or ()):
            yield Mark(of or words, Span("", *place), {(*words.keys, number): "text"})
    for key in TAG_KEYS:
        tags = record.get(key)
        if isinstance(tags, list) and len(tags) == len(words.whole) and all(isinstance(tag, str) for tag in tags):
            for number in range(len(tags)):
                yield Mark(words, Span("", number, number + 1), {(*keys, key, number): "label"})


def _of_columns(record: Mapping[str, Any], keys: Keys, of: Marked | None) -> Iterator[Mark]:
    """Yield the labels of a dict of lists, as data sets store a list of dicts."""
    rows: Any = as_rows(record)
    rows = () if rows is record else rows
    for number, row in enumerate(rows):
        places: dict[Any, Keys] = {key: (*keys, key, number) for key in row}
        if of and (mark := _mark(row, places, of)):
            yield mark


def _of_task(record: Mapping[str, Any], keys: Keys, offsets: Offsets) -> Iterator[Mark]:
    for names, (text, span) in offsets.find(record).items():
        name = next(name for name, one in record.items() if one is text)
        inner = ("start", "end") if isinstance(record[names[0]], Mapping) else (0, 1)
        ends: Iterable[Keys] = [(one,) for one in names] if names[1:] else [(names[0], end) for end in inner]
        parts = {(*keys, *end): says for end, says in zip(ends, ("start", "end"), strict=True)}
        yield Mark(Marked((*keys, name), text), span, parts)
