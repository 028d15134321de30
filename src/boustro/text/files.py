"""Tables of texts, the one door to them: CSV, TSV, Excel, parquet, Arrow and Feather files, read and written.

    rows = open_rows(Path("messages.csv"))
    rows.heads                       # ("", "id", " message ")         as they stand in the file
    rows.keys                        # ("", "id", "message")           their names in a record, each another
    [*rows]                          # [("messages.csv:2", {"": "0", "id": "7", "message": "Ada left."})]

A record has all columns, in order, with the types that the file has: the text of a CSV file's cells, numbers, dates and
truth values of a workbook, anything of parquet. A place is the row that a spreadsheet shows. Of a workbook (.xlsx) the
first sheet is read. What a record lacks is `None`; a row with more cells than the head is an error.

Parquet, Arrow and workbooks are read and written in constant memory, by pyarrow, which comes with `datasets`, and
openpyxl.
"""

import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import time as day_time
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from boustro.errors import reason
from boustro.text.kinds import EXCEL, kind_of_file
from boustro.text.kinds import SHEET as SHEET_AS_CSV
from boustro.text.rows import COLUMNS, TABLES, file_ending
from boustro.text.separated import OTHERS, SEPARATED_BY, CellRow, Dialect, Separated, cell_text, json_value
from boustro.types import Note

SHEET = ".xlsx"
HEAD_AGAIN = "lines that name the columns again, as joined files have them, left out"
SHORT = "rows with fewer cells than columns; the others are empty"
UNSTORED = "cells with a formula whose value is not in the file, read as empty; open and save it in a spreadsheet"
MORE_SHEETS = "sheets behind the first one, which are not read"
BATCH_ROWS = 1000
CELL, SHEET_ROWS, SHEET_DIGITS = 32_767, 1_048_576, 15
"""What a workbook holds: UTF-16 units in a cell, rows, digits of a number."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
ESCAPED = re.compile(r"_x(?=[0-9A-Fa-f]{4}_)")
FIRST_DAY = datetime(1900, 3, 1)
"""Before it workbooks count days otherwise than calendars do."""
INTEGERS = range(-(2**63), 2**63)

Form = Literal["separated", "sheet", "columns"]


class TableRow(dict[str, Any]):
    """A record by the keys of its columns.

    Attributes:
        is_blank: Whether it is an empty row between others.
        formats: How a workbook shows the values of its columns, where it says so.
    """

    def __init__(self, cells: Any = (), is_blank: bool = False, formats: dict[str, str] | None = None) -> None:
        super().__init__(cells)
        self.is_blank, self.formats = is_blank, formats or {}


@dataclass
class Rows:
    """An opened table: its columns, and an iteration over (place, record).

    Attributes:
        form: What the file is.
        heads: The names of the columns as they stand in the file; of a workbook they may be numbers or dates.
        keys: The names that the columns have in records; each another, see `keys_of`.
        notes: What there is to say of how it is read, with each row that has it; grows while it is read.
        dialect: How a CSV or TSV file is written.
        schema: The types of a parquet or Arrow file, a `pyarrow.Schema`.
        batches: Its rows as `pyarrow.RecordBatch`es; each call begins anew.
    """

    path: Path
    form: Form
    heads: tuple[Any, ...] = ()
    keys: tuple[str, ...] = ()
    notes: list[Note] = field(default_factory=list)
    dialect: Dialect | None = None
    schema: Any = None
    batches: Callable[..., Iterator[Any]] = iter
    only: str | None = None
    records: Iterable[tuple[str, TableRow]] = ()

    def __iter__(self) -> Iterator[tuple[str, TableRow]]:
        """All records, once, blank rows between others too; `ValueError`, with the place, for what is no row."""
        return iter(self.records)


def is_separated(path: Path) -> bool:
    """Whether the name is that of a CSV or TSV file, compressed or not."""
    return file_ending(path) in SEPARATED_BY


def is_table(path: Path) -> bool:
    """Whether this is a table whose columns have names, by the name or, of parquet and Arrow, by the first bytes."""
    return file_ending(path) in (*SEPARATED_BY, SHEET, *TABLES) or kind_of_file(path) in COLUMNS


def open_rows(
    path: Path,
    form: Form | None = None,
    delimiter: str | None = None,
    notes: list[Note] | None = None,
    only: str | None = None,
) -> Rows:
    """Open a table.

    Args:
        form: What it is; by default as its name and its first bytes say.
        delimiter: What separates the cells of a CSV or TSV file; by default as its first line has it.
        notes: The list that becomes `notes`.
        only: The column that records of a parquet or Arrow file have, where it is there and no other is needed.

    Raises `ValueError` for a damaged file and for names that several columns have, and `ImportError` for a workbook
    where openpyxl is not installed.
    """
    if form is None:
        form = "separated" if is_separated(path) else "sheet" if file_ending(path) == SHEET else "columns"
    return OPENED[form](Rows(path, form, notes=[] if notes is None else notes, only=only), delimiter)


def read_table(
    path: Path, delimiter: str | None = None, notes: list[Note] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) of the labelled rows of a table, without blank rows and columns without a name; dates of a workbook
    are text. Raises as `open_rows`."""
    rows = open_rows(path, None, delimiter, notes)
    named = [key for key, head in zip(rows.keys, rows.heads, strict=True) if head not in (None, "") and key]
    for place, record in rows:
        if not record.is_blank:
            values = ((key, record[key]) for key in named)
            is_sheet = rows.form == "sheet"
            yield place, {key: json_value(v) if is_sheet and hasattr(v, "isoformat") else v for key, v in values}


