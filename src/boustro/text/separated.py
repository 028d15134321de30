"""CSV and TSV: how the rows of a file are written, and rows by it, one after the other.

    text,label                             .csv: commas, .tsv: tabs; where the first line has none of them,
    "Ada said ""no"", twice.",news         semicolons, commas, tabs or bars; a line `sep=;` before it says another

Quotes are those of RFC 4180: a cell that begins with one is quoted to its end, and holds it doubled. What is against
this rule is an error. Between tabs mostly nothing is quoted, and a quote is a letter like others, unless the whole file
follows the rule and shows it: some row fits the columns in no other way, or, where no cell has a line break, some
quoted cell holds a doubled quote or all cells are quoted.

A file is read line by line, one with quotes between tabs twice; a stream of those is held. Line ends within a cell stay
as they are. Where a row is against the rule, the line that it begins on is an error, and the next one begins a row; a
row behind it that has too few cells is what is left of it, and an error too.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from boustro.output import SpelledNumber, as_json
from boustro.text.documents import BYTE_ORDER_MARK, EndedLine, read_ended
from boustro.text.rows import SEPARATORS, declared_separator, file_ending
from boustro.types import Note

SEPARATED_BY = {".csv": ",", ".tsv": "\t"}
OTHERS = {";": "semicolons", ",": "commas", "\t": "tabs", "|": "bars"}
SEPARATED = "rows with {} between their cells"
LITERAL = "rows with cells that begin with a quote, which was read as a letter"
QUOTED = "rows with quoted cells between tabs, read without these quotes"
SPANNING = "rows whose quoted cell has lines that could be rows of their own"
QUOTE_RULE = 'a cell that begins with a quote ends with one, and others within it are doubled ("")'
QUOTED_PART = re.compile(r'((?:[^"]|"")*+)"')
"""From behind the quote that opens a cell to the one that closes it."""
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
WITH_POINT = re.compile(r"[+-]?\d*\.\d+")
NUMBER = re.compile(r"[+-]?[\d.,]*(e[+-]?\d+)?", re.IGNORECASE)
COLUMN_NAME = re.compile(r"(?:\w+(?:[ ._/-]\w+){0,2})?")
"""The name of a column, which is shorter than a sentence."""
LINE_END = re.compile(r"\r\n|\r|\n")


class CellRow(NamedTuple):
    """The cells of a row, which of them were quoted, the line that it begins on, what ends it, and why it cannot be
    read, with the place."""

    line: int
    cells: tuple[str, ...]
    quoted: tuple[bool, ...]
    end: str = ""
    problem: str = ""

    @property
    def spelled(self) -> list[str]:
        """The cells as they stand in the file."""
        return [in_quotes(cell) if quoted else cell for cell, quoted in zip(self.cells, self.quoted, strict=True)]

    @property
    def is_blank(self) -> bool:
        """Whether this is an empty line."""
        return len(self.cells) == 1 and not self.quoted[0] and not self.cells[0].strip() and not self.problem


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How rows are written; by default as spreadsheets read a CSV file without being asked."""

    separator: str = ","
    has_mark: bool = True
    """Whether the file begins with a byte order mark, without which Excel takes UTF-8 for another encoding."""
    end: str = "\r\n"
    """What ends a row."""
    declared: str = ""
    """The line before the head that names the separator, such as `sep=;`."""
    quotes: bool = True
    """Whether cells can be quoted; else a quote is a letter."""
    point: str = "."
    """Decimal separator of numbers."""

    @property
    def start(self) -> str:
        """Text before the head."""
        return BYTE_ORDER_MARK * self.has_mark + self.declaration

    @property
    def declaration(self) -> str:
        """The line before the head that names the separator."""
        return f"{self.declared}{self.end}" if self.declared else ""

    def format(self, cells: Sequence[Any], spelled: Sequence[str] = ()) -> str:
        """Return a row, with its end: first the cells that are `spelled` as a file has them."""
        written = [*spelled, *(self.spell(self._text(cell)) for cell in cells)]
        if len(written) == 1 and not written[0].strip():
            written = [f'"{written[0]}"']  # bare it would be a blank line
        return self.separator.join(written) + self.end

    def spell(self, cell: str) -> str:
        """Return a cell, in quotes where it would be read otherwise without them."""
        breaks = self.separator in cell or "\n" in cell or "\r" in cell or cell.startswith(BYTE_ORDER_MARK)
        return in_quotes(cell) if breaks or (self.quotes and '"' in cell) else cell

    def _text(self, cell: Any) -> str:
        return cell_text(cell).replace(".", self.point) if isinstance(cell, float) else cell_text(cell)

    def as_given(self, row: CellRow) -> str:
        """A row as it stands in its file."""
        return self.separator.join(row.spelled) + row.end

    def respelled(self, row: CellRow, cells: Sequence[Any]) -> str:
        """Return a row with other cells, without its end; those that are the same, or None, stand as in its file."""
        known = zip(row.spelled, row.cells, row.quoted, cells, strict=False)
        spelled = [
            was if new in (old, None) else in_quotes(new) if quoted else self.spell(new)
            for was, old, quoted, new in known
        ]
        return self.separator.join(spelled)


