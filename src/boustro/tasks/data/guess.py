"""Which task labelled data are for, by the keys of the first record."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from boustro.tasks.data.annotations import guess_wanted
from boustro.tasks.data.jsonl import records_of
from boustro.tasks.data.pairs import KEYS, LABEL_KEYS
from boustro.tasks.data.questions import holds_questions
from boustro.tasks.data.records import WORD_KEYS
from boustro.tasks.data.tables import is_table, named_rows
from boustro.tasks.data.texts import LABEL_KEY, LABELS_KEY, SCORE_KEY, TEXT_KEYS, are_labels, is_label
from boustro.text.documents import read_lines

Record = Mapping[str, Any]


def _is_text(record: Record) -> bool:
    return any(isinstance(record.get(key), str) for key in TEXT_KEYS) and not any(k in record for k in WORD_KEYS)


def _labelled_text(record: Record) -> bool:
    labels = record.get(LABELS_KEY)
    return _is_text(record) and (is_label(record.get(LABEL_KEY)) or (bool(labels) and are_labels(labels)))


def _is_pair(record: Record) -> bool:
    return any(all(isinstance(record.get(key), str) for key in keys) for keys in KEYS)


SUITS: dict[str, Callable[[Record], bool]] = {
    "classify": _labelled_text,
    "pair": lambda record: _is_pair(record) and any(key in record for key in LABEL_KEYS),
    "similarity": lambda record: _is_pair(record) and SCORE_KEY in record,
    "regress": lambda record: _is_text(record) and SCORE_KEY in record,
}
"""The tasks by name; the first whose records these are."""


def guess_task(path: Path | None) -> str:
    """The task that a JSON lines, CSV or TSV file is for; "tag" for any other file, and where no record says more."""
    if path is None or not path.is_file() or not (".json" in path.name or is_table(path)):
        return "tag"
    if not is_table(path) and holds_questions(path):
        return "qa"
    try:
        if not is_table(path) and (wanted := guess_wanted(records_of(path, read_lines(path)))):
            return "tag" if wanted == "entities" else "classify"
        _, record = next(iter(named_rows(path) or ()) if is_table(path) else records_of(path, read_lines(path)))
    except (OSError, ValueError, StopIteration):
        return "tag"
    return next((name for name, suits in SUITS.items() if isinstance(record, Mapping) and suits(record)), "tag")