def columns_of(path: Path, delimiter: str | None = None) -> list[str]:
    """The names of the columns of a table, without blank ones; raises as `open_rows`."""
    return [key for key in open_rows(path, None, delimiter).keys if key]


def maybe_texts(path: Path) -> list[str]:
    """The names in the first line of a table that may have a text in each row: CoNLL columns have blank lines."""
    if not is_separated(path) or not path.is_file():
        return []
    from boustro.text.documents import read_lines

    lines = [line.strip() for _, line in read_lines(path, [])]
    return [] if "" in lines[:-1] else columns_of(path)


def free_names(names: Iterable[str], taken: Collection[str], before: str = "answer_") -> dict[str, str]:
    """Names for what is written beside the columns of a row, of which none is replaced: `{"label": "answer_label"}`."""
    found: dict[str, str] = {}
    for name in names:
        free = name
        while free in taken or free in found.values():
            free = before + free
        found[name] = free
    return found


def keys_of(heads: Sequence[Any], where: str) -> tuple[str, ...]:
    """Names for columns, without white space around them; the first without a name is "", others are "column 3".

    Raises `ValueError` where several have the same name.
    """
    bare = [cell_text(head).strip() for head in heads]
    if twice := [name for name in dict.fromkeys(bare) if name and bare.count(name) > 1]:
        shown = ", ".join(map(repr, twice))
        raise ValueError(f"{where}: several columns are named {shown}; give each column its own name")
    keys: list[str] = []
    for number, name in enumerate(bare, start=1):
        nameless = f"column {number}" if "" in keys else ""
        keys.append(name or free_names([nameless], [*keys, *filter(None, bare)], "_")[nameless])
    return tuple(keys)


# CSV and TSV


def _open_separated(rows: Rows, delimiter: str | None) -> Rows:
    file = Separated(rows.path, rows.notes, delimiter)
    numbered = enumerate(file, start=1)  # a spreadsheet does not show the line `sep=;`
    number, head = next(((n, row) for n, row in numbered if not row.is_blank), (0, None))
    rows.dialect = file.dialect
    if head is not None:
        rows.heads = head.cells
        bare = [c if quoted else c.strip().strip('"') for c, quoted in zip(head.cells, head.quoted, strict=True)]
        rows.keys = keys_of(bare, f"{rows.path}:{number}")
        rows.records = _without_last_blanks(_separated_records(rows, file, head, numbered))
    return rows


def _separated_records(
    rows: Rows, file: Separated, head: CellRow, numbered: Iterator[tuple[int, CellRow]]
) -> Iterator[tuple[str, TableRow]]:
    keys, notes = rows.keys, rows.notes
    for number, row in numbered:
        where = f"{rows.path}:{number}"
        if row.is_blank:
            yield where, TableRow(dict.fromkeys(keys), is_blank=True)
            continue
        if row.cells == head.cells and len(keys) > 1:
            notes.append(Note(HEAD_AGAIN, where))
            continue
        if len(row.cells) > len(keys):
            separator = file.dialect.separator
            _refuse_more(rows, where, row.line, number, f"quote a cell with {OTHERS.get(separator, repr(separator))}")
        if len(row.cells) < len(keys):
            notes.append(Note(SHORT, where))
        notes += [Note(what, where) for what in file.note(row, len(keys))]
        yield where, TableRow(dict.fromkeys(keys) | dict(zip(keys, row.cells, strict=False)))


