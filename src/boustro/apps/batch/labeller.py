"""Callables that answer rows with a trained folder, here or in processes of its own.

    labeller = Labeller(OpenedFolder(Path("ner")), AnswerForm("jsonl"))
    labeller(rows).shown        # ['{"text": "Ada left.", "entities": […]}', …]: for files
    predictor = Predictor("ner")
    predictor({"text": ["Ada left.", "It rained."]})      # {"text": […], "entities": [[{"label": "PER", …}], []]}

Both can be pickled, see `batch.models`. Answers as CSV for a spreadsheet
have the columns of the rows, in order, and behind them those of the answer (`Contract.cells`):

    place,text,LOC,PER,entities
    a.txt:1,Ada left Vellmar.,Vellmar,Ada,"[{""label"": ""PER"", ""start"": 0, ""end"": 3, …}, …]"
    a.txt:2,It rained.,,,[]

The file is written as the first one that was read, where that has the same form, else in the `Dialect` that Excel
reads. The cells of a table come back as they are. Another cell that a spreadsheet would run as a formula, because it
begins with = + - @, a tab or a line end, gets an apostrophe before it.

Source: OWASP, *CSV Injection*.
"""

import os
import signal
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from boustro.apps.batch.models import Opened, OpenedFolder
from boustro.apps.batch.rows import Columns, FileRow
from boustro.choose import lazy
from boustro.errors import lacks_memory, reason
from boustro.given import refuse_half_characters
from boustro.output import as_json
from boustro.store import Artefact
from boustro.tasks import TOOL_FORMATS
from boustro.tasks.answering import Answering, model_folder
from boustro.tasks.base import Task
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import Offsets
from boustro.text.columns import DOCUMENT_START
from boustro.text.separated import CellRow, Dialect, json_value, no_formula
from boustro.text.tables import TableRow, free_names
from boustro.text.workbooks import holds_too_much, refuse_in_sheet

AHEAD = 3
"""Batches that wait for each process."""
_running: dict[str, Callable[[Any], Any]] = {}
Item = TypeVar("Item")
FILE = "file"
TABULAR = {"csv": Dialect(), "tsv": Dialect(separator="\t"), "sheet": Dialect()}
"""Forms that are tables of cells, and how they are written by default."""
LEFT_OUT = "rows with fields that the first row does not have, left out of the table: {}"
EMPTY = "rows without a text, which have an empty answer"
TOO_LONG = "answers that are too long for a cell of a workbook, left empty; write .csv or .jsonl for them"


class LabelledRows(NamedTuple):
    """Printed answers of rows, in order, the problems of those that have no answer, and the notices so far."""

    shown: list[Any]
    problems: list[dict[str, str]]
    counts: dict[str, int]
    process: int


@dataclass(frozen=True)
class AnswerForm:
    """How answers are shown: in one of the task's formats, in colour, in JSON with the file of a row and with what
    decided the answer. A table has the columns of the rows before it: their keys and how they are written, and the
    dialect of a CSV or TSV file; where it has the rows of one such file, its `head`, and cells as they stand there. The
    lines of an `AnswerTable` have the number of the row, or where `once` what it has,
    as it cannot be read again."""

    form: str
    colour: bool = False
    with_file: bool = False
    explain: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)
    dialect: Dialect | None = None
    head: CellRow | None = None
    is_typed: bool = False
    once: bool = False


