"""Parquet and Arrow files, written from JSON lines in constant memory. pyarrow comes with `datasets`."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from boustro.errors import reason

ROWS = 1024
Table = Literal["parquet", "arrow"]


def write_table(lines: Path, target: Path, form: Table) -> int:
    """Write a file of JSON lines as a table, in two passes: its columns and types, its rows. Returns the rows.

    Raises `ValueError` where a field has values of types that no column can hold together.
    """
    import pyarrow as pa
    from pyarrow import parquet

    schema, rows = pa.schema([]), 0
    try:
        for some in _records(lines):
            found = pa.Table.from_pylist(_with_all_keys(some)).schema
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
        with (parquet.ParquetWriter if form == "parquet" else pa.ipc.new_file)(str(target), schema) as writer:
            for some in _records(lines):
                writer.write_table(pa.Table.from_pylist(some, schema=schema))
                rows += len(some)
    except pa.ArrowException as error:
        raise ValueError(f"{target}: the answers do not fit into one table ({reason(error)}); write .jsonl") from None
    return rows


def _with_all_keys(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """pyarrow takes the columns of the first row."""
    keys = dict.fromkeys(key for record in records for key in record)
    return [{key: record.get(key) for key in keys} for record in records]


def _records(lines: Path) -> Iterator[list[dict[str, Any]]]:
    with lines.open(encoding="utf-8") as file:
        while some := list(islice(file, ROWS)):
            yield [json.loads(line) for line in some]
