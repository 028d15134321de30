"""`boustro redact`: a text, a table, JSON or a folder of them, with masks for names and all else as it was.

    message;amount              →    message;amount
    "Ada met Okonkwo";7              "[PERSON_1] met [PERSON_2]";7

A row is a line of text, a row of a table or a value of JSON. The same name has the same mask in a row, and where that
is asked for in all that one command reads. Of a table the columns that are named are read, of JSON all values, to any
depth (`live.structured`), or those under the keys that are named.

A file is read twice. First the tagger finds names, which takes long: `growing` keeps their places, and no text, so that
an interrupted run goes on. Then all is written at once (`text.written`), for the masks depend on the rows before.
"""

import json as json_module
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from boustro.apps.batch.growing import AnswerFrame, check_growing, grow
from boustro.apps.batch.job import AnsweredRows, printing, run_job
from boustro.apps.batch.models import Opened, OpenedFolder, OpenedModel
from boustro.apps.live.masks import Masks, Region, TooManyNames
from boustro.apps.live.redacted import GivenFile, RedactedRow, form_with
from boustro.apps.live.structured import Checker
from boustro.errors import count_of, of_system
from boustro.names import LANGUAGES_TAGGER, NAMES, SHIPPED_TAGGER
from boustro.options import AS_GIVEN, OptionError, Positional, Share, check_options
from boustro.output import as_json, check_output, check_target, give, only_errors, print_notices
from boustro.progress import Progress
from boustro.store import fingerprint
from boustro.text.documents import OPENERS, STANDARD_INPUT, is_stream, open_binary
from boustro.text.files import IN_COLUMNS, TABULAR, DataFile, Form
from boustro.text.languages import MOST_TEXTS, names_tagger
from boustro.text.places import Model, TextSource, kind_of_file, shown_files
from boustro.text.rows import JSON, JSON_LINES, TABLES, WORKBOOKS, file_ending
from boustro.text.separated import SEPARATED_BY
from boustro.text.tables import FileRow

FORM_OF_ENDING: dict[str, Form] = {
    **dict.fromkeys(SEPARATED_BY, "separated"),
    **dict.fromkeys((*JSON_LINES, JSON), "json"),
    **dict.fromkeys(TABLES, "columns"),
    **dict.fromkeys(WORKBOOKS, "sheet"),
}
"""Forms of the files that are written, by the endings of their names."""
ROWS_AT_ONCE = 256
"""Rows whose texts a tagger reads at once."""
CHANGED = "was changed while it was read; --overwrite starts again"
UNREADABLE_ROWS = "rows that could not be read, left out"
MASKS_ANEW = (
    "masks begin anew in each line, so {mask} may be another name in another line; --same-everywhere gives a name one "
    "mask in all lines"
)
MISSED = {
    SHIPPED_TAGGER: "what is not found stays: of 100 words of persons, places and organisations the tagger of the "
    "package masks 99 in news, 95 in users' messages and 97 in articles on politics, all in English. It knows names "
    "alone, no numbers or addresses; read some before you share it",
    LANGUAGES_TAGGER: "what is not found stays: of 100 words of persons and places the tagger of "
    "many languages masks 98 in German, 97 in Spanish, 96 in Swahili, 95 in Ukrainian and 85 in Hungarian. "
    "It knows names alone, no numbers or addresses; read some before you share it",
}
MISSED[NAMES] = MISSED[SHIPPED_TAGGER]
MISSED_BY_OWN = (
    "what the tagger does not find stays; boustro evaluate says how much that is. Read some before you share it"
)
MISSED_BY_OPTIONS = (
    "what is not found stays; what is missed by default, see: boustro help redaction. Read some before you share it"
)


