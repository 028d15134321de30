"""Rows of files, one by one: what `predict` and `batch` answer. A file of any size is read in constant memory.

    notes.txt                   a line is a row, as the task reads it
    notes.jsonl, notes.json     {"id": 7, "text": "Ada left."}   the fields are repeated in the answer
    notes.conll, notes.conllu   a sentence of words is a row (taggers); columns with tags under any name
    notes.csv, notes.parquet    a row of a table (`text.files`), as a line of JSON lines
    corpus.data.xml             where that is asked for: a sentence with words whose sense is asked for, as JSON lines
                                have it (Raganato et al. 2017)

A row that cannot be read is not an end: it comes with its `problem`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from boustro.given import refuse_half_characters
from boustro.options import OptionError
from boustro.tasks import TEXT_KEYS, WORD_KEYS
from boustro.tasks.contract import Contract
from boustro.tasks.data import kept_for
from boustro.tasks.data.named import no_column
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.data.schemes import BARE, Scheme
from boustro.tasks.data.tables import find_words, rows_of_words, sentences_of
from boustro.tasks.data.units import Offsets, OffsetUnit
from boustro.text.columns import COMMENTS, ColumnReader
from boustro.text.documents import read_lines
from boustro.text.files import IN_COLUMNS, KEYS, TABULAR, DataFile, Form, Item, Rows
from boustro.text.rows import SEPARATORS, first_line
from boustro.text.separated import cell_text, json_value
from boustro.text.tables import TableRow
from boustro.text.words import join_words
from boustro.types import Sentence

RowForm = Literal["text", "jsonl", "conll", "conllu", "parquet", "arrow", "xml"]
FORMS: dict[str, RowForm] = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".conll", ".bio", ".iob", ".iob2"), "conll"),
    **dict.fromkeys((".conllu", ".conllup"), "conllu"),
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
}
"""By the ending of a file; a file with another is text."""
PLACE = "place"
FILES: dict[RowForm, Form] = {
    "text": "text",
    "jsonl": "json",
    "conll": "conll",
    "conllu": "conllu",
    "parquet": "columns",
    "arrow": "columns",
}
"""What `text.files` calls these forms."""


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
        if len(chosen) not in (0, len(task.texts)):
            raise OptionError(f"--text-column names {len(chosen)} columns; a {task.__name__} reads {len(task.texts)}")
        named, word = kept.get("text_column", ()), str(kept.get("word_column", ""))
        if word and not word.lstrip("-").isdigit():
            named = (word,)
        trained = dict(zip(task.texts, named, strict=False))
        names = dict(zip(task.texts, chosen, strict=False))
        of_words = {name: kept[name] for name in ("word_column", "delimiter") if name in kept}
        scheme = kept.get("scheme", "auto")
        return cls(names, task.texts, {} if names else trained, of_words, scheme, "conll" in task.formats)

    def check(self, given: str | DataFile, task: Any) -> None:
        """`ValueError`, with the names of its columns, for a table of texts that lacks what is read."""
        file = DataFile.of(given)
        if not task.text_keys or self.form_of(file) not in ("separated", "sheet"):
            return
        if self.sentences(file, []) is not None:
            return
        columns, wanted = file.columns(self.separator(file)), tuple(self.names.values())
        kept = [tuple(self.kept.values())] * bool(self.kept)
        known = [wanted] if wanted else [*task.text_keys, *((key,) for key in WORD_KEYS), *kept]
        if not any(set(keys) <= set(columns) for keys in known):
            raise no_column(file.name, known[0], (row for _, row in file.open(notes=[]).rows()), columns)

    def form_of(self, file: DataFile) -> Form:
        """Find what a file is, see `DataFile.form`."""
        return file.form(words=True, bare=self.scheme in BARE)

    def sentences(self, file: DataFile, notes: list[Note]) -> Iterator[Sentence] | None:
        """The words of a table with one a row, as sentences; `None` for any other file."""
        if not self.words or self.names or file.form() not in TABULAR:
            return None
        options = DataOptions(**kept_for(file.path, self.of_words))
        rows = rows_of_words(file, options, notes)
        found = None if rows is None else find_words(rows, options, tagged=False)
        return None if rows is None or found is None else sentences_of(rows, found, file.name)

    def separator(self, file: DataFile) -> str | None:
        """The delimiter that is kept, where the first line of a table has it."""
        delimiter = self.of_words.get("delimiter")
        if not isinstance(delimiter, str) or not file.is_separated or not file.path.is_file():
            return None
        head, _ = first_line(read_lines(file.path, []))
        return delimiter if SEPARATORS.get(delimiter, delimiter) in head else None

    def named(self, value: Any, place: str, table: bool) -> Any:
        """A row under the names that the task reads; `ValueError` where it lacks a chosen one."""
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
        """Whether the texts of a row under the names of the task, or a line of text, are all empty."""
        given = value if isinstance(value, Mapping) else {"": value}
        names = ("",) if given is not value else self.texts if self.texts[0] in given else TEXT_KEYS
        texts = [given[name] for name in names if name in given]
        return bool(texts) and all(isinstance(text, str) and not text.strip() for text in texts)


DEFAULT_COLUMNS = Columns()


class FileRow(NamedTuple):
    """A row of a file.

    Attributes:
        file: The file, as it was named.
        place: file:line, or the number of the row of a table.
        value: A line of text, a value of JSON, or a sentence.
        form: What `value` is.
        problem: Why there is none, with the place.
        opens: Whether it is the first sentence of a document of a CoNLL file.
        unit: What the places in its value count, where the file proves it.
        given: The row as it stands in the file, where it has names.
        is_empty: Whether its texts are empty.
        number: Which of all rows it is, from 0, where that is told.
    """

    file: str
    place: str
    value: Any
    form: RowForm
    problem: str = ""
    opens: bool = False
    unit: OffsetUnit | None = None
    given: Mapping[str, Any] | None = None
    is_empty: bool = False
    number: int = 0

    @property
    def is_blank(self) -> bool:
        """Whether it is an empty row between others of a table."""
        return isinstance(self.given, TableRow) and self.given.is_blank

    @property
    def content(self) -> bytes:
        """Bytes of what was read, by which a row is known again."""
        read = self.value.words if isinstance(self.value, Sentence) else self.value
        read = self.problem or (read if self.given is None else self.given)
        return json.dumps(read, default=json_value).encode()

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the row that its answer repeats, under the names that its file has."""
        given = self.value if self.given is None else self.given
        return given.as_named if isinstance(given, TableRow) else dict(given) if isinstance(given, Mapping) else {}

    @property
    def cells(self) -> dict[str, Any]:
        """Fields as cells of a table, by their keys, where a line of text has its place."""
        value = self.value
        if isinstance(self.given, TableRow):
            return dict(self.given)
        text = join_words(value.words, value.spaces) if isinstance(value, Sentence) else str(value)
        return self.fields or {PLACE: self.place, "text": text}

    def converted(self, offsets: Offsets | None, notes: list[Note]) -> Any:
        """The value with its places in code points, which are noted."""
        if offsets is None or self.problem:
            return self.value
        return offsets.convert(self.value, self.unit or offsets.unit([self.value]), self.place, notes)

    def parse(self, task: type[Contract[Any, Any]] | Contract[Any, Any], notes: list[Note]) -> Any:
        """The task's input; `ValueError`, with the place, where it is none."""
        if self.problem:
            raise ValueError(self.problem)
        if self.form == "text":
            return task.parse_line(self.value, self.place)
        if self.form in ("conll", "conllu"):
            if "conll" not in task.formats:
                raise ValueError(
                    f"{self.place}: words in columns, and texts are expected: lines, JSON lines or a table"
                )
            return task.as_input(self.value, self.place)
        refuse_half_characters(self.value, self.place)
        return task.parse_value(self.converted(task.offsets, notes), self.place)

    def parse_or_advise(self, task: Any, notes: list[Note], keep_going: bool) -> Any:
        """The task's input, or with `keep_going` the `ValueError` of a row that is none, which is raised otherwise."""
        try:
            return self.parse(task, notes)
        except ValueError as error:
            if keep_going:
                return error
            error.add_note("--errors FILE writes such rows down and goes on")
            raise


