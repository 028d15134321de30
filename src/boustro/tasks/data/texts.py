"""Labelled texts: one label for a text.

    {"text": "A film to remember.", "label": "positive"}   JSON lines; also "sentence", and integers as labels
    [("A film to remember.", "positive"), …]               Python pairs; dicts as above

A text becomes one `Sentence` with all its words, whatever the number of its sentences, and its `label`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from boustro.errors import shorten
from boustro.tasks.data.jsonl import read_named
from boustro.text.words import Placed, split_text
from boustro.types import Sentence

TEXT_KEYS, LABEL_KEY = ("text", "sentence"), "label"
TextData: TypeAlias = str | Path | Iterable[Any]


def read_texts(data: TextData) -> list[Sentence]:
    """Labelled texts of a JSON lines file, of (text, label) pairs, or of dicts.

    Raises `FileNotFoundError`, and `ValueError` with file:line for a record without a text or a label.
    """
    return read_named(data, "text", _sentence)


def whole_text(text: str, document: str = "") -> Placed:
    """All words of a text as one sentence, with their places."""
    parts = list(split_text(text, document))
    words = tuple(word for part in parts for word in part.sentence.words)
    spaces = tuple(space for part in parts for space in part.sentence.spaces or ())
    return Placed(Sentence(words, spaces=spaces, document=document), tuple(p for part in parts for p in part.places))


def _sentence(record: Any, where: str) -> Sentence:
    if isinstance(record, Sentence):  # read before
        return record
    if isinstance(record, (list, tuple)) and len(record) == 2:
        record = {TEXT_KEYS[0]: record[0], LABEL_KEY: record[1]}
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: expected a text and its label, got {shorten(record)}")
    text = next((record[key] for key in TEXT_KEYS if key in record), None)
    label = record.get(LABEL_KEY)
    if not isinstance(text, str):
        raise ValueError(f"{where}: no text under {' or '.join(TEXT_KEYS)} (found: {', '.join(map(str, record))})")
    if isinstance(label, bool) or not isinstance(label, (str, int)) or not str(label).strip():
        raise ValueError(f"{where}: the label under {LABEL_KEY!r} is {shorten(label)}; expected a name or a number")
    return replace(whole_text(text).sentence, label=str(label), where=where)
