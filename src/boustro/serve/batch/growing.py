"""A file of answers that grows for hours: a kill costs only the batch that was under way.

    ner.jsonl.part        what is written so far
    ner.jsonl.progress    how many rows are answered, and how many bytes that is
    ner.jsonl             in the end

A resumed run cuts off what was written after the last whole batch, leaves out as many rows, and goes on; its file has
the bytes of a run that was never killed. Parquet and Arrow, which cannot grow, are made from JSON lines in the end.
"""

import errno
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO

from boustro.locks import lock, real_path, sync
from boustro.output import as_json
from boustro.serve.batch.tables import write_table
from boustro.store import read_json, write_file

SAVE_SECONDS = 1.0


class Growing:
    """See the module; made by `grow`. `done` is the number of rows that are answered."""

    def __init__(self, part: IO[bytes], errors: IO[bytes] | None, progress: Path, key: str, done: int) -> None:
        self.part, self.errors, self.progress, self.key, self.done = part, errors, progress, key, done
        self._saved = 0.0

    def add(self, rows: int, lines: Iterable[str], problems: Iterable[dict[str, str]]) -> None:
        """The answers of the next rows, and the problems of those that have none."""
        try:
            self.part.write("".join(lines).encode())
            if self.errors is not None:
                self.errors.write("".join(f"{as_json(problem)}\n" for problem in problems).encode())
            self.done += rows
            if monotonic() - self._saved > SAVE_SECONDS:
                self.save()
        except OSError as error:
            said = f"{error.strerror}; what is written so far is kept, and --resume goes on"
            raise OSError(error.errno, said, self.part.name) from error

    def save(self) -> None:
        """Write down how far this is, after what it is about has reached the disk."""
        files = [file for file in (self.part, self.errors) if file is not None]
        for file in files:
            file.flush()
            sync(Path(file.name))
        state = {"key": self.key, "rows": self.done, "bytes": [file.tell() for file in files]}
        write_file(self.progress, json.dumps(state))
        self._saved = monotonic()


@contextmanager
def grow(
    out: Path,
    key: str,
    *,
    errors: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    wait: bool = False,
    table: bool = False,
    end: str = "",
) -> Iterator[Growing]:
    """A file that is complete or absent under its name: it gets the name if the block ends well.

    Args:
        out: The file.
        key: What decides the answers: model, inputs, format. A resumed run must have the same.
        errors: Where problems are written.
        resume: Go on where a killed run was.
        overwrite: Replace an existing file.
        wait: Wait while another run writes the file.
        table: Make a table of the JSON lines, as the ending of `out` says.
        end: What stands at the end of the file.

    Raises `FileExistsError` for an existing file, `ValueError` where the run that is resumed was another, and
    `BlockingIOError` where another run writes the file and `wait` is false.
    """
    out = real_path(out)
    part, progress = (out.with_name(f"{out.name}.{ending}") for ending in ("part", "progress"))
    with lock(out, wait):
        check_target(out, overwrite, "--out")
        if errors is not None:
            check_target(errors, overwrite or resume, "--errors")
        state = _read_state(progress, key) if resume and progress.exists() and part.exists() else None
        sizes = state["bytes"] if state else []
        with _open(part, sizes[0] if state else 0) as file:
            opened = _open(errors, sizes[1] if len(sizes) > 1 else 0) if errors else None
            try:
                growing = Growing(file, opened, progress, key, state["rows"] if state else 0)
                yield growing
                growing.save()
                file.write(end.encode())  # a run that is killed here and resumed writes it once
                file.flush()
                sync(part)
            finally:
                if opened is not None:
                    opened.close()
        if table:
            made = out.with_name(f"{out.name}.table")
            try:
                write_table(part, made, "parquet" if out.suffix == ".parquet" else "arrow")
                sync(made)
                made.replace(out)
            finally:
                made.unlink(missing_ok=True)
            part.unlink()
        else:
            part.replace(out)
        sync(out.resolve().parent)
        progress.unlink(missing_ok=True)


def check_target(path: Path, replace: bool, option: str) -> None:
    """Raise `OSError` where a file cannot be written, and `FileExistsError` where one would be replaced unasked."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no ordinary file"
        raise OSError(errno.EINVAL, f"this is {what}; name a file for {option}", str(path))
    if path.exists() and not replace:
        raise FileExistsError(f"{path} exists; give --overwrite to replace it, or another {option}")


def _read_state(progress: Path, key: str) -> dict:
    state = read_json(progress)
    if state["key"] != key:
        raise ValueError(
            f"{progress}: begun with another model, other inputs or another format; begin without --resume"
        )
    return state


def _open(path: Path, size: int) -> IO[bytes]:
    """The file with its first `size` bytes, to write on."""
    file = path.open("r+b" if path.is_file() else "wb")
    file.truncate(size)
    file.seek(size)
    return file
