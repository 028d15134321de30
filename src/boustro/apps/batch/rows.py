"""Rows of files, one by one: what `predict` and `batch` answer. A file of any size is read in constant memory.

    notes.txt                   a line is a row, as the task reads it
    notes.jsonl, notes.json     {"id": 7, "text": "Ada left."}   the fields are repeated in the answer
    notes.conll, notes.conllu   a sentence of words is a row (taggers)
    notes.parquet, notes.arrow  a row of the table, as a line of JSON lines
    corpus.data.xml             where that is asked for: a sentence with words whose sense is asked for, as JSON lines
                                have it (Raganato et al. 2017)

A row that cannot be read is not an end: it comes with its `problem`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from boustro.tasks.contract import Contract
from boustro.tasks.data.conll import COMMENT, DOCUMENT_START, NEW_DOCUMENT
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import Offsets, Unit
from boustro.tasks.sense.data import corpus_records
from boustro.text.documents import Item, decode_line, is_stream, read_items, read_raw
from boustro.text.rows import file_ending
from boustro.types import Sentence

Form = Literal["text", "jsonl", "conll", "conllu", "parquet", "arrow", "xml"]
FORMS: dict[str, Form] = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".conll", ".bio", ".iob", ".iob2"), "conll"),
    ".conllu": "conllu",
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
}
"""By the ending of a file; a file with another is text."""
WORDS: dict[str, Form] = {ending: form for ending, form in FORMS.items() if form in ("conll", "conllu")}
"""The files that are not read by `read_items`."""
ITEMS: Any = {"text": "text", "jsonl": "json", "parquet": "columns", "arrow": "columns"}
"""What `read_items` calls these forms."""


class Row(NamedTuple):
    """A row of a file.

    Attributes:
        file: The file, as it was named.
        place: file:line, or the number of the row of a table.
        value: A line of text, a value of JSON, or a sentence.
        form: What `value` is.
        problem: Why there is none, with the place.
        opens: Whether it is the first sentence of a document of a CoNLL file.
        unit: What the places in its value count, where the file proves it.
    """

    file: str
    place: str
    value: Any
    form: Form
    problem: str = ""
    opens: bool = False
    unit: Unit | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """What is repeated in the answer."""
        return dict(self.value) if isinstance(self.value, Mapping) else {}

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
            return task.as_input(self.value, self.place)
        refuse_half_characters(self.value, self.place)
        return task.parse_value(self.converted(task.offsets, notes), self.place)


def refuse_half_characters(value: Any, place: str) -> None:
    """`ValueError`, with the place, for a value of JSON that no text can hold."""
    try:
        (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{place}: half a character ({error.reason})") from None


def form_of(file: str | Path) -> Form | None:
    """`"a.conll.gz"` → `"conll"`; None for what the file itself says, see `read_items`."""
    return WORDS.get(file_ending(Path(file)))


def _read_as(item: Item) -> tuple[Form, str]:
    return "text" if item.is_line else "jsonl", item.problem


def read_rows(files: Iterable[str], form: Form | None = None, offsets: Offsets | None = None) -> Iterator[Row | None]:
    """The rows of all files in order, and `None` whenever the next one has not arrived yet (pipes, terminals).

    Args:
        files: Files, compressed or not, or - for standard input.
        form: What they hold; by default as they say.
        offsets: Where the values have places, whose unit each file proves; a stream, by each row alone.

    Raises `ValueError` for a file that cannot be read on, such as a damaged archive or a table that is none.
    """
    for file in files:
        if offsets is not None and file != "-" and not is_stream(file):
            unit = offsets.unit(row.value for row in read_rows([file], form) if row is not None)
            yield from (row and row._replace(unit=unit) for row in read_rows([file], form))
            continue
        if is_stream(file):  # opening it may take long
            yield None
        own = form or form_of(file)
        if own in ("conll", "conllu"):
            yield from _sentences(file, own)
        elif own == "xml":
            yield from (Row(file, str(value.pop("where")), value, own) for value in corpus_records(Path(file)))
        else:
            items = read_items(file, None if own is None else ITEMS[own])
            yield from (item and Row(file, item.place, item.value, *_read_as(item)) for item in items)


def in_batches(rows: Iterable[Row | None], most: int) -> Iterator[list[Row]]:
    """`most` rows at a time, fewer where the next one has not come yet, a few more to the end of a document."""
    batch: list[Row] = []
    for row in rows:
        full = len(batch) >= most and (row is None or row.opens or not _has_document(row) or len(batch) >= 4 * most)
        if batch and (row is None or full):
            yield batch
            batch = []
        if row is not None:
            batch.append(row)
    if batch:
        yield batch


def _has_document(row: Row) -> bool:
    return isinstance(row.value, Sentence) and bool(row.value.document)


def _sentences(file: str, form: Form) -> Iterator[Row | None]:
    words: list[str] = []
    place, problem, document, opens, columns = "", "", 0, False, 0
    for item in _ended(file):
        if item is None:
            yield None
            continue
        number, line, trouble = item
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        is_comment = not words and bool(COMMENT.match(line)) and len(cells) != columns
        begins = line.startswith(DOCUMENT_START) or (is_comment and bool(NEW_DOCUMENT.match(line)))
        if (begins or is_comment or not line.strip()) and not trouble:
            if words or problem:
                sentence = Sentence(tuple(words), document=f"{file} {document}" if document else "", where=place)
                yield Row(file, place, sentence, form, problem, opens)
                words, problem, opens = [], "", opens and bool(problem)
            if begins:
                document, opens = document + 1, True
            continue
        place = place if words or problem else f"{file}:{number}"
        columns = len(cells)
        column = 1 if form == "conllu" else 0
        if trouble or len(cells) <= column or not cells[column].strip():
            problem = problem or trouble or f"{file}:{number}: expected a word in column {column}, got {line!r}"
        elif form != "conllu" or cells[0].isdigit():  # not the line of a multiword token, nor an empty node
            words.append(cells[column])


def _ended(file: str) -> Iterator[tuple[int, str, str] | None]:
    """(line number, line, why it cannot be read), with a blank line at the end."""
    number = 0
    for item in read_raw(Path(file)):
        if item is None:
            yield None
            continue
        number, raw = item
        try:
            yield number, decode_line(Path(file), number, raw), ""
        except ValueError as error:
            yield number, "", str(error)
    yield number + 1, "", ""
