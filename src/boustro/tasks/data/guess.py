"""Which task labelled data are for, by the keys of the first record."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from boustro.tasks.data.annotations import guess_wanted
from boustro.tasks.data.dialect import columns_of, is_table
from boustro.tasks.data.jsonl import records_of
from boustro.tasks.data.named import under_names
from boustro.tasks.data.pairs import KEYS, LABEL_KEYS
from boustro.tasks.data.questions import holds_questions
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.records import WORD_KEYS
from boustro.tasks.data.relations import KEYS as RELATION_KEYS
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
    "relation": lambda record: all(key in record for key in RELATION_KEYS),
    "classify": _labelled_text,
    "pair": lambda record: _is_pair(record) and any(key in record for key in LABEL_KEYS),
    "similarity": lambda record: _is_pair(record) and SCORE_KEY in record,
    "regress": lambda record: _is_text(record) and SCORE_KEY in record,
}
"""The tasks by name; the first whose records these are."""


def guess_task(path: Path | None, text_column: Sequence[str] = (), label_column: str | None = None) -> str:
    """The task that a JSON lines, CSV or TSV file is for; "tag" for any other file, and where no record says more.

    A file whose columns of texts or labels are named is for texts or pairs.
    """
    named = ("pair" if len(text_column) > 1 else "classify") if text_column or label_column else "tag"
    if path is None or not path.is_file() or not (".json" in path.name or is_table(path)):
        return named
    if not is_table(path) and holds_questions(path):
        return "qa"
    try:
        if not is_table(path) and (wanted := guess_wanted(records_of(path, read_lines(path)))):
            return "tag" if wanted == "entities" else "classify"
        record = dict.fromkeys(columns_of(path), "1") if is_table(path) else _first(path)
        texts = KEYS[0] if len(text_column) > 1 else TEXT_KEYS[:1]
        chosen = DataOptions(text_column=tuple(text_column), label_column=label_column)
        ((_, record),) = under_names([(str(path), record)], chosen, texts, LABEL_KEY)
    except (OSError, ValueError, StopIteration):
        return named
    return next((name for name, suits in SUITS.items() if isinstance(record, Mapping) and suits(record)), named)


def _first(path: Path) -> Any:
    _, record = next(iter(records_of(path, read_lines(path))))
    return record
