"""Tables: the columns of CSV and TSV files, workbooks, parquet and Arrow files, and their records, for `files`."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from boustro.text.columns import LOOKED_AT
from boustro.text.documents import EndedLine, LineSource, read_ended
from boustro.text.separated import OTHERS, CellRow, Dialect, Separated, cell_text, json_value
from boustro.text.words import join_words
from boustro.types import Note, Sentence

if TYPE_CHECKING:
    from boustro.text.files import Rows

PLACE = "place"
"""The column of the places of rows that have no columns."""
HEAD_AGAIN = "lines that name the columns again, as joined files have them, left out"
SHORT = "rows with fewer cells than columns; the others are empty"


class TableHead(NamedTuple):
    """Columns of a table.

    Attributes:
        heads: Their names as they stand in the file; of a workbook they may be numbers or dates.
        keys: Their names in records; each another, see `keys_of`.
        dialect: How a CSV or TSV file is written.
        row: The first row of a CSV or TSV file, as it stands there.
        before: Text before that row, behind the byte order mark.
        schema: The types of a parquet or Arrow file, a `pyarrow.Schema`.
    """

    heads: tuple[Any, ...] = ()
    keys: tuple[str, ...] = ()
    dialect: Dialect | None = None
    row: CellRow | None = None
    before: str = ""
    schema: Any = None


NO_HEAD = TableHead()


class TableRow(dict[str, Any]):
    """A record by the keys of its columns.

    Attributes:
        is_blank: Whether it is an empty row between others.
        formats: How a workbook shows the values of its columns, where it says so.
        errors: Those that its cells have instead of values, such as `#N/A`.
        padded: The names that have white space around them in the file, by their keys.
        given: The row of a CSV or TSV file as it stands there.
        before: Lines that are left out before it, as they stand there.
        problem: Why it cannot be read, with the place.
    """

    def __init__(
        self,
        cells: Any = (),
        is_blank: bool = False,
        formats: dict[str, str] | None = None,
        errors: dict[str, Any] | None = None,
        padded: Mapping[str, str] = MappingProxyType({}),
        given: CellRow | None = None,
        before: str = "",
        problem: str = "",
    ) -> None:
        super().__init__(cells)
        self.is_blank, self.formats, self.errors, self.padded = is_blank, formats or {}, errors or {}, padded
        self.given, self.before, self.problem = given, before, problem

    @property
    def as_named(self) -> dict[str, Any]:
        """The row under the names that its file has."""
        return {self.padded.get(key, key): value for key, value in self.items()} if self.padded else dict(self)


class FileRow(NamedTuple):
    """A row of a file, and how it is written: a line of text, a value of JSON, a row of a table, or a sentence.

    Attributes:
        place: file:line, or the number of the row.
        value: What was read; None where there is a `problem`.
        is_line: Whether it is a line of text.
        problem: Why it cannot be read, with the place.
        file: The file, as it was named.
        number: Which of all rows it is, from 0, where that is told.
        opens: Whether it is the first sentence of a document of a CoNLL file.
        unit: What the places in its value count, where the file proves it.
        given: The row as it stands in the file, where it has names.
        is_empty: Whether its texts are empty.
        before: Text that stands before it.
        spelled: JSON as it stands in the file.
        after: Text that stands behind it, such as the end of its line.
    """

    place: str
    value: Any
    is_line: bool = False
    problem: str = ""
    file: str = ""
    number: int = 0
    opens: bool = False
    unit: Any = None
    given: Mapping[str, Any] | None = None
    is_empty: bool = False
    before: str = ""
    spelled: str = ""
    after: str = ""

    @property
    def is_blank(self) -> bool:
        """Whether it is an empty row between others of a table."""
        return isinstance(self.given, TableRow) and self.given.is_blank

    @property
    def content(self) -> bytes:
        """Bytes of what was read, by which a row is known again."""
        read = self.value.words if isinstance(self.value, Sentence) else self.value
        return json.dumps(self.problem or (read if self.given is None else self.given), default=json_value).encode()

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the row that its answer repeats, under the names that its file has."""
        given = self.value if self.given is None else self.given
        return given.as_named if isinstance(given, TableRow) else dict(given) if isinstance(given, Mapping) else {}

    @property
    def cells(self) -> dict[str, Any]:
        """Fields as cells of a table, by their keys, where a line of text has its place."""
        if isinstance(self.given, TableRow):
            return dict(self.given)
        value = self.value
        text = join_words(value.words, value.spaces) if isinstance(value, Sentence) else str(value)
        return self.fields or {PLACE: self.place, "text": text}

    def to_problem(self, error: str = "") -> dict[str, str]:
        """Return the line of a file of problems."""
        return {"place": self.place, "error": error or self.problem}


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