def _refuse_more(rows: Rows, where: str, line: int, number: int, advice: str) -> None:
    at = f" (line {line} of the file)" if line != number else ""
    columns = ", ".join(key or "(no name)" for key in rows.keys)
    raise ValueError(f"{where}: more cells than columns ({columns}){at}; {advice}")


def _without_last_blanks(records: Iterable[tuple[str, TableRow]]) -> Iterator[tuple[str, TableRow]]:
    """Yield records without the blank rows at the end, of which workbooks have as many as were ever formatted."""
    held: list[tuple[str, TableRow]] = []
    for place, record in records:
        if record.is_blank:
            held.append((place, record))
        else:
            yield from held
            held.clear()
            yield place, record


# Workbooks


def _open_sheet(rows: Rows, delimiter: str | None) -> Rows:
    book = _load(rows.path, values=True)
    if not book.worksheets:
        raise ValueError(f"{rows.path}: the workbook has no sheet with cells; {SHEET_AS_CSV}")
    rows.notes += [Note(MORE_SHEETS, str(rows.path), s.title) for s in book.worksheets[1:] if _has_cell(rows.path, s)]
    formulas = _cells(rows.path, _load(rows.path, values=False).worksheets[0]) if _has_formula(rows.path) else ()
    numbered = enumerate(zip_longest(_cells(rows.path, book.worksheets[0]), formulas, fillvalue=()), start=1)
    for number, (cells, _) in numbered:
        heads = _without_last_nones([_value(cell) for cell in cells])
        if heads:
            rows.heads, rows.keys = tuple(heads), keys_of(heads, f"{rows.path}: row {number}")
            rows.records = _without_last_blanks(_sheet_records(rows, numbered))
            break
    return rows


def _sheet_records(rows: Rows, numbered: Iterator[tuple[int, Any]]) -> Iterator[tuple[str, TableRow]]:
    keys = rows.keys
    for number, (cells, formulas) in numbered:
        where = f"{rows.path}: row {number}"
        values = _without_last_nones([_value(cell) for cell in cells])
        unstored = [
            c for c, f in zip_longest(cells, formulas) if f and f.data_type == "f" and (not c or c.value is None)
        ]
        rows.notes += [Note(UNSTORED, where)] * len(unstored)
        if len(values) > len(keys):
            _refuse_more(rows, where, number, number, "give each column a name in the first row")
        formats = {
            key: cell.number_format
            for key, cell in zip(keys, cells, strict=False)
            if cell.value is not None and cell.number_format not in (None, "General")
        }
        record = dict.fromkeys(keys) | dict(zip(keys, values, strict=False))
        yield where, TableRow(record, is_blank=not values and not unstored, formats=formats)


def _load(path: Path, values: bool) -> Any:
    """A workbook with the values that it stores, or with formulas."""
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError(f"{path} is an Excel workbook; {EXCEL}") from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=values)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what it says of its size may be wrong
        return book
    except Exception as error:  # a damaged file makes the library raise anything
        raise ValueError(f"{path}: the workbook is damaged; {SHEET_AS_CSV}") from error


