"""One door to files of data: what a file is, and what stands in it, one after the other.

    file = DataFile("messages.csv")
    file.form()                      # "separated"                     it is opened once for this and for the next line
    rows = file.open()
    rows.heads                       # ("", "id", " message ")         as they stand in the file
    rows.keys                        # ("", "id", "message")           their names in a record, each another
    [*rows]                          # [("messages.csv:2", {"": "0", "id": "7", "message": "Ada left."})]
    [*DataFile("a.txt").open()]      # [("a.txt:1", "Ada left."), ("a.txt:2", "It rained.")]

A file is what its name says, and where that says nothing, or too little, what its first bytes and lines say:

    .xlsx (.xlsm, .xltx, .xltm)        "sheet": a table
    .parquet .arrow .feather           "columns": tables, by their first bytes too
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
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from boustro.output import print_notices
from boustro.text.columns import LOOKED_AT, columns_form
from boustro.text.conllu import is_conllu
from boustro.text.documents import OPENERS, STANDARD_INPUT, LineSource, decode_line, is_stream
from boustro.text.places import check_text
from boustro.text.rows import (
    COLUMN_FILES,
    COLUMNS,
    CONLLU_FILES,
    JSON,
    JSON_LINES,
    TABLES,
    WORKBOOKS,
    JsonFault,
    begins_rows,
    file_ending,
    frame_records,
    has_key,
    hold_records,
    is_whole,
    parse_record,
    whole_rows,
)
from boustro.text.separated import SEPARATED_BY, Dialect, begins_table, json_value
from boustro.text.tables import NO_HEAD, TABLE_HEADS, FileRow, TableHead, TableRow, fill_rows
from boustro.types import Note

KEYS = ("text", "sentence", "words", "tokens", "sentence1", "text1", "premise", "question", "question1")
"""Of an object whose text a command may read, whatever the file is named."""

Form = Literal["text", "json", "separated", "sheet", "columns", "conll", "conllu"]
TABULAR: tuple[Form, ...] = ("separated", "sheet", "columns")
IN_COLUMNS: tuple[Form, ...] = ("conll", "conllu")


@dataclass
class Rows:
    """An opened file, and an iteration over (place, record): the line of a text, a value of JSON, a row of a table.

    Attributes:
        form: What the file is.
        columns: Those of a table.
        notes: What there is to say of how it is read, with each row that has it; grows while it is read.
        only: The column that records of a parquet or Arrow file have, where no other is needed.
        source: The lines.
        is_strict: Whether all lines must be UTF-8; else a file in Windows-1252 is read, and noted.
        after: Text after the last record of a CSV or TSV file, once all were read.
    """

    path: Path
    form: Form
    source: LineSource | Iterable[tuple[int, bytes] | None]
    notes: list[Note]
    only: str | None = None
    is_strict: bool = False
    columns: TableHead = NO_HEAD
    records: Iterable[tuple[str, TableRow]] = ()
    after: str = ""

    @property
    def heads(self) -> tuple[Any, ...]:
        """The names of the columns as they stand in the file."""
        return self.columns.heads

    @property
    def keys(self) -> tuple[str, ...]:
        """The names that the columns have in records."""
        return self.columns.keys

    @property
    def dialect(self) -> Dialect | None:
        """How a CSV or TSV file is written."""
        return self.columns.dialect

    @property
    def schema(self) -> Any:
        """The types of a parquet or Arrow file, a `pyarrow.Schema`."""
        return self.columns.schema

    def batches(self, only: str | None = None) -> Iterator[Any]:
        """Return the rows of a parquet or Arrow file as `pyarrow.RecordBatch`es; each call begins anew."""
        from boustro.text.columnar import read_record_batches

        return read_record_batches(self.path, only)

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
        assert self.dialect is not None and isinstance(self.source, LineSource)
        return self.dialect if self.dialect.has_mark else replace(self.dialect, has_mark=self.source.is_western)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Return all records, once, blank rows between others too; `ValueError`, with the place, for what is no
        record."""
        return _whole_items(self.items())

    def items(self) -> Iterator[FileRow | None]:
        """Yield all records, also those that cannot be read, and `None` whenever the next has not arrived yet (pipes).

        Raises `ValueError` for a file that cannot be read on, such as a damaged archive or array, and for words in
        columns, see `lines`.
        """
        self.refuse_words()
        if self.is_table:
            return (FileRow(place, None if row.problem else row, problem=row.problem) for place, row in self.records)
        if self.form == "json":
            return self._json_items(_shown(self.path), self.lines())
        return self._lines_of_text()

    def refuse_words(self) -> None:
        """`ValueError` for words in columns, where texts are read."""
        if self.form in IN_COLUMNS:
            next(self.lines(), None)  # which says what a file is that is no text
            raise ValueError(f"{self.path}: words in columns; texts are expected: lines, JSON lines or a table")

    def lines(self) -> Iterator[tuple[int, str, str] | None]:
        """Yield (number, line, why it cannot be read), and `None` whenever the next line has not arrived yet."""
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
        """Return (number, line) of all lines; `ValueError` for one that cannot be read."""
        return _sound(self.lines())

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (place, row) of a table, without blank rows and columns without a name; dates of a workbook are
        text."""
        named = [key for key, head in zip(self.keys, self.heads, strict=True) if head not in (None, "") and key]
        for place, record in self.records:
            if record.problem:
                raise ValueError(record.problem)
            if not record.is_blank:
                values = ((key, record[key]) for key in named)
                is_sheet = self.form == "sheet"
                yield place, {key: json_value(v) if is_sheet and hasattr(v, "isoformat") else v for key, v in values}

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Return (number of the line or the row, record) of JSON, and of a table as `rows` has them."""
        begin = len(str(self.path)) + 1
        if self.form == "json":
            items = self._json_items(self.path, ((*line, "") for line in self.sound_lines()))
            return ((int(place[begin:].partition(",")[0]), record) for place, record in _whole_items(items))
        self.refuse_words()
        return ((int(place[begin:].rpartition(" ")[2]), row) for place, row in self.rows())

    def _lines_of_text(self) -> Iterator[FileRow | None]:
        name = _shown(self.path)
        for item in self.lines():
            yield item and FileRow(f"{name}:{item[0]}", None if item[2] else item[1], True, item[2])

    def _json_items(self, name: Path, arriving: Iterator[tuple[int, str, str] | None]) -> Iterator[FileRow | None]:
        """Yield the values, or the records of a data frame that is the only one."""
        begun, frame = False, None
        for item in self._json_values(name, arriving):
            if item is not None and not begun and frame_records(item.value):
                begun, frame = True, item
                continue
            if item is not None and frame is not None:
                yield frame
                frame = None
            begun = begun or item is not None
            yield item
        if frame is not None:
            records = enumerate(frame_records(frame.value), start=1)
            yield from (FileRow(f"{frame.place}, item {number}", record) for number, record in records)

    def _json_values(self, name: Path, arriving: Iterator[tuple[int, str, str] | None]) -> Iterator[FileRow | None]:
        held, first = list[tuple[int, str, str] | None](), ""
        for item in arriving:
            held.append(item)
            if item is None:
                yield None
            elif first := item[1].strip():
                break
        arriving = chain(filter(None, held), arriving)
        if first[:1] in ("[", "{") and is_whole(self.path, first):
            held = list(arriving)
            try:
                yield from [FileRow(*row) for row in whole_rows(name, _sound(held), first)]
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
                yield FileRow(place, value, problem=problem)


