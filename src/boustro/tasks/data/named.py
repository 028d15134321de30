"""Labelled examples whose values have names: texts, pairs, sentences with senses.

read_named("train.jsonl", "pair", make)      JSON lines, or a .json file with one list of records
read_named("train.csv", "pair", make)        CSV and TSV files with a head line; hf:NAME
read_named(frame, "pair", make)              data frames, data sets, any iterable of records

The keys or columns of texts and gold values are those that each reader names, or those that the options choose.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from boustro.choose import suggestion
from boustro.given import as_list
from boustro.options import OptionError
from boustro.tasks.data.reading import (
    DEFAULT_OPTIONS,
    DataOptions,
    Note,
    missing_file,
    note_unread,
    refuse_delimiter,
    refuse_tag_options,
    unread_fields,
)
from boustro.tasks.data.tables import named_rows
from boustro.text.documents import read_lines
from boustro.text.rows import records_of

T = TypeVar("T")
Named = Iterable[tuple[str, Any]]


def read_named(
    data: Any,
    what: str,
    read: Callable[[Any, str], T],
    plain: Callable[[Named], Named] = list,
    options: DataOptions = DEFAULT_OPTIONS,
    notes: list[Note] | None = None,
    reads: Collection[str] | None = None,
) -> list[T]:
    """Labelled examples, see the module.

    Args:
        what: What an example is called in messages: "text", "pair", …
        read: An example from a record and its place.
        plain: Makes (place, record) pairs plain where they are of a foreign form, or under other names.
        options: How a table is read.
        notes: Get what is noticed in a table, and the fields that are left.
        reads: The keys that `read` reads; the others are noted.

    Raises `FileNotFoundError`, `OptionError` for options that only tags have, and `ValueError` where there is no
    example; `read` raises for a record that is none.
    """
    refuse_tag_options(options)
    named = named_rows(data, options, notes)
    if named is None and isinstance(data, (str, Path)):
        path = Path(data)
        if not path.is_file():
            raise missing_file(path, f"labelled {what}s are expected, as JSON lines")
        refuse_delimiter(options, path)
        named = [(f"{path}:{number}", record) for number, record in records_of(path, read_lines(path))]
    if named is None:
        items = as_list(data, f"a file of labelled {what}s, or a list of them")
        named = [(f"{what} {number} of the given data", item) for number, item in enumerate(items, start=1)]
    records = list(plain(named))
    if reads is not None and notes is not None:
        known = {*reads, *options.text_column, options.label_column}
        note_unread(((place, unread_fields(r, known)) for place, r in records if isinstance(r, Mapping)), notes)
    examples = [read(record, where) for where, record in records]
    if not examples:
        raise ValueError(f"{data if isinstance(data, (str, Path)) else 'the given data'}: no labelled {what}")
    return examples


def under_names(named: Named, options: DataOptions, texts: Sequence[str], gold: str) -> list[tuple[str, Any]]:
    """(place, record) pairs with the columns that the options choose under the names that a task reads.

    Raises `OptionError` for another number of columns than of `texts`, and `ValueError` where a record lacks one.
    """
    if options.text_column and len(options.text_column) != len(texts):
        raise OptionError(f"--text-column names {len(options.text_column)} columns; this task reads {len(texts)}")
    chosen = dict(zip(texts, options.text_column, strict=False))
    chosen |= {} if options.label_column is None else {gold: options.label_column}
    return [
        (where, _renamed(record, chosen, where) if isinstance(record, Mapping) else record) for where, record in named
    ]


def _renamed(record: Mapping[str, Any], chosen: Mapping[str, str], where: str) -> Mapping[str, Any]:
    for column in chosen.values():
        if column not in record:
            known = [str(name) for name in record]
            listed = ", ".join(known) or "nothing"
            raise ValueError(f"{where}: no column {column!r}{suggestion(column, known)} (found: {listed})")
    return {**record, **{name: record[column] for name, column in chosen.items()}}
