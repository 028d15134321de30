"""Workbooks (.xlsx, .xlsm, .xltx, .xltm): the rows of the first sheet, and sheets of rows, in constant memory, by
openpyxl.

Nothing is a formula in what is written; of a formula that is read its stored value is taken. A cell with an error, such
as `#N/A`, has no value, and stays what it is where its row is written again. In texts _x000D_ is the character of
this number, and _x005F_x000D_ these seven letters (ECMA-376, part 1, 22.9.2.19).

`change_cells` writes a workbook again with other texts in some cells. It changes these cells in the file itself, in
memory, since openpyxl would lose images, shapes, macros and the stored values of formulas. No copy of the texts that
were there is left in what a workbook keeps besides its cells: the table of strings, stored values of formulas, and the
caches of charts and pivot tables.
"""

import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from datetime import time as day_time
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, unescape

from boustro.text.places import EXCEL, SHEET
from boustro.text.separated import cell_text
from boustro.types import Note

UNSTORED = "cells with a formula whose value is not in the file, read as empty; open and save it in a spreadsheet"
MORE_SHEETS = "sheets behind the first one, which are not read"
ERROR_CELLS = "cells with an error such as #N/A, read as empty"
CELL, SHEET_ROWS, SHEET_DIGITS = 32_767, 1_048_576, 15
"""What a workbook holds: UTF-16 units in a cell, rows, digits of a number."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
CONTROL_OR_RETURN = re.compile(r"[\x00-\x08\x0b-\x1f]")
ESCAPED = re.compile(r"_x(?=[0-9A-Fa-f]{4}_)")
FIRST_DAY = datetime(1900, 3, 1)
"""Before it workbooks count days otherwise than calendars do."""


class CellError(str):
    """An error such as `#N/A`, which a cell has instead of a value."""


class SheetRow(NamedTuple):
    """A row of a sheet.

    Attributes:
        number: Counted from 1.
        values: Those of its cells, up to the last that is there.
        formats: How the cells are shown; `None` where nothing says it.
        errors: Of the cells, or `None`.
        is_blank: Whether it has neither values nor errors nor formulas.
    """

    number: int
    values: list[Any]
    formats: list[str | None]
    errors: list[CellError | None]
    is_blank: bool


def sheet_rows(path: Path, notes: list[Note]) -> Iterator[SheetRow]:
    """Yield all rows of the first sheet.

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
        errors = [CellError(cell.value) if cell.data_type == "e" else None for cell in cells]
        failed = [cell for cell in cells if cell.data_type == "e"]
        notes += [Note(ERROR_CELLS, f"{path}: cell {cell.coordinate}", str(cell.value)) for cell in failed]
        shown = [cell.number_format if cell.value is not None else None for cell in cells]
        formats = [None if form in (None, "General") else form for form in shown]
        values = _without_last_nones([_value(cell) for cell in cells])
        yield SheetRow(number, values, formats, errors, not (values or failed or unstored))


def _load(path: Path, values: bool) -> Any:
    """Return a workbook with the values that it stores, or with formulas."""
    try:
        from openpyxl.cell.text import Text
        from openpyxl.reader.excel import ExcelReader
        from openpyxl.xml.constants import SHARED_STRINGS
        from openpyxl.xml.functions import iterparse
    except ImportError as error:
        raise ImportError(f"{path} is an Excel workbook; {EXCEL}") from error

    class BookReader(ExcelReader):
        def read_strings(self) -> None:  # of which the library takes some escapes out
            if part := self.package.find(SHARED_STRINGS):
                with self.archive.open(part.PartName[1:]) as file:
                    for _, node in iterparse(file):
                        if node.tag.endswith("}si"):
                            text: Any = Text.from_tree(node)
                            self.shared_strings.append(text.content)
                            node.clear()

    try:
        reader = BookReader(path, read_only=True, data_only=values)
        reader.read()
        for sheet in reader.wb.worksheets:
            sheet.reset_dimensions()  # what it says of its size may be wrong
        return reader.wb
    except Exception as error:  # a damaged file makes the library raise anything
        raise ValueError(f"{path}: the workbook is damaged; {SHEET}") from error