def _sound(lines: Iterable[tuple[int, str, str] | None]) -> Iterator[tuple[int, str]]:
    """Lines that have arrived; `ValueError` for one that cannot be read."""
    for item in lines:
        if item is not None:
            if item[2]:
                raise ValueError(item[2])
            yield item[0], item[1]


def _whole_items(items: Iterable[FileRow | None]) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of items that have arrived; `ValueError`, with the place, for one that cannot be read."""
    for item in items:
        if item is not None:
            if item.problem:
                raise ValueError(item.problem)
            yield item.place, item.value


def _shown(path: Path) -> Path:
    return Path("standard input") if path == STANDARD_INPUT else path


class DataFile:
    """A file, or a stream, that is looked at once: what it is, and what its columns are.

    Args:
        path: Where it is.
        keeps: Whether the lines of a small file stay in memory, see `LineSource`.

    Attributes:
        name: The path as it was given.
        source: Its lines.
    """

    def __init__(self, path: str | Path, keeps: bool = False) -> None:
        self.name, self.path = str(path), Path(path)
        self.source = LineSource(self.path, keeps)
        self._forms: dict[Any, Form] = {}
        self._heads: dict[Any, TableHead] = {}

    def __str__(self) -> str:
        return self.name

    def __fspath__(self) -> str:
        return self.name

    @classmethod
    def of(cls, given: "str | os.PathLike[str]") -> "DataFile":
        """Return the file of this path, or the one that is given."""
        return given if isinstance(given, DataFile) else cls(os.fspath(given))

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once."""
        return is_stream(self.name)

    @property
    def is_separated(self) -> bool:
        """Whether its name is that of a CSV or TSV file, compressed or not."""
        return file_ending(self.path) in SEPARATED_BY

    def check(self, check: Callable[..., None] = check_text) -> None:
        """`OSError` or `ValueError` for what is neither a file of text or data nor `-`, before anything is loaded; or
        for what another check of `places` refuses."""
        check(self.name, self._kind)

    def _kind(self, path: Path) -> str | None:
        if path.is_file() and self.source.kind is None:
            self.source.look(LOOKED_AT)
        return self.source.kind

    def first(self) -> list[Any]:
        """Return the records of the first lines of a file of JSON, to one that cannot be read, which its reader
        says."""
        begun, found = (line.strip() for _, line in self.source.look(LOOKED_AT)), list[Any]()
        whole = is_whole(self.path, next(filter(None, begun), ""))
        lines = self.source.whole() if whole else self.source.first(LOOKED_AT)
        with contextlib.suppress(ValueError):
            found.extend(islice((record for _, record in Rows(self.path, "json", lines, [])), LOOKED_AT))
        return found

    def form(self, delimiter: str | None = None, words: bool = False, bare: bool = False) -> Form:
        """Find what a file is, see `open`; text, where it cannot be read, which its reader says.

        Nothing is read of a stream, which nobody could read again; it is text.
        """
        with contextlib.suppress(OSError, ValueError):
            if self.path.is_file():
                return self._form(delimiter, None, words, bare)
        return "text"

    def _form(self, delimiter: str | None, keys: Iterable[str] | None, words: bool, bare: bool) -> Form:
        asked = delimiter, None if keys is None else tuple(keys), words, bare
        with_any = self._forms.get((delimiter, None, words, bare), "json")
        if with_any != "json" and file_ending(self.path):  # elsewhere keys may make it JSON, or a table
            return with_any
        if asked not in self._forms:
            self._forms[asked] = _form_of(self.source, *asked)
        return self._forms[asked]

    def head(self, form: Form, delimiter: str | None = None) -> TableHead:
        """Return the columns of a table of this form, which is no stream; raises as `open`."""
        if (form, delimiter) not in self._heads:
            self._heads[form, delimiter] = TABLE_HEADS[form](self.path, self.source, delimiter)
        return self._heads[form, delimiter]

    def columns(self, delimiter: str | None = None) -> list[str]:
        """Return the names of the columns of a table, without blank ones; raises as `open`."""
        return [key for key in self.open(None, delimiter).keys if key]

    def open(
        self,
        form: Form | None = None,
        delimiter: str | None = None,
        notes: list[Note] | None = None,
        only: str | None = None,
        keys: Iterable[str] | None = None,
        words: bool = False,
        bare: bool = False,
        otherwise: Form = "text",
    ) -> Rows:
        """Open it, compressed or not.

        Args:
            form: What it is; by default as its name and what stands in it say.
            delimiter: What separates the cells of a CSV or TSV file, or columns of words; by default as the file has
                it.
            notes: The list that becomes `notes`; without one, lines of text must be UTF-8.
            only: The column that records of a parquet or Arrow file have, where it is there and no other is needed.
            keys: An object that begins a file whose name does not say JSON has one of these; by default any.
            words: Whether a CSV or TSV file may have words and their tags, one a line.
            bare: Whether the tags may be types without letters.
            otherwise: What a file is of which nothing else is known.

        Raises `ValueError` for a damaged file and for names that several columns have, and `ImportError` for a workbook
        where openpyxl is not installed.
        """
        known = form or self._form(delimiter, keys, words, bare)
        known = otherwise if known == "text" and form is None else known
        rows = Rows(self.path, known, self.source, [] if notes is None else notes, only, is_strict=notes is None)
        if rows.is_table:
            fill_rows(rows, delimiter, None if self.is_stream else self.head(known, delimiter))
        return rows

    def count(self) -> int | None:
        """Return how many items there are, for a progress report; `None` for a stream, and for what cannot be read to
        its end."""
        with contextlib.suppress(ValueError, OSError):
            if not self.is_stream:
                return sum(item is not None for item in self.open(notes=[], keys=KEYS).items())
        return None

    def batches(self, most: int = 256, keys: Sequence[str] = KEYS) -> Iterator[list[FileRow]]:
        """Yield its items, `most` at a time, fewer where the next item has not come yet.

        How it was read is printed on standard error at its end. Raises `ValueError` for the first item that cannot be
        read.
        """
        batch: list[FileRow] = []
        notes: list[Note] = []
        for item in self.open(notes=notes, keys=keys).items():
            if item is not None:
                if item.problem:
                    raise ValueError(item.problem)
                batch.append(item)
            if batch and (item is None or len(batch) == most):
                yield batch
                batch = []
        print_notices(Counter(note.what for note in notes))
        if batch:
            yield batch