@dataclass
class Labeller:
    """From rows to what is printed. With `keep_going`, a row without an answer is a problem, and not an error."""

    opened: Opened
    shown: AnswerForm
    keep_going: bool = False
    _noted: Counter[str] = field(default_factory=Counter)

    @cached_property
    def model(self) -> Task[Any, Any]:
        """The model, opened."""
        return self.opened.open()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("model", "answering")}

    def __call__(self, rows: Sequence[FileRow]) -> LabelledRows:
        """Answer rows.

        Raises `ValueError` for the first row that is no input, and what the model raises, unless `keep_going`.
        """
        shown, problems, notes = [], [], []
        for row, answer in zip(rows, self._answers(rows, notes), strict=True):
            if isinstance(answer, Exception):
                problems.append({"place": row.place, "error": reason(answer)})
            else:
                given, explained = answer or (None, {"explained": {}} if self.shown.explain else {})
                shown.append(self._show(row, given, explained))
        self._noted.update(note.what for note in notes)
        return LabelledRows(shown, problems, self._noted + Counter(self.model.notices()), os.getpid())

    def _answers(self, rows: Sequence[FileRow], notes: list[Note]) -> list[Any]:
        """(answer, what decided it) for every row, `None` for an empty one, or an exception."""
        asked = [row for row in rows if not (row.is_empty and self._says_nothing)]
        self._noted[EMPTY] += sum(1 for row in rows if row.is_empty and (row.fields or self._says_nothing))
        if self.keep_going:
            answers = answer_each(asked, lambda row: row.parse(self.opened.task, notes), self._explained)
        else:
            answers = self._explained([row.parse_or_advise(self.opened.task, notes, keep_going=False) for row in asked])
        rest = iter(answers)
        return [None if row.is_empty and self._says_nothing else next(rest) for row in rows]

    @cached_property
    def _says_nothing(self) -> bool:
        """Whether an empty text has an answer of its own, without the model."""
        return self.model.empty_answer() is not None and self.shown.form in ("text", "jsonl", *TABULAR)

    @cached_property
    def answering(self) -> Answering:
        """The object that asks the model."""
        if self.shown.explain:
            self.model.refuse_exported("does not say what decided its answers")
        return Answering(self.model, lazy("boustro.apps.explain:explain") if self.shown.explain else None)

    def _explained(self, inputs: Sequence[Any]) -> list[tuple[Any, dict[str, Any]]]:
        answers = self.answering.answer(inputs)
        return list(zip(answers, self.answering.explanations(answers), strict=True))

    def _show(self, row: FileRow, answer: Any, explained: dict[str, Any]) -> Any:
        form = self.shown.form
        if form in TABULAR:
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
            before = fields or {k: v for k, v in self.model.show(answer, "jsonl").items() if k not in said}
        said |= explained
        said |= {FILE: row.file} if self.shown.with_file else {}
        names = free_names(said, {*self.shown.columns, *fields})
        record = {names[name]: value for name, value in said.items()}
        if self.shown.is_typed:
            return self._line(row, record if fields else before | record)
        return as_json(before | record, default=json_value) + "\n"

    def _line(self, row: FileRow, answer: Any) -> str:
        """A line of an `AnswerTable`."""
        fields = row.cells if self.shown.form in TABULAR else row.fields
        line = {"row": row.number, "answer": answer} | ({"fields": fields} if self.shown.once else {})
        return as_json(line, default=json_value) + "\n"

    def nothing(self) -> dict[str, Any]:
        """Return an answer to no row, for the names of its fields."""
        return record_of_nothing(self.model, self.shown.columns, self.shown.with_file)

    @cached_property
    def answer_heads(self) -> list[str]:
        """The columns of answers in a table, without repeating the name of another."""
        own = [*([FILE] if self.shown.with_file else []), *self.model.columns]  # type: ignore[not-iterable]
        return [*free_names(own, {*self.shown.columns, *map(str, self.shown.columns.values())}).values()]

    @property
    def heads(self) -> list[Any]:
        """The columns of a CSV or TSV file."""
        return [*self.shown.columns.values(), *map(no_formula, self.answer_heads)]

    def _cells(self, row: FileRow, answer: Any) -> str:
        fields = row.cells
        values = [fields.pop(name, None) for name in self.shown.columns]
        if fields:
            self._noted[LEFT_OUT.format(", ".join(fields))] += 1
        said = [None] * len(self.model.columns) if answer is None else self.model.cells(answer)  # type: ignore[arg-type]
        said = [*([row.file] if self.shown.with_file else []), *said]
        if self.shown.form == "sheet":
            if self.shown.once:
                refuse_in_sheet(row.cells, row.place, Path("the workbook"))
            too_long = [isinstance(cell, str) and holds_too_much(cell) for cell in said]
            self._noted[TOO_LONG] += sum(too_long)
            return self._line(row, [None if long else cell for cell, long in zip(said, too_long, strict=True)])
        dialect = self.shown.dialect or TABULAR[self.shown.form]
        if row.is_blank:
            return dialect.end
        spelled: list[str] = []
        if isinstance(row.given, TableRow):
            spelled = row.given.given.spelled if self.shown.head and row.given.given else []
        else:
            values = [*map(no_formula, values)]
        return dialect.format([*values[len(spelled) :], *map(no_formula, said)], spelled)


def record_of_nothing(model: Any, columns: Mapping[str, Any], with_file: bool = False) -> dict[str, Any]:
    """The fields of answers beside these columns, by their keys and how they are written, where there is no row."""
    said = model.empty_answer()
    if said is None:  # of a task that answers a text
        said = model.to_record(model.answer_checked(["-"])[0])
    said |= {FILE: ""} if with_file else {}
    names = free_names(said, {*columns, *map(str, columns.values())})
    return {names[name]: value for name, value in said.items()}


def label_batches(
    labeller: Labeller, batches: Iterable[list[FileRow]], workers: int = 1
) -> Iterator[tuple[int, LabelledRows]]:
    """(rows, what they became) of every batch, in order; with more than one worker, in processes of their own."""
    if workers <= 1:
        yield from ((len(batch), labeller(batch)) for batch in batches)
        return
    yield from in_processes(labeller, batches, workers, len)


