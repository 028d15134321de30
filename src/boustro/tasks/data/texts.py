"""Labelled texts: one label for a text, or several.

    {"text": "A film to remember.", "label": "positive"}   JSON lines; also "sentence", and integers as labels
    {"text": "Rain stops play.", "labels": ["sport", "weather"]}      several labels, or an empty list
    {"text": "A film to remember.", "score": 4.5}          a number instead
    [("A film to remember.", "positive"), …]               Python pairs, a list for several labels; dicts as above
    Label Studio's and Argilla's JSON                      see `annotations`
    text,label                                             CSV and TSV files with a head line, data frames, hf:NAME

A text becomes one `Sentence` with all its words, whatever the number of its sentences, and its `label` or `labels`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from boustro.errors import shorten
from boustro.tasks.data.annotations import plain_records
from boustro.tasks.data.named import read_named
from boustro.tasks.data.reading import DataOptions, Note, refuse_tag_options
from boustro.text.words import Placed, split_text
from boustro.types import Sentence

TEXT_KEYS, LABEL_KEY, LABELS_KEY, SCORE_KEY = ("text", "sentence"), "label", "labels", "score"
WORDLESS = "texts without a word"
Gold = Literal["label", "score"]
TextData: TypeAlias = str | Path | Iterable[Any]
"""A file, `hf:NAME`, (text, label) pairs, dicts, `Sentence`s, a `datasets.Dataset` or a pandas data frame."""


def read_texts(data: TextData, gold: Gold = "label", notes: list[Note] | None = None) -> list[Sentence]:
    """Labelled or scored texts, see the module; what was left out of the export of a labelling tool goes to `notes`.

    Raises `FileNotFoundError`, and `ValueError` with file:line for a record without a text or without its gold value.
    """
    noted = [] if notes is None else notes
    plain = partial(plain_records, wanted="label", notes=noted) if gold == "label" else list
    return read_named(data, "text", lambda record, where: _sentence(record, where, gold), plain)


def count_wordless(texts: list[Sentence], options: DataOptions) -> tuple[list[Sentence], Mapping[str, int]]:
    """Texts that were read, and how many have no word; `ValueError` for options that are about tags."""
    refuse_tag_options(options)
    wordless = sum(not len(text) for text in texts)
    return texts, {WORDLESS: wordless} if wordless else {}


def whole_text(text: str, document: str = "") -> Placed:
    """All words of a text as one sentence, with their places."""
    parts = list(split_text(text, document))
    words = tuple(word for part in parts for word in part.sentence.words)
    spaces = tuple(space for part in parts for space in part.sentence.spaces or ())
    return Placed(Sentence(words, spaces=spaces, document=document), tuple(p for part in parts for p in part.places))


def as_score(value: Any, where: str) -> float:
    """A number as it is under `SCORE_KEY`, also as text (in a table); `ValueError` with the place for anything else."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: the score under {SCORE_KEY!r} is {shorten(value)}; expected a number")
    return number


def _sentence(record: Any, where: str, gold: Gold) -> Sentence:
    if isinstance(record, Sentence):  # read before
        return record
    if isinstance(record, (list, tuple)) and len(record) == 2:
        record = {TEXT_KEYS[0]: record[0], gold: record[1]}
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: expected a text and its {gold}, got {shorten(record)}")
    text = next((record[key] for key in TEXT_KEYS if key in record), None)
    label = record.get(LABEL_KEY)
    if not isinstance(text, str):
        raise ValueError(f"{where}: no text under {' or '.join(TEXT_KEYS)} (found: {', '.join(map(str, record))})")
    sentence = replace(whole_text(text).sentence, where=where)
    if gold == SCORE_KEY:
        return replace(sentence, score=as_score(record.get(SCORE_KEY), where))
    several = label if isinstance(label, (list, tuple)) else record.get(LABELS_KEY) if label is None else None
    if several is not None and are_labels(several):
        return replace(sentence, labels=tuple(dict.fromkeys(map(str, several))))
    if LABELS_KEY in record and label is None:
        raise ValueError(f"{where}: the labels under {LABELS_KEY!r} are {shorten(several)}; expected a list of names")
    if not is_label(label):
        raise ValueError(f"{where}: the label under {LABEL_KEY!r} is {shorten(label)}; expected a name or a number")
    return replace(sentence, label=str(label))


def is_label(value: Any) -> bool:
    """Whether this names a label: a text or a whole number."""
    return isinstance(value, (str, int)) and not isinstance(value, bool) and bool(str(value).strip())


def are_labels(value: Any) -> bool:
    """Whether this is a list of labels, perhaps empty."""
    return isinstance(value, (list, tuple)) and all(map(is_label, value))
