"""Tables of texts: CSV, TSV, Excel, parquet and Arrow files whose columns have names, to rows by these names.

    text,label                             .csv: commas, .tsv: tabs; where the first line has none of them,
    "Ada said ""no"", twice.",news         semicolons, commas, tabs or bars; a line `sep=;` before it says another

Quotes are those of RFC 4180: a cell that begins with one is quoted to its end, and holds it doubled. What is against
this rule is an error. Between tabs mostly nothing is quoted, and a quote is a letter like others, unless the whole file
follows the rule and shows it: some row fits the columns in no other way, or, where no cell has a line break, some
quoted cell holds a doubled quote or all cells are quoted. Of a workbook (.xlsx) the first sheet is read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from boustro.text.kinds import EXCEL, kind_of_file
from boustro.text.kinds import SHEET as SHEET_AS_CSV
from boustro.text.rows import COLUMNS, SEPARATORS, TABLES, Lines, after_declaration, column_rows, file_ending
from boustro.types import Note

SEPARATED_BY = {".csv": ",", ".tsv": "\t"}
SHEET = ".xlsx"
OTHERS = {";": "semicolons", ",": "commas", "\t": "tabs", "|": "bars"}
SEPARATED = "rows with {} between their cells"
LITERAL = "rows with cells that begin with a quote, which was read as a letter"
QUOTED = "rows with quoted cells between tabs, read without these quotes"
SPANNING = "rows whose quoted cell has lines that could be rows of their own"
HEAD_AGAIN = "lines that name the columns again, as joined files have them, left out"
ADVICE = 'a cell that begins with a quote ends with one, and others within it are doubled ("")'
QUOTED_CELL = re.compile(r'"((?:[^"]|"")*+)"')
NUMBER = re.compile(r"[+-]?[\d.,]*(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, which of them were quoted, and the line that it begins on."""

    line: int
    cells: tuple[str, ...]
    quoted: tuple[bool, ...]

    @property
    def is_blank(self) -> bool:
        """Whether this is an empty line."""
        return len(self.cells) == 1 and not self.quoted[0] and not self.cells[0].strip()


def is_separated(path: Path) -> bool:
    """Whether the name is that of a CSV or TSV file, compressed or not."""
    return file_ending(path) in SEPARATED_BY


def is_table(path: Path) -> bool:
    """Whether this is a table whose columns have names, by the name or, of parquet and Arrow, by the first bytes."""
    return file_ending(path) in (*SEPARATED_BY, SHEET, *TABLES) or kind_of_file(path) in COLUMNS


