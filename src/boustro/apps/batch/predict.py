"""`boustro predict`: rows of files in, answers on standard output or in a file, in order and in constant memory.

With `--states` it answers texts whose states another engine computed, one file each; with `--live` one text, lines and
all, that arrives on standard input or stands in a file: every event is a line of JSON as soon as it is known.
"""

import codecs
import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from boustro.apps.batch.command import OutputOptions
from boustro.apps.batch.growing import grow
from boustro.apps.batch.labeller import Labeller, Opened, Shown, csv_head, label_batches, model_fingerprint
from boustro.apps.batch.rows import FORMS, Form, Row, in_batches, read_rows
from boustro.options import OptionError
from boustro.output import RunOptions, as_json, check_target, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.store import fingerprint
from boustro.tasks import task_class, task_of
from boustro.tasks.data.annotations import TOOLS
from boustro.tasks.render import html_head
from boustro.text.documents import check_input, is_stream, open_binary, read_items

ROWS = 1024
TABLES = ("parquet", "arrow")
OWN = {".html": "html", ".htm": "html", ".csv": "csv"}
PROBLEMS = "rows without an answer"
STATE_FORMS = ("text", "jsonl", "conll", "html")
MOST_BYTES = 1 << 16


@dataclass
class _Run:
    """Rows on their way to answers."""

    labeller: Labeller
    files: Sequence[str]
    reads: Form | None
    output: OutputOptions
    bar: Progress
    begun: bool = False
    """Whether an answer has been written."""
    noticed: dict[int, dict[str, int]] = field(default_factory=dict)
    """By each process, since it began."""
    problems: int = 0
    """Rows without an answer."""

    def rows(self) -> Iterator[Row | None]:
        return read_rows(self.files, self.reads, self.labeller.task.offsets)

    def answers(self, rows: Iterable[Row | None], between: str) -> Iterator[tuple[int, Iterator[Any], Sequence[Any]]]:
        """(rows, what is printed for them, with what stands between answers, problems) of every batch."""
        for number, labelled in label_batches(self.labeller, in_batches(rows, ROWS), self.output.workers):
            yield number, self._separated(labelled.shown, between), labelled.problems
            self.noticed[labelled.process] = labelled.counts
            self.problems += len(labelled.problems)
            self.bar.update(number)

    def _separated(self, shown: Iterable[Any], between: str) -> Iterator[Any]:
        for answer in shown:
            yield between + answer if between and self.begun else answer
            self.begun = True

    def print(self, head: str, between: str, end: str, console: Console) -> None:
        output = self.output
        with contextlib.ExitStack() as stack, self.bar, keeping(lambda: f"{self.bar.done:,} rows are printed"):
            errors = None
            if output.errors is not None:
                check_target(output.errors, output.overwrite, "--errors")
                errors = stack.enter_context(output.errors.open("w", encoding="utf-8"))
            print(head, end="")
            for _, shown, problems in self.answers(self.rows(), between):
                for answer in shown:
                    console.print(answer) if self.labeller.shown.colour else print(answer, end="")
                sys.stdout.flush()
                if errors is not None:
                    errors.writelines(f"{as_json(problem)}\n" for problem in problems)
            print(end, end="")

    def write(self, out: Path, head: str, between: str, end: str, table: bool) -> None:
        output, shown, opened = self.output, self.labeller.shown, self.labeller.opened
        sized = [(file, Path(file).stat().st_size if Path(file).is_file() else -1) for file in self.files]
        asked = [shown.form, shown.explain, opened.recall, self.reads, sized]
        key = fingerprint(model_fingerprint(opened.folder), asked)
        how = {"errors": output.errors, "resume": output.resume, "overwrite": output.overwrite, "table": table}
        with self.bar, grow(out, key, end=end, **how) as growing:
            if head and not growing.size:
                growing.add(0, [head], [])
            self.begun = growing.size > len(head.encode())
            rows = self.rows()
            if growing.done:
                self.bar.skip(growing.done)
                present = (row for row in rows if row is not None)
                next(islice(present, growing.done - 1, growing.done), None)
            for number, lines, problems in self.answers(rows, between):
                growing.add(number, lines, problems)
            done = growing.done
        print(f"{out}: {done:,} rows", file=sys.stderr)


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
        answering = _Run(labeller, files, reads, output, bar)
        frame = _frame(labeller, files)
        if output.out is None:
            answering.print(*frame, console)
        else:
            answering.write(output.out, *frame, table)
        print_notices(sum(map(Counter, answering.noticed.values()), Counter({PROBLEMS: answering.problems})))


