"""A file of answers that grows for hours: a kill costs only the batch that was under way.

    ner.jsonl.part        what is written so far
    ner.jsonl.progress    how many rows are answered, how many bytes that is, and where their problems are
    ner.jsonl             in the end

`.progress` is there before `.part`, and always describes a beginning of it. A resumed run checks the sizes, cuts off
what was written after the last whole batch, leaves out as many rows, and goes on; its file has the bytes of a run that
was never killed. Without being asked, no run goes on and none starts again. Parquet, Arrow and workbooks, which cannot
grow, are made from JSON lines in the end, in constant memory, by pyarrow, which comes with `datasets`, and openpyxl.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import IO, Any, Literal

from boustro.errors import reason
from boustro.locks import lock, real_path, staging_path, sweep, sync
from boustro.output import as_json, check_target, keeping
from boustro.store import read_json, reading, write_file
from boustro.text.tables import SHEET

SAVE_SECONDS = 1.0
KEPT = "are kept; the same command with --resume goes on"
ROWS = 1024
Table = Literal["parquet", "arrow"]
CELL, SHEET_ROWS = 32_767, 1_048_576


@dataclass(frozen=True)
class State:
    """What `.progress` says: what decides the answers, the rows that are done, the bytes of each file that are theirs,
    and the file of problems, as seen from the folder of `.part`."""

    key: str
    rows: int
    bytes: list[int]
    errors: str | None = None


class Growing:
    """See the module; made by `grow`."""

    def __init__(self, files: Sequence[IO[bytes]], progress: Path, state: State) -> None:
        self.files, self.progress, self.state = files, progress, state
        self._saved, self._saved_at = state, 0.0

    @property
    def done(self) -> int:
        """The number of rows that are answered."""
        return self.state.rows

    @property
    def size(self) -> int:
        """The bytes of their answers."""
        return self.state.bytes[0]

    def add(self, rows: int, lines: Iterable[str], problems: Iterable[dict[str, str]]) -> None:
        """The answers of the next rows, and the problems of those that have none."""
        written = "".join(lines).encode(), "".join(f"{as_json(problem)}\n" for problem in problems).encode()
        try:
            sizes = []
            for file, content, size in zip(self.files, written, self.state.bytes, strict=False):
                file.write(content)
                sizes.append(size + len(content))
            # at once, so that an interruption finds whole batches
            self.state = State(self.state.key, self.done + rows, sizes, self.state.errors)
            if monotonic() - self._saved_at > SAVE_SECONDS:
                self.save()
        except OSError as error:
            said = f"{error.strerror}; what is written so far is kept, and --resume goes on"
            raise OSError(error.errno, said, self.files[0].name) from error

    def save(self) -> None:
        """Write down how far this is, after what it is about has reached the disk."""
        state = self.state
        for file in self.files:
            file.flush()
            sync(Path(file.name))
        _write_state(self.progress, state)
        self._saved, self._saved_at = state, monotonic()

    def close(self) -> None:
        """Close the files."""
        for file in self.files:
            file.close()

    def give_up(self) -> None:
        """Save what is not saved yet, where the disk allows it, and close; nothing is left where no row is done."""
        with suppress(OSError):
            if self.state != self._saved:
                self.save()
        with suppress(OSError):  # of what was not saved
            self.close()
        if not self.done:
            for path in (*(Path(file.name) for file in self.files), self.progress):
                path.unlink(missing_ok=True)


@contextmanager
def grow(
    out: Path,
    key: str,
    *,
    errors: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    table: bool = False,
    end: str = "",
    kept: str = KEPT,
    again: str = "--overwrite without --resume starts again",
) -> Iterator[Growing]:
    """A file that is complete or absent under its name: it gets the name if the block ends well.

    Args:
        out: The file.
        key: What decides the answers: model, inputs, format. A resumed run must have the same.
        errors: Where problems are written. A resumed run must have the same, unless there was none.
        resume: Go on where an unfinished run was, if there is one.
        overwrite: Replace an existing file, and an unfinished one unless `resume`.
        table: Make a table of the JSON lines, as the ending of `out` says.
        end: What stands at the end of the file.
        kept, again: What messages say of the rows that are done, and how to start again.

    Raises `FileExistsError` for a file, or unfinished work, that is there already, `ValueError` where the run that is
    resumed was another or its files have changed, and `BlockingIOError` where another run writes the file.
    """
    out = real_path(out)
    part, progress = (out.with_name(f"{out.name}.{ending}") for ending in ("part", "progress"))
    files = [part] if errors is None else [part, errors]
    beside = None if errors is None else os.path.relpath(errors, out.parent)
    with lock(out, wait=False):
        if part.exists() and not progress.exists():
            raise FileExistsError(f"{part} exists, but no {progress.name} to say what it holds; move it elsewhere")
        left = _left(part, progress, again) if resume or not overwrite or not part.exists() else None
        if left and left.rows and not resume:
            raise FileExistsError(f"{out}: {left.rows:,} rows are done: --resume goes on, --overwrite starts again")
        check_target(out, overwrite, "--out")
        if errors is not None:
            check_target(errors, overwrite or (left is not None and left.errors == beside), "--errors")
        state = State(key, 0, [0] * len(files), beside)
        if left and left.rows:
            state = _continued(left, state, files, again)
        _write_state(progress, state)
        growing = Growing([_open(file, size) for file, size in zip(files, state.bytes, strict=True)], progress, state)
        with keeping(lambda: f"{growing.done:,} rows {kept}" if growing.done else ""):
            try:
                yield growing
                growing.save()
                growing.close()
            except BaseException:
                growing.give_up()
                raise
            with part.open("ab") as file:
                file.write(end.encode())  # a run that is killed here and resumed writes it once
            sync(part)
            _name(part, out, table)
        progress.unlink()


def _left(part: Path, progress: Path, again: str) -> State | None:
    """What a run that did not end has left; a state without its file describes nothing."""
    if not progress.exists():
        return None
    with reading(progress, again if part.exists() else "move it elsewhere"):
        state = State(**read_json(progress))
    return state if part.exists() else None


def _continued(left: State, state: State, files: Sequence[Path], again: str) -> State:
    """The state of a run that goes on; `ValueError` where it is another, or where its files are not those it wrote."""
    if left.key != state.key:
        raise ValueError(f"{files[0]}: begun with another model, other inputs or another format; {again}")
    if left.errors not in (None, state.errors):
        raise ValueError(f"{files[0]}: begun with --errors {left.errors}; give it again, or {again}")
    sizes = left.bytes + [0] * (len(files) - len(left.bytes))
    for file, size in zip(files, sizes, strict=True):
        length = file.stat().st_size if file.exists() else 0
        if length < size:
            raise ValueError(f"{file} has {length:,} bytes, but {size:,} were written: it was changed since; {again}")
    return State(left.key, left.rows, sizes, state.errors)


def _write_state(progress: Path, state: State) -> None:
    write_file(progress, json.dumps(asdict(state)))


def _open(path: Path, size: int) -> IO[bytes]:
    """The file with its first `size` bytes, which it has, to write on."""
    file = path.open("r+b" if path.is_file() else "wb")
    file.truncate(size)
    file.seek(size)
    return file


def _name(part: Path, out: Path, table: bool) -> None:
    """Give the file its name, or make it a table under that name."""
    if table:
        sweep(out)
        made = staging_path(out)
        try:
            if out.suffix.lower() == SHEET:
                write_sheet(part, made, out)
            else:
                write_table(part, made, "parquet" if out.suffix == ".parquet" else "arrow")
            sync(made)
            made.replace(out)
        finally:
            made.unlink(missing_ok=True)
        part.unlink()
    else:
        part.replace(out)
    sync(out.resolve().parent)


def write_table(lines: Path, target: Path, form: Table) -> int:
    """Write a file of JSON lines as a table, in two passes: its columns and types, its rows. Returns the rows.

    Raises `ValueError` where a field has values of types that no column can hold together.
    """
    import pyarrow as pa
    from pyarrow import parquet

    schema, rows = pa.schema([]), 0
    try:
        for some in _records(lines):
            part_schema = pa.Table.from_pylist(_with_all_keys(some)).schema
            schema = pa.unify_schemas([schema, part_schema], promote_options="permissive")
        with (parquet.ParquetWriter if form == "parquet" else pa.ipc.new_file)(str(target), schema) as writer:
            for some in _records(lines):
                writer.write_table(pa.Table.from_pylist(some, schema=schema))
                rows += len(some)
    except pa.ArrowException as error:
        raise ValueError(f"{target}: the answers do not fit into one table ({reason(error)}); write .jsonl") from None
    return rows


def write_sheet(lines: Path, target: Path, name: Path) -> None:
    """Write a file of JSON lines, which all have the same keys, as a workbook, in which no cell is a formula.

    Raises `ValueError` for what a workbook cannot hold; `name` is what it will be called.
    """
    import openpyxl
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.utils.exceptions import IllegalCharacterError

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()

    def cell(value: Any, number: int) -> Any:
        value = as_json(value) if isinstance(value, (list, dict)) else value
        if isinstance(value, str) and len(value) > CELL:
            raise ValueError(f"{name}: row {number} has {len(value):,} characters in a cell of {CELL:,}; write .csv")
        try:
            made = WriteOnlyCell(sheet, value)
        except IllegalCharacterError as error:
            raise ValueError(f"{name}: row {number} has a control character; write .csv") from error
        made.data_type = "s" if isinstance(value, str) else made.data_type
        return made

    number = 0
    for number, row in enumerate((row for some in _records(lines) for row in some), start=1):
        if number == 1:
            sheet.append([cell(head, 0) for head in row])
        if number == SHEET_ROWS:
            raise ValueError(f"{name}: a workbook holds {SHEET_ROWS:,} rows; write .csv")
        sheet.append([cell(value, number) for value in row.values()])
    book.save(target)


def _with_all_keys(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """pyarrow takes the columns of the first row."""
    keys = dict.fromkeys(key for record in records for key in record)
    return [{key: record.get(key) for key in keys} for record in records]


def _records(lines: Path) -> Iterator[list[dict[str, Any]]]:
    with lines.open(encoding="utf-8") as file:
        while some := list(islice(file, ROWS)):
            yield [json.loads(line) for line in some]
