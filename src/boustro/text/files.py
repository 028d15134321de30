"""One door to files of data: what a file is, and what stands in it, one after the other.

    rows = open_rows(Path("messages.csv"))
    rows.form                        # "separated"
    rows.heads                       # ("", "id", " message ")         as they stand in the file
    rows.keys                        # ("", "id", "message")           their names in a record, each another
    [*rows]                          # [("messages.csv:2", {"": "0", "id": "7", "message": "Ada left."})]
    [*open_rows(Path("a.txt"))]      # [("a.txt:1", "Ada left."), ("a.txt:2", "It rained.")]

A file is what its name says, and where that says nothing, or too little, what its first bytes and lines say:

    .xlsx  .parquet .arrow .feather    "sheet" and "columns": tables; the latter by their first bytes too
    .csv .tsv                          "separated": tables; words with their tags, where these are looked for
    .jsonl .ndjson .json               "json", and files that begin with an object or with an array of them
    .conllu .conllup                   "conllu": words in columns; and files with its columns under any name
    .conll .bio .iob .iob2             "conll"; and files whose lines are words and tags under any name
    all else                           "text": lines; without an ending, as a stream has none, "separated" where the
                                       first line has several names and one is that of texts

A record of a table has all columns, in order, with the types that the file has: the text of a CSV file's cells,
numbers, dates and truth values of a workbook, anything of parquet. A place is the row that a spreadsheet shows. Of a
workbook the first sheet is read. What a record lacks is `None`; a row with more cells than the head is an error. All
but JSON over several lines is read in constant memory.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from boustro.output import print_notices
from boustro.text.columnar import read_record_batches, schema_of
from boustro.text.columns import LOOKED_AT, columns_form, is_conllu
from boustro.text.documents import STANDARD_INPUT, LineSource, decode_line, ended_line, is_stream, is_western
from boustro.text.kinds import kind_of_file
from boustro.text.rows import (
    COLUMN_FILES,
    COLUMNS,
    CONLLU_FILES,
    JSON,
    JSON_LINES,
    TABLES,
    JsonFault,
    begins_rows,
    file_ending,
    has_key,
    hold_records,
    is_whole,
    json_rows,
    parse_record,
    records_of,
)
from boustro.text.separated import (
    OTHERS,
    SEPARATED_BY,
    CellRow,
    Dialect,
    Separated,
    begins_table,
    cell_text,
    json_value,
)
from boustro.text.workbooks import WORKBOOK, SheetRow, sheet_rows
from boustro.types import Note

HEAD_AGAIN = "lines that name the columns again, as joined files have them, left out"
SHORT = "rows with fewer cells than columns; the others are empty"
KEYS = ("text", "sentence", "words", "tokens", "sentence1", "text1", "premise", "question", "question1")
"""Of an object whose text a command may read, whatever the file is named."""

Form = Literal["text", "json", "separated", "sheet", "columns", "conll", "conllu"]
TABULAR: tuple[Form, ...] = ("separated", "sheet", "columns")
IN_COLUMNS: tuple[Form, ...] = ("conll", "conllu")


class TableRow(dict[str, Any]):
    """A record by the keys of its columns.

    Attributes:
        is_blank: Whether it is an empty row between others.
        formats: How a workbook shows the values of its columns, where it says so.
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
        padded: Mapping[str, str] = MappingProxyType({}),
        given: CellRow | None = None,
        before: str = "",
        problem: str = "",
    ) -> None:
        super().__init__(cells)
        self.is_blank, self.formats, self.padded = is_blank, formats or {}, padded
        self.given, self.before, self.problem = given, before, problem

    @property
    def as_named(self) -> dict[str, Any]:
        """The row under the names that its file has."""
        return {self.padded.get(key, key): value for key, value in self.items()} if self.padded else dict(self)


class Item(NamedTuple):
    """An item of a file: a line of text, or a value of JSON or of a table.

    Attributes:
        place: file:line, or the number of the row.
        value: The line, or the value; None where there is a `problem`.
        is_line: Whether it is a line of text.
        problem: Why it cannot be read, with the place.
    """

    place: str
    value: Any
    is_line: bool = False
    problem: str = ""