def read_table(
    path: Path, delimiter: str | None = None, notes: list[Note] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) of a table; a cell that a short row lacks, or that is empty in a workbook, is `None`.

    Args:
        delimiter: What separates the cells; by default as the first line has it.
        notes: What to say of the dialect, with each row that has it.

    Raises `ValueError` with its place for a cell that is not quoted well, a row with too many cells, and for names that
    several columns have; `ImportError` for a workbook where openpyxl is not installed.
    """
    notes = [] if notes is None else notes
    if file_ending(path) == SHEET:
        yield from _sheet_rows(path)
    elif is_separated(path):
        yield from _separated_rows(path, delimiter, notes)
    else:
        yield from column_rows(path)


def columns_of(path: Path, delimiter: str | None = None) -> list[str]:
    """The names of the columns of a table, without blank ones; raises as `read_table`."""
    if not is_separated(path):
        return [*next((row for _, row in islice(read_table(path), 1)), {})]
    separator, lines = _separated(path, delimiter, [])
    head = next((pair for pair in lines if pair[1].strip()), None)
    if head is None:
        return []
    (row,) = _literal([head], separator)
    _refuse_twice(names := _names(row), f"{path}:{head[0]}")
    return [name for name in names if name]


def maybe_texts(path: Path) -> list[str]:
    """The names in the first line of a table that may have a text in each row: CoNLL columns have blank lines."""
    if not is_separated(path) or not path.is_file():
        return []
    from boustro.text.documents import read_lines

    lines = [line.strip() for _, line in read_lines(path, [])]
    return [] if "" in lines[:-1] else columns_of(path)


def _sheet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError(f"{path} is an Excel workbook; {EXCEL}") from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # a damaged file makes the library raise anything
        raise ValueError(f"{path}: the workbook is damaged; {SHEET_AS_CSV}") from error
    columns: list[str] = []
    rows: Any = book.worksheets[0].iter_rows(values_only=True)
    for number, cells in enumerate(rows, start=1):
        values = [cell.isoformat() if hasattr(cell, "isoformat") else cell for cell in cells]
        if all(value is None for value in values):
            continue
        if not columns:
            columns = ["" if value is None else str(value).strip() for value in values]
            _refuse_twice(columns, f"{path}: row {number}")
            continue
        yield f"{path}: row {number}", {name: value for name, value in zip(columns, values, strict=False) if name}


def _separated_rows(path: Path, delimiter: str | None, notes: list[Note]) -> Iterator[tuple[str, dict[str, Any]]]:
    separator, lines = _separated(path, delimiter, notes)
    head, *rows = _read(path, lines, separator, notes) or [Row(1, (), ())]
    columns = _names(head)
    _refuse_twice(columns, f"{path}:{head.line}")
    for row in rows:
        where = f"{path}:{row.line}"
        if row.cells == head.cells and len(columns) > 1:
            notes.append(Note(HEAD_AGAIN, where))
            continue
        if len(row.cells) > len(columns):
            advice = f"quote a cell with {OTHERS.get(separator, repr(separator))}"
            raise ValueError(f"{where}: more cells than columns ({', '.join(columns)}); {advice}")
        if delimiter is None and separator != SEPARATED_BY[file_ending(path)]:
            notes.append(Note(SEPARATED.format(OTHERS.get(separator, repr(separator))), where))
        cells = dict.fromkeys(columns) | dict(zip(columns, row.cells, strict=False))
        yield where, {name: cell for name, cell in cells.items() if name}


def _refuse_twice(columns: Sequence[str], where: str) -> None:
    if twice := [name for name in dict.fromkeys(columns) if name and columns.count(name) > 1]:
        shown = ", ".join(map(repr, twice))
        raise ValueError(f"{where}: several columns are named {shown}; give each column its own name")


def _separated(path: Path, delimiter: str | None, notes: list[Note]) -> tuple[str, Lines]:
    """What separates the cells, and the lines from the head on."""
    if delimiter == "":
        raise ValueError("--delimiter is empty; give tab, comma, or the text that separates the columns")
    from boustro.text.documents import read_lines

    declared, rest = after_declaration(read_lines(path, notes))
    lines = list(rest)
    if delimiter is not None:
        return SEPARATORS.get(delimiter, delimiter), lines
    usual, head = SEPARATED_BY[file_ending(path)], next((line for _, line in lines if line.strip()), "")
    separator = usual if usual in head else max(OTHERS, key=head.count) if any(map(head.count, OTHERS)) else usual
    return declared or separator, lines


def _names(head: Row) -> list[str]:
    return [cell.strip().strip('"') for cell in head.cells]


def _read(path: Path, lines: Lines, separator: str, notes: list[Note]) -> list[Row]:
    """All rows, the head first, without blank lines."""
    if separator != "\t":
        rows = [row for row in _quoted(path, lines, separator) if not row.is_blank]
        notes += [
            Note(SPANNING, f"{path}:{row.line}") for row in rows if _spans_rows(row, separator, len(rows[0].cells))
        ]
        return rows
    literal = [row for row in _literal(lines, separator) if not row.is_blank]
    if any(cell.startswith('"') for row in literal for cell in row.cells):
        try:
            rows = [row for row in _quoted(path, lines, separator) if not row.is_blank]
        except ValueError:
            rows = []
        if rows and _fit(rows) and (not _fit(literal) or _shows_quotes(rows)):
            notes += [Note(QUOTED, f"{path}:{row.line}") for row in rows[1:] if any(row.quoted)]
            return rows
        begun = (row for row in literal[1:] if any(cell.startswith('"') for cell in row.cells))
        notes += [Note(LITERAL, f"{path}:{row.line}") for row in begun]
    return literal


def _literal(lines: Lines, separator: str) -> Iterator[Row]:
    for number, line in lines:
        cells = tuple(line.split(separator))
        yield Row(number, cells, (False,) * len(cells))


def _quoted(path: Path, lines: Lines, separator: str) -> Iterator[Row]:
    """Rows by RFC 4180."""
    text, position, line = "".join(f"{line}\n" for _, line in lines), 0, lines[0][0] if lines else 1
    bare = re.compile(rf"(?:(?!{re.escape(separator)})[^\n])*")
    while position < len(text):
        begin, cells, quoted = line, [], []
        while not cells or text.startswith(separator, position):
            position += len(separator) if cells else 0
            quoted.append(text.startswith('"', position))
            cell = (QUOTED_CELL if quoted[-1] else bare).match(text, position)
            if cell is None:
                raise ValueError(f"{path}:{line}: this line opens a quote that is never closed; {ADVICE}")
            opened, line, position = line, line + cell[0].count("\n"), cell.end()
            if quoted[-1] and text[position] != "\n" and not text.startswith(separator, position):
                closed = f" (line {line})" if line > opened else ""
                raise ValueError(f"{path}:{opened}: a quoted cell goes on after its closing quote{closed}; {ADVICE}")
            cells.append(cell[1].replace('""', '"') if quoted[-1] else cell[0])
        yield Row(begin, tuple(cells), tuple(quoted))
        position, line = position + 1, line + 1


def _fit(rows: Sequence[Row]) -> bool:
    return all(len(row.cells) == len(rows[0].cells) for row in rows)


def _shows_quotes(rows: Sequence[Row]) -> bool:
    """Whether quotes are no letters in rows that fit in both ways."""
    cells = [(cell, quoted) for row in rows for cell, quoted in zip(row.cells, row.quoted, strict=True)]
    if any("\n" in cell for cell, _ in cells):
        return False
    return any('"' in cell for cell, quoted in cells if quoted) or all(q or NUMBER.fullmatch(c) for c, q in cells)


def _spans_rows(row: Row, separator: str, num_columns: int) -> bool:
    """Whether a line within a quoted cell, or the first one of the row, could be a row."""
    broken = [(before, cell.split("\n")) for before, cell in enumerate(row.cells) if "\n" in cell]
    counts = [
        count
        for before, lines in broken
        for count in (before + lines[0].count(separator), *(line.count(separator) for line in lines[1:-1]))
    ]
    return num_columns - 1 in counts
