"""`boustro predict`: rows of files in, answers on standard output or in a file, in order and in constant memory."""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import Any

from boustro.apps.batch.command import OutputOptions, PredictOptions
from boustro.apps.batch.growing import grow
from boustro.apps.batch.labeller import TABULAR, AnswerForm, Labeller, label_batches
from boustro.apps.batch.models import Opened
from boustro.apps.batch.rows import FORMS, PLACE, Columns, FileRow, RowForm, in_batches, read_rows
from boustro.apps.batch.table import ROWS, AnswerTable, Output, can_read_again, look
from boustro.options import OptionError
from boustro.output import (
    RunOptions,
    as_json,
    check_target,
    console,
    keeping,
    only_errors,
    print_notices,
)
from boustro.progress import Progress
from boustro.store import fingerprint
from boustro.tasks import TOOL_FORMATS
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import Offsets
from boustro.tasks.render import html_head
from boustro.text.documents import OPENERS
from boustro.text.files import DataFile
from boustro.text.places import EXCEL

BINARY = (".parquet", ".arrow", ".feather", ".xlsx")
"""Files that are made of JSON lines in the end."""
OUT: dict[str, str] = {
    **{ending: form for ending, form in FORMS.items() if form in ("jsonl", "conll")},
    **dict.fromkeys((".html", ".htm"), "html"),
    **{".txt": "text", ".csv": "csv", ".tsv": "tsv", ".json": "jsonl", ".xlsx": "sheet"},
    **dict.fromkeys(BINARY[:3], "jsonl"),
}
"""How answers are shown, by the ending of --out."""
OUT_ENDINGS = ".csv, .tsv, .xlsx, .jsonl, .json, .parquet, .arrow, .conll, .html, .txt"
PROBLEMS = "rows without an answer"


@dataclass
class _Run:
    """Rows on their way to answers."""

    labeller: Labeller
    rows: "RowStream"
    output: OutputOptions
    bar: Progress
    begun: bool = False
    """Whether an answer has been written."""
    noticed: dict[int, dict[str, int]] = field(default_factory=dict)
    """By each process, since it began."""
    problems: int = 0
    """Rows without an answer."""

    def answers(
        self, batches: Iterable[list[FileRow]], between: str
    ) -> Iterator[tuple[int, Iterator[Any], Sequence[Any]]]:
        """(rows, what is printed for them, with what stands between answers, problems) of every batch."""
        for number, labelled in label_batches(self.labeller, batches, self.output.workers):
            yield number, self._separated(labelled.shown, between), labelled.problems
            self.noticed[labelled.process] = labelled.counts
            self.problems += len(labelled.problems)
            self.bar.update(number)

    def _separated(self, shown: Iterable[Any], between: str) -> Iterator[Any]:
        for answer in shown:
            yield between + answer if between and self.begun else answer
            self.begun = True

    def print(self, head: str, between: str, end: str, terminal: Any) -> None:
        output = self.output
        with contextlib.ExitStack() as stack, self.bar, keeping(lambda: f"{self.bar.done:,} rows are printed"):
            errors = None
            if output.errors is not None:
                check_target(output.errors, output.overwrite, "--errors")
                errors = stack.enter_context(output.errors.open("w", encoding="utf-8"))
            print(head, end="")
            for _, shown, problems in self.answers(in_batches(self.rows, ROWS), between):
                for answer in shown:
                    terminal.print(answer) if self.labeller.shown.colour else print(answer, end="")
                sys.stdout.flush()
                if errors is not None:
                    errors.writelines(f"{as_json(problem)}\n" for problem in problems)
            print(end, end="")

    def write(self, out: Path, head: str, between: str, end: str, table: AnswerTable | None) -> None:
        output, shown, opened = self.output, self.labeller.shown, self.labeller.opened
        columns = [(key, str(name)) for key, name in shown.columns.items()]
        form = vars(shown) | {"columns": columns}
        asked = [
            form,
            opened.recall,
            opened.threshold,
            self.rows.reads,
            self.rows.columns,
            [file.name for file in self.rows.files],
        ]
        key = fingerprint(opened.fingerprint, asked)
        how = {"errors": output.errors, "resume": output.resume, "overwrite": output.overwrite}
        how["table"] = table and table.write
        with self.bar, grow(out, key, end=end, **how) as growing:
            if head and not growing.size:
                growing.add(0, [head], [])
            self.begun = growing.size > len(head.encode())
            rows = iter(self.rows)
            if growing.done:
                self.bar.skip(growing.done)
                growing.skip(row for row in rows if row is not None)
            for number, lines, problems in self.answers(growing.follow(in_batches(rows, ROWS)), between):
                growing.add(number, lines, problems)
            done = growing.done
        print(f"{out}: {done:,} rows", file=sys.stderr)


