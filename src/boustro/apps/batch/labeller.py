"""Callables that answer rows with a trained folder, here or in processes of its own.

    labeller = Labeller(OpenedFolder(Path("ner")), AnswerForm(FORMS["jsonl"]))
    labeller(rows).lines        # ['{"text": "Ada left.", "entities": […]}', …]: for files
    Predictor("ner")({"text": ["Ada left.", "It rained."]})  # {"text": […], "entities": [[{"label": "PER", …}], []]}

Both can be pickled, see `batch.models`. Answers as CSV for a spreadsheet have the columns of the rows, in order, and
behind them those of the answer (`Task.cells`):

    place,text,LOC,PER,entities
    a.txt:1,Ada left Vellmar.,Vellmar,Ada,"[{""label"": ""PER"", ""start"": 0, ""end"": 3, …}, …]"
    a.txt:2,It rained.,,,[]

The file is written as the first one that was read, where that has the same form, else in the `Dialect` that Excel
reads. The cells of a table come back as they are. Another cell that a spreadsheet would run as a formula, because it
begins with = + - @, a tab or a line end, gets an apostrophe before it.

Source: OWASP, *CSV Injection*.
"""

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from boustro.apps.batch.job import AnsweredRows
from boustro.apps.batch.models import Opened, OpenedFolder
from boustro.errors import lacks_memory, reason
from boustro.given import as_list, refuse_half_characters
from boustro.output import as_json
from boustro.store import ModelPlace
from boustro.tasks import TOOL_FORMATS
from boustro.tasks.answering import model_folder
from boustro.tasks.base import Task
from boustro.tasks.data.reading import Note
from boustro.tasks.forms import FileForm
from boustro.tasks.rows import Columns, as_json_value, parse_or_advise
from boustro.text.columns import DOCUMENT_START
from boustro.text.separated import CellRow, Dialect, json_value, no_formula
from boustro.text.tables import FileRow, TableRow, free_names
from boustro.text.workbooks import holds_too_much, refuse_in_sheet

FILE = "file"
LEFT_OUT = "rows with fields that the first row does not have, left out of the table: {}"
NO_LABEL_ROWS = "rows that fit no label, which have none"
TEXTLESS = "rows without a text, which have an empty answer"
TOO_LONG_CELLS = "answers that are too long for a cell of a workbook, left empty; write .csv or .jsonl for them"


@dataclass(frozen=True)
class AnswerForm:
    """How answers are shown.

    Attributes:
        form: One of `FORMS`, by how it is shown.
        colour: Whether they are for a terminal.
        with_file: Whether they have the file of a row.
        explain: Whether they have what decided them.
        columns: Those of the rows, which stand before the answers: their keys and how they are written.
        dialect: How a CSV or TSV file is written, where it is not by default.
        head: The head of a CSV or TSV file as it stands there, where the cells of its rows do too.
        is_typed: Whether they are the lines of an `AnswerTable`, with the number of the row.
        once: Whether rows cannot be read again, so that these lines have what a row has.
        as_values: Whether lines and sentences are values of JSON too, as a `Predictor` has them.
    """

    form: FileForm
    colour: bool = False
    with_file: bool = False
    explain: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)
    dialect: Dialect | None = None
    head: CellRow | None = None
    is_typed: bool = False
    once: bool = False
    as_values: bool = False