@dataclass
class Rows:
    """An opened file, and an iteration over (place, record): the line of a text, a value of JSON, a row of a table.

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
    form: Form = "text"
    heads: tuple[Any, ...] = ()
    keys: tuple[str, ...] = ()
    notes: list[Note] = field(default_factory=list)
    dialect: Dialect | None = None
    schema: Any = None
    batches: Callable[..., Iterator[Any]] = iter
    only: str | None = None
    records: Iterable[tuple[str, TableRow]] = ()
    source: Iterable[tuple[int, bytes] | None] = ()
    is_strict: bool = False
    """Whether all lines must be UTF-8; else a file in Windows-1252 is read, and noted."""
    head: CellRow | None = None
    """The first row of a CSV or TSV file, as it stands there."""
    before: str = ""
    """Text before the head of such a file, behind its byte order mark."""
    after: str = ""
    """Text after the last record of such a file, once all were read."""

    @property
    def padded(self) -> dict[str, str]:
        """The names that have white space around them in the file, by their keys."""
        pairs = zip(self.keys, self.heads, strict=True)
        return {key: head for key, head in pairs if isinstance(head, str) and key != head and key == head.strip()}

    @property
    def is_table(self) -> bool:
        """Whether the columns have names."""
        return self.form in TABULAR

    @property
    def output_dialect(self) -> Dialect:
        """How a CSV or TSV file of these rows is written: as this one, but of Windows-1252 comes UTF-8 with a mark,
        without which Excel would read it in Windows-1252 again."""
        assert self.dialect is not None
        return self.dialect if self.dialect.has_mark else replace(self.dialect, has_mark=is_western(self.path))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """All records, once, blank rows between others too; `ValueError`, with the place, for what is no record."""
        for item in self.items():
            if item is not None:
                if item.problem:
                    raise ValueError(item.problem)
                yield item.place, item.value

    def items(self) -> Iterator[Item | None]:
        """Yield all records, also those that cannot be read, and `None` whenever the next has not arrived yet (pipes).

        Raises `ValueError` for a file that cannot be read on, such as a damaged archive or array, and for words in
        columns, see `lines`.
        """
        self.refuse_words()
        if self.is_table:
            return (Item(place, None if row.problem else row, problem=row.problem) for place, row in self.records)
        return self._json_items() if self.form == "json" else self._lines_of_text()

    def refuse_words(self) -> None:
        """`ValueError` for words in columns, where texts are read."""
        if self.form in IN_COLUMNS:
            next(self.lines(), None)  # which says what a file is that is no text
            raise ValueError(f"{self.path}: words in columns; texts are expected: lines, JSON lines or a table")

    def lines(self) -> Iterator[tuple[int, str, str] | None]:
        """(number, line, why it cannot be read), and `None` whenever the next line has not arrived yet."""
        notes = None if self.is_strict or self.form in ("json", "conllu") else self.notes
        for item in self.source:
            if item is None:
                yield None
                continue
            try:
                yield item[0], decode_line(self.path, *item, notes), ""
            except ValueError as error:
                yield item[0], "", str(error)

    def sound_lines(self) -> Iterator[tuple[int, str]]:
        """(number, line) of all lines; `ValueError` for one that cannot be read."""
        return _sound(self.lines())

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(place, row) of a table, without blank rows and columns without a name; dates of a workbook are text."""
        named = [key for key, head in zip(self.keys, self.heads, strict=True) if head not in (None, "") and key]
        for place, record in self.records:
            if record.problem:
                raise ValueError(record.problem)
            if not record.is_blank:
                values = ((key, record[key]) for key in named)
                is_sheet = self.form == "sheet"
                yield place, {key: json_value(v) if is_sheet and hasattr(v, "isoformat") else v for key, v in values}

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """(number of the line or the row, record) of JSON, and of a table as `rows` has them."""
        if self.form == "json":
            return records_of(self.path, self.sound_lines())
        self.refuse_words()
        begin = len(str(self.path)) + 1
        return ((int(place[begin:].rpartition(" ")[2]), row) for place, row in self.rows())

    def _lines_of_text(self) -> Iterator[Item | None]:
        name = _shown(self.path)
        for item in self.lines():
            yield item and Item(f"{name}:{item[0]}", None if item[2] else item[1], True, item[2])

    def _json_items(self) -> Iterator[Item | None]:
        name, held = _shown(self.path), list[tuple[int, str, str] | None]()
        arriving, first = self.lines(), ""
        for item in arriving:
            held.append(item)
            if item is None:
                yield None
            elif first := item[1].strip():
                break
        arriving = chain(filter(None, held), arriving)
        if is_whole(self.path, first):
            held = list(arriving)
            try:
                yield from [Item(*row) for row in json_rows(name, _sound(held))]
                return
            except ValueError as error:
                if first[:1] == "[" or isinstance(error, JsonFault):
                    raise
                arriving = iter(held)  # values a line, of which the first is broken
        for item in arriving:
            if item is None:
                yield None
                continue
            place, value, problem = f"{name}:{item[0]}", None, item[2]
            if item[1].strip() and not problem:
                try:
                    value = parse_record(item[1], place)
                except ValueError as error:
                    problem = str(error)
            if item[1].strip() or problem:
                yield Item(place, value, problem=problem)