def _cells(path: Path, sheet: Any) -> Iterator[tuple[Any, ...]]:
    number = 0
    try:
        for cells in sheet.iter_rows():
            yield cells
            number += 1
    except (LookupError, ValueError, SyntaxError, EOFError, zipfile.BadZipFile, zlib.error) as error:
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
    """Text without the escapes of workbooks; the day alone of a date that is shown without a time; no error."""
    from openpyxl.styles.numbers import is_datetime
    from openpyxl.utils.escape import unescape as without_escapes

    value = cell.value
    if cell.data_type == "e":
        return None
    if isinstance(value, str):
        return without_escapes(value)
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
    """Return whether a text is too long for a cell of a workbook."""
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
        made._value = _escaped(value)  # what is set in public is cut at 32,767 escaped letters
        made.data_type = "e" if isinstance(value, CellError) else "s"
        return made

    sheet.append([cell(head) for head in heads])
    for number, (values, formats) in enumerate(rows, start=1):
        if number == SHEET_ROWS:
            raise ValueError(f"{name}: a workbook holds {SHEET_ROWS:,} rows; write .csv")
        sheet.append([cell(value, shown) for value, shown in zip_longest(values, formats)])
    book.save(target)


def _escaped(text: str) -> str:
    """Text with the escapes of workbooks."""
    return CONTROL_OR_RETURN.sub(lambda m: f"_x{ord(m[0]):04X}_", ESCAPED.sub("_x005F_x", text))


def _element(name: str) -> re.Pattern[str]:
    """Return an element of XML that has none of its name inside: its prefix, its attributes and its content."""
    return re.compile(rf"<((?:\w+:)?){name}(?=[\s/>])([^>]*?)(?:/>|>(.*?)</\1{name}\s*>)", re.DOTALL)


ROW, CELL_XML, STRING, FORMULA, VALUE = map(_element, ("row", "c", "si", "f", "v"))
CELL_PLACE = re.compile(r"""\sr=["']([A-Z]*)(\d+)["']""")
CELL_TYPE = re.compile(r"""\st=["'](\w+)["']""")
OF_VALUE = re.compile(r"""\s(?:t|cm|vm)=["'][^"']*["']""")
SHARED_FORMULA = re.compile(r"""\ssi=["'](\d+)["']""")
STORED = re.compile(r"""(<(?:\w+:)?v>|\sv=")([^<"]+)""")
SHEETS, CALCULATED = "xl/worksheets/*.xml", "calcChain.xml"
CALCULATION = re.compile(r"<((?:\w+:)?calcPr)\b(?![^>]*\sfullCalcOnLoad)")
"""A workbook of which Excel computes only some formulas when it opens it."""
UNREAD_PARTS = "workbooks with comments or links, which are not read and stay"


def change_cells(
    path: Path, changed: Mapping[int, Mapping[int, tuple[str, str]]], emptied: Collection[int], place: Path
) -> list[Note]:
    """Write a workbook again with other texts in cells of its first sheet, and else as it is; return what there is to
    say of that.

    Args:
        changed: By row and column, from 1, the text of a cell and the one that is to stand there.
        emptied: Rows whose cells are to be empty.
    """
    texts = {old: new for cells in changed.values() for old, new in cells.values()}
    gone = {word for old, new in texts.items() for word in _words_of(old) - _words_of(new)}
    first = _first_sheet(path)
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(place, "w") as made:
        parts = {info: given.read(info) for info in given.infolist()}
        sheets = {i.filename: data.decode() for i, data in parts.items() if fnmatchcase(i.filename, SHEETS)}
        has_unread = "<hyperlink" in sheets[first] or any("omments" in info.filename for info in parts)
        sheet = _Sheet(sheets[first], changed, emptied)
        sheets[first], unused = sheet.text, sheet.strings - {-1}
        for name, text in sheets.items():
            if gone and FORMULA.search(text):
                sheets[name] = CELL_XML.sub(lambda m: _without_stored(m, gone), text)
            if unused:
                unused -= {*map(_string, CELL_XML.finditer(sheets[name]))}
        for info, data in parts.items():
            name = info.filename
            if name in sheets:
                data = sheets[name].encode()
            elif name == "xl/sharedStrings.xml":
                data = _without_strings(data.decode(), unused).encode()
            elif name.startswith(("xl/charts/chart", "xl/pivotCache/")):
                data = STORED.sub(lambda m: m[1] + _as_now(m[2], texts), data.decode()).encode()
            elif name == "xl/workbook.xml":
                data = CALCULATION.sub(r'<\1 fullCalcOnLoad="1"', data.decode()).encode()
            elif sheet.lost_formula and name.endswith(CALCULATED):
                continue  # the order of formulas, which Excel makes anew
            elif sheet.lost_formula and name in ("[Content_Types].xml", "xl/_rels/workbook.xml.rels"):
                data = re.sub(rf"<[^<>]*{CALCULATED}[^<>]*/>", "", data.decode()).encode()
            made.writestr(info, data)
    return [Note(UNREAD_PARTS, str(path))] if has_unread else []


