"""Labelled texts: one label for a text, or several.

    {"text": "A film to remember.", "label": "positive"}   JSON lines; also "sentence", and integers as labels
    {"text": "Rain stops play.", "labels": ["sport", "weather"]}      several labels, or an empty list
    {"text": "A film to remember.", "score": 4.5}          a number instead
    [("A film to remember.", "positive"), …]               Python pairs, a list for several labels; dicts as above
    Label Studio's and Argilla's JSON                      see `annotations`
    text,label                                             CSV and TSV files with a head line, data frames, hf:NAME;
                                                           a cell with several labels is a JSON list of them

A text becomes one `Sentence` with all its words, whatever the number of its sentences, and its `label` or `labels`.
"""

import ast
import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from boustro.errors import say_found, shorten
from boustro.given import INDICATORS, is_missing, plain_value, refuse_indicators
from boustro.tasks import LABEL_KEY, LABELS_KEY, SCORE_KEY, TASKS, Fields
from boustro.tasks.data.annotations import note_address
from boustro.tasks.data.named import RecordReader, texts_under
from boustro.tasks.data.reading import (
    DEFAULT_OPTIONS,
    DataOptions,
    GoldFault,
    Note,
    Unlabelled,
    document_of,
    missing_file,
)
from boustro.text.files import DataFile
from boustro.text.tables import TableRow
from boustro.text.words import Placed, current_rule, join_words, split_text
from boustro.types import Sentence, TypedLabel, compose

MEANING_KEYS = ("description", "meaning")
LONGEST_MEANING = 100
"""Words that describe a label."""
WORDLESS_TEXTS = "texts without a word"
LABELLESS_TEXTS = "texts without a label under {!r}, which no score counts"
PADDED_LABELS = "labels with white space around them, read without it"
LIKE_IDS = 10  # fewer may be one example each of what is labelled from now on
CACHED_TEXTS = 4096  # a study reads the same texts once for every system
TextData: TypeAlias = str | Path | Iterable[Any]
"""A file, `hf:NAME`, (text, label) pairs, dicts, `Sentence`s, a `datasets.Dataset` or a pandas data frame."""


def read_texts(
    data: TextData, options: DataOptions = DEFAULT_OPTIONS, notes: list[Note] | None = None
) -> list[Sentence]:
    """Labelled texts, see the module; what was changed or left out goes to `notes`.

    Raises `FileNotFoundError`, and `ValueError` with file:line for a record without a text or without its label.
    """
    reader = TEXTS["classify"]
    made = partial(_sentence, fields=reader.fields, unlabelled=options.unlabelled)
    texts = replace(reader, make=made).read(data, options, notes)
    labelless = [text.where for text in texts if not text.is_labelled]
    if notes is not None:
        key = LABELS_KEY if any(text.labels is not None for text in texts) else LABEL_KEY
        notes += [Note(LABELLESS_TEXTS.format(options.label_column or key), where, "no label") for where in labelless]
    if texts and options.unlabelled is True and len(labelless) == len(texts):
        raise ValueError(f"{texts[0].where}: no text has a label from here on; label some, or give --label-column")
    return texts


def _survey(named: Sequence[tuple[str, Any]], first: Any, notes: list[Note]) -> None:
    """Note where every label of many stands on one text only, so that nothing is learned; `ValueError` for labels that
    are rows of 0 and 1."""
    labels = [record.get(LABEL_KEY) for _, record in named if isinstance(record, Mapping)]
    names = {label for label in labels if is_label(label)}
    if isinstance(first, Mapping) and LIKE_IDS <= len(names) == len(labels):
        among = ", ".join(map(str, first))
        said = f"labels that stand once each, as an id does; --label-column names another of {among}"
        notes.extend(Note(said, where) for where, _ in named)
    refuse_indicators([_several(record) for _, record in named], named[0][0] if named else "")


