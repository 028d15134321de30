"""A file of answers that grows for hours: a kill costs only the batch that was under way.

    ner.jsonl.part        what is written so far
    ner.jsonl.progress    how many rows are answered, which, how many bytes that is, and where their problems are
    ner.jsonl             in the end

`.progress` is there before `.part`, and always describes a beginning of it. A resumed run checks the sizes, cuts off
what was written after the last whole batch, leaves out as many rows, and goes on; its file has the bytes of a run that
was never killed. It must read the rows that it leaves out as they were read before: a hash of them is in `.progress`.
Without being asked, no run goes on and none starts again. Parquet, Arrow and workbooks, which cannot grow, are made in
the end (`table`).
"""

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import IO, Any

from boustro.errors import count_of
from boustro.locks import lock, real_path, sync
from boustro.output import as_json, check_target, keeping
from boustro.store import read_json, reading, staged, write_file

SAVE_SECONDS = 1.0  # at most a second of answers is computed again after an interruption
RESUME_ADVICE = "are kept; the same command with --resume goes on"


@dataclass(frozen=True)
class State:
    """Content of `.progress`: what decides the answers, the rows that are done, the bytes of each file that are theirs,
    the file of problems, as seen from the folder of `.part`, and a hash of the rows."""

    key: str
    rows: int
    bytes: list[int]
    errors: str | None = None
    read: str = ""


@dataclass
class AnswerFrame:
    """Text around answers, and between them; `begun` says whether there is one already."""

    head: str = ""
    between: str = ""
    end: str = ""
    begun: bool = False

    def put_between(self, answers: Iterable[Any]) -> Iterator[Any]:
        """Answers, each but the first with what stands before it."""
        for answer in answers:
            yield self.between + answer if self.between and self.begun else answer
            self.begun = True


class Growing:
    """Output files that grow in `.part` and go on after an interruption; made by `grow`."""

    def __init__(
        self, files: Sequence[IO[bytes]], progress: Path, state: State, frame: AnswerFrame, again: str
    ) -> None:
        self.files, self.progress, self.state, self._again = files, progress, state, again
        self.frame = replace(frame, begun=self.size > len(frame.head.encode()))
        self._saved, self._saved_at = state, 0.0
        self._read, self._digests = hashlib.sha256(), deque[str]()

    @property
    def done(self) -> int:
        """The number of rows that are answered."""
        return self.state.rows

    @property
    def size(self) -> int:
        """The bytes of their answers."""
        return self.state.bytes[0]

    def skip(self, rows: Iterator[Any]) -> None:
        """Leave out the rows that are answered; `ValueError` where they are others than those that were."""
        for _ in range(self.done):
            if (row := next(rows, None)) is not None:
                self._hash(row)
        if self.done and self._read.hexdigest() != self.state.read:
            what = f"{self.files[0].name}: of {count_of(self.done, 'rows')} with an answer some were changed since"
            raise ValueError(f"{what}; {self._again}")

    def follow(self, batches: Iterable[list[Any]]) -> Iterator[list[Any]]:
        """Batches on their way to `add`, in this order; `content` of a row are the bytes by which it is known again."""
        for batch in batches:
            for row in batch:
                self._hash(row)
            self._digests.append(self._read.hexdigest())
            yield batch

    def _hash(self, row: Any) -> None:
        content: bytes = row.content
        self._read.update(len(content).to_bytes(8, "little") + content)

    def add(self, rows: int, lines: Iterable[str], problems: Iterable[dict[str, str]]) -> None:
        """The answers of the next rows, and the problems of those that have none."""
        lines = self.frame.put_between(lines)
        written = "".join(lines).encode(), "".join(f"{as_json(problem)}\n" for problem in problems).encode()
        try:
            sizes = []
            for file, content, size in zip(self.files, written, self.state.bytes, strict=False):
                file.write(content)
                sizes.append(size + len(content))
            # at once, so that an interruption finds whole batches
            read = self._digests.popleft() if rows and self._digests else self.state.read
            self.state = State(self.state.key, self.done + rows, sizes, self.state.errors, read)
            if monotonic() - self._saved_at > SAVE_SECONDS:
                self.save()
        except OSError as error:
            self.give_up()  # what is on the disk is known after it
            kept = count_of(self._saved.rows, f"rows {RESUME_ADVICE}") if self._saved.rows else "nothing is kept"
            raise OSError(error.errno, f"{error.strerror}; {kept}", self.files[0].name) from error

    def begin(self) -> None:
        """Write what stands before the answers, unless it is there."""
        if self.frame.head and not self.size:
            self.add(0, [self.frame.head], [])
            self.frame.begun = False

    def end(self) -> None:
        """Close the files, with what stands behind the answers."""
        self.files[0].write(self.frame.end.encode())  # a run that is killed here and resumed writes it once
        for file in self.files:
            file.close()
        sync(Path(self.files[0].name))

    def save(self) -> None:
        """Write down how far this is, after what it is about has reached the disk."""
        state = self.state
        for file in self.files:
            file.flush()
            sync(Path(file.name))
        write_file(self.progress, json.dumps(asdict(state)))
        self._saved, self._saved_at = state, monotonic()

    def give_up(self) -> None:
        """Save what is not saved yet, where the disk allows it, and close; nothing is left where no row is saved."""
        with suppress(OSError, ValueError):  # of files that are closed
            if self.state != self._saved:
                self.save()
        for file in self.files:
            with suppress(OSError):  # of what was not saved
                file.close()
        for path in (*(Path(file.name) for file in self.files), self.progress) if not self._saved.rows else ():
            path.unlink(missing_ok=True)


