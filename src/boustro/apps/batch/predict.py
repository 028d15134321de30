"""`boustro predict`: rows of files in, answers on standard output or in a file, in order and in constant memory."""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from boustro.apps.batch.csv_rows import csv_head
from boustro.apps.batch.growing import grow
from boustro.apps.batch.labeller import Labelled, Labeller, Opened, Shown, label_batches, model_fingerprint
from boustro.apps.batch.options import OutputOptions
from boustro.apps.batch.rows import FORMS, Form, in_batches, read_rows
from boustro.options import OptionError
from boustro.output import RunOptions, as_json, check_target, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.store import fingerprint
from boustro.tasks import task_class, task_of
from boustro.tasks.data.annotations import TOOLS
from boustro.tasks.render import html_head
from boustro.text.documents import check_input, is_stream

ROWS = 1024
TABLES = ("parquet", "arrow")
OWN = {".html": "html", ".htm": "html", ".csv": "csv"}
PROBLEMS = "rows without an answer"


def predict_files(
    opened: Opened,
    files: Sequence[str],
    form: str | None,
    reads: Form | None,
    explain: bool,
    output: OutputOptions,
    run: RunOptions,
) -> None:
    """See `boustro.apps.cli.commands.predict`."""
    for file in files:
        check_input(file)
    kind, made = task_class(task_of(opened.folder)), _form_of(output.out)
    table = made in TABLES
    form = form or ("jsonl" if table or explain else made if made in kind.formats else "text")
    if form not in kind.formats or (table and form != "jsonl"):
        allowed = ("jsonl",) if table else kind.formats
        raise OptionError(f"--format {form}: {f'a {kind.__name__}' if not table else made} has {', '.join(allowed)}")
    if opened.recall is not None and form == "conll":
        raise OptionError("--format conll has no place for entities that overlap; give --recall with another format")
    if explain and form != "jsonl":
        raise OptionError(f"--format {form} has no place for what --explain adds; take jsonl")
    if output.resume and any(file == "-" or is_stream(file) for file in files):
        raise OptionError("--resume reads its files again, which a stream does not allow; name files")
    if output.out is not None:  # before the model is opened; `grow` looks again, in its lock
        check_target(output.out, output.overwrite, "--out")
    if output.errors is not None and not output.resume:
        check_target(output.errors, output.overwrite, "--errors")
    console = Console(highlight=False, soft_wrap=True)
    colour = form == "text" and output.out is None and output.workers == 1 and console.is_terminal
    shown = Shown(form, colour, with_file=len(files) > 1, explain=explain)
    labeller = Labeller(opened, shown, keep_going=output.errors is not None)
    showing = output.out is None and console.is_terminal
    with only_errors(run.quiet):
        if output.workers == 1:
            _ = labeller.model  # errors in the folder come before the output is touched
        total = None if run.quiet or showing else _count(files, reads)
        bar = Progress("labelling", "rows", total=total, shown=False if showing else None)
        frame = _frame(labeller, files)
        if output.out is None:
            found = _print(labeller, files, reads, output, frame, console, bar)
        else:
            found = _write(output.out, labeller, files, reads, output, frame, bar, table)
        print_notices(found)


def _print(
    labeller: Labeller,
    files: Sequence[str],
    reads: Form | None,
    output: OutputOptions,
    frame: "_Frame",
    console: Console,
    bar: Progress,
) -> Counter[str]:
    counts = _Counts()
    with contextlib.ExitStack() as stack, bar, keeping(lambda: f"{bar.done:,} rows are printed"):
        errors = None
        if output.errors is not None:
            check_target(output.errors, output.overwrite, "--errors")
            errors = stack.enter_context(output.errors.open("w", encoding="utf-8"))
        print(frame.head, end="")
        for rows, labelled in label_batches(
            labeller, in_batches(read_rows(files, reads, labeller.task.offsets), ROWS), output.workers
        ):
            for shown in frame.separated(labelled.shown):
                console.print(shown) if labeller.shown.colour else print(shown, end="")
            sys.stdout.flush()
            if errors is not None:
                errors.writelines(f"{as_json(problem)}\n" for problem in labelled.problems)
            counts.add(labelled)
            bar.update(rows)
        print(frame.end, end="")
    return counts.total()