def read_meanings(given: str | Path | Mapping[Any, Any]) -> dict[str, str]:
    """Return the description of each label, of a dict or of a file: a table or JSON lines with `label` and
    `description`, a JSON object, or lines such as `payment: invoices, cards, refunds`.

    Raises `FileNotFoundError`, and `ValueError` with the place for a label or a description that is none, for a label
    that stands there twice, and for a description of more than `LONGEST_MEANING` words.
    """
    if isinstance(given, Mapping):
        rows: Iterable[tuple[str, Any]] = [
            ("the description", {LABEL_KEY: k, MEANING_KEYS[0]: v}) for k, v in given.items()
        ]
    elif (path := Path(given)).is_file():
        rows = DataFile(path).open()
    else:
        raise missing_file(path, "descriptions of labels are expected, as a table with label and description")
    means: dict[str, str] = {}
    for where, row in rows:
        for label, meaning in _described(row, where):
            if label in means:
                raise ValueError(f"{where}: the label {label!r} is described twice; remove one")
            refuse_long(label, meaning, f"{where}: ")
            means[label] = meaning
    if not means:
        raise ValueError(f"{'describe' if isinstance(given, Mapping) else given}: no label is described")
    return means


def refuse_long(label: str, meaning: str, where: str = "") -> None:
    """`ValueError` for a description of too many words."""
    if (count := len(meaning.split())) > LONGEST_MEANING:
        raise ValueError(
            f"{where}the label {label[:40]!r} is described in {count:,} words; give {LONGEST_MEANING} at most"
        )