def _cells(path: Path, sheet: Any) -> Iterator[tuple[Any, ...]]:
    number = 0
    try:
        for cells in sheet.iter_rows():
            yield cells
            number += 1
    except (KeyError, ValueError, SyntaxError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: the workbook is damaged after row {number}; {SHEET_AS_CSV}") from error


def _has_cell(path: Path, sheet: Any) -> bool:
    return any(cell.value is not None for cells in _cells(path, sheet) for cell in cells)


def _has_formula(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with archive.open(name) as file:
                    end = b""
                    while block := file.read(1 << 20):
                        if re.search(rb"<(\w+:)?f[ >/]", end + block):
                            return True
                        end = block[-32:]
    return False


def _value(cell: Any) -> Any:
    """Text without the escapes of workbooks; the day alone of a date that is shown without a time."""
    from openpyxl.styles.numbers import is_datetime
    from openpyxl.utils.escape import unescape

    value = cell.value
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, datetime) and is_datetime(cell.number_format) == "date" and value.time() == day_time():
        return value.date()
    return value


def _without_last_nones(values: list[Any]) -> list[Any]:
    return values[: max((n for n, value in enumerate(values, start=1) if value is not None), default=0)]


def refuse_in_sheet(record: dict[str, Any], place: str, name: Path) -> None:
    """`ValueError`, with the place, for a text that no cell of a workbook can hold; `name` is the workbook."""
    for key, value in record.items():
        if isinstance(value, (str, list, dict)):
            text = cell_text(value)
            if holds_too_much(text):
                what = f"{len(text):,} characters under {key!r}, and a cell of a workbook holds {CELL:,}"
                raise ValueError(f"{name}: {place} has {what}; write .csv")
            if CONTROL.search(text):
                raise ValueError(f"{name}: {place} has a control character under {key!r}; write .csv")


def holds_too_much(text: str) -> bool:
    """Whether a text is too long for a cell of a workbook."""
    return len(text) > CELL // 2 and len(text.encode("utf-16-le", "surrogatepass")) // 2 > CELL


def write_sheet(
    heads: Sequence[Any], rows: Iterable[tuple[Sequence[Any], Sequence[str | None]]], target: Path, name: Path
) -> None:
    """Write a workbook, in which no cell is a formula, from cells and how they are shown.

    Raises `ValueError` for more rows than a workbook holds; `name` is what it will be called.
    """
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()

    def cell(value: Any, shown: str | None = None) -> Any:
        value = _for_sheet(value)
        if not isinstance(value, str):
            made = WriteOnlyCell(sheet, value)
            made.number_format = shown or made.number_format
            return made
        made = WriteOnlyCell(sheet)
        escaped = CONTROL_OR_RETURN.sub(lambda m: f"_x{ord(m[0]):04X}_", ESCAPED.sub("_x005F_x", value))
        made._value, made.data_type = escaped, "s"  # what is set in public is cut at 32,767 letters with its escapes
        return made

    sheet.append([cell(head) for head in heads])
    for number, (values, formats) in enumerate(rows, start=1):
        if number == SHEET_ROWS:
            raise ValueError(f"{name}: a workbook holds {SHEET_ROWS:,} rows; write .csv")
        sheet.append([cell(value, shown) for value, shown in zip_longest(values, formats)])
    book.save(target)


CONTROL_OR_RETURN = re.compile(r"[\x00-\x08\x0b-\x1f]")


def _for_sheet(value: Any) -> Any:
    """A value as a cell can have it: text for lists, bytes, numbers of more than 15 digits, dates with a zone."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None if value != value else str(value)
    if isinstance(value, (int, Decimal)):
        exact = len(str(value).lstrip("-").replace(".", "").strip("0")) <= SHEET_DIGITS and "E" not in str(value)
        return value if exact and abs(value) < 10**SHEET_DIGITS else str(value)
    if isinstance(value, datetime):
        fits = value.tzinfo is None and value >= FIRST_DAY and not getattr(value, "nanosecond", 0)
        return value if fits else value.isoformat()
    if isinstance(value, date):
        return value if value >= FIRST_DAY.date() else value.isoformat()
    if isinstance(value, day_time):
        return value if value.tzinfo is None else value.isoformat()
    return value if isinstance(value, timedelta) else cell_text(value)


# Parquet, Arrow, Feather


def _open_columns(rows: Rows, delimiter: str | None) -> Rows:
    with _damaged(rows.path):
        rows.schema = _opened(rows.path)[0]
    rows.heads = rows.keys = tuple(rows.schema.names)
    keys_of(rows.heads, str(rows.path))  # refuses names that come twice
    rows.batches = lambda only=None: _batches(rows.path, only)
    rows.records = _column_records(rows)
    return rows


def _column_records(rows: Rows) -> Iterator[tuple[str, TableRow]]:
    number = 0
    for batch in rows.batches(rows.only):
        for value in batch.to_pylist():
            number += 1
            yield f"{rows.path}: row {number}", TableRow(value)


def _batches(path: Path, only: str | None) -> Iterator[Any]:
    """All rows, or those of one column, where there is one of this name."""
    done = 0
    with _damaged(path, lambda: f" after row {done}"):
        schema, read = _opened(path)
        for batch in read(schema.names if only is None or only not in schema.names else [only]):
            yield batch
            done += len(batch)


def _opened(path: Path) -> tuple[Any, Callable[[list[str]], Iterator[Any]]]:
    """The schema, and a function from names of columns to batches of them."""
    from pyarrow import ipc, memory_map, parquet

    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        table = parquet.ParquetFile(path)
        return table.schema_arrow, lambda names: table.iter_batches(BATCH_ROWS, columns=names)
    is_file = start == b"ARRO"
    opened: Any = (ipc.open_file if is_file else ipc.open_stream)(memory_map(str(path)))

    def read(names: list[str]) -> Iterator[Any]:
        for batch in map(opened.get_batch, range(opened.num_record_batches)) if is_file else opened:
            yield batch if names == opened.schema.names else batch.select(names)

    return opened.schema, read


@contextmanager
def _damaged(path: Path, where: Callable[[], str] = str) -> Iterator[None]:
    import pyarrow  # of datasets

    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path}: the file is damaged{where()}: {reason(error)}") from error


class Types:
    """The types of the columns of records, of all that it has seen: `schema`.

    Whole numbers that need more than 64 bits make their column one of decimals.
    """

    def __init__(self, schema: Any = None) -> None:
        import pyarrow

        self.schema = pyarrow.schema([]) if schema is None else schema

    def see(self, records: Sequence[dict[str, Any]], name: Path | str) -> None:
        """Widen the types to those of more records; `ValueError` where a column has values of types that differ."""
        import pyarrow

        for key in dict.fromkeys(key for record in records for key in record):
            values = [record.get(key) for record in records]
            try:
                try:
                    kind = pyarrow.array(values).type
                except OverflowError:
                    kind = pyarrow.array([Decimal(v) if type(v) is int else v for v in values]).type
            except (OverflowError, TypeError, ValueError) as error:
                raise _misfit(name, key, error) from None
            self.widen(pyarrow.schema([(key, kind)]), name)

    def add(self, table: Rows) -> None:
        """The columns of a table, in order: text of a CSV file, else of no type yet where the file does not say it."""
        import pyarrow

        kind = pyarrow.string() if table.form == "separated" else pyarrow.null()
        self.widen(table.schema or pyarrow.schema([(key, kind) for key in table.keys]), table.path)

    def widen(self, schema: Any, name: Path | str) -> None:
        """Widen the types to those of a file or of some columns; raises as `see`."""
        import pyarrow

        try:
            self.schema = pyarrow.unify_schemas([self.schema, schema], promote_options="permissive")
        except (TypeError, ValueError) as error:
            raise _misfit(name, ", ".join(schema.names), error) from None

    def table(self, records: Sequence[dict[str, Any]]) -> Any:
        """Records as a `pyarrow.Table` with these types."""
        import pyarrow

        return pyarrow.Table.from_pylist(list(records), schema=self.schema)

    def behind(self, schema: Any) -> Any:
        """Another schema, with what it says of itself, and these columns behind its own."""
        import pyarrow

        return pyarrow.schema([*schema, *self.schema], metadata=schema.metadata)

    def join(self, batch: Any, rows: Sequence[int], records: Sequence[dict[str, Any]]) -> Any:
        """Some rows of a `pyarrow.RecordBatch`, each with a record of these types behind it."""
        import pyarrow

        batch = batch if len(rows) == len(batch) else batch.take(pyarrow.array(rows, pyarrow.int64()))
        columns = [*batch.columns, *self.table(records).columns]
        return pyarrow.Table.from_arrays(columns, schema=self.behind(batch.schema))


def _misfit(name: Path | str, key: str, error: Exception) -> ValueError:
    what = f"{name}: the values under {key!r} do not fit into one table ({reason(error)})"
    return ValueError(f"{what}; write .jsonl, .csv or .xlsx")


def write_columns(schema: Any, tables: Iterable[Any], target: Path, form: Literal["parquet", "arrow"]) -> None:
    """Write `pyarrow.Table`s or batches of one schema, one after the other."""
    import pyarrow
    from pyarrow import parquet

    with (parquet.ParquetWriter if form == "parquet" else pyarrow.ipc.new_file)(str(target), schema) as writer:
        for table in tables:
            writer.write_table(table)


OPENED: dict[str, Callable[[Rows, str | None], Rows]] = {
    "separated": _open_separated,
    "sheet": _open_sheet,
    "columns": _open_columns,
}
