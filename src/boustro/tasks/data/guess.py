"""Which task labelled data are for: a file as a whole, or its first record."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boustro.tasks import DEFAULT_TASK, TASKS
from boustro.tasks.data.annotations import guess_wanted
from boustro.tasks.data.dialect import columns_of, is_table
from boustro.tasks.data.named import under_names
from boustro.tasks.data.pairs import KEYS
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.texts import LABEL_KEY, TEXT_KEYS
from boustro.text.documents import read_lines
from boustro.text.rows import JSON, JSON_LINES, begins_rows, file_ending, first_line, records_of

JSON_NAMED = (*JSON_LINES, JSON)


def guess_task(path: Path | None, text_column: Sequence[str] = (), label_column: str | None = None) -> str:
    """The first task that a file of JSON, CSV or TSV suits, as `TASKS` says; the default task for any other file,
    and where no record says more.

    A file whose columns of texts or labels are named is for texts or pairs.
    """
    texts = min(len(text_column) or 1, 2) if text_column or label_column else None
    named = next((name for name, entry in TASKS.items() if entry.num_texts == texts), DEFAULT_TASK)
    if path is None or not path.is_file():
        return named
    table = is_table(path)
    try:
        if not table and file_ending(path) not in JSON_NAMED and not begins_rows(first_line(read_lines(path))[0]):
            return named
        if not table and (whole := [name for name, entry in TASKS.items() if entry.suits_file(path)]):
            return whole[0]
        if not table and (wanted := guess_wanted(records_of(path, read_lines(path)))):
            return next(name for name, entry in TASKS.items() if entry.annotated == wanted)
        record = dict.fromkeys(columns_of(path), "1") if table else _first(path)
        keys = KEYS[0] if len(text_column) > 1 else TEXT_KEYS[:1]
        chosen = DataOptions(text_column=tuple(text_column), label_column=label_column)
        ((_, record),) = under_names([(str(path), record)], chosen, keys, LABEL_KEY)
    except (OSError, ValueError, StopIteration):
        return named
    suited = (name for name, entry in TASKS.items() if isinstance(record, Mapping) and entry.suits(record))
    return next(suited, named)


def _first(path: Path) -> Any:
    _, record = next(iter(records_of(path, read_lines(path))))
    return record
