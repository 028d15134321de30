"""Labelled records (JSON lines, rows of data sets, dicts) to sentences.

    {"words": ["Ada", "left"], "tags": ["B-PER", "O"]}              words and their tags
    {"words": ["Ada", "left"], "entities": [[0, 1, "PER"]]}         words and entities over words, half-open
    {"text": "Ada left.", "entities": [[0, 3, "PER"]]}              running text and entities over its characters
    {"text": "She waved.", "entities": null}                        text that nobody labelled

An entity is `[start, end, label]` or a dict with `start`, `end` and `label`. The tables below list the keys of
doccano, spaCy, Prodigy and the data sets of the Hub; `annotations` reads the exports of other tools. A text without
tokens is split into words and sentences.

Python lists of texts and their entities become such records; an entity is given by its words or by its places.

    labelled_text("Ada left Vellmar.", [("Ada", "PER"), ("Vellmar", "PLACE")])     the text of each, and its label
    labelled_text("Ada left Vellmar.", [("PER", 0, 3), (9, 16, "PLACE")])    label, start and end, also as dicts
    labelled_text(["Ada", "left"], ["B-PER", "O"])                                 words and their tags

Entities that are given by their words stand in the order of the text: of a text that is there twice, the first one is
meant, the next time the second. Whole words come first, then places inside words, which are widened and noted; and what
no other entity has before what is inside another.

    labelled_text("Alexandria: Alex left.", [("Alex", "PER")])                 the second word
    labelled_text("New York, York", [("York", "ORG"), ("New York", "LOC")])    the last word, and the first two
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from boustro.errors import count_of, say_found, shorten
from boustro.given import as_list, is_missing, refuse_no_texts
from boustro.tasks import WORD_KEYS
from boustro.tasks.data.annotations import note_address, plain_records
from boustro.tasks.data.reading import DataOptions, Note, RawData, accepted, document_of, note_unread, unread_fields
from boustro.tasks.data.units import (
    OffsetUnit,
    Span,
    as_rows,
    convert,
    distinct_entities,
    find_unit,
    is_edge,
    join_shared,
    parse_spans,
    read_spans,
    to_words,
)
from boustro.text.words import split_text
from boustro.types import Sentence

TEXT_KEY = "text"
TAG_KEYS = ("tags", "ner_tags", "gold", "labels", "label", "ner", "pos_tags", "upos", "xpos", "chunk_tags")
SPAN_KEYS = ("entities", "spans", "labels", "label", "ner")
READ_KEYS = (*WORD_KEYS, TEXT_KEY, "spaces", "answer", "predicted")
LABEL_KEYS = frozenset({"pos_tags", "upos", "xpos"})
"""Tags under these keys are labels if they fit no scheme."""
WORDLESS_RECORDS = "records without a word, left out"
UNLABELLED = "sentences without labels, read as context only"

OffsetPairs = tuple[tuple[int, int], ...]


def read_records(
    records: Iterable[tuple[int, Any]], name: str, form: str, options: DataOptions, in_memory: bool = False
) -> RawData:
    """Sentences of (line or row number, record) pairs.

    Raises `ValueError` with name:line for a record without words or labels, offsets outside the text, an empty label,
    and labels under several keys when none was chosen.
    """
    raw = RawData(name=name, form=form)
    keys = set()

    def place(number: int) -> str:
        return f"record {number} of {name}" if in_memory else f"{name}:{number}"

    kept = accepted(records, raw.notes, (options.tag_column,), place)
    plain = plain_records(kept, "entities", raw.notes, options, place)
    numbered = [(n, _as_dict(record, place(n))) for n, record in plain]
    unit = find_unit(_given_spans(numbered, options))
    left: list[tuple[str, list[str]]] = []
    for number, record in numbered:
        where = place(number)
        if not isinstance(record, Mapping):
            expected = "expected an object with words and tags, or text and entities"
            raise ValueError(f"{where}: {expected}, got {shorten(record)}")
        key, sentences = _sentences(record, where, f"record {number}", options, unit, raw.notes)
        names = (name for name in unread_fields(record, {key, *READ_KEYS}) if str(record[name]) != str(record[key]))
        left.append((where, [name for name in names if name != str(options.word_column)]))
        if not any(sentences):
            raw.notes.append(Note(WORDLESS_RECORDS, where, "no words; left out"))
            continue
        if record[key] is None:
            raw.notes.extend([Note(UNLABELLED, where, "no labels")] * len(sentences))
        else:
            keys.add(key)
        raw.sentences.extend(sentences if in_memory else [replace(s, where=where) for s in sentences])
        raw.lines.extend([] if in_memory else [(number,) * len(s) for s in sentences])
    note_unread(left, raw.notes)
    return replace(raw, fallback="labels" if keys and keys <= LABEL_KEYS else None)


def is_text_pair(item: Any) -> bool:
    """Return whether this is a spaCy record: `(text, {"entities": ...})`."""
    return isinstance(item, (list, tuple)) and [type(part) for part in item] == [str, dict]


def is_marked_text(item: Any) -> bool:
    """Return whether this is a text with its entities, `("Ada left.", [("Ada", "PER")])`, or without them, see
    `labelled_text`."""
    return (
        isinstance(item, (list, tuple))
        and [isinstance(part, str) for part in item] == [True, False]
        and (isinstance(item[1], (list, tuple)) or is_missing(item[1]))
    )


def _as_dict(record: Any, where: str) -> Any:
    if is_text_pair(record):
        return {TEXT_KEY: record[0], **record[1]}
    if isinstance(record, Mapping):
        return {key: None if is_missing(value) else value for key, value in record.items()}
    return labelled_text(record[0], record[1], where) if is_marked_text(record) else record


def _given_spans(numbered: Iterable[tuple[int, Any]], options: DataOptions) -> Iterator[tuple[str, list[Span]]]:
    """Yield the texts in which units of offsets differ, each with its entities; what cannot be read is refused
    later."""
    for _, record in numbered:
        text = _words_or_text(record, options)[1] if isinstance(record, Mapping) else None
        if text is not None and not text.isascii():
            with suppress(ValueError):
                key, are_tags = _labels_key(record, "", options)
                spans = [] if are_tags or record[key] is None else parse_spans(record[key], "")
                yield text, spans


def _words_or_text(record: Mapping[str, Any], options: DataOptions) -> tuple[str | None, str | None]:
    """Return the key of the words, and the text."""
    chosen = None if options.word_column is None else str(options.word_column)
    words_key = first_list(record, WORD_KEYS if chosen is None else (chosen,))
    return words_key, _text(record, chosen if chosen and words_key is None else TEXT_KEY)


def _sentences(
    record: Mapping[str, Any], where: str, document: str, options: DataOptions, unit: OffsetUnit, notes: list[Note]
) -> tuple[str, list[Sentence]]:
    """Return the key of the labels, and the sentences of the record's words or text."""
    words_key, text = _words_or_text(record, options)
    if words_key is None and text is None:
        looked = ", ".join((*WORD_KEYS, TEXT_KEY)) if options.word_column is None else options.word_column
        raise ValueError(
            f"{where}: no words and no text under {looked} ({say_found(record)}); choose with --word-column"
        )
    key, are_tags = _labels_key(record, where, options)
    if words_key is not None:
        sentence = _words_sentence(record, words_key, key, are_tags, where, unit, notes)
        return key, [replace(sentence, document=document_of(record))]
    assert text is not None
    if are_tags:
        raise ValueError(f"{where}: {key!r} has tags, but there are no words ({say_found(record)})")
    note_address(text, where, notes)
    parts = list(split_text(text, document if record.get("document") is None else document_of(record)))
    if record[key] is None:
        return key, [part.sentence for part in parts]
    given = as_rows(record[key])
    if any(map(is_named, given)):
        given = [(start, end, label) for label, start, end in places_of(text, given, where)]
    spans = convert(parse_spans(given, where), text, unit, where, notes)
    parts = join_shared(parts, spans, where, notes)
    entities = to_words(spans, [place for part in parts for place in part.places], text, where, notes)
    sentences, begin = [], 0
    for part in parts:
        end = begin + len(part.sentence)
        inside = tuple(replace(e, start=e.start - begin, end=e.end - begin) for e in entities if begin <= e.start < end)
        sentences.append(replace(part.sentence, entities=inside))
        begin = end
    return key, sentences


