"""The table that answers become: the columns that were read, with their types, and behind them those of the answers.

    survey = look(files, …)          before the work: names and types of the columns; what cannot be written is refused
    AnswerTable(…).write(part, made) after it: the rows are read again, and stand beside their answers

While answers grow (`growing`), a line of the file is `{"row": 7, "answer": …}`. What a stream holds, which cannot be
read again, is in the line. Parquet and Arrow files that become one of them keep their columns as they are, to the bit.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from boustro.progress import Progress
from boustro.tasks.forms import FORMS, FileForm
from boustro.tasks.rows import DEFAULT_COLUMNS, Columns, read_rows
from boustro.text.columnar import Types, write_columns
from boustro.text.files import TABULAR, DataFile, Rows
from boustro.text.rows import file_ending
from boustro.text.separated import WITH_POINT, CellRow, Dialect, no_formula
from boustro.text.tables import TableRow
from boustro.text.workbooks import SHEET_ROWS, refuse_in_sheet, write_sheet

ROWS = 1024
Record = dict[str, Any]


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
    """Whether none is a stream."""
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
    if all(table and table.schema is not None and table.schema.equals(first.schema) for table in opened):
        survey.alike = [table for table in opened if table is not None]
    return survey


def _table_of(file: DataFile, reads: str | None, columns: Columns) -> Rows | None:
    """The file as a table; `None` where it is none."""
    if reads is not None and FORMS[reads].held != "columns":
        return None
    form = "columns" if reads else columns.form_of(file)
    if form not in TABULAR or (reads is None and columns.sentences(file, []) is not None):
        return None
    return file.open(form)


def _records(
    file: DataFile, reads: str | None, output: FileForm | None, columns: Columns
) -> Iterator[tuple[str, Record]]:
    """(place, what is repeated) of the rows of a file that is no table."""
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


@dataclass(frozen=True)
class AnswerTable:
    """A workbook, or a parquet or Arrow file, of rows and their answers.

    Attributes:
        answers: The names of the columns behind those of the rows, of a workbook.
        name: The file that it becomes, for messages.
        nothing: Gives the answer that has the columns where there is no row.
    """

    files: Sequence[DataFile]
    reads: str | None
    survey: Survey
    output: FileForm
    answers: Sequence[str]
    name: Path
    columns: Columns
    nothing: Callable[[], Record]

    def write(self, part: Path, made: Path) -> None:
        """Make the table of what has grown; `ValueError` for what it cannot hold."""
        if self.output.dialect:
            heads = [*self.survey.heads.values(), *self.answers]
            write_sheet(heads, (self._cells(*pair) for pair in self._pairs(part)), made, self.name)
            return
        answers = Types()
        for lines in _lines(part):
            answers.see([line["answer"] for line in lines], self.name)
        if not len(answers.schema):  # no row, and the columns are there all the same
            answers.see([self.nothing()], self.name)
        form = "parquet" if self.output.name == "parquet" else "arrow"
        if self.survey.alike:
            write_columns(answers.behind(self.survey.alike[0].schema), self._beside(part, answers), made, form)
            return
        types = self.survey.types or Types()
        for lines in _lines(part) if not self._again else ():
            types.see([line["fields"] for line in lines], self.name)
        types.schema = answers.behind(types.schema)
        records = ({**fields, **line["answer"]} for fields, line in self._pairs(part))
        tables = (types.table(some) for some in iter(lambda: list(islice(records, ROWS)), []))
        write_columns(types.schema, tables, made, form)

    def _cells(self, fields: Record, line: Record) -> tuple[list[Any], list[str | None]]:
        """The cells of a row of a workbook, and how they are shown."""
        if isinstance(fields, TableRow) and fields.is_blank:
            return [], []
        formats = fields.formats if isinstance(fields, TableRow) else {}
        cells = [fields.get(key) for key in self.survey.heads]
        return [*cells, *line["answer"]], [formats.get(key) for key in self.survey.heads]

    def _pairs(self, part: Path) -> Iterator[tuple[Record, Record]]:
        """(what is repeated, line) of every answer."""
        read = read_rows(self.files, self.reads, None, self.columns) if self._again else ()
        rows = (row for row in read if row is not None)
        for line in chain.from_iterable(_lines(part)):
            if not self._again:
                yield line["fields"], line
                continue
            row = next(row for row in rows if row.number == line["row"])
            cells = row.given if isinstance(row.given, TableRow) else row.cells
            yield cells if self.output.dialect else row.fields, line

    @property
    def _again(self) -> bool:
        return can_read_again(self.files)

    def _beside(self, part: Path, answers: Types) -> Iterator[Any]:
        """Tables of the columns as they are in the files, and the answers."""
        lines, begin = chain.from_iterable(_lines(part)), 0
        line = next(lines, None)
        for batch in chain.from_iterable(table.batches() for table in self.survey.alike):
            here = []
            while line is not None and line["row"] < begin + len(batch):
                here.append(line)
                line = next(lines, None)
            yield answers.join(batch, [line["row"] - begin for line in here], [line["answer"] for line in here])
            begin += len(batch)


def _lines(part: Path) -> Iterator[list[Record]]:
    """The lines that grew, so many at a time."""
    with part.open(encoding="utf-8") as file:
        while some := list(islice(file, ROWS)):
            yield [json.loads(line) for line in some]