def predict_files(
    opened: Opened,
    sources: Sequence[DataFile],
    answers: PredictOptions,
    output: OutputOptions,
    run: RunOptions,
) -> None:
    """Answer the rows or texts of files, see `batch.ways`."""
    reads, explain = answers.reads, answers.explain
    kind, ending = opened.task, "" if output.out is None else output.out.suffix.lower()
    form = _form_of(kind, output.out, answers.format, ending, explain)
    columns = Columns.of(kind, answers.text_column, opened.kept_columns)
    for source in sources if reads is None else ():
        columns.check(source, kind)
    is_read_once = not can_read_again(sources)
    _refuse_output(output, form, opened.recall is not None, explain, is_read_once)
    terminal = console(wrap=False)
    colour = form == "text" and output.out is None and output.workers == 1 and terminal.is_terminal
    made = _output(form, ending)
    with only_errors(run.quiet):
        survey = look(sources, reads, made, output.out, columns, output.errors is not None)
    rows = RowStream(sources, reads, kind.offsets, columns)
    if made is not None and is_read_once:
        survey.add(dict.fromkeys(rows.first(made)), made)
    if form in TABULAR and not survey.heads:
        survey.heads = {PLACE: PLACE, "text": "text"}
    typed = ending in BINARY
    how: dict[str, Any] = {"dialect": survey.dialect, "head": survey.head, "is_typed": typed, "once": is_read_once}
    shown = AnswerForm(form, colour, with_file=len(sources) > 1, explain=explain, columns=survey.heads, **how)
    labeller = Labeller(opened, shown, keep_going=output.errors is not None)
    showing = output.out is None and terminal.is_terminal
    with only_errors(run.quiet):
        if output.workers == 1:
            _ = labeller.model  # errors in the folder come before the output is touched
        total = None if run.quiet or showing else survey.rows
        bar = Progress("labelling", "rows", total=total, shown=False if showing else None)
        answering = _Run(labeller, rows, output, bar)
        frame = _frame(labeller, sources, ending)
        if output.out is None:
            answering.print(*frame, terminal)
        else:
            heads, table = labeller.answer_heads if form == "sheet" else (), None
            if made and typed:
                table = AnswerTable(sources, reads, survey, made, heads, output.out, columns, labeller.nothing)
            answering.write(output.out, *frame, table)
        print_notices(rows.counts)
        print_notices(sum(map(Counter, answering.noticed.values()), Counter({PROBLEMS: answering.problems})))


def _refuse_output(output: OutputOptions, form: str, recall: bool, explain: bool, is_read_once: bool) -> None:
    """Raise for options that do not go together, and for what would be written over, before the model is opened."""
    if recall and form == "conll":
        raise OptionError("--format conll has no place for entities that overlap; give --recall with another format")
    if explain and form != "jsonl":
        raise OptionError(f"--format {form} has no place for what --explain adds; take jsonl")
    if output.resume and is_read_once:
        raise OptionError("--resume reads its files again, which a stream does not allow; name files")
    if output.out is not None:  # `grow` looks again, in its lock
        check_target(output.out, output.overwrite, "--out")
    if output.errors is not None and not output.resume:
        check_target(output.errors, output.overwrite, "--errors")