def _words_sentence(
    record: Mapping[str, Any], words_key: str, key: str, are_tags: bool, where: str, unit: OffsetUnit, notes: list[Note]
) -> Sentence:
    text = _text(record, TEXT_KEY)
    words, places = words_of(record[words_key], text, where)
    sentence = Sentence(words, spaces=_spaces(record.get("spaces"), places, len(words), where))
    if record[key] is None:
        return sentence
    if are_tags:
        if len(record[key]) != len(words):
            sizes = f"{count_of(len(words), 'words')}, but {count_of(len(record[key]), 'tags')}"
            raise ValueError(f"{where}: {sizes} under {key!r}")
        for number, tag in enumerate(record[key], start=1):
            if not isinstance(tag, str) or not tag.strip():
                raise ValueError(f"{where}: tag {number} under {key!r} is {shorten(tag)}; tags must be names")
        return replace(sentence, tags=tuple(record[key]))
    if text is None or places is None:
        spans = read_spans(record[key], len(words), where)
        return replace(sentence, entities=distinct_entities(spans, where, notes))
    spans = convert(parse_spans(record[key], where), text, unit, where, notes)
    return replace(sentence, entities=to_words(spans, places, text, where, notes))


def _labels_key(record: Mapping[str, Any], where: str, options: DataOptions) -> tuple[str, bool]:
    """Return the key of the labels, and whether they are tags, one per word, or entities. It may have null."""
    if options.tag_column is not None:
        key = str(options.tag_column)
        if key in record and record[key] is None:
            return key, False
        if first_list(record, (key,)) is None:
            raise ValueError(f"{where}: no list of labels under {key!r} ({say_found(record)})")
        return key, bool(record[key]) and first_list(record, (key,), _are_tags) is not None
    tags = first_list(record, TAG_KEYS, _are_tags)
    spans = _spans_key(record, where)
    if tags and spans:
        raise ValueError(f"{where}: labels under {tags!r} and under {spans!r}; choose with --tag-column")
    if key := tags or spans or first_list(record, TAG_KEYS):
        return key, key != spans
    known = dict.fromkeys((*TAG_KEYS, *SPAN_KEYS))
    if key := next((key for key in known if key in record and record[key] is None), None):
        return key, False
    looked = ", ".join(known)
    raise ValueError(f"{where}: no labels under {looked} ({say_found(record)}); choose with --tag-column")


