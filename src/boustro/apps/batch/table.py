"""The table that answers become: the columns that were read, with their types, and behind them those of the answers.

    AnswerTable(files, …).write(part, made)     the rows are read again, and stand beside their answers

While answers grow (`growing`), a line of the file is `{"row": 7, "answer": …}`. What a stream holds, which cannot be
read again, is in the line. Parquet and Arrow files that become one of them keep their columns as they are, to the bit.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from boustro.apps.batch.labeller import Labeller
from boustro.tasks.rows import ROWS, Columns, Record, Survey, can_read_again, read_rows
from boustro.text.columnar import Types, write_columns
from boustro.text.files import DataFile
from boustro.text.tables import TableRow
from boustro.text.workbooks import write_sheet


@dataclass(frozen=True)
class AnswerTable:
    """A workbook, or a parquet or Arrow file, of rows and their answers.

    Attributes:
        labeller: What made the lines.
        name: The file that it becomes, for messages.
    """

    files: Sequence[DataFile]
    reads: str | None
    survey: Survey
    labeller: Labeller
    name: Path
    columns: Columns

    def write(self, part: Path, made: Path) -> None:
        """Make the table of what has grown; `ValueError` for what it cannot hold."""
        form = self.labeller.shown.form
        if form.dialect:
            heads = [*self.survey.heads.values(), *self.labeller.answer_heads]
            write_sheet(heads, (self._cells(*pair) for pair in self._pairs(part)), made, self.name)
            return
        answers = Types()
        for lines in _lines(part):
            answers.see([line["answer"] for line in lines], self.name)
        if not len(answers.schema):  # no row, and the columns are there all the same
            answers.see([self.labeller.nothing()], self.name)
        if self.survey.alike:
            write_columns(answers.behind(self.survey.alike[0].schema), self._beside(part, answers), made, form.name)
            return
        types = self.survey.types or Types()
        for lines in _lines(part) if not self._again else ():
            types.see([line["fields"] for line in lines], self.name)
        types.schema = answers.behind(types.schema)
        records = ({**fields, **line["answer"]} for fields, line in self._pairs(part))
        tables = (types.table(some) for some in iter(lambda: list(islice(records, ROWS)), []))
        write_columns(types.schema, tables, made, form.name)

    def _cells(self, fields: Record, line: Record) -> tuple[list[Any], list[str | None]]:
        """Return the cells of a row of a workbook, and how they are shown."""
        if isinstance(fields, TableRow) and fields.is_blank:
            return [], []
        formats, errors = (fields.formats, fields.errors) if isinstance(fields, TableRow) else ({}, {})
        cells = [errors.get(key, fields.get(key)) for key in self.survey.heads]
        return [*cells, *line["answer"]], [formats.get(key) for key in self.survey.heads]

    def _pairs(self, part: Path) -> Iterator[tuple[Record, Record]]:
        """Yield (what is repeated, line) of every answer."""
        read = read_rows(self.files, self.reads, None, self.columns) if self._again else ()
        rows = (row for row in read if row is not None)
        for line in chain.from_iterable(_lines(part)):
            if not self._again:
                yield line["fields"], line
                continue
            row = next(row for row in rows if row.number == line["row"])
            cells = row.given if isinstance(row.given, TableRow) else row.cells
            yield cells if self.labeller.shown.form.dialect else row.fields, line

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
    """Yield the lines that grew, so many at a time."""
    with part.open(encoding="utf-8") as file:
        while some := list(islice(file, ROWS)):
            yield [json.loads(line) for line in some]