def _described(row: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(row, str):
        label, _, meaning = row.partition(":")
        pairs: list[tuple[Any, Any]] = [(label, meaning)] if row.strip() else []
    elif isinstance(row, Mapping) and LABEL_KEY in row and (key := next((k for k in MEANING_KEYS if k in row), None)):
        pairs = [] if isinstance(row, TableRow) and row.is_blank else [(row[LABEL_KEY], row[key])]
    elif isinstance(row, Mapping) and not isinstance(row, TableRow):
        pairs = [*row.items()]
    else:
        found = ", ".join(map(str, row)) if isinstance(row, Mapping) else shorten(row)
        raise ValueError(f"{where}: no {LABEL_KEY} with its {MEANING_KEYS[0]} (found: {found}); name two columns so")
    for label, meaning in pairs:
        if not is_label(label) or not isinstance(meaning, str) or not meaning.strip():
            raise ValueError(f"{where}: the label {shorten(label)} is described by {shorten(meaning)}; expected a text")
        yield str(plain_value(label)).strip(), meaning.strip()


def _several(record: Any) -> Any:
    """Return the value that stands where a record has several labels."""
    given = record if isinstance(record, Mapping) else {}
    return given[LABELS_KEY] if given.get(LABEL_KEY) is None and LABELS_KEY in given else given.get(LABEL_KEY)


def whole_text(text: str, document: str = "") -> Placed:
    """Return all words of a text as one sentence, with their places."""
    parts = list(split_text(text, document))
    words = tuple(word for part in parts for word in part.sentence.words)
    spaces = tuple(space for part in parts for space in part.sentence.spaces or ())
    given = None if join_words(words, spaces) == text else text
    sentence = Sentence(words, spaces=spaces, document=document, text=given)
    return Placed(sentence, tuple(place for part in parts for place in part.places))


def whole_text_once(text: str, document: str = "") -> Placed:
    """Place a text that several examples share, as `whole_text`, and keep the result."""
    return _whole_text(text, document, current_rule())


@lru_cache(CACHED_TEXTS)
def _whole_text(text: str, document: str, rule: int) -> Placed:
    return whole_text(text, document)  # by this rule, the caller's


def as_score(value: Any, where: str) -> float:
    """A number as it is under `SCORE_KEY`, also as text (in a table); `ValueError` with the place for anything else."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise GoldFault(where, "score", (SCORE_KEY,), value, "a number")
    return number


def _sentence(record: Any, where: str, notes: list[Note], fields: Fields, unlabelled: Unlabelled = False) -> Sentence:
    sentence = _gold_sentence(record, where, notes, fields, unlabelled)
    notes.extend([] if len(sentence) else [Note(WORDLESS_TEXTS, where)])
    return sentence


def _gold_sentence(record: Any, where: str, notes: list[Note], fields: Fields, unlabelled: Unlabelled) -> Sentence:
    if isinstance(record, Sentence):  # read before
        if not record.is_labelled and unlabelled is not True:
            raise ValueError(f"{where}: the sentence has no label; give it a label, labels or a score")
        return record if record.label != "" else _with_labels(record, {LABEL_KEY: None}, where, notes, unlabelled)
    gold = fields.parts[-1]
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: expected a text and its {gold}, got {shorten(record)}")
    (text,) = texts_under(record, fields.texts, where).values()
    note_address(text, where, notes)
    sentence = replace(whole_text(text).sentence, document=document_of(record), where=where)
    if not any(key in record for key in fields.gold):
        flags = [name for name, value in record.items() if str(plain_value(value)) in ("0", "1", "True", "False")]
        advice = f"the columns {', '.join(map(str, flags))} have 0 and 1 alone, {INDICATORS}"
        advice = advice if gold == LABEL_KEY and len(flags) > 1 else "name it with --label-column"
        raise ValueError(f"{where}: no {gold} under {gold!r} ({say_found(record)}); {advice}")
    if gold == SCORE_KEY:
        return replace(sentence, score=as_score(record[SCORE_KEY], where))
    return _with_labels(sentence, record, where, notes, unlabelled)


def _with_labels(
    sentence: Sentence, record: Mapping[str, Any], where: str, notes: list[Note], unlabelled: Unlabelled
) -> Sentence:
    label = label_list(record.get(LABEL_KEY))
    several = (
        label if isinstance(label, (list, tuple)) else label_list(record.get(LABELS_KEY)) if label is None else None
    )
    if several is not None and are_labels(several):
        return replace(sentence, labels=tuple(dict.fromkeys(tidy_label(name, where, notes) for name in several)))
    nothing = all(is_missing(value) or (isinstance(value, str) and not value.strip()) for value in (label, several))
    if nothing and unlabelled:
        return sentence if unlabelled is True else replace(sentence, label="")
    if LABELS_KEY in record and label is None:
        raise ValueError(f"{where}: the labels under {LABELS_KEY!r} are {shorten(several)}; expected a list of names")
    if not is_label(label):
        raise GoldFault(where, "label", (LABEL_KEY,), label, "a name or a number")
    return replace(sentence, label=tidy_label(label, where, notes))


TEXTS = {
    task: RecordReader(
        what="text",
        make=partial(_sentence, fields=TASKS[task].suits),
        fields=TASKS[task].suits,
        annotated=TASKS[task].annotated,
        survey=survey,
        leaves_out=leaves_out,
    )
    for task, survey, leaves_out in (("classify", _survey, False), ("regress", RecordReader.survey, True))
}


def label_list(value: Any) -> Any:
    """Return the labels of a cell of a table, which has several as JSON, `["Food, drink", "late"]`, or as pandas writes
    a list, `['Food, drink', 'late']`; else the value."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        for parse in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return labels if are_labels(labels := parse(value.strip())) else value
    return value


def tidy_label(label: Any, where: str, notes: list[Note]) -> str:
    """Return a label as text, without white space around it, which is noted; with its value, if it is a number, a
    boolean, or a text whose accents are characters of their own.

    1.0 is the label 1: a data frame makes floats of whole numbers beside a missing one.
    """
    label = plain_value(label)
    if not isinstance(label, str):
        return TypedLabel(int(label) if isinstance(label, float) and label.is_integer() else label)
    tidy = compose(label.strip())
    if label.strip() != label:
        notes.append(Note(PADDED_LABELS, where, f"the label {shorten(label)}"))
    return tidy if tidy == label.strip() else TypedLabel(label.strip(), tidy)


def is_label(value: Any) -> bool:
    """Return whether this names a label: a text, a number or a boolean."""
    value = plain_value(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (int, str)) and bool(str(value).strip())


def are_labels(value: Any) -> bool:
    """Return whether this is a list of labels, perhaps empty."""
    return isinstance(value, (list, tuple)) and all(map(is_label, value))


def lists_labels(value: Any) -> bool:
    """Return whether this is a list of labels, and not empty."""
    return bool(value) and are_labels(value)


def names_labels(value: Any) -> bool:
    """Return whether this names a label, or lists some, as doccano has topics under `label`."""
    return is_label(value) or lists_labels(value)
