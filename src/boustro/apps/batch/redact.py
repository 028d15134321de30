"""`boustro redact`: a text, a table, JSON or a folder of them, with masks for names and all else as it was.

    message;amount              →    message;amount
    "Ada met Okonkwo";7              "[PERSON_1] met [PERSON_2]";7

A row is a line of text, a row of a table or a value of JSON. The same name has the same mask in a row, and where that
is asked for in all that one command reads. Of a table the columns that are named are read, of JSON all values, to any
depth (`live.structured`), or those under the keys that are named. A CSV file keeps its separator, line ends and byte
order mark, a workbook the values and formats of its first sheet, a parquet or Arrow file its types and other columns.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Literal

from boustro.locks import lock, real_path, staging_path, sweep, sync
from boustro.names import SHIPPED_TAGGER
from boustro.options import OptionError, Positional
from boustro.output import check_output, check_target, give, only_errors, print_notices
from boustro.tasks import kept_columns
from boustro.tasks.data.named import no_column
from boustro.tasks.data.reading import TEXT_KEYS
from boustro.text.columnar import write_columns
from boustro.text.documents import (
    BYTE_ORDER_MARK,
    OPENERS,
    STANDARD_INPUT,
    EndedLine,
    is_stream,
    open_binary,
    read_ended,
)
from boustro.text.files import IN_COLUMNS, Form, Rows, TableRow, form_of, open_rows
from boustro.text.places import Model, TextSource
from boustro.text.rows import JSON, file_ending, is_whole, json_rows, parse_json
from boustro.text.separated import LINE_END, in_quotes
from boustro.text.workbooks import write_sheet
from boustro.types import Note

ROWS_AT_ONCE = 256
"""Rows whose texts a tagger reads at once."""
MISSED = (
    "what is not found stays: of 100 words in names the tagger of the package masks 99 in news, 93 in users' messages "
    "and 85 in articles on politics, all in English. It knows names alone, no numbers or addresses; read some "
    "before you share it"
)
MISSED_BY_OWN = (
    "what the tagger does not find stays; boustro evaluate says how much that is. Read some before you share it"
)


def redact(
    source: Positional[TextSource] = "-",
    out: Path | None = None,
    text_column: tuple[str, ...] = (),
    with_: Literal["mask", "label"] = "mask",
    model: Model = Path(SHIPPED_TAGGER),
    same_everywhere: bool = False,
    overwrite: bool = False,
    json: Path | None = None,
    quiet: bool = False,
) -> None:
    """Mask the names in a text, a table, JSON or a folder of such files, before they are shared.

    Args:
        source: A file of lines of text, a table (.csv, .tsv, .xlsx, .parquet, .arrow), JSON or JSON lines, a folder of
            such files, or - for standard input. Compressed files are read too.
        out: File to write, of the same kind; of a folder, a new folder. By default standard output.
        text_column: Columns of a table, or keys of JSON, in which names are masked; lines of text in a folder are
            read whole. By default the column text or sentence of a table, and everything in JSON.
        with_: mask ([PERSON_1], the same for the same name) or label ([PERSON]).
        model: A tagger's folder. By default that of the package, which knows persons, places and organisations.
        same_everywhere: Give a name the same mask in all rows, and in all files of a folder; by default in a row.
        overwrite: Replace files that exist.
        json: Write what was done to this file (- for standard output).
        quiet: Write nothing to standard error except errors.
    """
    check_output(json)
    path, is_folder = Path(source), source != "-" and Path(source).is_dir()
    if out is None and (is_folder or (path.is_file() and form_of(path) in ("sheet", "columns"))):
        raise OptionError(f"{source}: name what to write with --out")
    if out is None and json is not None and str(json) == "-":
        raise OptionError("--json - and the text would both be on standard output; name a file for one of them")
    with only_errors(quiet), _on_disk(path) as given:
        if is_folder:
            assert out is not None
            pairs = _in_folder(path, out)
        else:
            pairs = [(given, out)]
        for file, target in pairs:
            _check(file, target, overwrite)
        if text_column and not is_folder and _form_with(given, text_column) == "text":
            raise OptionError(f"{source}: lines of text have no columns; remove --text-column")
        from boustro.apps.live.structured import Checker

        kept = kept_columns(model).get("text_column", ())
        work = FileRedaction(Checker(str(model), write=with_), text_column, same_everywhere, tuple(kept))
        for file, _ in pairs:
            work.check_columns(file)
        for file, _ in pairs if same_everywhere else ():
            work.reserve(file)
        for file, target in pairs:
            work.redact(file, target)
        print_notices(Counter(note.what for note in work.notes))
        print(f"note: {work.checker.counted}", file=sys.stderr)
        print(f"note: {MISSED if str(model) in (SHIPPED_TAGGER, 'names') else MISSED_BY_OWN}", file=sys.stderr)
        counted = work.checker.counted
        figures = {"files": len(pairs), "rows": work.rows, "words": counted.words, "masked": counted.masked}
        figures |= {"share": round(counted.share, 4), "labels": dict(work.labels)}
        give(figures, json, lambda: None, indent=1)


@contextmanager
def _on_disk(path: Path) -> Iterator[Path]:
    """A file; of a stream a copy, which is read as any file whose name says nothing, and twice where that is needed."""
    if not is_stream(str(path)):
        yield path
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "stream"
        with open_binary(path) as stream, copy.open("wb") as made:
            shutil.copyfileobj(stream, made)
        try:
            yield copy
        except ValueError as error:
            shown = "standard input" if path == STANDARD_INPUT else str(path)
            kind = OptionError if isinstance(error, OptionError) else ValueError
            raise kind(str(error).replace(str(copy), shown)) from None


def _form_with(path: Path, columns: Sequence[str]) -> Form:
    """Find what a file is; one whose name says nothing, and whose first line has these columns, is a table."""
    form = form_of(path) if path.is_file() else "text"
    if form == "text" and columns and not file_ending(path):
        with suppress(ValueError):
            form = "separated" if {*columns} <= {*open_rows(path, "separated", notes=[]).keys} else form
    return form


def _in_folder(folder: Path, out: Path) -> list[tuple[Path, Path | None]]:
    """The files of a folder, without hidden ones, and where each is written."""
    inside = ((p, p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file())
    shown = [(p, name) for p, name in inside if not any(part.startswith(".") for part in name.parts)]
    pairs: list[tuple[Path, Path | None]] = [(p, out / _plain(name)) for p, name in shown]
    if not pairs:
        raise ValueError(f"{folder}: the folder holds no file")
    return pairs


def _plain(name: Path) -> Path:
    """The name without the ending of a compressed file: what is written is not compressed."""
    return name.with_suffix("") if name.suffix.lower() in OPENERS else name


def _check(file: Path, out: Path | None, overwrite: bool) -> None:
    """Raise for what cannot be read or written, before the work."""
    form = form_of(file) if file.is_file() else "text"
    if form in IN_COLUMNS:
        raise ValueError(f"{file}: words in columns, and texts, tables or JSON are redacted")
    if out is not None:
        expected, ending = file_ending(file), out.suffix.lower()
        if ending in OPENERS or (form in TABLES and expected and ending != expected):
            raise OptionError(f"--out {out}: it is of the same kind as {file}; end it in {expected or '.txt'}")
        check_target(out, overwrite, "--out")


@dataclass
class FileRedaction:
    """Work of one command, file after file.

    Attributes:
        kept: The columns that the folder of the tagger keeps, which are read where they are there.
        rows: How many were read.
        labels: How many names of each label were masked.
        notes: What there is to say of how files were read.
    """

    checker: Any
    columns: tuple[str, ...]
    same: bool
    kept: tuple[str, ...] = ()
    rows: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    notes: list[Note] = field(default_factory=list)
    _masks: Any = None

    def redact(self, file: Path, out: Path | None) -> None:
        """Write a file with masks for names; it is complete or absent."""
        form = _form_with(file, self.columns)
        if form in TABLES:
            table = open_rows(file, form, notes=self.notes)
            columns = self._columns_of(table)
            if rest := [key for key in table.keys if key and key not in columns]:
                left = f"tables with columns that are not read and stay: {', '.join(rest)}"
                self.notes.append(Note(left, str(table.path)))
            with _written(out) as (stream, place):
                TABLES[table.form](self, table, columns, stream, place)
        else:
            with _written(out) as (stream, _):
                for line in self._lines(file, form):
                    stream.write(line.encode())

    def _columns_of(self, table: Rows) -> list[str]:
        found = [key for key in table.keys if key]
        kept = [key for key in self.kept if key in found]
        chosen = [*self.columns] or kept or next(([key] for key in TEXT_KEYS if key in found), [])
        unknown = [name for name in chosen if name not in found]
        if unknown or not chosen:
            raise no_column(str(table.path), unknown[:1] or TEXT_KEYS[:1], (row for _, row in table), found)
        return chosen

    def check_columns(self, file: Path) -> None:
        """`ValueError`, before the work, for a table without the columns in which names are masked."""
        if (form := _form_with(file, self.columns)) in TABLES:
            self._columns_of(open_rows(file, form, notes=[]))

    def reserve(self, file: Path) -> None:
        """Give no name a mask that stands somewhere in a file."""
        form = _form_with(file, self.columns)
        self._masks = self._masks or self._new_masks()
        rows = open_rows(file, form if form in TABLES else "text", notes=[])
        for _, row in rows:
            self._masks.reserve(_unescaped(row) if isinstance(row, str) else _as_text(row.values()))

    def _new_masks(self) -> Any:
        from boustro.apps.live.redactor import Masks

        return Masks(self.checker.tagger.types)

    def texts(self, rows: Iterable[tuple[list[str | None], str]]) -> Iterator[list[Any]]:
        """The texts of each row without names; what is no text stays. Behind them stands all that the row has."""
        from boustro.apps.live.structured import BodyTexts

        def slots(row: tuple[list[str | None], str]) -> tuple[list[Any], str]:
            reading = BodyTexts()
            return [reading.text(v, f"row {self.rows}") if isinstance(v, str) and v else v for v in row[0]], row[1]

        for row, _ in self._filled(map(slots, rows), lambda row: [slot for slot in row[0] if hasattr(slot, "result")]):
            yield [slot.result if hasattr(slot, "result") else slot for slot in row]

    def _filled(self, rows: Iterable[Any], slots_of: Callable[[Any], list[Any]]) -> Iterator[Any]:
        """Rows whose slots have their results; the last value of a row is all of it as a text."""
        rest = iter(rows)
        while some := list(islice(rest, ROWS_AT_ONCE)):
            groups = [slots_of(row) for row in some]
            self.checker.remember([slot for slots in groups for slot in slots])
            for row, slots in zip(some, groups, strict=True):
                self._masks = self._masks if self.same and self._masks else self._new_masks()
                self._masks.reserve(row[-1])
                self.checker.fill(slots, self._masks)
                self.labels.update(r.label for slot in slots for r in slot.redactions)
                self.rows += 1
                yield row

    def _lines(self, file: Path, form: Form) -> Iterator[str]:
        """The lines of a text, or of JSON."""
        one = form == "json" and file_ending(file) == JSON
        if form == "json" and not one:
            one = is_whole(file, next((line.strip() for _, line in open_rows(file, "text") if line.strip()), ""))
        lines = [] if one else read_ended(file, self.notes)
        if one:
            with open_binary(file) as stream:
                try:
                    given = stream.read().decode()
                except UnicodeDecodeError as error:
                    raise ValueError(f"{file}: no UTF-8 at byte {error.start:,} ({error.reason})") from None
            bare = given.removeprefix(BYTE_ORDER_MARK)
            yield given[: len(given) - len(bare)]
            yield from self._json([(str(file), bare, _values(bare, file), "")])
        elif form == "json":
            yield from self._json(map(self._line_of_json, lines, repeat(file)))
        else:
            ends: list[tuple[str, str]] = []

            def texts() -> Iterator[tuple[list[str | None], str]]:
                for line in lines:
                    ends.append((BYTE_ORDER_MARK * line.has_mark, line.end))
                    yield [line.line.removeprefix(BYTE_ORDER_MARK)], line.line

            for (text,), (mark, end) in zip(self.texts(texts()), _popped(ends), strict=False):
                yield f"{mark}{text}{end}"

    @staticmethod
    def _line_of_json(line: EndedLine, file: Path) -> tuple[str, str, list[Any], str]:
        place, given = f"{file}:{line.number}", BYTE_ORDER_MARK * line.has_mark + line.line
        return place, given, [parse_json(line.line, place)] if line.line.strip() else [], line.end

    def _json(self, values: Iterable[tuple[str, str, list[Any], str]]) -> Iterator[str]:
        """JSON, each with its place, the values in it, and what ends it."""
        from boustro.apps.live.structured import BodyTexts, checked, respelled

        def read(row: tuple[str, str, list[Any], str]) -> tuple[Any, list[Any], str, str, str]:
            place, given, values, end = row
            reading = BodyTexts(halves=True)
            try:
                trees = [
                    self._chosen(one, reading, place, checked) if self.columns else checked(one, reading, place)
                    for one in values
                ]
            except RecursionError:
                raise ValueError(f"{place}: JSON that is nested too deep to be read") from None
            return reading, trees, given, end, _unescaped(given)

        for reading, trees, given, end, _ in self._filled(map(read, values), lambda row: row[0].slots):
            is_changed = any(slot.is_changed for slot in reading.slots)
            yield (respelled(given, trees) if is_changed else given) + end

    def _chosen(self, tree: Any, reading: Any, place: str, checked: Callable[..., Any]) -> Any:
        """A record whose keys were chosen, or a list of records."""
        if isinstance(tree, list):
            return [self._chosen(one, reading, place, checked) for one in tree]
        missing = [key for key in self.columns if not isinstance(tree, dict) or key not in tree]
        if missing:
            found = ", ".join(tree) if isinstance(tree, dict) else "no object"
            raise ValueError(f"{place}: no {missing[0]!r} (found: {found or 'nothing'})")
        return {key: checked(v, reading, place, key) if key in self.columns else v for key, v in tree.items()}


def _values(given: str, file: Path) -> list[Any]:
    """JSON that is read as a whole: one value, or several that follow each other."""
    with suppress(ValueError):
        return [parse_json(given, str(file))]
    return [value for _, value in json_rows(file, enumerate(LINE_END.split(given), start=1))]


def _unescaped(given: str) -> str:
    """A text with the letters that its escapes mean."""
    from boustro.apps.live.structured import unescaped

    return unescaped(given)[0]


def _as_text(values: Iterable[Any]) -> str:
    """All that stands in a row."""
    return "\n".join(str(value) for value in values if value is not None)


def _popped(ends: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what stands around each line, once it has been read."""
    while True:
        yield ends.pop(0) if ends else ("", "")