def _sound(lines: Iterable[tuple[int, str, str] | None]) -> Iterator[tuple[int, str]]:
    """Lines that have arrived; `ValueError` for one that cannot be read."""
    for item in lines:
        if item is not None:
            if item[2]:
                raise ValueError(item[2])
            yield item[0], item[1]


def _shown(path: Path) -> Path:
    return Path("standard input") if path == STANDARD_INPUT else path


def is_separated(path: Path) -> bool:
    """Whether the name is that of a CSV or TSV file, compressed or not."""
    return file_ending(path) in SEPARATED_BY


def open_rows(
    path: Path,
    form: Form | None = None,
    delimiter: str | None = None,
    notes: list[Note] | None = None,
    only: str | None = None,
    keys: Iterable[str] | None = None,
    words: bool = False,
    bare: bool = False,
    otherwise: Form = "text",
) -> Rows:
    """Open a file, compressed or not, or - for standard input.

    Args:
        form: What it is; by default as its name and what stands in it say.
        delimiter: What separates the cells of a CSV or TSV file, or columns of words; by default as the file has it.
        notes: The list that becomes `notes`; without one, lines of text must be UTF-8.
        only: The column that records of a parquet or Arrow file have, where it is there and no other is needed.
        keys: An object that begins a file whose name does not say JSON has one of these; by default any.
        words: Whether a CSV or TSV file may have words and their tags, one a line.
        bare: Whether the tags may be types without letters.
        otherwise: What a file is of which nothing else is known.

    Raises `ValueError` for a damaged file and for names that several columns have, and `ImportError` for a workbook
    where openpyxl is not installed.
    """
    rows = Rows(path, notes=[] if notes is None else notes, only=only, is_strict=notes is None)
    if form not in TABULAR:
        rows.source = source = LineSource(path)
        known = form or _form_of(source, delimiter, None if keys is None else [*keys], words, bare)
        rows.form = otherwise if known == "text" and form is None else known
    else:
        rows.form = form
    if rows.is_table:
        OPENED[rows.form](rows, delimiter)
    return rows