def _first_sheet(path: Path) -> str:
    """Return the name of the first sheet's part, which `_load` would give too, with all texts of the workbook."""
    from openpyxl.reader.excel import ExcelReader

    reader = ExcelReader(path, read_only=True)
    reader.read_manifest()
    reader.read_workbook()
    sheets = (part for _, part in reader.parser.find_sheets() if "chartsheet" not in part.Type)
    return next(part.target for part in sheets if part.target in reader.valid_files)


class _Sheet:
    """The XML of a sheet with other texts in some cells.

    Attributes:
        strings: Those of the table of strings that it had in these cells.
        lost_formula: Whether one of them had a formula.
    """

    def __init__(
        self, text: str, changed: Mapping[int, Mapping[int, tuple[str, str]]], emptied: Collection[int]
    ) -> None:
        self.strings, self.lost_formula = set[int](), False
        self._shared, self._row = set[str](), 0
        self._changed, self._emptied = changed, emptied
        self.text = ROW.sub(self._of_row, text)
        if self._shared:  # what repeats a formula that is gone keeps its value
            self.text = CELL_XML.sub(self._of_repeated, self.text)

    def _of_row(self, row: re.Match[str]) -> str:
        given = CELL_PLACE.search(row[2])
        self._row, column = int(given[2]) if given else self._row + 1, 0
        cells = self._changed.get(self._row, {})
        if not cells and self._row not in self._emptied:
            return row[0]

        from openpyxl.utils import column_index_from_string

        def of_cell(cell: re.Match[str]) -> str:
            nonlocal column
            found = CELL_PLACE.search(cell[2])
            column = column_index_from_string(found[1]) if found else column + 1
            if column not in cells and self._row not in self._emptied:
                return cell[0]
            self.strings.add(_string(cell))
            if formula := FORMULA.search(cell[3] or ""):
                self.lost_formula = True
                self._shared |= {*SHARED_FORMULA.findall(formula[2])} if " ref=" in formula[2] else set()
            attributes = OF_VALUE.sub("", cell[2])
            if column not in cells:
                return f"<{cell[1]}c{attributes}/>"
            text = escape(_escaped(cells[column][1]))
            text = f'<{cell[1]}is><{cell[1]}t xml:space="preserve">{text}</{cell[1]}t></{cell[1]}is>'
            return f'<{cell[1]}c{attributes} t="inlineStr">{text}</{cell[1]}c>'

        return CELL_XML.sub(of_cell, row[0])

    def _of_repeated(self, cell: re.Match[str]) -> str:
        formula = FORMULA.search(cell[3] or "")
        is_lost = formula and not self._shared.isdisjoint(SHARED_FORMULA.findall(formula[2]))
        return cell[0].replace(formula[0], "") if formula and is_lost else cell[0]


def _without_stored(cell: re.Match[str], gone: set[str]) -> str:
    """Return a cell without the text that it stores of a formula, where that has words that are gone."""
    value = VALUE.search(cell[3] or "")
    if value is None or not FORMULA.search(cell[3]) or _words_of(unescape(value[3] or "")).isdisjoint(gone):
        return cell[0]
    return cell[0].replace(value[0], "")


def _without_strings(text: str, unused: set[int]) -> str:
    """Return the table of strings, in which some are empty."""
    numbers = count()
    return STRING.sub(lambda m: f"<{m[1]}si><{m[1]}t/></{m[1]}si>" if next(numbers) in unused else m[0], text)


def _as_now(stored: str, texts: Mapping[str, str]) -> str:
    """A stored text as it is in its cell now."""
    was = unescape(stored, {"&quot;": '"', "&apos;": "'"})
    return escape(_escaped(texts[was]), {'"': "&quot;"}) if was in texts else stored


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _string(cell: re.Match[str]) -> int:
    """Return which of the table of strings a cell has; -1 for none."""
    kind, value = CELL_TYPE.search(cell[2]), VALUE.search(cell[3] or "")
    return int(value[3]) if kind and kind[1] == "s" and value and value[3] else -1


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