@dataclass
class Labeller:
    """From rows to what is printed. With `keep_going`, a row without an answer is a problem, and not an error."""

    opened: Opened
    shown: AnswerForm
    keep_going: bool = False
    noted: Counter[str] = field(default_factory=Counter)
    """What was changed in rows."""

    @cached_property
    def model(self) -> Task[Any, Any]:
        """The model, opened."""
        return self.opened.open()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "model"}

    def __call__(self, rows: Sequence[FileRow]) -> AnsweredRows:
        """Answer rows.

        Raises `ValueError` for the first row that is no input, and what the model raises, unless `keep_going`.
        """
        notes, shown, problems = list[Note](), [], []
        form, task, how = self.shown.form, self.opened.task, (self.keep_going, self.shown.as_values)
        is_silent = (form.repeats or form.shown in ("text", "html")) and self.model.empty_answer() is not None
        counted = (row.fields or self.shown.as_values or is_silent for row in rows if row.is_empty)
        self.noted[TEXTLESS] += sum(map(bool, counted))
        given = [None if is_silent and row.is_empty else parse_or_advise(row, task, notes, *how) for row in rows]
        asked = [one for one in given if one is not None and not isinstance(one, Exception)]
        if self.shown.explain:
            self.model.fitted.refuse_exported("does not say what decided its answers")
        try:
            found = self.model.answer_checked(asked)
            answers = iter([*zip(found, self._reasons(found), strict=True)])
            self.noted[NO_LABEL_ROWS] += sum(answer.fits_no_label for answer in found)
        except Exception as error:
            if not self.keep_going or lacks_memory(error):
                raise
            answers = iter([error] if len(asked) == 1 else map(self._alone, asked))
        for row, one in zip(rows, given, strict=True):
            answer = one if one is None or isinstance(one, Exception) else next(answers)
            if isinstance(answer, Exception):
                problems.append(row.to_problem(reason(answer)))
            else:
                shown.append(self._show(row, answer))
        self.noted.update(note.what for note in notes)
        return AnsweredRows(shown, problems, self.noted + Counter(self.model.notices()), os.getpid())

    def _reasons(self, answers: list[Any]) -> list[dict[str, Any]]:
        """Return what decided each answer, as a field of its record."""
        if not self.shown.explain:
            return [{}] * len(answers)
        from boustro.apps.explain import explain

        return [{"explained": reasons} for reasons in explain(self.model, answers)]

    def _alone(self, given: Any) -> Any:
        """Return the answer to an input that is asked alone, or the exception with which the model fails at it."""
        try:
            answers = self.model.answer_checked([given])
            return answers[0], self._reasons(answers)[0]
        except Exception as error:
            if lacks_memory(error):
                raise
            return error

    def _show(self, row: FileRow, given: tuple[Any, dict[str, Any]] | None) -> Any:
        answer, explained = given or (None, {"explained": {}} if self.shown.explain else {})
        form = self.shown.form.shown
        if self.shown.form.dialect:
            return self._cells(row, answer)
        if form == "jsonl":
            return self._record(row, answer, explained)
        shown: Any = "" if answer is None else self.model.show(answer, form, colour=self.shown.colour)
        if form in TOOL_FORMATS:
            from boustro.tasks.data.annotations import TOOLS

            return as_json(TOOLS[form].carry(shown, row.fields), default=json_value) + "\n"
        if form == "conll":
            return f"{DOCUMENT_START}\tO\n\n{shown}" if row.opens else shown
        return shown if self.shown.colour else f"{shown}\n"

    def _record(self, row: FileRow, answer: Any, explained: dict[str, Any]) -> str:
        fields, said = row.fields, self.model.empty_answer() or {}
        before = fields or {"text": row.value}
        if answer is not None:
            said = self.model.to_record(answer)
            before = fields or self._input(row, answer, said)
        said |= explained
        said |= {FILE: row.file} if self.shown.with_file else {}
        names = free_names(said, {*self.shown.columns, *fields})
        record = {names[name]: value for name, value in said.items()}
        if self.shown.is_typed:
            return self._line(row, record if fields else before | record)
        return as_json(before | record, default=json_value) + "\n"

    def _input(self, row: FileRow, answer: Any, said: dict[str, Any]) -> dict[str, Any]:
        """Return the input of a row without fields, as JSON lines have it."""
        if self.shown.as_values:
            value = as_json_value(row)
            return value if isinstance(value, dict) else {"words" if isinstance(value, list) else "text": value}
        return {key: value for key, value in self.model.show(answer, "jsonl").items() if key not in said}

    def _line(self, row: FileRow, answer: Any) -> str:
        """Return a line of an `AnswerTable`."""
        fields = row.cells if self.shown.form.dialect else row.fields
        line = {"row": row.number, "answer": answer} | ({"fields": fields} if self.shown.once else {})
        return as_json(line, default=json_value) + "\n"

    def nothing(self) -> dict[str, Any]:
        """Return the fields of an answer to no row beside the columns, by their keys and how they are written."""
        said = self.model.empty_answer()
        if said is None:  # of a task that answers a text
            said = self.model.to_record(self.model.answer_checked(["-"])[0])
        said |= {FILE: ""} if self.shown.with_file else {}
        columns = self.shown.columns
        names = free_names(said, {*columns, *map(str, columns.values())})
        return {names[name]: value for name, value in said.items()}

    @cached_property
    def answer_heads(self) -> list[str]:
        """The columns of answers in a table, without repeating the name of another."""
        own = [*([FILE] if self.shown.with_file else []), *self.model.columns]  # type: ignore[not-iterable]
        return [*free_names(own, {*self.shown.columns, *map(str, self.shown.columns.values())}).values()]

    @property
    def head(self) -> str:
        """The first line of a CSV or TSV file, with what stands before it."""
        spelled = self._spelled(self.shown.head)
        return self._dialect.start + self._dialect.format(self.heads[len(spelled) :], spelled)

    @property
    def heads(self) -> list[Any]:
        """The columns of a CSV or TSV file."""
        return [*self.shown.columns.values(), *map(no_formula, self.answer_heads)]

    @property
    def _dialect(self) -> Dialect:
        assert self.shown.form.dialect is not None
        return self.shown.dialect or self.shown.form.dialect

    def _spelled(self, row: CellRow | None) -> list[str]:
        """Return the cells of a row as they stand in the file, where they come back so."""
        return row.spelled if self.shown.head and row else []

    def _cells(self, row: FileRow, answer: Any) -> str:
        fields = row.cells
        values = [fields.pop(name, None) for name in self.shown.columns]
        if fields:
            self.noted[LEFT_OUT.format(", ".join(fields))] += 1
        said = [None] * len(self.model.columns) if answer is None else self.model.cells(answer)  # type: ignore[arg-type]
        said = [*([row.file] if self.shown.with_file else []), *said]
        if self.shown.is_typed:
            if self.shown.once:
                refuse_in_sheet(row.cells, row.place, Path("the workbook"))
            too_long = [isinstance(cell, str) and holds_too_much(cell) for cell in said]
            self.noted[TOO_LONG_CELLS] += sum(too_long)
            return self._line(row, [None if long else cell for cell, long in zip(said, too_long, strict=True)])
        if row.is_blank:
            return self._dialect.end
        is_table = isinstance(row.given, TableRow)
        spelled = self._spelled(row.given.given) if isinstance(row.given, TableRow) else []
        values = values if is_table else [*map(no_formula, values)]
        return self._dialect.format([*values[len(spelled) :], *map(no_formula, said)], spelled)


