"""`boustro predict`: rows of files in, answers on standard output or in a file, in order and in constant memory."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from boustro.apps.batch.command import OutputOptions, PredictOptions
from boustro.apps.batch.growing import AnswerFrame, check_growing, grow
from boustro.apps.batch.job import in_batches, printing, run_job
from boustro.apps.batch.labeller import AnswerForm, Labeller
from boustro.apps.batch.models import Opened
from boustro.apps.batch.table import AnswerTable
from boustro.errors import count_of
from boustro.options import OptionError
from boustro.output import RunOptions, check_target, only_errors, print_notices, terminal
from boustro.progress import Progress
from boustro.store import fingerprint
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import Offsets
from boustro.tasks.forms import FORMS, OUT_ENDINGS, FileForm, form_at
from boustro.tasks.render import html_head
from boustro.tasks.rows import ROWS, Columns, can_read_again, look, read_rows
from boustro.text.documents import OPENERS
from boustro.text.files import DataFile
from boustro.text.places import EXCEL
from boustro.text.tables import PLACE, FileRow

UNANSWERED_ROWS = "rows without an answer"


def predict_files(
    opened: Opened,
    sources: Sequence[DataFile],
    answers: PredictOptions,
    output: OutputOptions,
    run_options: RunOptions,
) -> None:
    """Answer the rows or texts of files, see `batch.ways`."""
    reads, kind, out, keep_going = answers.reads, opened.task, output.out, output.errors is not None
    form = form_of(kind, out, answers.format, answers.explain)
    columns = Columns.of(kind, answers.text_column, opened.kept_columns)
    for source in sources if reads is None else ():
        columns.check(source, kind)
    is_read_once = not can_read_again(sources)
    _refuse_output(output, form, opened.recall is not None, answers.explain, is_read_once)
    screen = terminal() if out is None else None
    colour = screen is not None and form.shown == "text" and output.workers == 1
    made = form if form.repeats else None
    with only_errors(run_options.quiet):
        survey = look(sources, reads, made, out, columns, keep_going)
        rows = RowStream(sources, reads, kind.inputs.offsets, columns)
        if made is not None and is_read_once and (first := rows.first()) is not None:
            survey.add(dict.fromkeys(first.cells if form.dialect else first.fields), made)
        if form.dialect and not survey.heads:
            survey.heads = {PLACE: PLACE, "text": "text"}
        typed: dict[str, Any] = {"is_typed": not form.grows, "once": is_read_once}
        own = {"columns": survey.heads, "dialect": survey.dialect, "head": survey.head}
        shown = AnswerForm(form, colour, len(sources) > 1, answers.explain, **own, **typed)
        labeller = Labeller(opened, shown, keep_going)
        if output.workers == 1:
            labeller.model = opened.open()  # errors in the folder come before the output is touched
        total = None if run_options.quiet or screen else survey.rows
        bar = Progress("labelling", "rows", total=total, shown=False if screen else None)
        frame = _frame(labeller, sources)
        if out is None:
            say: Callable[[Any], None] = screen.print if screen and colour else partial(print, end="")
            sink: Any = printing(lambda: bar.done, output.errors, output.overwrite, say, frame)
        else:
            heads = [(key, str(name)) for key, name in survey.heads.items()]
            facts: Any = vars(shown) | {"form": form.shown, "columns": heads}
            del facts["as_values"]
            asked = [facts, opened.recall, opened.threshold, reads, columns, [source.name for source in sources]]
            key = fingerprint(opened.fingerprint, asked)
            table = None
            if not form.grows:
                table = AnswerTable(sources, reads, survey, labeller, out, columns).write
            how = {"errors": output.errors, "resume": output.resume, "overwrite": output.overwrite, "table": table}
            sink = grow(out, key, frame=frame, **how)
        noticed, problems = dict[int, Mapping[str, int]](), 0
        with bar, sink as growing:
            for answered in run_job(rows, partial(in_batches, most=ROWS), labeller, growing, bar, output.workers):
                noticed[answered.process] = answered.counts  # since the process began
                problems += len(answered.problems)
        if out is not None:
            print(f"{out}: {count_of(growing.done, 'rows')}", file=sys.stderr)
        print_notices(rows.counts)
        print_notices(sum(map(Counter, noticed.values()), Counter({UNANSWERED_ROWS: problems})))


def form_of(kind: Any, out: Path | None, named: str | None, explain: bool) -> FileForm:
    """Return the form of the answers; `OptionError` where the file, or the task, cannot have them so."""
    at, ending = form_at(out), "" if out is None else out.suffix.lower()
    if out is not None and at is None and (named is None or ending in OPENERS):
        raise OptionError(
            f"--out {out}: no file of answers ends so; end it in one of {OUT_ENDINGS}, or name a --format"
        )
    if at is FORMS["sheet"] and find_spec("openpyxl") is None:
        raise ImportError(f"--out {out}: {EXCEL}")
    if explain and named is None and at is not None and at.shown != "jsonl":
        raise OptionError(f"--out {out}: it has no place for what --explain adds; end it in .jsonl")
    shown = named or ("jsonl" if explain else at.shown if at is not None else "text")
    if at is not None and not at.grows:
        if shown != at.shown:
            raise OptionError(f"--format {shown}: a file {ending} has a form of its own; remove --format")
        return at
    if shown not in (*kind.formats, "csv", "tsv"):
        raise OptionError(f"--format {shown}: a {kind.__name__} has {', '.join((*kind.formats, 'csv', 'tsv'))}")
    return at if at is not None and at.shown == shown else FORMS[shown]


def _refuse_output(output: OutputOptions, form: FileForm, recall: bool, explain: bool, is_read_once: bool) -> None:
    """Raise for options that do not go together, and for what would be written over, before the model is opened."""
    if recall and form.shown == "conll":
        raise OptionError("--format conll has no place for entities that overlap; give --recall with another format")
    if explain and form.shown != "jsonl":
        raise OptionError(f"--format {form.shown} has no place for what --explain adds; take jsonl")
    if output.resume and is_read_once:
        raise OptionError("--resume reads its files again, which a stream does not allow; name files")
    if output.out is not None:  # `grow` looks again, in its lock
        check_growing(output.out, output.resume, output.overwrite)
    if output.errors is not None and not output.resume:
        check_target(output.errors, output.overwrite, "--errors")


def _frame(labeller: Labeller, files: Sequence[DataFile]) -> AnswerFrame:
    """Return the text before, between and after the answers."""
    form = labeller.shown.form
    if form.between:
        return AnswerFrame("[\n", ",", "]\n")
    if form.dialect and form.grows:
        return AnswerFrame(labeller.head)
    if form.shown != "html":
        return AnswerFrame()
    names = ("Standard input" if file.name == "-" else file.name for file in files)
    return AnswerFrame(html_head(", ".join(names), labeller.model.types) + "\n")


class RowStream:
    """Rows of files, in the order in which they are answered.

    Attributes:
        counts: How tables were read: how many rows have each note.
    """

    def __init__(self, files: Sequence[DataFile], reads: str | None, offsets: Offsets | None, columns: Columns) -> None:
        self.counts, self._notes = Counter[str](), list[Note]()
        self._rows: Iterator[FileRow | None] = read_rows(files, reads, offsets, columns, self._notes)

    def first(self) -> FileRow | None:
        """Return the first row, for which it waits."""
        begun = list[FileRow | None]()
        for row in self._rows:
            begun.append(row)
            if row is not None:
                break
        self._rows = chain(begun, self._rows)
        return begun[-1] if begun else None

    def __iter__(self) -> Iterator[FileRow | None]:
        """Yield all of them, once."""
        for row in self._rows:
            if len(self._notes) > ROWS:
                self._count_notes()
            yield row
        self._count_notes()

    def _count_notes(self) -> None:
        self.counts.update(note.what for note in self._notes)
        self._notes.clear()