def _form_of(source: LineSource, delimiter: str | None, keys: Sequence[str] | None, words: bool, bare: bool) -> Form:
    ending = file_ending(source.path)
    if ending in WORKBOOKS:
        return "sheet"
    if ending in TABLES:
        return "columns"
    if source.path.is_file():
        lines = source.look(LOOKED_AT)
        if source.kind in COLUMNS and source.path.suffix not in OPENERS:
            return "columns"
    if ending in (*JSON_LINES, JSON):
        return "json"
    if ending in CONLLU_FILES:
        return "conllu"
    separated = ending in SEPARATED_BY
    if separated and not words:
        return "separated"
    lines = source.look(LOOKED_AT)
    if ending in COLUMN_FILES:
        return "conllu" if is_conllu(lines) else "conll"
    if _begins_json(source, next((line.strip() for _, line in lines if line.strip()), ""), keys):
        return "json"
    columns = "conllu" if is_conllu(lines) else None
    if columns is None and source.path.is_file():  # a stream shows one line
        columns = columns_form(lines, delimiter, bare)
    separated = separated or (not ending and begins_table([line for _, line in lines], (*KEYS, *(keys or ()))))
    return columns or ("separated" if separated else "text")


def _begins_json(source: LineSource, first: str, keys: Sequence[str] | None) -> bool:
    if keys is None or hold_records(first, keys):
        return begins_rows(first)
    if not is_whole(source.path, first):
        return False
    try:
        record = next((record for _, record in Rows(source.path, "json", source.whole(), [])), None)
    except JsonFault:
        raise
    except ValueError:
        return False
    return has_key(record, keys)
