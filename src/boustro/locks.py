"""One writer at a time for a path: its lock, its staging names, and the cleaning up after writers that were killed.

    with lock("ner"): ...          # .ner.lock beside it; other threads and programs wait
    with lock_for_run("ner"): ...  # other programs wait; the threads of this one take turns
    staging_path(Path("ner"))      # .ner.1f3a9c20.staging, a new name for each writer
    retired_path(Path("ner"))      # .ner.retired, the older folder between two renames

Every writer has staging names of its own, so two programs do not collide even on a file system without locks. What a
killed run left is removed by the next writer, which holds the lock and so knows that no other program writes there.
"""

import contextlib
import errno
import os
import re
import shutil
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
DISK_ERRORS = DISK_FULL | {
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ENOTDIR, errno.ENOENT, errno.EEXIST, errno.ENAMETOOLONG),
}
RUST_ERROR = re.compile(r"\(os error (\d+)\)")  # how safetensors and tokenizers, written in Rust, report an OSError
PATIENCE = 2.0  # seconds of waiting for another run before a line says so


@contextlib.contextmanager
def lock(path: str | Path, wait: bool = True) -> Iterator[None]:
    """Be the only writer of `path`, among all threads and programs; missing parent folders are created.

    A thread that holds the lock can take it again. Raises `BlockingIOError` when another writer holds it and `wait`
    is false, and `OSError` with the path where writing is not possible.
    """
    path = real_path(path)
    if reserved := _RESERVED.get(path.absolute()):
        if not reserved.turns.acquire(blocking=wait):
            raise _is_held(path)
        try:
            yield
        finally:
            reserved.turns.release()
        return
    from filelock import FileLock, Timeout  # what only reads does not need it

    file = path.with_name(f".{path.name}.lock")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file.touch()  # filelock would wait forever where writing is not possible
        held = FileLock(file, is_singleton=True)
        try:
            held.acquire(timeout=PATIENCE if wait else 0)
        except Timeout as error:
            if not wait:
                raise _is_held(path) from error
            print(f"{path}: waiting for another run that writes here", file=sys.stderr)
            held.acquire()
    try:
        yield
    finally:
        if held.lock_counter == 1:
            with contextlib.suppress(OSError):  # waiting programs notice that it is gone and create it again
                file.unlink()
        held.release()


def _is_held(path: Path) -> BlockingIOError:
    message = "another run is writing here; wait until it ends, or choose another path"
    return BlockingIOError(errno.EAGAIN, message, str(path))


class _Reserved(NamedTuple):
    """Of a path that this program has reserved: the thread that did, and the lock by which its threads take turns."""

    thread: int
    turns: threading.RLock


_RESERVED: dict[Path, _Reserved] = {}


@contextlib.contextmanager
def lock_for_run(path: str | Path) -> Iterator[None]:
    """Keep other programs from writing `path`; each thread of this one may take its lock, one at a time.

    Raises as `lock` without `wait`, and `BlockingIOError` where another thread of this program has reserved it.
    """
    key, mine = real_path(path).absolute(), _Reserved(threading.get_ident(), threading.RLock())
    if _RESERVED.get(key, mine).thread != mine.thread:
        raise _is_held(real_path(path))
    with lock(path, wait=False):
        if _RESERVED.setdefault(key, mine) is not mine:  # by this thread, further out
            yield
            return
        try:
            yield
        finally:
            with mine.turns:  # a thread that still writes
                del _RESERVED[key]


def real_path(path: str | Path) -> Path:
    """Return the path to rename to: the target of a symbolic link, not the link itself."""
    path = Path(path)
    try:
        return path.resolve() if path.is_symlink() or path.name in ("", "..") else path
    except RuntimeError as error:  # a link to itself, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error


def staging_path(target: Path) -> Path:
    """Return a new hidden name beside `target`."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.staging")


def retired_path(target: Path) -> Path:
    """Return the name of the older folder while it is being replaced."""
    return target.with_name(f".{target.name}.retired")


def restore_older(target: Path) -> None:
    """Rename the older folder back after a kill between the two renames; the caller holds the lock."""
    if retired_path(target).exists() and not target.exists():
        retired_path(target).rename(target)


def sweep(target: Path) -> None:
    """Remove what killed writers of `target` left; the caller holds the lock."""
    if not target.parent.is_dir():
        return
    for path in target.parent.iterdir():
        if path.name.endswith((".staging", ".retired")) and _name_of(path) == target.name:
            discard(path)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def leftovers(folder: Path, pattern: str = "*") -> dict[Path, Path]:
    """Staging files and folders in `folder` that killed runs left, each with the path it was written for."""
    targets = {}
    for staging in sorted({*folder.glob(f"{pattern}.staging"), *folder.glob(f"{pattern}.retired")}):
        target = staging.with_name(_name_of(staging))
        with contextlib.suppress(BlockingIOError), lock(target, wait=False):  # not those of a live writer
            targets[staging] = target
    return targets


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Around a block that writes `path`: disk errors of any library name the path and say what to do."""
    try:
        yield
    except Exception as error:
        rust = None if isinstance(error, OSError) else RUST_ERROR.search(str(error))
        number = (error.errno or 0) if isinstance(error, OSError) else int(rust[1]) if rust else 0
        if number not in DISK_ERRORS or _is_of_another(error, real_path(path)):
            raise
        advice = "free some space or choose another path" if number in DISK_FULL else "choose another path"
        raise OSError(number, f"{os.strerror(number)}; nothing was left behind, {advice}", str(path)) from error


def _is_of_another(error: Exception, target: Path) -> bool:
    """Return whether the error names a file that does not belong to writing `target`, such as a corpus."""
    name = getattr(error, "filename", None)
    if not isinstance(name, (str, Path)):
        return False
    return not (target.is_relative_to(name) or str(name).startswith(str(target.with_name(f".{target.name}."))))


def _name_of(staging: Path) -> str:
    """`.ner.1f3a9c20.staging`, `.ner.retired` → `ner`"""
    return re.sub(r"^\.|(\.[0-9a-f]{8})?\.(staging|retired)$", "", staging.name)