@contextmanager
def _written(out: Path | None) -> Iterator[tuple[IO[bytes], Path]]:
    """A file that has its name once the block ends well, or standard output; and where it is until then."""
    if out is None:
        yield sys.stdout.buffer, Path("-")
        sys.stdout.flush()
        return
    out = real_path(out)
    with lock(out):
        sweep(out)
        made = staging_path(out)
        try:
            with made.open("wb") as stream:
                yield stream, made
            sync(made)
            made.replace(out)
        finally:
            made.unlink(missing_ok=True)
    sync(out.resolve().parent)


def _separated(work: FileRedaction, table: Rows, columns: Sequence[str], stream: IO[bytes], place: Path) -> None:
    dialect = table.output_dialect
    start = BYTE_ORDER_MARK * dialect.has_mark + table.before + (dialect.as_given(table.head) if table.head else "")
    stream.write(start.encode())
    for record in _redacted(work, table, columns):
        row, cells = record.given, [*record.values()]
        assert row is not None
        spelled = [
            was if new in (old, None) else in_quotes(new) if quoted else dialect.spell(new)
            for was, old, quoted, new in zip(row.spelled, row.cells, row.quoted, cells, strict=False)
        ]
        stream.write(f"{record.before}{dialect.separator.join(spelled)}{row.end}".encode())
    stream.write(table.after.encode())