def in_quotes(cell: str) -> str:
    """Return a quoted cell."""
    return '"' + cell.replace('"', '""') + '"'


def cell_text(value: Any) -> str:
    """Return a value of any type as a cell of text has it: nothing for `None`, JSON for lists and objects."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, str):
        return value
    return as_json(value) if isinstance(value, (list, dict, SpelledNumber)) else str(json_value(value))


def no_formula(value: Any) -> Any:
    """Return a cell that a spreadsheet does not run, with an apostrophe before what would be a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def json_value(value: Any) -> Any:
    """Convert a value of another type for JSON: dates as ISO 8601 has them, bytes to Base64, others to text."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        from base64 import b64encode

        return b64encode(value).decode()
    return value if isinstance(value, (bool, int, float)) else str(value)


class Separated:
    """The rows of a file: `dialect`, and an iteration, the head first, with blank lines.

    Args:
        notes: What there is to say of its encoding.
        separator: What separates the cells, or its name; by default as the first line has it.
        lines: Those of a stream, which is open, or the first ones.
        dialect: How the rows are written, where that is known.

    A row with a cell that is not quoted well has its `problem`.
    """

    def __init__(
        self,
        path: Path,
        notes: list[Note],
        separator: str | None = None,
        lines: Iterator[EndedLine] | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        if separator == "":
            raise ValueError("--delimiter is empty; give tab, comma, or the text that separates the columns")
        self.path, self._notes, self._noted = path, notes, len(notes)
        lines = read_ended(path, notes) if lines is None else lines
        first, begun = _to_first(lines)
        usual, declared, said = SEPARATED_BY.get(file_ending(path), ","), "", declared_separator(first.line)
        has_mark, end, head = first.has_mark, first.end or "\n", first
        if said is not None:
            declared = first.line
            head, begun = _to_first(lines)
        self._rest: Iterator[EndedLine] = chain(begun, lines)
        chosen = said or separator_of(head.line, usual)
        chosen = chosen if separator is None else SEPARATORS.get(separator, separator)
        self.is_unusual = separator is None and chosen != usual
        """Whether another separator was found than the one that the name says."""
        self.dialect = dialect or Dialect(separator=chosen, has_mark=has_mark, end=end, declared=declared)
        if chosen == "\t" and dialect is None:
            self._look_at_quotes()

    def __iter__(self) -> Iterator[CellRow]:
        """Return all rows, once."""
        return self._by_quotes(self._rest) if self.dialect.quotes else _literal(self._rest, self.dialect.separator)

    def note(self, row: CellRow, num_columns: int) -> list[str]:
        """Return the notes on how a row was read."""
        separator = self.dialect.separator
        notes = [SEPARATED.format(OTHERS.get(separator, repr(separator)))] if self.is_unusual else []
        if separator == "\t":
            quoted = self.dialect.quotes and any(row.quoted)
            literal = not self.dialect.quotes and any(cell.startswith('"') for cell in row.cells)
            return [*notes, *([QUOTED] if quoted else []), *([LITERAL] if literal else [])]
        return [*notes, *([SPANNING] if _spans_rows(row, separator, num_columns) else [])]

    def _look_at_quotes(self) -> None:
        """Decide whether quotes between tabs are letters, by all rows."""
        held = [] if self.path.is_file() else list(self._rest)  # a stream is read once

        def again(notes: list[Note]) -> Iterator[EndedLine]:
            whole = read_ended(self.path, notes) if self.path.is_file() else iter(held)
            lines = (line for line in whole if not line.problem)
            if self.dialect.declared and not held:
                _to_first(lines)
            return lines

        if not held:
            del self._notes[self._noted :]  # of the head, which is read once more
        self._rest = again(self._notes)
        literal = _Shape(row for row in _literal(again([]), "\t") if not row.is_blank)
        if not literal.begins_with_quote:
            return
        try:
            quoted = _Shape(row for row in self._by_quotes(again([])) if not row.is_blank)
        except ValueError:
            quoted = None
        shown = quoted is not None and quoted.fits and (not literal.fits or quoted.shows_quotes)
        self.dialect = replace(self.dialect, quotes=shown)

    def _by_quotes(self, lines: Iterable[EndedLine]) -> Iterator[CellRow]:
        """Rows by RFC 4180; behind one that is against it, the next line begins a row."""
        unread, waiting, taken = iter(lines), deque[EndedLine](), list[EndedLine]()
        num_columns = broken = 0

        def take() -> EndedLine | None:
            line = waiting.popleft() if waiting else next(unread, None)
            if line is not None:
                taken.append(line)
            return line

        while (first := take()) is not None:
            try:
                row = self._row(first, take)
                num_columns = num_columns or (0 if row.is_blank else len(row.cells))
                if broken and len(row.cells) < num_columns and not row.is_blank:
                    # the rest of a cell would stand in the first columns, where redaction keeps what it does not read
                    what = f"too few cells behind line {broken}, whose quotes are wrong, so they may be the rest of it"
                    row = row._replace(problem=f"{self.path}:{row.line}: {what}; {QUOTE_RULE}")
                elif not row.is_blank:
                    broken = 0
            except ValueError as error:
                row = CellRow(first.number, (first.line,), (False,), first.end, str(error))
                broken = broken if first.problem else first.number
                waiting.extendleft(reversed(taken[1:]))
            yield row
            taken.clear()

    def _row(self, first: EndedLine, take: Callable[[], EndedLine | None]) -> CellRow:
        """Return the row that begins on a line, with the lines behind it that belong to its cells."""
        separator, (number, line, end, _, problem), position = self.dialect.separator, first, 0
        cells: list[str] = []
        quoted: list[bool] = []
        while not problem:
            quoted.append(line.startswith('"', position))
            if quoted[-1]:
                opened, parts, position = number, [], position + 1
                while (closed := QUOTED_PART.match(line, position)) is None:
                    parts += [line[position:], end]
                    if (more := take()) is None:
                        what = "this line opens a quote that is never closed"
                        raise ValueError(f"{self.path}:{opened}: {what}; {QUOTE_RULE}")
                    (number, line, end, _, problem), position = more, 0
                    if problem:
                        raise ValueError(problem)
                cells.append("".join((*parts, closed[1])).replace('""', '"'))
                position = closed.end()
                if position < len(line) and not line.startswith(separator, position):
                    where = f" (line {number})" if number > opened else ""
                    what = f"a quoted cell goes on after its closing quote{where}"
                    raise ValueError(f"{self.path}:{opened}: {what}; {QUOTE_RULE}")
            else:
                stop = line.find(separator, position)
                stop = len(line) if stop < 0 else stop
                cells.append(line[position:stop])
                position = stop
            if position >= len(line):
                return CellRow(first.number, tuple(cells), tuple(quoted), end)
            position += len(separator)
        raise ValueError(problem)


def separator_of(head: str, usual: str) -> str:
    """Return the separator of a first line: the usual one, else the one that it has most of outside of quoted cells."""
    bare = re.sub(r'"(?:[^"]|"")*+"?', "", head)
    for line in (bare, head):
        if usual in line or any(map(line.count, OTHERS)):
            return usual if usual in line else max(OTHERS, key=line.count)
    return usual


def begins_table(lines: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether the first of the lines is the head of a table, whatever its file is named: several names, one of
    them that of a column which is read."""
    first = next((line.strip() for line in lines if line.strip()), "")
    heads = [head.strip('"') for head in first.split(separator_of(first, ","))]  # a sentence has a space behind a comma
    is_head = len(heads) > 1 and all(map(COLUMN_NAME.fullmatch, heads)) and not {*names}.isdisjoint(heads)
    return is_head or declared_separator(first) is not None


