"""Workbooks (.xlsx): the rows of the first sheet, and sheets of rows, in constant memory, by openpyxl.

Nothing is a formula in what is written; of a formula that is read its stored value is taken.
"""

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from datetime import time as day_time
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

from boustro.text.places import EXCEL, SHEET
from boustro.text.separated import cell_text
from boustro.types import Note

UNSTORED = "cells with a formula whose value is not in the file, read as empty; open and save it in a spreadsheet"
MORE_SHEETS = "sheets behind the first one, which are not read"
CELL, SHEET_ROWS, SHEET_DIGITS = 32_767, 1_048_576, 15
"""What a workbook holds: UTF-16 units in a cell, rows, digits of a number."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
CONTROL_OR_RETURN = re.compile(r"[\x00-\x08\x0b-\x1f]")
ESCAPED = re.compile(r"_x(?=[0-9A-Fa-f]{4}_)")
FIRST_DAY = datetime(1900, 3, 1)
"""Before it workbooks count days otherwise than calendars do."""


def sheet_rows(path: Path, notes: list[Note]) -> Iterator[tuple[int, list[Any], list[str | None], bool]]:
    """All rows of the first sheet: the number, from 1, the values up to the last that is there, how cells are shown,
    and whether there is a formula without a value.

    Raises `ValueError` for a damaged workbook, and `ImportError` where openpyxl is missing.
    """
    book = _load(path, values=True)
    if not book.worksheets:
        raise ValueError(f"{path}: the workbook has no sheet with cells; {SHEET}")
    notes += [Note(MORE_SHEETS, str(path), s.title) for s in book.worksheets[1:] if _has_cell(path, s)]
    formulas = _cells(path, _load(path, values=False).worksheets[0]) if _has_formula(path) else ()
    pairs = zip_longest(_cells(path, book.worksheets[0]), formulas, fillvalue=())
    for number, (cells, stored) in enumerate(pairs, start=1):
        unstored = [c for c, f in zip_longest(cells, stored) if f and f.data_type == "f" and (not c or c.value is None)]
        notes += [Note(UNSTORED, f"{path}: row {number}")] * len(unstored)
        shown = [cell.number_format if cell.value is not None else None for cell in cells]
        formats = [None if form in (None, "General") else form for form in shown]
        yield number, _without_last_nones([_value(cell) for cell in cells]), formats, bool(unstored)


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
        raise ValueError(f"{path}: the workbook is damaged; {SHEET}") from error


def _cells(path: Path, sheet: Any) -> Iterator[tuple[Any, ...]]:
    number = 0
    try:
        for cells in sheet.iter_rows():
            yield cells
            number += 1
    except (KeyError, ValueError, SyntaxError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: the workbook is damaged after row {number}; {SHEET}") from error


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