def _form_of(kind: Any, out: Path | None, form: str | None, ending: str, explain: bool) -> str:
    """How answers are shown; `OptionError` where the file cannot have them so."""
    if out is not None and ending not in OUT and (form is None or ending in OPENERS):
        raise OptionError(
            f"--out {out}: no file of answers ends so; end it in one of {OUT_ENDINGS}, or name a --format"
        )
    if ending == ".xlsx" and find_spec("openpyxl") is None:
        raise ImportError(f"--out {out}: {EXCEL}")
    if explain and form is None and OUT.get(ending, "jsonl") != "jsonl":
        raise OptionError(f"--out {out}: it has no place for what --explain adds; end it in .jsonl")
    form = form or ("jsonl" if explain else OUT.get(ending, "text"))
    known = kind.formats if ending not in BINARY else ("sheet" if ending == ".xlsx" else "jsonl",)
    if form not in (*known, *(["csv", "tsv"] if ending not in BINARY else [])):
        if ending in BINARY:
            raise OptionError(f"--format {form}: a file {ending} has a form of its own; remove --format")
        raise OptionError(f"--format {form}: a {kind.__name__} has {', '.join(known)}")
    return form


def _output(form: str, ending: str) -> Output | None:
    """Return the form in which rows are repeated with their answers; `None` where they are not."""
    if ending in BINARY[:3]:
        return "parquet" if ending == ".parquet" else "arrow"
    known: dict[str, Output] = {"csv": "csv", "tsv": "tsv", "sheet": "sheet", "jsonl": "jsonl"}
    return known.get(form)


@dataclass
class RowStream:
    """Rows of files, each with its number, in the order in which they are answered."""

    files: Sequence[DataFile]
    reads: RowForm | None
    offsets: Offsets | None
    columns: Columns
    counts: Counter[str] = field(default_factory=Counter)
    """How tables were read: how many rows have each note."""
    _notes: list[Note] = field(default_factory=list)
    begun: list[FileRow | None] = field(default_factory=list)
    rest: Iterator[FileRow | None] | None = None

    def __iter__(self) -> Iterator[FileRow | None]:
        """All of them, once."""
        numbers, begun, self.begun = count(), self.begun, []
        for row in chain(begun, self.rest or self._read()):
            if len(self._notes) > ROWS:
                self._count_notes()
            yield row and row._replace(number=next(numbers))
        self._count_notes()

    def _count_notes(self) -> None:
        self.counts.update(note.what for note in self._notes)
        self._notes.clear()

    def _read(self) -> Iterator[FileRow | None]:
        return read_rows(self.files, self.reads, self.offsets, self.columns, self._notes)

    def first(self, output: Output) -> Iterable[str]:
        """The names in the first row, for which it waits; of a line of text in a table of cells its place, too."""
        self.rest = self._read()
        for row in self.rest:
            self.begun.append(row)
            if row is not None:
                return row.cells if output in TABULAR else row.fields
        return ()


def _frame(labeller: Labeller, files: Sequence[DataFile], ending: str) -> tuple[str, str, str]:
    """Return the text before, between and after the answers."""
    form = labeller.shown.form
    if form in TOOL_FORMATS or (form == "jsonl" and ending == ".json"):
        return "[\n", ",", "]\n"
    if form in ("csv", "tsv"):
        dialect = labeller.shown.dialect or TABULAR[form]
        spelled = labeller.shown.head.spelled if labeller.shown.head else []
        return dialect.start + dialect.format(labeller.heads[len(spelled) :], spelled), "", ""
    if form != "html":
        return "", "", ""
    names = ("Standard input" if file.name == "-" else file.name for file in files)
    return html_head(", ".join(names), labeller.model.types) + "\n", "", ""