def _count(files: Sequence[str], reads: Form | None) -> int | None:
    """How many rows there are; `None` where they can be read only once, or not to the end."""
    if any(file == "-" or is_stream(file) for file in files):
        return None
    with contextlib.suppress(ValueError, OSError):
        return sum(1 for row in Progress("counting", "rows").over(read_rows(files, reads)) if row is not None)
    return None


def _form_of(out: Path | None) -> str:
    """The format that an ending names; text for any other."""
    ending = out.suffix.lower() if out else ""
    return OWN.get(ending) or str(FORMS.get(ending, "text"))


def _frame(labeller: Labeller, files: Sequence[str]) -> tuple[str, str, str]:
    """What stands before, between and after the answers."""
    if labeller.shown.form in TOOLS:
        return "[\n", ",", "]\n"
    if labeller.shown.form == "csv":
        return csv_head(labeller.task.columns), "", ""
    if labeller.shown.form != "html":
        return "", "", ""
    names = ("Standard input" if file == "-" else file for file in files)
    return html_head(", ".join(names), labeller.model.types) + "\n", "", ""


def predict_states(
    opened: Opened, files: Sequence[Path], layers: str | None, form: str | None, out: Path | None, run: RunOptions
) -> None:
    """See `boustro.apps.cli.commands.predict`; `layers` are numbers, such as 4,9,14."""
    from boustro.tasks.tagger import Tagger

    kind: Any = task_class(task_of(opened.folder))
    if not issubclass(kind, Tagger):
        raise OptionError(f"--states is for taggers, and this is a {kind.__name__}; leave it out")
    if out is not None or form not in (None, *STATE_FORMS):
        raise OptionError(f"--states prints its answers as {', '.join(STATE_FORMS)}; redirect them to a file")
    if layers is not None and not all(number.strip().isdigit() for number in layers.split(",")):
        raise OptionError(f"--state-layers {layers}: expected numbers of layers, such as 4,9,14")
    from boustro.apps.live.states import answer_states, read_states

    numbers = None if layers is None else [int(number) for number in layers.split(",")]
    with only_errors(run.quiet):
        model = kind.from_pretrained(opened.folder, encoder=opened.encoder, device=opened.device, given_states=True)
        model = model if opened.recall is None else model.with_recall(opened.recall)
        for file in files:
            shown = model.show(answer_states(model, read_states(file, numbers)), form or "text")
            if form == "jsonl":
                shown = as_json(shown | ({"file": str(file)} if len(files) > 1 else {}))
            sys.stdout.write(f"{shown}\n")
        print_notices(model.notices())


def predict_live(opened: Opened, file: str, delay: int | None, run: RunOptions) -> None:
    """See `boustro.apps.cli.commands.predict`; `ValueError` for what cannot stream, and for bytes that are no text."""
    from boustro.apps.live.stream import DELAY, Live
    from boustro.tasks.tagger import Tagger

    check_input(file)
    once = file == "-" or is_stream(file)  # which is not looked at, because it can be read only once
    if not once and any(item and not item.is_line for item in islice(read_items(file), 1)):
        raise OptionError(f"--live reads one text, and {file} holds rows of data; leave it out to answer each row")
    with only_errors(run.quiet):
        model: Any = Labeller(opened, Shown("jsonl")).model
        if not isinstance(model, Tagger):
            raise OptionError(f"--live is for taggers, and this is a {type(model).__name__}; leave it out")
        live = Live(model, DELAY if delay is None else delay)
    with open_binary(Path(file)) as stream:
        for chunk in _texts(stream, file):
            for event in live.feed(chunk):
                print(as_json(event.to_dict()), flush=True)
    for event in live.end():
        print(as_json(event.to_dict()), flush=True)


def _texts(stream: Any, name: str) -> Iterator[str]:
    """What has come so far, again and again, without waiting for more; a character is never cut."""
    decoder, read = codecs.getincrementaldecoder("utf-8-sig")(), 0
    read_some = getattr(stream, "read1", stream.read)
    while chunk := read_some(MOST_BYTES):
        try:
            yield decoder.decode(chunk)
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: no UTF-8 near byte {read + error.start:,} ({error.reason})") from error
        read += len(chunk)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: the text ends within a character") from error
