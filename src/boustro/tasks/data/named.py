"""Labelled examples whose values have names: texts, pairs, sentences with senses.

read_named("train.jsonl", "pair", make)      JSON lines, or a .json file with one list of records
read_named("train.csv", "pair", make)        CSV and TSV files with a head line; hf:NAME
read_named(frame, "pair", make)              data frames, data sets, any iterable of records
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from boustro.given import as_list
from boustro.tasks.data.jsonl import records_of
from boustro.tasks.data.reading import missing_file
from boustro.tasks.data.tables import named_rows
from boustro.text.documents import read_lines

T = TypeVar("T")
Named = Iterable[tuple[str, Any]]


def read_named(data: Any, what: str, read: Callable[[Any, str], T], plain: Callable[[Named], Named] = list) -> list[T]:
    """Labelled examples, see the module.

    Args:
        what: What an example is called in messages: "text", "pair", …
        read: An example from a record and its place.
        plain: Makes (place, record) pairs plain where they are of a foreign form.

    Raises `FileNotFoundError`, and `ValueError` where there is no example; `read` raises for a record that is none.
    """
    named = named_rows(data)
    if named is None and isinstance(data, (str, Path)):
        path = Path(data)
        if not path.is_file():
            raise missing_file(path, f"labelled {what}s are expected, as JSON lines")
        named = [(f"{path}:{number}", record) for number, record in records_of(path, read_lines(path))]
    if named is None:
        items = as_list(data, f"a file of labelled {what}s, or a list of them")
        named = [(f"{what} {number} of the given data", item) for number, item in enumerate(items, start=1)]
    found = [read(record, where) for where, record in plain(named)]
    if not found:
        raise ValueError(f"{data if isinstance(data, (str, Path)) else 'the given data'}: no labelled {what}")
    return found