def _spans_key(record: Mapping[str, Any], where: str) -> str | None:
    """Return the key of the entities; one with entities comes before one with none, which another task may have
    left."""
    keys = [key for key in SPAN_KEYS if first_list(record, (key,), lambda rows: not _are_tags(rows))]
    full = [key for key in keys if as_rows(record[key])]
    if any(record[key] != record[full[0]] for key in full):
        raise ValueError(f"{where}: entities under {', '.join(map(repr, full))}; choose with --tag-column")
    return next(iter(full or keys), None)


def _are_tags(rows: Sequence[Any]) -> bool:
    return bool(rows) and isinstance(rows[0], (str, int))


def first_list(
    record: Mapping[str, Any], keys: Iterable[str], fits: Callable[[Sequence[Any]], bool] = lambda rows: True
) -> str | None:
    """Return the first of these keys with a list that fits."""
    for key in keys:
        rows = as_rows(record.get(key))
        if isinstance(rows, (list, tuple)) and fits(rows):
            return key
    return None


def words_of(given: Any, text: str | None, where: str) -> tuple[tuple[str, ...], OffsetPairs | None]:
    """Words, and their offsets in the text if there is one."""
    given = as_rows(given)
    if given and isinstance(given[0], Mapping):  # Prodigy's tokens
        try:
            words = tuple(token["text"] for token in given)
            places = tuple((token["start"], token["end"]) for token in given) if text is not None else None
        except KeyError as error:
            raise ValueError(f"{where}: a token has no {error.args[0]!r}") from None
        for word, (start, end) in zip(words, places or (), strict=places is not None):
            if text is not None and text[start:end] != word:
                raise ValueError(f"{where}: the token {word!r} differs from the text at {start}:{end}")
        return words, places
    refuse_no_texts(given, f"{where}: word")
    if text is None:
        return tuple(given), None
    offsets, position = [], 0
    for word in given:
        if (start := text.find(word, position)) < 0:
            raise ValueError(f"{where}: the word {word!r} is not in the text after the words before it")
        position = start + len(word)
        offsets.append((start, position))
    return tuple(given), tuple(offsets)