@contextmanager
def grow(
    out: Path,
    key: str,
    *,
    errors: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    table: Callable[[Path, Path], None] | None = None,
    frame: AnswerFrame | None = None,
    kept: str = RESUME_ADVICE,
    again: str = "--overwrite without --resume starts again",
) -> Iterator[Growing]:
    """Yield a file that is complete or absent under its name: it gets the name if the block ends well.

    Args:
        out: The file.
        key: What decides the answers: model, inputs, format. A resumed run must have the same.
        errors: Where problems are written. A resumed run must have the same, unless there was none.
        resume: Go on where an unfinished run was, if there is one.
        overwrite: Replace an existing file, and an unfinished one unless `resume`.
        table: Called with what was written and where to make a table of it; files of a folder there go to `out`.
        frame: What stands around the answers.
        kept, again: What messages say of the rows that are done, and how to start again.

    Raises `FileExistsError` for a file, or unfinished work, that is there already, `ValueError` where the run that is
    resumed was another or its files have changed, and `BlockingIOError` where another run writes the file.
    """
    out, frame = real_path(out), frame or AnswerFrame()
    part, progress = _beside(out)
    files = [part] if errors is None else [part, errors]
    beside = None if errors is None else os.path.relpath(errors, out.parent)
    with lock(out, wait=False):
        if part.exists() and not progress.exists():
            raise FileExistsError(f"{part} exists, but no {progress.name} to say what it holds; move it elsewhere")
        left = _left(part, progress, again) if resume or not overwrite or not part.exists() else None
        if left and left.rows and not resume:
            raise FileExistsError(
                f"{out}: {count_of(left.rows, 'rows are')} done: --resume goes on, --overwrite starts again"
            )
        if not out.is_dir():
            check_growing(out, resume, overwrite)
        if errors is not None:
            check_target(errors, overwrite or (left is not None and left.errors == beside), "--errors")
        state = State(key, 0, [0] * len(files), beside)
        if left and left.rows:
            state = _continued(left, state, files, again)
        write_file(progress, json.dumps(asdict(state)))
        opened = [_open(file, size) for file, size in zip(files, state.bytes, strict=True)]
        growing = Growing(opened, progress, state, frame, again)
        with keeping(lambda: count_of(growing.done, f"rows {kept}") if growing.done else "", ValueError):
            try:
                growing.begin()
                yield growing
                growing.save()
            except BaseException:  # an interruption too leaves no half file
                growing.give_up()
                raise
            growing.end()
            _name(part, out, table)
        progress.unlink()


def _beside(out: Path) -> tuple[Path, Path]:
    return out.with_name(f"{out.name}.part"), out.with_name(f"{out.name}.progress")


def check_growing(file: Path, resume: bool, overwrite: bool, out: Path | None = None) -> None:
    """Check a file that `grow` writes, as `check_target` does; `out` is the folder that it is in, where that grows."""
    if resume and not overwrite and file.is_file() and not _beside(real_path(out or file))[0].exists():
        why = "has no unfinished work beside it to go on with, and nothing says which command wrote it"
        raise FileExistsError(f"{file} {why}; use it, or give --overwrite in place of --resume")
    check_target(file, overwrite, "--out")


def _left(part: Path, progress: Path, again: str) -> State | None:
    """Return the state that an interrupted run has left; a state without its file describes nothing."""
    if not progress.exists():
        return None
    with reading(progress, again if part.exists() else "move it elsewhere"):
        state = State(**read_json(progress))
    return state if part.exists() else None


def _continued(left: State, state: State, files: Sequence[Path], again: str) -> State:
    """Return the state of a run that goes on; `ValueError` where it is another, or where its files are not those it
    wrote."""
    if left.key != state.key:
        raise ValueError(f"{files[0]}: begun with another model, other inputs or another format; {again}")
    if left.errors not in (None, state.errors):
        raise ValueError(f"{files[0]}: begun with --errors {left.errors}; give it again, or {again}")
    sizes = left.bytes + [0] * (len(files) - len(left.bytes))
    for file, size in zip(files, sizes, strict=True):
        length = file.stat().st_size if file.exists() else 0
        if length < size:
            raise ValueError(f"{file} has {length:,} bytes, but {size:,} were written: it was changed since; {again}")
    return State(left.key, left.rows, sizes, state.errors, left.read)


def _open(path: Path, size: int) -> IO[bytes]:
    """Return the file with its first `size` bytes, which it has, to write on."""
    file = path.open("r+b" if path.is_file() else "wb")
    file.truncate(size)
    file.seek(size)
    return file


def _name(part: Path, out: Path, table: Callable[[Path, Path], None] | None) -> None:
    """Give the file its name, or make it a table under that name."""
    if table is None:
        part.replace(out)
        sync(out.resolve().parent)
    else:
        with staged(out) as made:
            table(part, made)
        part.unlink()
