"""Rows of files, one by one, and the inputs of a task that they are. A file of any size is read in constant memory.

    notes.txt                   a line is a row, as the task reads it
    notes.jsonl, notes.json     {"id": 7, "text": "Ada left."}   the fields are repeated in the answer
    notes.conll, notes.conllu   a sentence of words is a row (taggers); columns with tags under any name
    notes.csv, notes.parquet    a row of a table (`text.files`), as a line of JSON lines
    corpus.data.xml             where that is asked for: a sentence with words whose sense is asked for, as JSON lines
                                have it (Raganato et al. 2017)

A row that cannot be read is not an end: it comes with its `problem`. Before the work a `Survey` tells the names and
types of all columns, and what cannot be written is refused.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from boustro.given import refuse_half_characters
from boustro.options import OptionError
from boustro.progress import Progress
from boustro.tasks import TEXT_KEYS, WORD_KEYS
from boustro.tasks.data import kept_for
from boustro.tasks.data.named import no_column
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.data.schemes import BARE, Scheme
from boustro.tasks.data.tables import find_words, rows_of_words, sentences_of
from boustro.tasks.data.units import Offsets
from boustro.tasks.forms import FORMS, FileForm
from boustro.text.columnar import Types, are_alike
from boustro.text.columns import COMMENTS, ColumnReader
from boustro.text.documents import read_lines
from boustro.text.files import IN_COLUMNS, KEYS, TABULAR, DataFile, Form, Rows
from boustro.text.rows import SEPARATORS, file_ending, first_line
from boustro.text.separated import WITH_POINT, CellRow, Dialect, cell_text, no_formula
from boustro.text.tables import FileRow, TableRow
from boustro.text.workbooks import SHEET_ROWS, refuse_in_sheet
from boustro.types import Sentence


@dataclass(frozen=True)
class Columns:
    """Which keys or columns are read as what: `{"text": "message"}`."""

    names: Mapping[str, str] = field(default_factory=dict)
    texts: tuple[str, ...] = TEXT_KEYS[:1]
    """Those that hold a text, which in a table may be empty, or a number."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """As `names`, of the data that a folder was trained on: read where they are there."""
    of_words: Mapping[str, Any] = field(default_factory=dict)
    """The `word_column` and the `delimiter` of that data, which words in columns are read by."""
    scheme: Scheme = "auto"
    """Of the tags of that data, by which columns of words and tags are known."""
    words: bool = False
    """Whether the task reads words, which a table may have one a row."""

    @classmethod
    def of(cls, task: Any, chosen: Sequence[str] = (), kept: Mapping[str, Any] = MappingProxyType({})) -> "Columns":
        """Those of a task with the columns of its texts that were chosen, and those that a trained folder keeps
        (`tasks.kept_columns`); `OptionError` for another number of them."""
        texts = task.inputs.texts
        if len(chosen) not in (0, len(texts)):
            raise OptionError(f"--text-column names {len(chosen)} columns; a {task.__name__} reads {len(texts)}")
        named, word = kept.get("text_column", ()), str(kept.get("word_column", ""))
        if word and not word.lstrip("-").isdigit():
            named = (word,)
        trained = dict(zip(texts, named, strict=False))
        names = dict(zip(texts, chosen, strict=False))
        of_words = {name: kept[name] for name in ("word_column", "delimiter") if name in kept}
        scheme = kept.get("scheme", "auto")
        return cls(names, texts, {} if names else trained, of_words, scheme, "conll" in task.formats)

    def check(self, given: str | DataFile, task: Any) -> None:
        """`ValueError`, with the names of its columns, for a table of texts that lacks what is read."""
        file = DataFile.of(given)
        if not task.inputs.text_keys or self.form_of(file) not in ("separated", "sheet"):
            return
        if self.sentences(file, []) is not None:
            return
        columns, wanted = file.columns(self.separator(file)), tuple(self.names.values())
        kept = [tuple(self.kept.values())] * bool(self.kept)
        known = [wanted] if wanted else [*task.inputs.text_keys, *((key,) for key in WORD_KEYS), *kept]
        if not any(set(keys) <= set(columns) for keys in known):
            raise no_column(file.name, known[0], (row for _, row in file.open(notes=[]).rows()), columns)

    def form_of(self, file: DataFile) -> Form:
        """Find what a file is, see `DataFile.form`."""
        return file.form(words=True, bare=self.scheme in BARE)

    def sentences(self, file: DataFile, notes: list[Note]) -> Iterator[Sentence] | None:
        """Return the words of a table with one a row, as sentences; `None` for any other file."""
        if not self.words or self.names or file.form() not in TABULAR:
            return None
        options = DataOptions(**kept_for(file.path, self.of_words))
        rows = rows_of_words(file, options, notes)
        found = None if rows is None else find_words(rows, options, tagged=False)
        return None if rows is None or found is None else sentences_of(rows, found, file.name)

    def separator(self, file: DataFile) -> str | None:
        """Return the delimiter that is kept, where the first line of a table has it."""
        delimiter = self.of_words.get("delimiter")
        if not isinstance(delimiter, str) or not file.is_separated or not file.path.is_file():
            return None
        head, _ = first_line(read_lines(file.path, []))
        return delimiter if SEPARATORS.get(delimiter, delimiter) in head else None

    def named(self, value: Any, place: str, table: bool) -> Any:
        """Return a row under the names that the task reads; `ValueError` where it lacks a chosen one."""
        if not isinstance(value, Mapping) or not (self.names or self.kept or table):
            return value
        for name in self.names.values():
            if name not in value:
                raise ValueError(f"{place}: no {name!r} (found: {', '.join(map(str, value)) or 'nothing'})")
        names = self.names or (self.kept if {*self.kept.values()} <= value.keys() else {})
        are_words = {name: WORD_KEYS[0] for name, column in names.items() if isinstance(value[column], list)}
        value = {**value, **{are_words.get(name, name): value[column] for name, column in names.items()}}
        if table:  # a cell may be empty, or look like a number
            cells = ((name, value[name]) for name in (*self.texts, *TEXT_KEYS) if name in value)
            value |= {name: cell_text(cell) for name, cell in cells if not isinstance(cell, list)}
        return value

    def are_empty(self, value: Any) -> bool:
        """Return whether the texts of a row under the names of the task, or a line of text, are all empty."""
        given = value if isinstance(value, Mapping) else {"": value}
        names = ("",) if given is not value else self.texts if self.texts[0] in given else TEXT_KEYS
        texts = [given[name] for name in names if name in given]
        return bool(texts) and all(isinstance(text, str) and not text.strip() for text in texts)


DEFAULT_COLUMNS = Columns()
ROWS = 1024
"""Rows that are in memory at once."""
Record = dict[str, Any]


def parse_row(row: FileRow, task: Any, notes: list[Note], as_value: bool = False) -> Any:
    """Return the task's input; `ValueError`, with the place, where a row is none.

    Args:
        task: A task's class, or a model.
        notes: What to say of places that are converted.
        as_value: Whether lines and sentences are values of JSON too.
    """
    if row.problem:
        raise ValueError(row.problem)
    is_sentence = isinstance(row.value, Sentence)
    if row.is_line and not as_value:
        return task.inputs.parse_line(row.value, row.place)
    if is_sentence and not as_value:
        if "conll" not in task.formats:
            raise ValueError(f"{row.place}: words in columns, and texts are expected: lines, JSON lines or a table")
        return task.inputs.as_input(row.value, row.place)
    value, offsets = as_json_value(row), task.inputs.offsets
    refuse_half_characters(value, row.place)
    if offsets is not None:
        value = offsets.convert(value, row.unit or offsets.unit([value]), row.place, notes)
    return task.inputs.parse_value(value, row.place)


def parse_or_advise(row: FileRow, task: Any, notes: list[Note], keep_going: bool, as_value: bool = False) -> Any:
    """Return the task's input, or with `keep_going` the `ValueError` of a row that is none, which is raised
    otherwise."""
    try:
        return parse_row(row, task, notes, as_value)
    except ValueError as error:
        if keep_going:
            return error
        known = [*task.inputs.text_keys, *((key,) for key in WORD_KEYS)]
        if isinstance(row.value, Mapping) and not any({*keys} <= row.value.keys() for keys in known):
            error.add_note("--text-column names its columns")
        error.add_note("--errors FILE writes such rows down and goes on")
        raise


def as_json_value(row: FileRow) -> Any:
    """Return a row as a value of JSON: a sentence as its words."""
    return {WORD_KEYS[0]: list(row.value.words)} if isinstance(row.value, Sentence) else row.value


def read_rows(
    given: Iterable[str | DataFile],
    form: str | None = None,
    offsets: Offsets | None = None,
    columns: Columns | None = None,
    notes: list[Note] | None = None,
) -> Iterator[FileRow | None]:
    """Yield the rows of all files in order, and `None` whenever the next one has not arrived yet (pipes, terminals).

    Args:
        given: Files, compressed or not, or - for standard input.
        form: What they hold, a name in `forms.FORMS`; by default as they say.
        offsets: Where the values have places, whose unit each file proves; a stream, by each row alone.
        columns: Which keys or columns are read.
        notes: What to say of how a table was read.

    Raises `ValueError` for a file that cannot be read on, such as a damaged archive or a table that is none.
    """
    number = 0
    for file in map(DataFile.of, given):
        unit = None
        if offsets is not None and not file.is_stream:
            unit = offsets.unit(row.value for row in _rows_of(file, form, DEFAULT_COLUMNS, None) if row is not None)
        for row in _rows_of(file, form, columns or DEFAULT_COLUMNS, notes):
            yield row and row._replace(file=file.name, number=number, unit=unit)
            number += row is not None


def _rows_of(file: DataFile, form: str | None, columns: Columns, notes: list[Note] | None) -> Iterator[FileRow | None]:
    if file.is_stream:  # opening it may take long
        yield None
    if form == "xml":
        from boustro.tasks.sense.data import corpus_records

        yield from (FileRow(str(value.pop("where")), value) for value in corpus_records(file.path))
        return
    own: list[Note] = []
    if form is None and (words := columns.sentences(file, own)) is not None:
        if notes is not None:
            notes += own
        document = ""
        for sentence in words:
            yield FileRow(sentence.where, sentence, opens=sentence.document not in ("", document))
            document = sentence.document
        return
    how: dict[str, Any] = {"keys": (*KEYS, *columns.names.values()), "words": True, "bare": columns.scheme in BARE}
    opened = file.open(FORMS[form].held if form else None, columns.separator(file), notes, **how)
    if opened.form in IN_COLUMNS:
        yield from _sentences(file.name, opened, columns)
    else:
        yield from (row and _named(row, columns, opened.is_table and form is None) for row in opened.items())


def _named(row: FileRow, columns: Columns, table: bool) -> FileRow:
    """Return a row under the names that the task reads."""
    given = row.value if isinstance(row.value, Mapping) else None
    value, problem = row.value, row.problem
    try:
        value = columns.named(value, row.place, table)
    except ValueError as error:
        problem = str(error)
    named = FileRow(row.place, value, row.is_line, problem, given=given)
    return named._replace(is_empty=not problem and (columns.are_empty(value) or named.is_blank))


def _sentences(file: str, opened: Rows, columns: Columns) -> Iterator[FileRow | None]:
    own = kept_for(file, columns.of_words) if columns.of_words and Path(file).is_file() else {}
    reader = ColumnReader(file, "conllu" if opened.form == "conllu" else None, **own)
    opens = False
    for read in reader.read(opened.lines()):
        opened.notes += [note for note in reader.notes if note.what != COMMENTS]
        reader.notes.clear()
        if read is None:
            yield None
            continue
        document, words = f"{file} {read.document}" if read.document else "", tuple(map(str.strip, read.words))
        opens = opens or read.opens
        sentence = Sentence(words, spaces=read.spaces, document=document, where=read.where)
        yield FileRow(read.where, sentence, problem=read.problem, opens=opens)
        opens = opens and bool(read.problem)  # of a sentence that has no answer, the next one opens the document


@dataclass
class Survey:
    """The columns of what is answered.

    Attributes:
        heads: The names of the columns as they stand in the file, by their keys.
        rows: How many rows there are; `None` where they can be read only once, or not to the end.
        dialect: How the first file is written, where the answers have its form.
        head: Its head as it stands there, where it is the only file and the answers have its form.
        types: Of the columns, where the answers are written with types.
        alike: The parquet and Arrow files, where all files are such, of the same types.
    """

    heads: dict[str, Any] = field(default_factory=dict)
    rows: int | None = None
    dialect: Dialect | None = None
    head: CellRow | None = None
    types: Types | None = None
    alike: list[Rows] = field(default_factory=list)

    def add(self, record: Record, output: FileForm | None) -> None:
        """Add the columns of a row behind those that are there. What was no head of a table cannot run in one."""
        is_text = output is not None and output.grows and output.dialect is not None
        for key in record if not record.keys() <= self.heads.keys() else ():
            self.heads.setdefault(key, no_formula(key) if is_text else key)


def can_read_again(files: Iterable[DataFile]) -> bool:
    """Return whether none is a stream."""
    return not any(file.is_stream for file in files)


def look(
    files: Sequence[DataFile],
    reads: str | None,
    output: FileForm | None,
    out: Path | None = None,
    columns: Columns = DEFAULT_COLUMNS,
    keep_going: bool = False,
) -> Survey:
    """Read all rows once, for their columns; of streams nothing.

    Args:
        output: The form of the answers; `None` where rows are not repeated in them.
        out: The file that is written, for messages.
        columns: Which keys or columns are read.
        keep_going: Whether a row that cannot be read costs that row alone.

    Raises `ValueError`, with the place, for a table that cannot be read, and for what a workbook or a column with a
    type cannot hold.
    """
    is_sheet, name = output is FORMS["sheet"], out or Path(f"answers.{output and output.name}")
    survey = Survey(types=Types() if output is not None and output.held == "columns" else None)
    if not can_read_again(files):
        return survey
    opened, counted, pointed = [_table_of(file, reads, columns) for file in files], [0], False
    for file, table in zip(files, opened, strict=True):
        records = _records(file, reads, output, columns) if table is None else table
        if table is not None:
            for key, head in zip(table.keys, table.heads, strict=True):
                survey.heads.setdefault(key, head)
            if keep_going:
                records = (record for record in table.records if not record[1].problem)
            if survey.types is not None:
                survey.types.add(table)
        for some in _chunks(Progress("counting", "rows").over(records), table is None, counted):
            if table is not None:  # they are said when the rows are answered
                table.notes.clear()
            for place, record in some:
                survey.add(record, output)
                pointed = pointed or any(isinstance(v, str) and WITH_POINT.fullmatch(v) for v in record.values())
                if is_sheet:
                    refuse_in_sheet(record, place, name)
            if survey.types is not None and (table is None or table.schema is None):
                survey.types.see([r.as_named if isinstance(r, TableRow) else r for _, r in some], file.name)
    if is_sheet and counted[0] >= SHEET_ROWS:
        raise ValueError(f"{name}: {counted[0]:,} rows, and a workbook holds {SHEET_ROWS - 1:,}; write .csv")
    survey.rows = None if None in counted else counted[0]
    first = opened[0]
    if first is None:
        return survey
    if first.dialect and output is not None and file_ending(files[0].path) == f".{output.name}":
        # a spreadsheet that separates by semicolons has decimal commas, and takes 1.05 for a day in May
        point = "," if first.dialect.separator == ";" and not pointed else "."
        survey.dialect = replace(first.output_dialect, point=point)
        survey.head = first.columns.row if len(files) == 1 else None
    if all(table and table.schema is not None and are_alike(table.schema, first.schema) for table in opened):
        survey.alike = [table for table in opened if table is not None]
    return survey


def _table_of(file: DataFile, reads: str | None, columns: Columns) -> Rows | None:
    """Return the file as a table; `None` where it is none."""
    if reads is not None and FORMS[reads].held != "columns":
        return None
    form = "columns" if reads else columns.form_of(file)
    if form not in TABULAR or (reads is None and columns.sentences(file, []) is not None):
        return None
    return file.open(form)


def _records(
    file: DataFile, reads: str | None, output: FileForm | None, columns: Columns
) -> Iterator[tuple[str, Record]]:
    """Yield (place, what is repeated) of the rows of a file that is no table."""
    for row in read_rows([file], reads, None, columns):
        if row is not None:
            yield row.place, row.cells if output is not None and output.dialect else row.fields


def _chunks(records: Iterable[Any], partly: bool, counted: list[Any]) -> Iterator[list[Any]]:
    """So many rows at a time, which are counted; where `partly`, those before an error, which answering will say."""
    records = iter(records)
    with contextlib.suppress(*((ValueError, OSError) if partly else ())):
        while some := list(islice(records, ROWS)):
            counted[0] += len(some)
            yield some
        return
    counted.append(None)