@dataclass(frozen=True, kw_only=True)
class RedactOptions:
    """Options of `boustro redact`."""

    out: Path | None = None
    """File to write, of the same kind; of a folder, a new folder. By default standard output."""
    text_column: tuple[str, ...] = ()
    """Columns of a table, or keys of JSON, in which names are masked; lines of text in a folder are read whole. By
    default the column text or sentence of a table, and everything in JSON."""
    labels: tuple[str, ...] = ()
    """Labels of the names that are masked, such as PERSON,PLACE. By default all that the tagger has; of that of the
    package PERSON,PLACE,ORGANISATION, and OTHER where it is named too."""
    types: Annotated[tuple[str, ...], AS_GIVEN] = ()
    """Names of types, in place of a model, such as politician,"law: an act or a treaty": names in English that are of
    these types are masked; by default with --threshold 1."""
    threshold: Share | None = None
    """Mask every word that is in such a name with at least this probability, 0 to 1, such as 0.2: a higher one masks
    fewer words, 1 what the tagger finds and no more. For taggers whose words have probabilities: all but those with a
    span head."""
    with_: Literal["mask", "label"] = "mask"
    """mask ([PERSON_1], the same for the same name) or label ([PERSON])."""
    model: Model | None = None
    """A tagger's folder. By default that of the package, which knows persons, places and organisations in English;
    where 10% of the texts are in another language languages-names, if boustro[languages] is installed."""
    same_everywhere: bool = False
    """Give a name the same mask in all rows, and in all files of a folder; by default in a row."""
    resume: bool = False
    """Go on where an interrupted or killed run that wrote --out was."""
    overwrite: bool = False
    """Replace files that exist at --out and --errors, and start unfinished work again unless --resume is given too."""
    errors: Path | None = None
    """Write the rows that cannot be read to this file, as JSON lines, and go on without them. By default the first ends
    the run; of a folder the file that has it is left out."""
    json: Path | None = None
    """Write what was done to this file (- for standard output)."""
    quiet: bool = False
    """Write nothing to standard error except errors."""

    def __post_init__(self) -> None:
        check_options(self)
        check_output(self.json)
        if self.out is None and self.json is not None and str(self.json) == "-":
            raise OptionError("--json - and the text would both be on standard output; name a file for one of them")
        if self.resume and self.out is None:
            raise OptionError("--resume needs --out, the file to write")
        if self.types and (self.model is not None or self.labels):
            raise OptionError(f"--types stands in place of --{'labels' if self.labels else 'model'}; give one of them")

    @property
    def least(self) -> float | None:
        """The threshold, by default that of the tagger."""
        return 1.0 if self.types and self.threshold is None else self.threshold


DEFAULT_REDACT = RedactOptions()


def redact(source: Positional[TextSource] = "-", redaction: RedactOptions = DEFAULT_REDACT) -> None:
    """Mask the names in a text, a table, JSON or a folder of such files, before they are shared.

    Args:
        source: A file of lines of text, a table (.csv, .tsv, .xlsx, .parquet, .arrow), JSON or JSON lines, a folder of
            such files, or - for standard input. Compressed files are read too.
    """
    check_options(redact, locals())
    asked, out, errors = redaction, redaction.out, redaction.errors
    path, is_folder, given = Path(source), source != "-" and Path(source).is_dir(), DataFile(source, keeps=True)
    if not is_folder:
        given.check()
    if asked.resume and given.is_stream:
        raise OptionError("--resume reads its file again, which a stream does not allow; name a file")
    with only_errors(asked.quiet), _on_disk(given) as given:
        if out is None and (is_folder or given.form() in ("sheet", "columns")):
            raise OptionError(f"{source}: name what to write with --out")
        pairs = _in_folder(path, out) if is_folder and out is not None else [(given, out)]
        for file, target in pairs:
            _check(file, target, asked, is_folder)
        if errors is not None and not asked.resume:
            check_target(errors, asked.overwrite, "--errors")
        if asked.text_column and not is_folder and form_with(given, asked.text_column) == "text":
            raise OptionError(f"{source}: lines of text have no columns; remove --text-column")
        opened, files = _opened(asked, [file for file, _ in pairs], _shown(path), is_folder)
        place = str(opened.folder) if isinstance(opened, OpenedFolder) else ""
        checker = Checker(place or opened.open(), [*asked.labels] or None, asked.with_, threshold=asked.least)
        work = RedactionJob(checker, files, is_folder, asked.same_everywhere, errors is not None, asked.quiet)
        try:
            if out is None:
                work.print(errors, asked.overwrite)
            else:
                facts = [sorted(checker.labels), getattr(checker.tagger, "threshold", None), asked.text_column]
                facts += [[file.name for file, _ in pairs], is_folder and errors is None]
                targets = [target.relative_to(out) if is_folder and target else Path() for _, target in pairs]
                work.write(out, targets, fingerprint(opened.fingerprint, facts), errors, asked.resume, asked.overwrite)
        except TooManyNames as error:  # anew, without the advice to go on: the same command would end in the same way
            raise ValueError(f"{error}; leave out --same-everywhere") from None
        print_notices(work.notes + Counter({UNREADABLE_ROWS: work.problems}))
        if work.repeated:
            print(f"note: {MASKS_ANEW.format(mask=work.repeated)}", file=sys.stderr)
        print(f"note: {checker.counted}", file=sys.stderr)
        missed, changed = MISSED.get(place, MISSED_BY_OWN), bool(asked.labels) or asked.threshold is not None
        print(f"note: {MISSED_BY_OPTIONS if changed and missed != MISSED_BY_OWN else missed}", file=sys.stderr)
    give(work.figures, asked.json, lambda: None, indent=1)
    if work.failed:
        for said in work.failed.values():
            print(f"boustro: {said}", file=sys.stderr)
        what = f"{len(work.failed):,} of {len(files):,} files could not be read and are not in {out}"
        raise ValueError(f"{what}; mend them, and redact each with an --out of its own")


