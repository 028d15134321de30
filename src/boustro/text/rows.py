"""Rows of a corpus that is not plain text, in the formats of the field: a text, and perhaps more, in each.

    c4.jsonl.zst, c4.json.gz    JSON lines: {"text": "Ada left."} in every line
    texts.json                  an array of such objects, or one, over any number of lines
    texts.csv, texts.tsv.gz     a header with a column `text`; a CSV file may be written with ; or tabs too
    train-00000.parquet         a column `text`; Arrow and Feather files too, with any name
    wiki/                       a folder that `save_to_disk` of datasets wrote

Only the column of the text is read of parquet and Arrow files, batch by batch; an array is read as a whole.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from boustro.errors import reason

Row = tuple[str, Any]
"""Where it is, such as file:line, and what it holds."""
JSON_LINES, JSON = (".jsonl", ".ndjson"), ".json"
DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
COLUMNS = ("a parquet file", "an Arrow file", "a Feather file")  # of `kinds`
BATCH_ROWS = 1000
DECLARED = re.compile(r'"?sep=(.?)"?', re.IGNORECASE)
"""Excel's first line of a table, which says what separates the cells."""


def parse_record(line: str, where: str) -> Any:
    """The value of a line of JSON; `ValueError`, with its place, where it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not a JSON object ({error})") from None


def line_rows(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Row]:
    """Of numbered lines of JSON, without blank ones. Raises as `parse_record`."""
    named = ((f"{path}:{number}", line) for number, line in lines if line.strip())
    return ((place, parse_record(line, place)) for place, line in named)


def json_rows(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[Row]:
    """Of a JSON file: lines of objects, an array of them, or one."""
    first, lines = first_line(lines)
    if isinstance(_value(first), dict):
        return line_rows(path, lines)
    text = "\n".join(line for _, line in lines)
    if not text.strip():
        return iter(())
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"{path}{line}: not JSON ({error})") from None
    items = enumerate(found, 1) if isinstance(found, list) else [(1, found)]
    return ((f"{path}: item {number}", item) for number, item in items)


def hold_records(line: str, text_key: str) -> bool:
    """Whether the first line of a text file is an object with a text, so that the file holds JSON lines."""
    found = _value(line) if line.startswith("{") else None
    return isinstance(found, dict) and isinstance(found.get(text_key), str)


def first_line(lines: Iterator[tuple[int, str]]) -> tuple[str, Iterator[tuple[int, str]]]:
    """The first line that is not blank, or "", and the same lines from their beginning."""
    read = []
    for number, line in lines:
        read.append((number, line))
        if line.strip():
            return line.strip(), chain(read, lines)
    return "", iter(read)


def after_declaration(lines: Iterable[tuple[int, str]]) -> tuple[str | None, Iterator[tuple[int, str]]]:
    """What separates the cells, where the first line is Excel's `sep=;` and says it, and the lines that follow."""
    first, rest = first_line(iter(lines))
    found = DECLARED.fullmatch(first)
    if found is None:
        return None, rest
    next(line for _, line in rest if line.strip())
    return found[1] or "\t", rest  # a tab at the end was stripped


def table_rows(path: Path, lines: Iterator[tuple[int, str]], text_key: str, delimiters: str) -> Iterator[Row]:
    """Of lines of separated values: the delimiter is the first that finds `text_key` in the header.

    Raises `ValueError`, with file:line, for a row with more or fewer cells than the header.
    """
    csv.field_size_limit(2**31 - 1)  # texts are longer than Python's limit
    declared, lines = after_declaration(lines)
    delimiters = declared or delimiters
    before = declared is not None
    head, lines = first_line(lines)
    names = {delimiter: next(csv.reader([head], delimiter=delimiter), []) for delimiter in delimiters}
    delimiter = next((d for d, own in names.items() if text_key in own), delimiters[0])
    rows = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter, strict=True)
    header: list[str] = []
    try:
        for row in filter(None, rows):
            place = f"{path}:{rows.line_num + before}"
            if not header:
                header = row
                continue
            if len(row) != len(header):
                raise ValueError(
                    f"{place}: {len(row)} cells, but the header has {len(header)}; put a text with a delimiter or a "
                    "line end into quotes"
                )
            yield place, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise ValueError(
            f"{path}:{rows.line_num + before}: {error}; separated values with quotes are expected"
        ) from error


def column_rows(path: Path, text_key: str) -> Iterator[Row]:
    """Of a parquet, Arrow or Feather file; a row has the text alone, or where that is absent all columns, empty."""
    import pyarrow  # of datasets

    number = 0
    try:
        names, batches = _columns(path, text_key)
        if text_key not in names:
            yield str(path), dict.fromkeys(names)
            return
        for values in batches:
            for value in values:
                number += 1
                yield f"{path}: row {number}", {text_key: value}
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path}: the file is damaged after row {number}: {reason(error)}") from error


def _columns(path: Path, text_key: str) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of the columns, and batches of values of one of them."""
    from pyarrow import ipc, memory_map, parquet

    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        table = parquet.ParquetFile(path)
        found = table.iter_batches(BATCH_ROWS, columns=[text_key])
        return table.schema_arrow.names, (batch.column(text_key).to_pylist() for batch in found)
    if start == b"ARRO":
        opened = ipc.open_file(memory_map(str(path)))
        numbers = range(opened.num_record_batches)
        return opened.schema.names, (opened.get_batch(n).column(text_key).to_pylist() for n in numbers)
    stream = ipc.open_stream(memory_map(str(path)))
    return stream.schema.names, (batch.column(text_key).to_pylist() for batch in stream)


def saved_rows(folder: Path) -> Iterator[Row] | None:
    """Of a folder that datasets saved; None for any other. `ValueError` for one of several splits."""
    if (folder / "dataset_dict.json").is_file():
        splits = sorted(f"{p.parent}" for p in folder.glob("*/state.json"))
        raise ValueError(f"{folder} holds several datasets, one for each split; name those to read: {' '.join(splits)}")
    if not (folder / "state.json").is_file() or not (folder / "dataset_info.json").is_file():
        return None
    import datasets

    try:
        rows: Any = datasets.load_from_disk(str(folder))
    except Exception as error:  # a damaged file makes the library raise anything
        raise ValueError(f"{folder}: the dataset is damaged: {reason(error)}") from error
    return ((f"{folder}: row {number}", row) for number, row in enumerate(rows, 1))


def _value(line: str) -> Any:
    """Of a line of JSON; None where it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