def _separated_head(path: Path, source: LineSource, delimiter: str | None) -> TableHead:
    """Return the columns of a file by its first lines, or by all where these do not show them."""

    def first() -> Iterator[EndedLine]:
        return read_ended(path, [], source=source.first(LOOKED_AT))

    try:
        dialect = Separated(path, [], delimiter, first()).dialect
        head, _ = _to_head(Separated(path, [], delimiter, first(), dialect))
        if head.row is not None:
            return head
    except ValueError:  # such as a quote that is closed behind these lines
        pass
    return _to_head(Separated(path, [], delimiter))[0]


def _to_head(file: Separated) -> tuple[TableHead, Iterator[tuple[int, CellRow]]]:
    """Return the columns, and the numbered rows behind their names."""
    numbered = enumerate(file, start=1)  # a spreadsheet does not show the line `sep=;`
    number, row = next(numbered, (0, None))
    before = file.dialect.declaration
    while row is not None and row.is_blank:
        before += file.dialect.as_given(row)
        number, row = next(numbered, (0, None))
    if row is None:
        return TableHead(dialect=file.dialect, before=before), numbered
    if row.problem:
        raise ValueError(row.problem)
    bare = [c if quoted else c.strip().strip('"') for c, quoted in zip(row.cells, row.quoted, strict=True)]
    keys = keys_of(bare, f"{file.path}:{number}")
    return TableHead(row.cells, keys, file.dialect, row, before), numbered


def fill_rows(rows: "Rows", delimiter: str | None, head: TableHead | None) -> None:
    """Let `rows` have the columns and the records of a table; `head` is `None` for a stream."""
    opened = None
    if head is None:
        file = Separated(rows.path, rows.notes, delimiter, _lines_of(rows))
        head, numbered = _to_head(file)
        opened = file, numbered
    rows.columns = head
    records = (
        TABLE_RECORDS[rows.form](rows) if rows.form in TABLE_RECORDS else _separated_records(rows, delimiter, opened)
    )
    rows.records = _without_last_blanks(records, rows)


def _separated_records(
    rows: "Rows", delimiter: str | None, opened: tuple[Separated, Iterator[tuple[int, CellRow]]] | None
) -> Iterator[tuple[str, TableRow]]:
    if opened is None:
        file = Separated(rows.path, rows.notes, delimiter, _lines_of(rows), rows.dialect)
        opened = file, _to_head(file)[1]
    file, numbered = opened
    keys, notes, padded, before = rows.keys, rows.notes, rows.padded, ""
    for number, row in numbered:
        where = f"{rows.path}:{number}"
        if row.cells == rows.heads and len(keys) > 1:
            notes.append(Note(HEAD_AGAIN, where))
            before += file.dialect.as_given(row)
            continue
        if row.is_blank:
            record = TableRow(dict.fromkeys(keys), is_blank=True, padded=padded, given=row, before=before)
        elif row.problem:
            record = TableRow(before=before, problem=row.problem)
        elif len(row.cells) > len(keys):
            separator = file.dialect.separator
            advice = f"quote a cell with {OTHERS.get(separator, repr(separator))}"
            record = TableRow(before=before, problem=_too_many(rows, where, row.line, number, advice))
        else:
            notes += [Note(SHORT, where)] * (len(row.cells) < len(keys))
            notes += [Note(what, where) for what in file.note(row, len(keys))]
            cells = dict.fromkeys(keys) | dict(zip(keys, row.cells, strict=False))
            record = TableRow(cells, padded=padded, given=row, before=before)
        yield where, record
        before = ""
    rows.after = before