def _opened(
    asked: RedactOptions, files: Sequence[DataFile], shown: str, in_folder: bool
) -> tuple[Opened, list[GivenFile]]:
    """Return the tagger, and the files as it reads them."""
    from boustro.tasks.tagger import Tagger

    opened: Opened = OpenedFolder(asked.model or Path(SHIPPED_TAGGER))
    if asked.types:
        from boustro.tasks.label_names import told_labels

        opened = OpenedModel(Tagger.from_labels(told_labels(asked.types, "types")))
    kept = tuple(opened.kept_columns.get("text_column", ()))
    given = [GivenFile(file, number, asked.text_column, kept, shown) for number, file in enumerate(files)]
    for file in given:
        file.check(in_folder)
    if asked.model is None and not asked.types:
        opened = OpenedFolder(_suited_to(given))
    return opened, given


def _suited_to(files: Iterable[GivenFile]) -> Path:
    """Return the tagger where nobody names one, by the languages of the first texts."""
    texts = list[str]()
    for file in files:
        with suppress(ValueError, OSError):  # which is said when its row is read
            slots = (slot.text for row in file.texts() for slot in row.slots)
            said = (text for text in slots if not text.isascii() or len(text.split()) > 1)  # codes say nothing
            texts += islice(said, MOST_TEXTS - len(texts))
    tagger, notices = names_tagger(texts)
    if tagger == LANGUAGES_TAGGER:
        print_notices(notices)  # else the tagger says it
    return Path(tagger)


@contextmanager
def _on_disk(file: DataFile) -> Iterator[DataFile]:
    """Yield a file; of a stream a copy, which is read as any file whose name says nothing, and twice."""
    if not file.is_stream:
        yield file
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "stream"
        with open_binary(file.path) as stream, copy.open("wb") as made:
            shutil.copyfileobj(stream, made)
        if "workbook" in (kind_of_file(copy) or ""):
            copy = copy.rename(copy.with_suffix(WORKBOOKS[0]))
        try:
            yield DataFile(copy, keeps=True)
        except (ValueError, ImportError) as error:
            kind = next(one for one in (OptionError, ImportError, ValueError) if isinstance(error, one))
            raise kind(str(error).replace(str(copy), _shown(file.path))) from None


def _shown(path: Path) -> str:
    """Return how a stream is called in messages; nothing for a file."""
    return "" if not is_stream(str(path)) else "standard input" if path == STANDARD_INPUT else str(path)


def _in_folder(folder: Path, out: Path) -> list[tuple[DataFile, Path | None]]:
    """Return the files of a folder, without hidden ones, and where each is written."""
    names = shown_files(folder)
    pairs: list[tuple[DataFile, Path | None]] = [(DataFile(folder / name), out / _plain(name)) for name in names]
    seen: dict[Path | None, DataFile] = {}
    for file, target in pairs:
        if (other := seen.setdefault(target, file)) != file:
            raise ValueError(
                f"{folder}: {other.path.name} and {file.path.name} would both be written to {target}; rename one"
            )
    return pairs


def _plain(name: Path) -> Path:
    """Return the name without the ending of a compressed file: what is written is not compressed."""
    return name.with_suffix("") if name.suffix.lower() in OPENERS else name


