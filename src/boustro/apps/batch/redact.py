"""`boustro redact`: a text, a table, JSON or a folder of them, with masks for names and all else as it was.

    message;amount              →    message;amount
    "Ada met Okonkwo";7              "[PERSON_1] met [PERSON_2]";7

A row is a line of text, a row of a table or a value of JSON. The same name has the same mask in a row, and where that
is asked for in all that one command reads. Of a table the columns that are named are read, of JSON all values, to any
depth (`live.structured`), or those under the keys that are named.

A file is read twice. First the tagger finds names, which takes long: `growing` keeps their places, and no text, so that
an interrupted run goes on. Then all is written at once (`text.written`), for the masks depend on the rows before.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from boustro.apps.batch.masked import GivenFile, RedactionJob, form_with
from boustro.apps.batch.models import Opened, OpenedFolder, OpenedModel
from boustro.apps.live.structured import Checker
from boustro.names import LANGUAGES_TAGGER, NAMES, SHIPPED_TAGGER
from boustro.options import OptionError, Positional, Share, check_options
from boustro.output import check_output, check_target, give, only_errors, print_notices
from boustro.store import fingerprint
from boustro.text.documents import OPENERS, STANDARD_INPUT, is_stream, open_binary
from boustro.text.files import IN_COLUMNS, TABULAR, DataFile
from boustro.text.languages import MOST_TEXTS, names_tagger
from boustro.text.places import Model, TextSource, shown_files
from boustro.text.rows import file_ending

PROBLEMS = "rows that could not be read, left out"
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
    types: str | None = None
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
        if self.types is not None and (self.model is not None or self.labels):
            raise OptionError(f"--types stands in place of --{'labels' if self.labels else 'model'}; give one of them")
        if self.labels and not self.named:
            raise OptionError("--labels names no label, such as PERSON,PLACE")

    @property
    def named(self) -> list[str]:
        """The labels, also those with commas between them."""
        return [name.strip() for word in self.labels for name in word.split(",") if name.strip()]

    @property
    def least(self) -> float | None:
        """The threshold, by default that of the tagger."""
        return 1.0 if self.types is not None and self.threshold is None else self.threshold


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
    if out is None and (is_folder or given.form() in ("sheet", "columns")):
        raise OptionError(f"{source}: name what to write with --out")
    if asked.resume and given.is_stream:
        raise OptionError("--resume reads its file again, which a stream does not allow; name a file")
    with only_errors(asked.quiet), _on_disk(given) as given:
        pairs = _in_folder(path, out) if is_folder and out is not None else [(given, out)]
        for file, target in pairs:
            _check(file, target, asked.overwrite, is_folder)
        if errors is not None and not asked.resume:
            check_target(errors, asked.overwrite, "--errors")
        if asked.text_column and not is_folder and form_with(given, asked.text_column) == "text":
            raise OptionError(f"{source}: lines of text have no columns; remove --text-column")
        opened, files = _opened(asked, [file for file, _ in pairs], _shown(path), is_folder)
        place = str(opened.folder) if isinstance(opened, OpenedFolder) else ""
        checker = Checker(place or opened.open(), asked.named or None, asked.with_, threshold=asked.least)
        work = RedactionJob(checker, files, is_folder, asked.same_everywhere, errors is not None, asked.quiet)
        if out is None:
            work.print(errors, asked.overwrite)
        else:
            facts = [sorted(checker.labels), getattr(checker.tagger, "threshold", None), asked.text_column]
            facts += [[file.name for file, _ in pairs], is_folder and errors is None]
            targets = [target.relative_to(out) if is_folder and target else Path() for _, target in pairs]
            work.write(out, targets, fingerprint(opened.fingerprint, facts), errors, asked.resume, asked.overwrite)
        _say_done(work, place, bool(asked.named) or asked.threshold is not None)
    give(work.figures, asked.json, lambda: None, indent=1)
    if work.failed:
        for said in work.failed.values():
            print(f"boustro: {said}", file=sys.stderr)
        what = f"{len(work.failed):,} of {len(files):,} files could not be read and are not in {out}"
        raise ValueError(f"{what}; mend them, and redact each with an --out of its own")


def _opened(
    asked: RedactOptions, files: Sequence[DataFile], shown: str, in_folder: bool
) -> tuple[Opened, list[GivenFile]]:
    """The tagger, and the files as it reads them."""
    from boustro.tasks.tagger import Tagger

    opened: Opened = OpenedFolder(asked.model or Path(SHIPPED_TAGGER))
    if asked.types is not None:
        opened = OpenedModel(Tagger.from_labels(asked.types))
    kept = tuple(opened.kept_columns.get("text_column", ()))
    given = [GivenFile(file, number, asked.text_column, kept, shown) for number, file in enumerate(files)]
    for file in given:
        file.check(in_folder)
    if asked.model is None and asked.types is None:
        opened = OpenedFolder(_suited_to(given))
    return opened, given


def _say_done(work: RedactionJob, place: str, changed: bool) -> None:
    """Print what was noted, and what a tagger misses; `changed` says that it was not asked as by default."""
    print_notices(work.notes + Counter({PROBLEMS: work.problems}))
    print(f"note: {work.checker.counted}", file=sys.stderr)
    missed = MISSED.get(place, MISSED_BY_OWN)
    print(f"note: {MISSED_BY_OPTIONS if changed and missed != MISSED_BY_OWN else missed}", file=sys.stderr)


def _suited_to(files: Iterable[GivenFile]) -> Path:
    """The tagger where nobody names one, by the languages of the first texts."""
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
    """A file; of a stream a copy, which is read as any file whose name says nothing, and twice."""
    if not file.is_stream:
        yield file
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "stream"
        with open_binary(file.path) as stream, copy.open("wb") as made:
            shutil.copyfileobj(stream, made)
        try:
            yield DataFile(copy, keeps=True)
        except ValueError as error:
            kind = OptionError if isinstance(error, OptionError) else ValueError
            raise kind(str(error).replace(str(copy), _shown(file.path))) from None


def _shown(path: Path) -> str:
    """How a stream is called in messages; nothing for a file."""
    return "" if not is_stream(str(path)) else "standard input" if path == STANDARD_INPUT else str(path)


def _in_folder(folder: Path, out: Path) -> list[tuple[DataFile, Path | None]]:
    """The files of a folder, without hidden ones, and where each is written."""
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
    """The name without the ending of a compressed file: what is written is not compressed."""
    return name.with_suffix("") if name.suffix.lower() in OPENERS else name


def _check(file: DataFile, out: Path | None, overwrite: bool, in_folder: bool) -> None:
    """Raise for what cannot be read or written, before the work."""
    form = file.form()
    if form in IN_COLUMNS and not in_folder:
        raise ValueError(f"{file.name}: words in columns, and texts, tables or JSON are redacted")
    if out is not None:
        expected, ending = file_ending(file.path), out.suffix.lower()
        if ending in OPENERS or (form in TABULAR and expected and ending != expected):
            raise OptionError(f"--out {out}: it is of the same kind as {file.name}; end it in {expected or '.txt'}")
        check_target(out, overwrite, "--out")