def _row(file: str, item: Item, columns: Columns, table: bool) -> FileRow:
    form, problem, value = "text" if item.is_line else "jsonl", item.problem, item.value
    try:
        value = columns.named(value, item.place, table)
    except ValueError as error:
        problem = str(error)
    given = item.value if isinstance(item.value, Mapping) else None
    is_empty = not problem and (columns.are_empty(value) or (isinstance(given, TableRow) and given.is_blank))
    return FileRow(file, item.place, value, form, problem, given=given, is_empty=is_empty)


def read_rows(
    given: Iterable[str | DataFile],
    form: RowForm | None = None,
    offsets: Offsets | None = None,
    columns: Columns | None = None,
    notes: list[Note] | None = None,
) -> Iterator[FileRow | None]:
    """The rows of all files in order, and `None` whenever the next one has not arrived yet (pipes, terminals).

    Args:
        given: Files, compressed or not, or - for standard input.
        form: What they hold; by default as they say.
        offsets: Where the values have places, whose unit each file proves; a stream, by each row alone.
        columns: Which keys or columns are read.
        notes: What to say of how a table was read.

    Raises `ValueError` for a file that cannot be read on, such as a damaged archive or a table that is none.
    """
    columns = columns or DEFAULT_COLUMNS
    for file in map(DataFile.of, given):
        if offsets is not None and not file.is_stream:
            unit = offsets.unit(row.value for row in read_rows([file], form) if row is not None)
            yield from (row and row._replace(unit=unit) for row in read_rows([file], form, None, columns, notes))
            continue
        if file.is_stream:  # opening it may take long
            yield None
        name = file.name
        if form == "xml":
            from boustro.tasks.sense.data import corpus_records

            yield from (FileRow(name, str(value.pop("where")), value, form) for value in corpus_records(file.path))
            continue
        own: list[Note] = []
        if form is None and (words := columns.sentences(file, own)) is not None:
            if notes is not None:
                notes += own
            yield from _of_table(name, words)
            continue
        known, keys = form and FILES[form], (*KEYS, *columns.names.values())
        how: dict[str, Any] = {"keys": keys, "words": True, "bare": columns.scheme in BARE}
        opened = file.open(known, columns.separator(file), notes, **how)
        if opened.form in IN_COLUMNS:
            yield from _sentences(name, opened, columns)
        else:
            yield from (item and _row(name, item, columns, opened.is_table and form is None) for item in opened.items())


