"""Which task labelled data are for, by the keys of the first record."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from boustro.tasks.data.jsonl import records_of
from boustro.tasks.data.pairs import KEYS, LABEL_KEYS, SCORE_KEY
from boustro.tasks.data.questions import holds_questions
from boustro.tasks.data.records import WORD_KEYS
from boustro.tasks.data.texts import LABEL_KEY, TEXT_KEYS
from boustro.text.documents import read_lines

Record = Mapping[str, Any]


def _labelled_text(record: Record) -> bool:
    has_text = any(isinstance(record.get(key), str) for key in TEXT_KEYS) and not any(k in record for k in WORD_KEYS)
    return has_text and isinstance(record.get(LABEL_KEY), (str, int))


def _is_pair(record: Record) -> bool:
    return any(all(isinstance(record.get(key), str) for key in keys) for keys in KEYS)


SUITS: dict[str, Callable[[Record], bool]] = {
    "classify": _labelled_text,
    "pair": lambda record: _is_pair(record) and any(key in record for key in LABEL_KEYS),
    "similarity": lambda record: _is_pair(record) and SCORE_KEY in record,
}
"""The tasks by name; the first whose records these are."""


def guess_task(path: Path | None) -> str:
    """The task that a JSON lines file is for; "tag" for any other file, and where no record says more."""
    if path is None or ".json" not in path.name or not path.is_file():
        return "tag"
    if holds_questions(path):
        return "qa"
    try:
        _, record = next(records_of(path, read_lines(path)))
    except (OSError, ValueError, StopIteration):
        return "tag"
    return next((name for name, suits in SUITS.items() if isinstance(record, Mapping) and suits(record)), "tag")