def _write(
    out: Path,
    labeller: Labeller,
    files: Sequence[str],
    reads: Form | None,
    output: OutputOptions,
    frame: "_Frame",
    bar: Progress,
    table: bool,
) -> Counter[str]:
    counts = _Counts()
    sizes = [Path(file).stat().st_size if Path(file).is_file() else -1 for file in files]
    shown, own = labeller.shown, labeller.opened
    sized = list(zip(files, sizes, strict=True))
    asked = [shown.form, shown.explain, own.recall, reads, sized]
    key = fingerprint(model_fingerprint(own.folder), asked)
    how = {"errors": output.errors, "resume": output.resume, "overwrite": output.overwrite, "table": table}
    with bar, grow(out, key, end=frame.end, **how) as growing:
        if frame.head and not growing.size:
            growing.add(0, [frame.head], [])
        frame.begun = growing.size > len(frame.head.encode())
        rows = read_rows(files, reads, labeller.task.offsets)
        if growing.done:
            bar.skip(growing.done)
            _skip(rows, growing.done)
        for number, labelled in label_batches(labeller, in_batches(rows, ROWS), output.workers):
            growing.add(number, frame.separated(labelled.shown), labelled.problems)
            counts.add(labelled)
            bar.update(number)
        done = growing.done
    print(f"{out}: {done:,} rows", file=sys.stderr)
    return counts.total()


def _count(files: Sequence[str], reads: Form | None) -> int | None:
    """How many rows there are; `None` where they can be read only once, or not to the end."""
    if any(file == "-" or is_stream(file) for file in files):
        return None
    with contextlib.suppress(ValueError, OSError):
        return sum(1 for row in Progress("counting", "rows").over(read_rows(files, reads)) if row is not None)
    return None


def _skip(rows: Iterator, number: int) -> None:
    """Leave out so many rows."""
    present = (row for row in rows if row is not None)
    next(islice(present, number - 1, number), None)


class _Counts:
    """What was noticed, by the process that noticed it, and the rows without an answer."""

    def __init__(self) -> None:
        self._noticed: dict[int, dict[str, int]] = {}
        self._problems = 0

    def add(self, labelled: Labelled) -> None:
        self._noticed[labelled.process] = labelled.counts  # since the process began
        self._problems += len(labelled.problems)

    def total(self) -> Counter[str]:
        return sum(map(Counter, self._noticed.values()), Counter({PROBLEMS: self._problems}))


def _form_of(out: Path | None) -> str:
    """The format that an ending names; text for any other."""
    ending = out.suffix.lower() if out else ""
    return OWN.get(ending) or str(FORMS.get(ending, "text"))


@dataclass
class _Frame:
    """What stands before, between and after the answers; `begun` where there is one already."""

    head: str = ""
    between: str = ""
    end: str = ""
    begun: bool = False

    def separated(self, shown: Iterable[Any]) -> Iterator[Any]:
        """The answers, each but the first with what stands between them before it."""
        for one in shown:
            yield self.between + one if self.between and self.begun else one
            self.begun = True


def _frame(labeller: Labeller, files: Sequence[str]) -> _Frame:
    if labeller.shown.form in TOOLS:
        return _Frame("[\n", ",", "]\n")
    if labeller.shown.form == "csv":
        return _Frame(csv_head(labeller.task.columns))
    if labeller.shown.form != "html":
        return _Frame()
    names = ("Standard input" if file == "-" else file for file in files)
    return _Frame(html_head(", ".join(names), labeller.model.types) + "\n")