def in_batches(rows: Iterable[FileRow | None], most: int) -> Iterator[list[FileRow]]:
    """`most` rows at a time, fewer where the next one has not come yet, a few more to the end of a document."""
    batch: list[FileRow] = []
    for row in rows:
        full = len(batch) >= most and (row is None or row.opens or not _has_document(row) or len(batch) >= 4 * most)
        if batch and (row is None or full):
            yield batch
            batch = []
        if row is not None:
            batch.append(row)
    if batch:
        yield batch


def _has_document(row: FileRow) -> bool:
    return isinstance(row.value, Sentence) and bool(row.value.document)


def _of_table(file: str, words: Iterable[Sentence]) -> Iterator[FileRow]:
    document = ""
    for sentence in words:
        yield FileRow(file, sentence.where, sentence, "conll", "", sentence.document not in ("", document))
        document = sentence.document


def _sentences(file: str, opened: Rows, columns: Columns) -> Iterator[FileRow | None]:
    own = kept_for(file, columns.of_words) if columns.of_words and Path(file).is_file() else {}
    form = "conllu" if opened.form == "conllu" else "conll"
    reader = ColumnReader(file, "conllu" if form == "conllu" else None, **own)
    opens = False
    for read in reader.read(opened.lines()):
        opened.notes += [note for note in reader.notes if note.what != COMMENTS]
        reader.notes.clear()
        if read is None:
            yield None
            continue
        document = f"{file} {read.document}" if read.document else ""
        sentence = Sentence(
            tuple(word.strip() for word in read.words), spaces=read.spaces, document=document, where=read.where
        )
        opens = opens or read.opens
        yield FileRow(file, read.where, sentence, form, read.problem, opens)
        opens = opens and bool(read.problem)  # of a sentence that has no answer, the next one opens the document
