"""Rows of files with masks for names: `boustro redact` finds them, and writes the files again.

    file = GivenFile(DataFile("tickets.csv"), named=("message",))
    [row.slots for row in file.texts()]            a slot (`live.structured`) for each text; a checker fills them
    file.masked(row)                               what stands in the place of the row, for `text.written`

Of a row that cannot be read there is its `problem`; a file without it is written where it is left out. What was found
grows as JSON lines, the number of the file and places in its texts, and no text: `[0, [[[4, 7, "PERSON"]]]]`.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from boustro.apps.batch.growing import AnswerFrame, grow
from boustro.apps.batch.job import AnsweredRows, printing, run_job
from boustro.apps.live.masks import Masks, Region
from boustro.apps.live.structured import BodyTexts, Checker, Slot, checked, respelled, unescaped
from boustro.output import as_json
from boustro.progress import Progress
from boustro.tasks.data.named import no_column
from boustro.tasks.data.reading import TEXT_KEYS
from boustro.text.files import TABULAR, DataFile, Form
from boustro.text.rows import file_ending
from boustro.text.tables import FileRow
from boustro.text.written import WrittenFile
from boustro.types import Note

ROWS_AT_ONCE = 256
"""Rows whose texts a tagger reads at once."""
CHANGED = "was changed while it was read; --overwrite starts again"


def form_with(file: DataFile, columns: Sequence[str]) -> Form:
    """Find what a file is; one whose name says nothing, and whose first line has these columns, is a table."""
    form = file.form()
    if form == "text" and columns and not file_ending(file.path):
        with suppress(ValueError):
            form = "separated" if {*columns} <= {*file.head("separated").keys} else form
    return form


@dataclass(eq=False)
class RedactedRow:
    """A row with the texts to check.

    Attributes:
        row: The row as it was read.
        file: Its file.
        slots: The texts to check.
        values: What stands in its place: of JSON values, else the cells of some columns; slots where there are texts.
        whole: All that the row has, as a text.
        ends: Whether the file cannot be read on.
    """

    row: FileRow
    file: "GivenFile"
    slots: Sequence[Slot] = ()
    values: Sequence[Any] = ()
    whole: str = ""
    ends: bool = False

    @property
    def content(self) -> bytes:
        """Bytes of what was read, by which a row is known again."""
        return (self.row.problem or self.whole).encode(errors="surrogatepass")


class GivenFile(WrittenFile):
    """A file that is redacted.

    Args:
        number: Which of the files it is.
        named: The columns of a table, or keys of JSON, in which names are masked.
        kept: The columns that the folder of the tagger keeps, which are read where they are there.
        shown: How it is called in messages, where it is the copy of a stream.
    """

    def __init__(
        self, file: DataFile, number: int = 0, named: Sequence[str] = (), kept: Sequence[str] = (), shown: str = ""
    ) -> None:
        super().__init__(file, form_with(file, named))
        self.number, self.named, self.kept, self.shown, self._left = number, named, kept, shown, ""

    def check(self, in_folder: bool) -> None:
        """`ValueError`, before the work, for a table without the columns in which names are masked; one that cannot be
        read is left out of a folder."""
        try:
            heads = self.file.head(self.form).keys if self.form in TABULAR else ()
        except (ValueError, OSError):
            if not in_folder:
                raise
            return
        keys = [key for key in heads if key]
        chosen = [*self.named] or [key for key in self.kept if key in keys]
        chosen = chosen or next(([key] for key in TEXT_KEYS if key in keys), [])
        unknown = [name for name in chosen if name not in keys]
        if heads and (unknown or not chosen):
            rows = (row for _, row in self.file.open(self.form, notes=[]))
            raise no_column(str(self.file.path), unknown[:1] or TEXT_KEYS[:1], rows, keys)
        self.columns = chosen if heads else ()
        self._left = ", ".join(key for key in keys if key not in chosen)

    def texts(self) -> Iterator[RedactedRow]:
        """All rows, also those that cannot be read; `ValueError` for a file that cannot be read on."""
        rows, path = self.rows(), str(self.file.path)
        if self._left:
            self.notes.append(Note(f"tables with columns that are not read and stay: {self._left}", path))
        for row in rows:
            made = self._of_json(row) if self.form == "json" else self._of_texts(row)
            if made.row.problem and self.shown:
                said = {name: getattr(made.row, name).replace(path, self.shown) for name in ("place", "problem")}
                made.row = made.row._replace(**said)
            yield made

    def _of_texts(self, row: FileRow) -> RedactedRow:
        """A line, or a row of a table; what is no text in its columns is no slot."""
        if row.problem:
            return RedactedRow(row, self)
        reading, given = BodyTexts(), [row.value] if row.is_line else [row.value[key] for key in self.columns]
        values = [reading.text(value, row.place) if isinstance(value, str) and value else value for value in given]
        whole = [row.spelled] if row.is_line else row.value.values()
        text = "\n".join(str(value) for value in whole if value is not None)
        return RedactedRow(row, self, reading.slots, values, text)

    def _of_json(self, row: FileRow) -> RedactedRow:
        reading, trees = BodyTexts(halves=True), []
        try:
            for one in row.value:
                trees.append((self._chosen if self.named else checked)(one, reading, row.place))
        except RecursionError:
            row = row._replace(problem=f"{row.place}: JSON that is nested too deep to be read")
        except ValueError as error:
            row = row._replace(problem=str(error))
        return RedactedRow(row, self, [] if row.problem else reading.slots, trees, unescaped(row.spelled)[0])

    def _chosen(self, tree: Any, reading: BodyTexts, place: str) -> Any:
        """A record whose keys were chosen, or a list of records."""
        if isinstance(tree, list):
            return [self._chosen(one, reading, place) for one in tree]
        missing = [key for key in self.named if not isinstance(tree, dict) or key not in tree]
        if missing:
            found = ", ".join(tree) if isinstance(tree, dict) else "no object"
            raise ValueError(f"{place}: no {missing[0]!r} (found: {found or 'nothing'})")
        return {key: checked(v, reading, place, key) if key in self.named else v for key, v in tree.items()}

    def masked(self, given: RedactedRow) -> Any:
        """Return what stands in the place of a row whose slots are filled, see `WrittenFile`."""
        if self.form == "json":
            is_changed = any(slot.is_changed for slot in given.slots)
            return respelled(given.row.spelled, given.values) if is_changed else given.row.spelled
        results = [value.result if isinstance(value, Slot) else value for value in given.values]
        return results[0] if given.row.is_line else dict(zip(self.columns, results, strict=True))


@dataclass
class RedactionJob:
    """Work of one command.

    Attributes:
        files: What is read, in order.
        in_folder: Whether a file that cannot be read is left out; else it ends the work.
        same: Whether a name has the same mask in all rows.
        keep_going: Whether a row that cannot be read is left out; else it ends the file.
        rows: How many were written.
        problems: How many were left out.
        failed: What is wrong with files that could not be read, by their number.
        labels: How many names of each label were masked.
        notes: How many rows have what there is to say of how files were read.
    """

    checker: Checker
    files: Sequence[GivenFile]
    in_folder: bool
    same: bool
    keep_going: bool
    quiet: bool
    rows: int = 0
    problems: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    labels: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    _masks: Masks | None = None

    @property
    def figures(self) -> dict[str, Any]:
        """Counts of what was done, for --json."""
        counted = self.checker.counted
        found = {"files": len(self.files) - len(self.failed), "rows": self.rows, "left_out": self.problems}
        found |= {"words": counted.words, "masked": counted.masked, "share": round(counted.share, 4)}
        return found | {"labels": dict(self.labels)}

    def read(self) -> Iterator[RedactedRow]:
        """The rows of all files; one that cannot be read ends those of its file where it is not left out."""
        for file in self.files:
            try:
                for row in file.texts():
                    if row.row.problem and not self.keep_going:
                        raise ValueError(row.row.problem)
                    yield row
            except (ValueError, OSError) as error:
                if not self.in_folder:
                    raise
                yield RedactedRow(FileRow(str(file.file.path), None, problem=_said(error)), file, ends=True)

    def find(self, rows: list[RedactedRow]) -> AnsweredRows:
        """Lines of the names in the texts of rows, see `FoundLines`."""
        found = [row.row.problem if row.ends else regions for row, regions in self._found(rows)]
        said = [f"{as_json([row.file.number, regions])}\n" for row, regions in zip(rows, found, strict=True)]
        return AnsweredRows(said, _problems(rows))

    def mask(self, rows: list[RedactedRow]) -> AnsweredRows:
        """The rows of the one file as they are written."""
        filled = ((row, self._fill(row, regions)) for row, regions in self._found(rows))
        lines = [self.files[0].line(row.row, new) for row, new in filled if new is not None]
        return AnsweredRows(lines, _problems(rows))

    def _found(self, rows: list[RedactedRow]) -> list[tuple[RedactedRow, list[Any] | None]]:
        """Rows with the places and labels of names in their texts; `None` for those that cannot be read."""
        regions = iter(self.checker.regions([slot for row in rows for slot in row.slots]))
        found = [(row, [*islice(regions, len(row.slots))]) for row in rows]
        return [
            (row, None if row.row.problem else [[(r.start, r.end, r.label) for r in slot] for slot in own])
            for row, own in found
        ]

    def print(self, errors: Path | None, overwrite: bool) -> None:
        """Write the one file to standard output, row by row."""
        (file,) = self.files
        self._reserve()
        frame, bar = AnswerFrame(head=file.head), self._bar(None if not sys.stdout.isatty() else False)
        out = sys.stdout.buffer
        with bar, printing(lambda: bar.done, errors, overwrite, lambda text: out.write(text.encode()), frame) as sink:
            for _ in run_job(self.read(), _batches, self.mask, sink, bar):
                pass
            frame.end = file.rest
        self.notes.update(one.what for one in file.notes)

    def write(
        self, out: Path, targets: Sequence[Path], key: str, errors: Path | None, resume: bool, overwrite: bool
    ) -> None:
        """Write all files: `out`, or `targets` in it."""

        def make(part: Path, made: Path) -> None:
            self._reserve()
            self.failed = {number: found for number, found in _read_lines(part) if isinstance(found, str)}
            lines = FoundLines(line for line in _read_lines(part) if line[0] not in self.failed)
            for file, target in zip(self.files, targets, strict=True):
                if file.number in self.failed:
                    continue
                place = made / target if self.in_folder else made
                place.parent.mkdir(parents=True, exist_ok=True)
                file.write(self._again(file, lines), place)
                self.notes.update(one.what for one in file.notes)

        how: Any = {"errors": errors, "resume": resume, "overwrite": overwrite, "table": make}
        with self._bar(None) as bar, grow(out, key, **how) as growing:
            for _ in run_job(self.read(), _batches, self.find, growing, bar):
                pass
        files = f"{len(self.files) - len(self.failed):,} files, " if self.in_folder else ""
        print(f"{out}: {files}{self.rows:,} rows", file=sys.stderr)

    def _again(self, file: GivenFile, lines: "FoundLines") -> Iterator[tuple[FileRow, Any]]:
        """The rows of a file, each with what stands in its place."""
        for row in file.texts():
            found = lines.next(file.number)
            if found is None or (found[1] is None) != bool(row.row.problem):
                raise ValueError(f"{file.file.path}: {CHANGED}")
            if (new := self._fill(row, found[1])) is not None:
                yield row.row, new
        if lines.next(file.number) is not None:
            raise ValueError(f"{file.file.path}: {CHANGED}")

    def _fill(self, row: RedactedRow, found: list[Any] | None) -> Any:
        """Return what stands in the place of a row, by the names in its texts; `None` for one that cannot be read."""
        if found is None:
            self.problems += 1
            return None
        self._masks = self._masks if self.same and self._masks else self._new_masks()
        self._masks.reserve(row.whole)
        regions = [[Region(start, end, label, None) for start, end, label in slot] for slot in found]
        self.checker.fill(row.slots, self._masks, regions=regions)
        self.labels.update(redaction.label for slot in row.slots for redaction in slot.redactions)
        self.rows += 1
        return row.file.masked(row)

    def _reserve(self) -> None:
        """Give no name a mask that stands somewhere in a file, where all rows have the same ones."""
        if self.same:
            self._masks = self._new_masks()
            for row in self.read():
                self._masks.reserve(row.whole)

    def _new_masks(self) -> Masks:
        return Masks(self.checker.tagger.types)

    def _bar(self, shown: bool | None) -> Progress:
        total = None
        if not self.quiet and shown is not False:
            with suppress(ValueError, OSError):  # which is said when its row is read
                total = sum(1 for _ in self.read())
        return Progress("redacting", "rows", total=total, shown=False if self.quiet else shown)


class FoundLines:
    """Lines of what was found: the number of the file, and of each slot of a row the names, or what is wrong."""

    def __init__(self, lines: Iterator[Any]) -> None:
        self._rest, self._line = lines, next(lines, None)

    def next(self, number: int) -> Any:
        """The next line of a file, or `None`."""
        line = self._line
        if line is None or line[0] != number:
            return None
        self._line = next(self._rest, None)
        return line


def _read_lines(part: Path) -> Iterator[Any]:
    with part.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _batches(rows: Iterator[RedactedRow]) -> Iterator[list[RedactedRow]]:
    return iter(lambda: list(islice(rows, ROWS_AT_ONCE)), [])


def _problems(rows: Iterable[RedactedRow]) -> list[dict[str, str]]:
    return [row.row.to_problem() for row in rows if row.row.problem]


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