def _spaces(given: Any, places: OffsetPairs | None, num_words: int, where: str) -> tuple[bool, ...] | None:
    if given is not None:
        if not isinstance(given, list) or len(given) != num_words or not all(isinstance(x, bool) for x in given):
            raise ValueError(f"{where}: spaces must be a list of {num_words} true or false, one per word")
        return tuple(given)
    if places is None:
        return None
    return tuple(i == 0 or places[i - 1][1] < start for i, (start, _) in enumerate(places))


def _text(record: Mapping[str, Any], key: str) -> str | None:
    return record[key] if isinstance(record.get(key), str) else None


EXPECTED = "an entity is its text and its label, or its label, start and end, in any order or as a dict"


def labelled_text(given: Any, label: Any, place: str) -> Any:
    """Return the input of `read_data`: a record of a text, or a pair of words and tags.

    Raises `ValueError`, with the place, for an entity that is none, and for one whose text is not there.
    """
    if not isinstance(given, str):
        return given, label
    if is_missing(label):
        return {"text": given, "entities": None}
    entities = [{"start": s, "end": e, "label": name} for name, s, e in places_of(given, label, place)]
    return {"text": given, "entities": entities}


def places_of(text: str, labels: Any, place: str) -> list[tuple[str, int, int]]:
    named: dict[str, list[str]] = {}  # the labels of a text, in order
    found = []
    for item in as_list(labels, f"the entities of {place}, as a list"):
        if is_named(item):
            named.setdefault(_as_spelled(item[0], text), []).append(item[1])
            continue
        try:
            ((label, start, end, _),) = parse_spans([item], place)
        except ValueError:
            raise ValueError(f"{place}: {EXPECTED}, got {shorten(item)}") from None
        found.append((label, start, end))
    words = [span for part in split_text(text) for span in part.places] if named else []
    for name in sorted(named, key=len, reverse=True):  # a name inside of another is then known as such
        starts = _occurrences(text, name)
        if len(starts) < len(named[name]):
            more = " once more" if starts else ""
            raise ValueError(f"{place}: {shorten(name)} does not stand in {shorten(text)}{more}")
        rank = partial(_rank, text, name, ({start for start, _ in words}, {end for _, end in words}), tuple(found))
        chosen = sorted(sorted(starts, key=rank)[: len(named[name])])
        found += [(label, start, start + len(name)) for label, start in zip(named[name], chosen, strict=True)]
    return sorted(found, key=lambda entity: entity[1])


def _rank(text: str, name: str, edges: Any, found: Iterable[tuple[str, int, int]], start: int) -> tuple[bool, ...]:
    """Return the order of places of a name: whole words, parts of words that marks part, parts of words; of each kind,
    those first that no other entity has."""
    first = start + len(name) - len(name.lstrip())
    last = first + len(name.strip())
    inside = any(begin < last and first < end for _, begin, end in found)
    whole = first in edges[0] and last in edges[1]
    return not whole, not (is_edge(text, first) and is_edge(text, last)), inside


def _as_spelled(name: str, text: str) -> str:
    """Return a name in the Unicode form that the text has it in."""
    forms = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    return name if name in text else next((form for form in forms if form in text), name)


def _occurrences(text: str, name: str) -> list[int]:
    """Where a name begins in a text, without those that overlap one before them."""
    return [match.start() for match in re.finditer(re.escape(name), text)] if name.strip() else []


def is_named(item: Any) -> bool:
    """Return whether an entity is given as its text and its label."""
    return isinstance(item, (list, tuple)) and len(item) == 2 and all(isinstance(part, str) for part in item)