def _check(file: DataFile, out: Path | None, asked: RedactOptions, in_folder: bool) -> None:
    """Raise for what cannot be read or written, before the work."""
    form = form_with(file, asked.text_column)
    if form in IN_COLUMNS and not in_folder:
        raise ValueError(f"{file.name}: words in columns, and texts, tables or JSON are redacted")
    if out is not None:
        expected, ending = file_ending(file.path), out.suffix.lower()
        other = FORM_OF_ENDING.get(ending, form) != form or (form in TABULAR and expected and ending != expected)
        if ending in OPENERS or other:
            usual = next((end for end, own in FORM_OF_ENDING.items() if own == form), ".txt")
            raise OptionError(f"--out {out}: it is of the same kind as {file.name}; end it in {expected or usual}")
        check_growing(out, asked.resume, asked.overwrite, asked.out)


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
        repeated: A mask that two lines of text have, each for itself; "" where there is none.
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
    repeated: str = ""
    _masks: Masks | None = None
    _of_lines: set[str] = field(default_factory=set)

    @property
    def figures(self) -> dict[str, Any]:
        """Counts of what was done, for --json."""
        counted = self.checker.counted
        found = {"files": len(self.files) - len(self.failed), "rows": self.rows, "left_out": self.problems}
        found |= {"words": counted.words, "masked": counted.masked, "share": round(counted.share, 4)}
        return found | {"labels": dict(self.labels)}

    def read(self) -> Iterator[RedactedRow]:
        """Yield the rows of all files; one that cannot be read ends those of its file where it is not left out."""
        for file in self.files:
            try:
                for row in file.texts():
                    if row.row.problem and not self.keep_going:
                        raise ValueError(row.row.problem)
                    yield row
            except (ValueError, OSError) as error:
                if not self.in_folder:
                    raise
                yield RedactedRow(
                    FileRow(str(file.file.path), None, problem=of_system(error) or str(error)), file, is_end=True
                )

    def find(self, rows: list[RedactedRow]) -> AnsweredRows:
        """Lines of the names in the texts of rows, see `FoundLines`."""
        found = []
        for row, regions in self._found(rows):
            found.append(row.row.problem if row.is_end else regions)
            if self.same and self.checker.write == "mask":  # too many names end the work here, not behind it
                self._masks = self._masks or Masks(self.checker.tagger.types)
                for slot, own in zip(row.slots, regions or (), strict=False):
                    for start, end, label in own:
                        self._masks.mask(label, slot.text[start:end])
        said = [f"{as_json([row.file.number, regions])}\n" for row, regions in zip(rows, found, strict=True)]
        return AnsweredRows(said, _problems(rows))

    def mask(self, rows: list[RedactedRow]) -> AnsweredRows:
        """Return the rows of the one file as they are written."""
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
        files = f"{count_of(len(self.files) - len(self.failed), 'files')}, " if self.in_folder else ""
        print(f"{out}: {files}{count_of(self.rows, 'rows')}", file=sys.stderr)

    def _again(self, file: GivenFile, lines: "FoundLines") -> Iterator[tuple[FileRow, Any]]:
        """Yield the rows of a file, each with what stands in its place."""
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
        regions = [[Region(start, end, label, None) for start, end, label in slot] for slot in found]
        for start, end in pairwise([0, *row.ends, len(row.slots)]):
            self._masks = self._masks if self.same and self._masks else Masks(self.checker.tagger.types)
            self._masks.reserve(row.whole)
            self.checker.fill(row.slots[start:end], self._masks, regions=regions[start:end])
        redactions = [redaction for slot in row.slots for redaction in slot.redactions]
        self.labels.update(redaction.label for redaction in redactions)
        if row.row.is_line and not self.same and self.checker.write == "mask":
            own = {redaction.written for redaction in redactions}
            self.repeated = self.repeated or min(own & self._of_lines, default="")
            self._of_lines |= own
        self.rows += len(row.ends) or 1
        return row.file.masked(row)

    def _reserve(self) -> None:
        """Give no name a mask that stands somewhere in a file, where all rows have the same ones."""
        if self.same:
            self._masks = Masks(self.checker.tagger.types)
            for row in self.read():
                self._masks.reserve(row.whole)

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
        """Return the next line of a file, or `None`."""
        line = self._line
        if line is None or line[0] != number:
            return None
        self._line = next(self._rest, None)
        return line


def _read_lines(part: Path) -> Iterator[Any]:
    with part.open(encoding="utf-8") as file:
        yield from map(json_module.loads, file)


def _batches(rows: Iterator[RedactedRow]) -> Iterator[list[RedactedRow]]:
    return iter(lambda: list(islice(rows, ROWS_AT_ONCE)), [])


def _problems(rows: Iterable[RedactedRow]) -> list[dict[str, str]]:
    return [row.row.to_problem() for row in rows if row.row.problem]