def _form_of(source: LineSource, delimiter: str | None, keys: Sequence[str] | None, words: bool, bare: bool) -> Form:
    ending = file_ending(source.path)
    if ending == WORKBOOK:
        return "sheet"
    if ending in TABLES or kind_of_file(source.path) in COLUMNS:
        return "columns"
    if ending in (*JSON_LINES, JSON):
        return "json"
    if ending in CONLLU_FILES:
        return "conllu"
    separated = is_separated(source.path)
    if separated and not words:
        return "separated"
    lines = source.look(LOOKED_AT)
    if ending in COLUMN_FILES:
        return "conllu" if is_conllu(lines) else "conll"
    if _begins_json(source, next((line.strip() for _, line in lines if line.strip()), ""), keys):
        return "json"
    columns = columns_form(lines, delimiter, bare) if source.path.is_file() else None  # a stream shows one line
    separated = separated or (not ending and begins_table([line for _, line in lines], (*KEYS, *(keys or ()))))
    return columns or ("separated" if separated else "text")


def _begins_json(source: LineSource, first: str, keys: Sequence[str] | None) -> bool:
    if keys is None or hold_records(first, keys):
        return begins_rows(first)
    if not is_whole(source.path, first):
        return False
    try:
        lines = ((number, decode_line(source.path, number, raw)) for number, raw in source.whole())
        records = [*json_rows(source.path, lines)]
    except JsonFault:
        raise
    except ValueError:
        return False
    return bool(records) and has_key(records[0][1], keys)


def form_of(path: Path, delimiter: str | None = None, words: bool = False, bare: bool = False) -> Form:
    """Find what a file is, see `open_rows`; text, where it cannot be read, which its reader says.

    Nothing is read of a stream, which nobody could read again; it is text.
    """
    if is_stream(str(path)):
        return "text"
    with contextlib.suppress(OSError, ValueError):
        return _form_of(LineSource(path), delimiter, None, words, bare)
    return "text"