def _sheet(work: FileRedaction, table: Rows, columns: Sequence[str], stream: IO[bytes], place: Path) -> None:
    records = _redacted(work, table, columns)
    cells = (([*record.values()], [record.formats.get(key) for key in table.keys]) for record in records)
    write_sheet(table.heads, cells, place, table.path)


def _columns(work: FileRedaction, table: Rows, columns: Sequence[str], stream: IO[bytes], place: Path) -> None:
    import pyarrow

    def may_have_texts(kind: Any) -> bool:
        is_bytes = pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)
        return not is_bytes and not pyarrow.types.is_primitive(kind)

    def batches() -> Iterator[Any]:
        for batch in table.batches():
            rows = batch.select([field.name for field in batch.schema if may_have_texts(field.type)]).to_pylist()
            texts = (([row[key] for key in columns], _as_text(row.values())) for row in rows)
            found = [*zip(*work.texts(texts), strict=True)] or [()] * len(columns)
            arrays = list(batch.columns)
            for key, values in zip(columns, found, strict=True):
                number = batch.schema.get_field_index(key)
                arrays[number] = pyarrow.array(values, pyarrow.string()).cast(batch.schema.field(number).type)
            yield pyarrow.Table.from_arrays(arrays, schema=batch.schema)

    for key in columns:
        kind = table.schema.field(key).type
        kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise ValueError(f"{table.path}: the column {key!r} has no texts but the type {kind}; name one with texts")
    write_columns(table.schema, batches(), place, "parquet" if file_ending(table.path) == ".parquet" else "arrow")


def _redacted(work: FileRedaction, table: Rows, columns: Sequence[str]) -> Iterator[TableRow]:
    """The records of a table with masks in some columns."""
    waiting: list[TableRow] = []

    def texts() -> Iterator[tuple[list[str | None], str]]:
        for _, record in table:
            waiting.append(record)
            yield [record[key] for key in columns], _as_text(record.values())

    for found in work.texts(texts()):
        record = waiting.pop(0)
        record.update(zip(columns, found, strict=True))
        yield record


TABLES = {"separated": _separated, "sheet": _sheet, "columns": _columns}