def in_processes(
    work: Callable[[Any], Any], items: Iterable[Any], workers: int, size: Callable[[Any], int] = lambda item: 1
) -> Iterator[tuple[int, Any]]:
    """(size of the item, its result), in order, from so many new processes, which share the cores.

    Raises what `work` raises, and `OSError` where a process dies.
    """
    threads = max(1, (os.cpu_count() or 1) // workers)
    waiting: deque[tuple[int, Future[Any]]] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _start, (work, threads)) as pool:
        try:
            for item in items:
                waiting.append((size(item), pool.submit(_work, item)))
                if len(waiting) >= AHEAD * workers:
                    number, future = waiting.popleft()
                    yield number, future.result()
            while waiting:
                number, future = waiting.popleft()
                yield number, future.result()
        except BrokenProcessPool:
            raise OSError("a process died, perhaps for lack of memory; take fewer --workers, and --resume") from None
        except (KeyboardInterrupt, GeneratorExit):  # an item may take hours
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _start(work: Callable[[Any], Any], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all, and the first process ends the others
    os.environ["OMP_NUM_THREADS"] = str(threads)  # of torch, where it is imported later, and of onnxruntime
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    _running["work"] = work


def _work(item: Any) -> Any:
    return _running["work"](item)


def answer_each(
    items: Sequence[Item], parse: Callable[[Item], Any], answer: Callable[[list[Any]], list[Any]]
) -> list[Any | Exception]:
    """Answer the inputs that `parse` makes of items, in order, by `answer`.

    In its place stands the `ValueError` of an item that is no input, and what `answer` raises for an item; where it
    raises for many, each is asked alone. Too little memory is raised.
    """
    parsed: list[Any] = []
    for item in items:
        try:
            parsed.append(parse(item))
        except ValueError as error:
            parsed.append(error)
    rest = iter(_alone(answer, [given for given in parsed if not isinstance(given, Exception)]))
    return [given if isinstance(given, Exception) else next(rest) for given in parsed]


def _alone(answer: Callable[[list[Any]], list[Any]], inputs: list[Any]) -> list[Any | Exception]:
    try:
        return answer(inputs)
    except Exception as error:
        if lacks_memory(error):
            raise
        return [error] if len(inputs) == 1 else [_alone(answer, [given])[0] for given in inputs]


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
        folder: str | Path | Artefact,
        *,
        text: str | Sequence[str] = "text",
        encoder: str | None = None,
        device: str | None = None,
    ) -> None:
        self.opened = OpenedFolder(model_folder(folder), encoder, device, cache=False)
        self.text = text

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "answering"}

    def __repr__(self) -> str:
        return f"Predictor({str(self.opened.folder)!r})"

    @cached_property
    def columns(self) -> Columns:
        """Which columns hold what."""
        chosen = (self.text,) if isinstance(self.text, str) else tuple(self.text)
        return Columns.of(self.opened.task, () if self.text == "text" else chosen, self.opened.kept_columns)

    @property
    def offsets(self) -> Offsets | None:
        """Where rows have places in characters."""
        return self.opened.task.offsets

    @cached_property
    def answering(self) -> Answering:
        """The folder, opened."""
        return Answering(self.opened.open())

    def __call__(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The columns and, row by row, the fields of the answers, as further columns.

        Args:
            columns: Lists or arrays of one length by name; a data frame.

        Raises `ValueError`, with the number of the row, for what is no input.
        """
        lists = {str(name): _as_list(columns[name]) for name in columns}
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        answers = self.answer(rows, [f"row {number}" for number in range(1, len(rows) + 1)])
        if note := self.answering.model.language_note():
            warnings.warn(note, stacklevel=2)
        names = dict.fromkeys(name for answer in answers for name in answer)
        free = free_names(names, lists.keys())
        return {**lists, **{free[name]: [answer.get(name) for answer in answers] for name in names}}

    def answer(self, values: Sequence[Any], places: Sequence[str]) -> list[dict[str, Any]]:
        """The answers to values of JSON (rows); `ValueError`, with its place, for one that is no input."""
        return self._outputs([self._parse(value, place) for value, place in zip(values, places, strict=True)])

    def answer_each(self, values: Sequence[Any], places: Sequence[str]) -> list[dict[str, Any] | Exception]:
        """Answer values that `columns` has named, with an error in place of an answer where one fails."""
        items = list(zip(values, places, strict=True))
        return answer_each(items, lambda item: self._parse_named(*item), self._outputs)

    def _outputs(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        asked = self.answering.answer([given for given in inputs if given is not EMPTY])
        outputs, empty = iter(self.answering.outputs(asked)), self.answering.model.empty_answer()
        found = (empty if given is EMPTY else next(outputs) for given in inputs)
        return [dict(output) if isinstance(output, dict) else {"vector": output} for output in found]

    def _parse(self, value: Any, place: str) -> Any:
        """An input, or `EMPTY` for one without a text that the model is not asked for."""
        if {*self.columns.names.values()} <= (value.keys() if isinstance(value, Mapping) else {*()}):
            value = self.columns.named(value, place, table=False)
        return self._parse_named(value, place)

    def _parse_named(self, value: Any, place: str) -> Any:
        refuse_half_characters(value, place)
        model = self.answering.model
        if model.empty_answer() is not None and Columns(texts=model.texts).are_empty(value):
            return EMPTY
        return self.answering.parse(value, place)


def _as_list(values: Any) -> list[Any]:
    """The values of a column as Python has them: arrays and what is in them become lists."""
    given = values.tolist() if hasattr(values, "tolist") else list(values)
    return [value.tolist() if hasattr(value, "tolist") else value for value in given]