def _lines_of(rows: "Rows") -> Iterator[EndedLine]:
    return read_ended(rows.path, rows.notes, source=rows.source)


def _too_many(rows: "Rows", where: str, line: int, number: int, advice: str) -> str:
    """Sentence about a row with more cells than columns."""
    at = f" (line {line} of the file)" if line != number else ""
    columns = ", ".join(key or "(no name)" for key in rows.keys)
    return f"{where}: more cells than columns ({columns}){at}; {advice}"


def _without_last_blanks(records: Iterable[tuple[str, TableRow]], rows: "Rows") -> Iterator[tuple[str, TableRow]]:
    """Yield records without the blank rows at the end, of which workbooks have as many as were ever formatted."""
    held: list[tuple[str, TableRow]] = []
    for place, record in records:
        if record.is_blank:
            held.append((place, record))
        else:
            yield from held
            held.clear()
            yield place, record
    if dialect := rows.dialect:
        last = ((row.before, dialect.as_given(row.given)) for _, row in held if row.given)
        rows.after = "".join(chain.from_iterable(last)) + rows.after


# Workbooks


def _sheet_head(path: Path, source: LineSource, delimiter: str | None) -> TableHead:
    from boustro.text.workbooks import sheet_rows

    return _to_sheet_head(path, sheet_rows(path, []))


def _to_sheet_head(path: Path, numbered: Iterator[Any]) -> TableHead:
    number, values = next(((row.number, row.values) for row in numbered if row.values), (0, []))
    return TableHead(tuple(values), keys_of(values, f"{path}: row {number}")) if values else TableHead()


def _sheet_records(rows: "Rows") -> Iterator[tuple[str, TableRow]]:
    from boustro.text.workbooks import sheet_rows

    keys, padded = rows.keys, rows.padded
    numbered = sheet_rows(rows.path, rows.notes)
    _to_sheet_head(rows.path, numbered)
    for number, values, formats, errors, is_blank in numbered:
        where = f"{rows.path}: row {number}"
        if len(values) > len(keys):
            advice = "give each column a name in the first row"
            yield where, TableRow(problem=_too_many(rows, where, number, number, advice))
            continue
        record = dict.fromkeys(keys) | dict(zip(keys, values, strict=False))
        shown, failed = (
            {key: one for key, one in zip(keys, given, strict=False) if one} for given in (formats, errors)
        )
        yield where, TableRow(record, is_blank, shown, failed, padded)


# Parquet, Arrow, Feather


def _columns_head(path: Path, source: LineSource, delimiter: str | None) -> TableHead:
    from boustro.text.columnar import schema_of

    schema = schema_of(path)
    names = tuple(schema.names)
    keys_of(names, str(path))  # refuses names that come twice
    return TableHead(names, names, schema=schema)


def _column_records(rows: "Rows") -> Iterator[tuple[str, TableRow]]:
    from boustro.text.columnar import class_columns, name_classes

    number, classes = 0, class_columns(rows.schema)
    for batch in rows.batches(rows.only):
        for value in batch.to_pylist():
            number += 1
            yield f"{rows.path}: row {number}", TableRow(name_classes(value, classes))


TABLE_HEADS: dict[str, Callable[[Path, LineSource, str | None], TableHead]] = {
    "separated": _separated_head,
    "sheet": _sheet_head,
    "columns": _columns_head,
}
TABLE_RECORDS: dict[str, Callable[["Rows"], Iterator[tuple[str, TableRow]]]] = {
    "sheet": _sheet_records,
    "columns": _column_records,
}
