"""Files that are redacted: their rows with the texts to check, and the same files again with what stands there instead.

    file = GivenFile(DataFile("tickets.csv"), columns=("message",))
    [row.slots for row in file.rows()]             a slot (`live.structured`) for each text; a checker fills them
    file.write(rows, stream, place)                the file with the results of the slots, all else as it was

A CSV file keeps its separator, line ends and byte order mark, a workbook the values and formats of its first sheet, a
parquet or Arrow file its types and other columns. Of a row that cannot be read there is its `problem`; a file without
it is written where it is left out of `rows`. `rows` begins anew with each call.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any

from boustro.apps.live.structured import BodyTexts, Slot, checked, respelled, unescaped
from boustro.tasks import TEXT_KEYS
from boustro.tasks.data.named import no_column
from boustro.text.columnar import write_columns
from boustro.text.documents import BYTE_ORDER_MARK, open_binary, read_ended
from boustro.text.files import IN_COLUMNS, TABULAR, DataFile, Form, Rows
from boustro.text.rows import JSON, JsonFault, file_ending, is_whole, parse_json, spelled_items
from boustro.text.separated import in_quotes
from boustro.text.tables import TableRow
from boustro.text.workbooks import write_sheet
from boustro.types import Note


@dataclass(eq=False)
class RedactedRow:
    """A row of a file.

    Attributes:
        place: file:line, or the number of the row.
        slots: The texts to check.
        whole: All that the row has, as a text.
        problem: Why it cannot be read, with the place.
        given: The row as its form has it.
        values: The values of the columns of a table; slots where there are texts.
        before, after: Text around it.
        file: The number of the file.
        ends: Whether the file cannot be read on.
    """

    place: str
    slots: Sequence[Slot] = ()
    whole: str = ""
    problem: str = ""
    given: Any = None
    values: Sequence[Any] = ()
    before: str = ""
    after: str = ""
    file: int = 0
    ends: bool = False

    @property
    def content(self) -> bytes:
        """Bytes of what was read, by which a row is known again."""
        return (self.problem or self.whole).encode(errors="surrogatepass")

    @property
    def results(self) -> list[Any]:
        """The values of its columns without names; what is no text stays."""
        return [value.result if isinstance(value, Slot) else value for value in self.values]

    def to_problem(self) -> dict[str, str]:
        """The line of a file of problems."""
        return {"place": self.place, "error": self.problem}


def form_with(file: DataFile, columns: Sequence[str]) -> Form:
    """Find what a file is; one whose name says nothing, and whose first line has these columns, is a table."""
    form = file.form()
    if form == "text" and columns and not file_ending(file.path):
        with suppress(ValueError):
            form = "separated" if {*columns} <= {*file.head("separated").keys} else form
    return form


@dataclass
class GivenFile:
    """A file.

    Attributes:
        columns: The columns of a table, or keys of JSON, in which names are masked.
        kept: The columns that the folder of the tagger keeps, which are read where they are there.
        shown: How it is called in messages, where it is the copy of a stream.
        notes: What there is to say of how it was read last.
        table: The table that was read last.
        opening, closing: Text around the values of JSON that was read last.
    """

    file: DataFile
    columns: Sequence[str] = ()
    kept: Sequence[str] = ()
    shown: str = ""
    notes: list[Note] = field(default_factory=list)
    table: Any = None
    opening: str = ""
    closing: str = ""

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.file.path

    @cached_property
    def form(self) -> Form:
        """The form of the file."""
        return form_with(self.file, self.columns)

    def open(self) -> Form:
        """Find what it is; `ValueError` and `OSError` where it cannot be opened."""
        if self.form in TABULAR:
            self.file.head(self.form)
        return self.form

    def check_columns(self) -> None:
        """`ValueError` for a table without the columns in which names are masked."""
        if self.form in TABULAR:
            self._columns_of(self.file.open(self.form, notes=[]))

    def rows(self) -> Iterator[RedactedRow]:
        """All rows, also those that cannot be read; `ValueError` for a file that cannot be read on."""
        self.notes = []
        for row in FORMS[self._kind()][0](self):
            if row.problem and self.shown:
                row.place, row.problem = (said.replace(str(self.path), self.shown) for said in (row.place, row.problem))
            yield row

    def write(self, rows: Iterable[RedactedRow], stream: IO[bytes], place: Path) -> None:
        """Write these rows; what is no text goes to `place`, which is `stream` on the disk."""
        FORMS[self._kind()][1](self, rows, stream, place)

    def _kind(self) -> str:
        form = self.form
        if form != "json" or file_ending(self.path) == JSON:
            return "values" if form == "json" else form
        lines = read_ended(self.path, None, keep_going=True)
        return "values" if is_whole(self.path, next((s for line in lines if (s := line.line.strip())), "")) else "json"

    def open_table(self) -> tuple[Rows, list[str]]:
        """Open a table; also the columns in which names are masked."""
        self.table = table = self.file.open(self.form, notes=self.notes)
        columns = self._columns_of(table)
        if rest := [key for key in table.keys if key and key not in columns]:
            left = f"tables with columns that are not read and stay: {', '.join(rest)}"
            self.notes.append(Note(left, str(table.path)))
        return table, columns

    def _columns_of(self, table: Rows) -> list[str]:
        if not table.keys:  # an empty file
            return []
        found = [key for key in table.keys if key]
        kept = [key for key in self.kept if key in found]
        chosen = [*self.columns] or kept or next(([key] for key in TEXT_KEYS if key in found), [])
        unknown = [name for name in chosen if name not in found]
        if unknown or not chosen:
            raise no_column(str(table.path), unknown[:1] or TEXT_KEYS[:1], (row for _, row in table), found)
        return chosen


def _of_columns(place: str, values: Sequence[Any], whole: Iterable[Any], given: Any = None) -> RedactedRow:
    """A row of a table; what is no text in its columns is no slot."""
    reading = BodyTexts()
    cells = [reading.text(value, place) if isinstance(value, str) and value else value for value in values]
    text = "\n".join(str(value) for value in whole if value is not None)
    return RedactedRow(place, reading.slots, text, given=given, values=cells)


# Lines of text


def _read_text(file: GivenFile) -> Iterator[RedactedRow]:
    file.file.open(file.form).refuse_words()
    for line in read_ended(file.path, file.notes, keep_going=True):
        row = _of_columns(f"{file.path}:{line.number}", [line.line.removeprefix(BYTE_ORDER_MARK)], [line.line])
        row.before, row.after, row.problem = BYTE_ORDER_MARK * line.has_mark, line.end, line.problem
        yield row


def _write_text(file: GivenFile, rows: Iterable[RedactedRow], stream: IO[bytes], place: Path) -> None:
    for row in rows:
        stream.write(f"{row.before}{row.results[0]}{row.after}".encode())


# JSON: lines, an array, or values that follow each other


def _read_json_lines(file: GivenFile) -> Iterator[RedactedRow]:
    for line in read_ended(file.path, None, keep_going=True):
        place, problem, values = f"{file.path}:{line.number}", line.problem, []
        if line.line.strip():
            try:
                values = [parse_json(line.line, place)]
            except ValueError as error:
                problem = str(error)
        row = _of_values(file, place, BYTE_ORDER_MARK * line.has_mark + line.line, values, problem)
        row.after = line.end
        yield row


def _read_values(file: GivenFile) -> Iterator[RedactedRow]:
    with open_binary(file.path) as stream:
        try:
            given = stream.read().decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{file.path}: no UTF-8 at byte {error.start:,} ({error.reason})") from None
    text = given.removeprefix(BYTE_ORDER_MARK)
    is_array, at = text.lstrip()[:1] == "[", 0
    try:
        items = list(spelled_items(text, file.path, int(is_array)))
    except ValueError as error:
        if is_array or isinstance(error, JsonFault):
            raise
        yield from _read_json_lines(file)  # of which one is broken
        return
    begin, end = (items[0].start, items[-1].end) if items else (len(text), len(text))
    file.opening, file.closing = given[: len(given) - len(text)] + text[:begin], text[end:]
    for item in items:
        row = _of_values(file, item.place, text[item.start : item.end], [item.value])
        row.before, at = text[at : item.start], item.end
        yield row


def _of_values(file: GivenFile, place: str, given: str, values: list[Any], problem: str = "") -> RedactedRow:
    """A text with values of JSON."""
    reading, trees = BodyTexts(halves=True), []
    try:
        for one in values:
            chosen = _chosen(one, reading, place, file.columns) if file.columns else checked(one, reading, place)
            trees.append(chosen)
    except RecursionError:
        problem = f"{place}: JSON that is nested too deep to be read"
    except ValueError as error:
        problem = str(error)
    return RedactedRow(place, [] if problem else reading.slots, unescaped(given)[0], problem, (given, trees))


def _chosen(tree: Any, reading: BodyTexts, place: str, columns: Sequence[str]) -> Any:
    """A record whose keys were chosen, or a list of records."""
    if isinstance(tree, list):
        return [_chosen(one, reading, place, columns) for one in tree]
    missing = [key for key in columns if not isinstance(tree, dict) or key not in tree]
    if missing:
        found = ", ".join(tree) if isinstance(tree, dict) else "no object"
        raise ValueError(f"{place}: no {missing[0]!r} (found: {found or 'nothing'})")
    return {key: checked(v, reading, place, key) if key in columns else v for key, v in tree.items()}


def _write_json(file: GivenFile, rows: Iterable[RedactedRow], stream: IO[bytes], place: Path) -> None:
    first = True
    for row in rows:
        given, trees = row.given
        said = respelled(given, trees) if any(slot.is_changed for slot in row.slots) else given
        stream.write(f"{file.opening if first else row.before}{said}{row.after}".encode())
        first = False
    stream.write(f"{file.opening * first}{file.closing}".encode())


# Tables


def _read_table(file: GivenFile) -> Iterator[RedactedRow]:
    table, columns = file.open_table()
    for place, record in table.records:
        if record.problem:
            yield RedactedRow(place, problem=record.problem)
        else:
            yield _of_columns(place, [record[key] for key in columns], record.values(), record)


def _records(file: GivenFile, rows: Iterable[RedactedRow]) -> Iterator[TableRow]:
    """The records of a table with masks in some columns."""
    _, columns = file.open_table()
    for row in rows:
        row.given.update(zip(columns, row.results, strict=True))
        yield row.given


def _write_separated(file: GivenFile, rows: Iterable[RedactedRow], stream: IO[bytes], place: Path) -> None:
    table, _ = file.open_table()
    dialect = table.output_dialect
    start = BYTE_ORDER_MARK * dialect.has_mark + table.columns.before
    start += dialect.as_given(table.columns.row) if table.columns.row else ""
    stream.write(start.encode())
    for record in _records(file, rows):
        row, cells = record.given, [*record.values()]
        assert row is not None
        spelled = [
            was if new in (old, None) else in_quotes(new) if quoted else dialect.spell(new)
            for was, old, quoted, new in zip(row.spelled, row.cells, row.quoted, cells, strict=False)
        ]
        stream.write(f"{record.before}{dialect.separator.join(spelled)}{row.end}".encode())
    stream.write(file.table.after.encode())


def _write_sheet(file: GivenFile, rows: Iterable[RedactedRow], stream: IO[bytes], place: Path) -> None:
    table, _ = file.open_table()
    records = _records(file, rows)
    cells = (([*record.values()], [record.formats.get(key) for key in table.keys]) for record in records)
    write_sheet(table.heads, cells, place, table.path)


def _read_columns(file: GivenFile) -> Iterator[RedactedRow]:
    import pyarrow

    def may_have_texts(kind: Any) -> bool:
        is_bytes = pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)
        return not is_bytes and not pyarrow.types.is_primitive(kind)

    table, columns = file.open_table()
    for key in columns:
        kind = table.schema.field(key).type
        kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise ValueError(f"{table.path}: the column {key!r} has no texts but the type {kind}; name one with texts")
    number = 0
    for batch in table.batches():
        rows = batch.select([field.name for field in batch.schema if may_have_texts(field.type)]).to_pylist()
        for row in rows or [{}] * len(batch):
            number += 1
            yield _of_columns(f"{table.path}: row {number}", [row[key] for key in columns], row.values())


def _write_columns(file: GivenFile, rows: Iterable[RedactedRow], stream: IO[bytes], place: Path) -> None:
    import pyarrow

    (table, columns), rows = file.open_table(), iter(rows)

    def batches() -> Iterator[Any]:
        for batch in table.batches():
            found = [*zip(*(row.results for row in islice(rows, len(batch))), strict=True)] or [()] * len(columns)
            arrays = list(batch.columns)
            for key, values in zip(columns, found, strict=True):
                number = batch.schema.get_field_index(key)
                arrays[number] = pyarrow.array(values, pyarrow.string()).cast(batch.schema.field(number).type)
            yield pyarrow.Table.from_arrays(arrays, schema=batch.schema)
        next(rows, None)  # which lets their reader end

    write_columns(table.schema, batches(), place, "parquet" if file_ending(table.path) == ".parquet" else "arrow")


Reader = Callable[[GivenFile], Iterator[RedactedRow]]
Writer = Callable[[GivenFile, Iterable[RedactedRow], IO[bytes], Path], None]
FORMS: dict[str, tuple[Reader, Writer]] = {
    "json": (_read_json_lines, _write_json),
    "values": (_read_values, _write_json),
    "separated": (_read_table, _write_separated),
    "sheet": (_read_table, _write_sheet),
    "columns": (_read_columns, _write_columns),
    **dict.fromkeys(("text", *IN_COLUMNS), (_read_text, _write_text)),
}
"""How files are read and written; words in columns are refused."""