class Predictor:
    """A callable from columns to columns, for whatever maps a function over batches of rows.

        dataset.map(Predictor("ner"), batched=True)                              # datasets
        pandas.DataFrame(predictor(frame))                                       # pandas
        data.map_batches(Predictor, fn_constructor_args=("ner",), …)             # Ray Data

    Columns are those of the task's JSON lines: `text` or `words`, `question` and `context`, `sentence1` and
    `sentence2`, and so on.

    Args:
        folder: A folder that `boustro fit` wrote.
        text: The column with the text, where it is not named "text", or the columns of several.
        encoder: Where the encoder is now, if it has moved.
        device: cpu, cuda or mps; by default the best available.

    Raises `FileNotFoundError` and `ValueError` for what is no such folder.
    """

    def __init__(
        self,
        folder: ModelPlace,
        *,
        text: str | Sequence[str] = "text",
        encoder: str | None = None,
        device: str | None = None,
    ) -> None:
        self.opened = OpenedFolder(model_folder(folder), encoder, device, cache=False)
        self.text = text

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "model"}

    def __repr__(self) -> str:
        return f"Predictor({str(self.opened.folder)!r})"

    @cached_property
    def columns(self) -> Columns:
        """Which columns hold what."""
        chosen = (self.text,) if isinstance(self.text, str) else tuple(self.text)
        return Columns.of(self.opened.task, () if self.text == "text" else chosen, self.opened.kept_columns)

    @cached_property
    def model(self) -> Any:
        """The model, opened."""
        return self.opened.open()

    def __call__(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Return the columns and, row by row, the fields of the answers, as further columns.

        Args:
            columns: Lists or arrays of one length by name; a data frame.

        Raises `ValueError`, with the number of the row, for what is no input.
        """
        named = getattr(columns, "column_names", getattr(columns, "columns", columns))  # of Arrow, of frames, of a dict
        lists = {str(name): _as_list(columns[name], name) for name in named}
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        inputs = [self._parse(row, f"row {number}") for number, row in enumerate(rows, start=1)]
        found = map(self.model.to_record, self.model.answer_checked([given for given in inputs if given is not None]))
        empty = self.model.empty_answer()
        answers = [dict(empty if given is None else next(found)) for given in inputs]
        if note := self.model.language_note():
            warnings.warn(note, stacklevel=2)
        names = dict.fromkeys(name for answer in answers for name in answer)
        free = free_names(names, lists.keys())
        return {**lists, **{free[name]: [answer.get(name) for answer in answers] for name in names}}

    def _parse(self, value: Any, place: str) -> Any:
        """Return an input, or `None` for one without a text that the model is not asked for."""
        if {*self.columns.names.values()} <= value.keys():
            value = self.columns.named(value, place, table=False)
        refuse_half_characters(value, place)
        if self.model.empty_answer() is not None and Columns(texts=self.model.inputs.texts).are_empty(value):
            return None
        return self.model.inputs.parse_value(value, place)


def _as_list(values: Any, name: Any) -> list[Any]:
    """Return the values of a column as Python has them: arrays and what is in them become lists."""
    given = values.tolist() if isinstance(values, np.ndarray) else as_list(values, f"the column {name} as a list")
    return [value.tolist() if hasattr(value, "tolist") else value for value in given]