def read_table(
    path: Path, delimiter: str | None = None, notes: list[Note] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a table, see `Rows.rows`; raises as `open_rows`."""
    return open_rows(path, None, delimiter, notes).rows()


def columns_of(path: Path, delimiter: str | None = None) -> list[str]:
    """The names of the columns of a table, without blank ones; raises as `open_rows`."""
    return [key for key in open_rows(path, None, delimiter).keys if key]


def count_items(file: str) -> int | None:
    """How many there are, for a progress report; `None` for a stream, and for what cannot be read to its end."""
    if is_stream(file):
        return None
    with contextlib.suppress(ValueError, OSError):
        return sum(item is not None for item in open_rows(Path(file), notes=[], keys=KEYS).items())
    return None


def read_batches(files: Sequence[str], most: int = 256, keys: Sequence[str] = KEYS) -> Iterator[list[tuple[str, Item]]]:
    """(file, item) of all files, `most` at a time, fewer where the next item has not come yet.

    How a file was read is printed on standard error at its end. Raises `ValueError` for the first item that cannot be
    read.
    """
    batch: list[tuple[str, Item]] = []
    for file in files:
        if batch and is_stream(file):  # opening it may take long
            yield batch
            batch = []
        notes: list[Note] = []
        for item in open_rows(Path(file), notes=notes, keys=keys).items():
            if item is not None:
                if item.problem:
                    raise ValueError(item.problem)
                batch.append((file, item))
            if batch and (item is None or len(batch) == most):
                yield batch
                batch = []
        print_notices(Counter(note.what for note in notes))
    if batch:
        yield batch


def maybe_texts(path: Path) -> list[str]:
    """The names in the first line of a table that may have a text in each row: CoNLL columns have blank lines."""
    if not is_separated(path) or not path.is_file():
        return []
    lines = [line.strip() for _, line, _ in filter(None, open_rows(path, "text", notes=[]).lines())]
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


def _open_separated(rows: Rows, delimiter: str | None) -> None:
    source = rows.source
    held = (ended_line(rows.path, *item, rows.notes) for item in source if item) if is_stream(str(rows.path)) else None
    file = Separated(rows.path, rows.notes, delimiter, held)
    numbered = enumerate(file, start=1)  # a spreadsheet does not show the line `sep=;`
    number, head = next(numbered, (0, None))
    rows.dialect, rows.before = file.dialect, file.dialect.declaration
    while head is not None and head.is_blank:
        rows.before += file.dialect.as_given(head)
        number, head = next(numbered, (0, None))
    if head is not None:
        rows.head, rows.heads = head, head.cells
        bare = [c if quoted else c.strip().strip('"') for c, quoted in zip(head.cells, head.quoted, strict=True)]
        rows.keys = keys_of(bare, f"{rows.path}:{number}")
        rows.records = _without_last_blanks(_separated_records(rows, file, head, numbered), rows)


def _separated_records(
    rows: Rows, file: Separated, head: CellRow, numbered: Iterator[tuple[int, CellRow]]
) -> Iterator[tuple[str, TableRow]]:
    keys, notes, padded, before = rows.keys, rows.notes, rows.padded, ""
    for number, row in numbered:
        where = f"{rows.path}:{number}"
        if row.cells == head.cells and len(keys) > 1:
            notes.append(Note(HEAD_AGAIN, where))
            before += file.dialect.as_given(row)
            continue
        if row.is_blank:
            yield where, TableRow(dict.fromkeys(keys), is_blank=True, padded=padded, given=row, before=before)
            before = ""
            continue
        if len(row.cells) > len(keys):
            separator = file.dialect.separator
            advice = f"quote a cell with {OTHERS.get(separator, repr(separator))}"
            yield where, TableRow(before=before, problem=_too_many(rows, where, row.line, number, advice))
            before = ""
            continue
        if len(row.cells) < len(keys):
            notes.append(Note(SHORT, where))
        notes += [Note(what, where) for what in file.note(row, len(keys))]
        record = dict.fromkeys(keys) | dict(zip(keys, row.cells, strict=False))
        yield where, TableRow(record, padded=padded, given=row, before=before)
        before = ""
    rows.after = before


def _too_many(rows: Rows, where: str, line: int, number: int, advice: str) -> str:
    """Sentence about a row with more cells than columns."""
    at = f" (line {line} of the file)" if line != number else ""
    columns = ", ".join(key or "(no name)" for key in rows.keys)
    return f"{where}: more cells than columns ({columns}){at}; {advice}"


def _without_last_blanks(records: Iterable[tuple[str, TableRow]], rows: Rows) -> Iterator[tuple[str, TableRow]]:
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


def _open_sheet(rows: Rows, delimiter: str | None) -> None:
    numbered = sheet_rows(rows.path, rows.notes)
    for row in numbered:
        if row.values:
            rows.heads, rows.keys = tuple(row.values), keys_of(row.values, f"{rows.path}: row {row.number}")
            rows.records = _without_last_blanks(_sheet_records(rows, numbered), rows)
            break


def _sheet_records(rows: Rows, numbered: Iterator[SheetRow]) -> Iterator[tuple[str, TableRow]]:
    keys, padded = rows.keys, rows.padded
    for number, values, formats, is_unstored in numbered:
        where = f"{rows.path}: row {number}"
        if len(values) > len(keys):
            advice = "give each column a name in the first row"
            yield where, TableRow(problem=_too_many(rows, where, number, number, advice))
            continue
        record = dict.fromkeys(keys) | dict(zip(keys, values, strict=False))
        shown = {key: form for key, form in zip(keys, formats, strict=False) if form}
        yield where, TableRow(record, is_blank=not values and not is_unstored, formats=shown, padded=padded)


# Parquet, Arrow, Feather


def _open_columns(rows: Rows, delimiter: str | None) -> None:
    rows.schema = schema_of(rows.path)
    rows.heads = rows.keys = tuple(rows.schema.names)
    keys_of(rows.heads, str(rows.path))  # refuses names that come twice
    rows.batches = lambda only=None: read_record_batches(rows.path, only)
    rows.records = _column_records(rows)


def _column_records(rows: Rows) -> Iterator[tuple[str, TableRow]]:
    number = 0
    for batch in rows.batches(rows.only):
        for value in batch.to_pylist():
            number += 1
            yield f"{rows.path}: row {number}", TableRow(value)


OPENED: dict[str, Callable[[Rows, str | None], None]] = {
    "separated": _open_separated,
    "sheet": _open_sheet,
    "columns": _open_columns,
}