def _to_first(lines: Iterator[EndedLine]) -> tuple[EndedLine, list[EndedLine]]:
    """Return the next line that is not blank, or an empty one at the end, and all that were read."""
    begun: list[EndedLine] = []
    for line in lines:
        begun.append(line)
        if line.line.strip():
            return line, begun
    return EndedLine(0, "", ""), begun


def _literal(lines: Iterable[EndedLine], separator: str) -> Iterator[CellRow]:
    for number, line, end, _, problem in lines:
        cells = tuple(line.split(separator))
        yield CellRow(number, cells, (False,) * len(cells), end, problem)


class _Shape:
    """Facts of rows that decide whether their quotes are letters; `ValueError` for a row that cannot be read."""

    def __init__(self, rows: Iterable[CellRow]) -> None:
        self.begins_with_quote = False
        sizes, doubled, broken, all_quoted = set[int](), False, False, True
        for row in rows:
            if row.problem:
                raise ValueError(row.problem)
            sizes.add(len(row.cells))
            for cell, quoted in zip(row.cells, row.quoted, strict=True):
                self.begins_with_quote |= cell.startswith('"')
                broken |= bool(LINE_END.search(cell))
                doubled |= quoted and '"' in cell
                all_quoted &= quoted or bool(NUMBER.fullmatch(cell))
        self.fits = len(sizes) == 1
        self.shows_quotes = not broken and (doubled or all_quoted)
        """Of rows that fit in both ways."""


def _spans_rows(row: CellRow, separator: str, num_columns: int) -> bool:
    """Return whether each line of a row, alone, has as many cells as there are columns: a quote may have hidden its
    end."""
    if num_columns < 2 or not any(LINE_END.search(cell) for cell in row.cells):
        return False
    lines = LINE_END.split(separator.join(row.cells))
    return all(line.count(separator) == num_columns - 1 for line in lines)
