"""Folders that are either complete or absent.

Every artefact (a model, a tagger, token shards, a cache entry) is written to a staging folder beside
its target; the manifest, with each file's size and SHA-256, goes in last; then one rename makes it
visible. A reader refuses a folder whose manifest is missing or does not match what lies there.

    with write_folder("ner", kind="tagger") as folder:
        (folder / "weights.bin").write_bytes(...)
    open_folder("ner", kind="tagger")   # its manifest, or a ValueError that says what is wrong

A target has one writer at a time, by a lock beside it: `.ner.lock`. Staging names are the writer's own, so that two
programs do not meet even where a file system has no locks. What a killed run left (`.ner.1f3a9c20.staging`) is
removed by the next writer, who has the lock, and so knows that nobody writes there.

A file that was not written here is never deleted: a folder that holds one is not replaced.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from boustro.errors import lacks_memory, reason

MANIFEST = "manifest.json"
EDITABLE = frozenset({"README.md"})
"""Files of ours that a person may go on writing: their bytes are not verified, and an edited one is not replaced."""
FULL = {getattr(errno, e) for e in ("ENOSPC", "EDQUOT", "EFBIG")}
DISK_ERRORS = FULL | {
    getattr(errno, e) for e in ("EROFS", "EACCES", "EPERM", "EIO", "ENOTDIR", "ENOENT", "EEXIST", "ENAMETOOLONG")
}
RUST_ERROR = re.compile(r"\(os error (\d+)\)")
"""How libraries written in Rust (safetensors, tokenizers) name an error of the operating system."""
PATIENCE = 2.0
"""Seconds that a run waits for another one before it says so."""

_options: dict[str, Any] = {}


def fingerprint(*parts: Any) -> str:
    """A short SHA-256 of JSON-like values: equal values give equal names on every machine."""
    blob = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(blob.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def lock(path: str | Path, wait: bool = True) -> Iterator[None]:
    """Be the only one, of all threads and programs, that writes `path`; folders above it are made.

    A thread that holds the lock may take it again. Raises `BlockingIOError` when another holds it and `wait` is
    false, and `OSError` with the path where nothing can be written.
    """
    path = _target(path)
    place = path.with_name(f".{path.name}.lock")
    with _disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        place.touch()  # where nothing can be written, filelock would wait for ever
        held = FileLock(place, is_singleton=True)
        try:
            held.acquire(timeout=PATIENCE if wait else 0)
        except Timeout as error:
            if not wait:
                said = "another run is writing here; wait until it ends, or choose another place"
                raise BlockingIOError(errno.EAGAIN, said, str(path)) from error
            print(f"{path}: waiting for another run that writes here", file=sys.stderr)
            held.acquire()
    try:
        yield
    finally:
        if held.lock_counter == 1:
            with contextlib.suppress(OSError):  # those who wait see that it is gone, and make it anew
                place.unlink()
        held.release()


def write_file(path: str | Path, data: str | bytes) -> Path:
    """Write one file atomically: a staging file beside it, fsync, rename, fsync of the folder.

    What is no ordinary file (`/dev/stdout`, a pipe) is written to as it stands.
    """
    path, content = Path(path), data.encode() if isinstance(data, str) else data
    if path.exists() and not path.is_file() and not path.is_dir():
        with _disk_errors(path):
            path.write_bytes(content)
        return path
    with lock(path):
        target = _target(path)
        _sweep(target)
        staging = _staging(target)
        try:
            with _disk_errors(path):
                staging.write_bytes(content)
                _sync(staging)
                staging.replace(target)
                _sync(target.parent)
        finally:
            staging.unlink(missing_ok=True)
    return path


def check_file(path: str | Path) -> None:
    """Raise `OSError` with the path unless `write_file` can write it: to be known before the work, not after it."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder stands here; name a file", str(path))
    if not path.exists() or path.is_file():
        with lock(path):
            pass


@contextlib.contextmanager
def write_folder(path: str | Path, kind: str, made_by: dict[str, Any] | None = None) -> Iterator[Path]:
    """Yield a staging folder; when the block ends well, it becomes `path`, complete, in one rename.

    An older folder of the same kind is replaced; anything else that stands at `path`, and a folder that holds files
    which were not written here, is left alone: `FileExistsError`. When the block fails, nothing is left behind.
    `BlockingIOError` when another run is writing there.
    """
    with lock(path, wait=False):
        target = _target(path)
        _settle(target)
        refuse_foreign(target, kind)
        _sweep(target)
        staging = _staging(target)
        try:
            with _disk_errors(Path(path)):
                staging.mkdir()
                yield staging
                write_manifest(staging, kind, made_by)
                refuse_foreign(target, kind)  # again: the block may have taken hours
                if target.exists():
                    target.rename(_retired(target))
                staging.rename(target)
                _sync(target.parent)
        finally:
            _settle(target)
            _sweep(target)


@contextlib.contextmanager
def claim(path: str | Path, kind: str, overwrite: bool = False) -> Iterator[None]:
    """Keep `path` for a run that will write a folder there at its end: what could fail then is checked now.

    Raises `FileExistsError` for what must not be replaced, among it a complete folder unless `overwrite`;
    `BlockingIOError` when another run has claimed it; `OSError` where nothing can be written.
    """
    with lock(path, wait=False):
        _settle(_target(path))
        refuse_foreign(Path(path), kind)
        if not overwrite and (_target(path) / MANIFEST).is_file():
            raise FileExistsError(
                f"{path} holds {_folder(kind)} already; give --overwrite to replace it, or choose another --out"
            )
        yield


def make_manifest(folder: Path, kind: str, made_by: dict[str, Any] | None = None) -> dict[str, Any]:
    """What lies in `folder`, with sizes and hashes, and what made it."""
    files = {}
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST):
        name = file.relative_to(folder).as_posix()
        files[name] = {"bytes": file.stat().st_size, "sha256": hash_file(file)}
    return {"kind": kind, "files": files, "made_by": {**provenance(), **(made_by or {})}}


def write_manifest(folder: Path, kind: str, made_by: dict[str, Any] | None = None) -> None:
    """List every file of `folder` with size and hash, sync them, and write the manifest last.

    Every file gets the mode that a new one has under the user's umask: some libraries write with a narrower one.
    """
    manifest = make_manifest(folder, kind, made_by)
    for name in manifest["files"]:
        (folder / name).chmod(folder.stat().st_mode & 0o666)
        _sync(folder / name)
    write_file(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))


def open_folder(path: str | Path, kind: str, verify: bool = False, needs: Collection[str] = ()) -> dict[str, Any]:
    """The manifest of a complete folder; `verify` also compares every hash.

    Raises `FileNotFoundError` when nothing is there, and `ValueError` when the folder is incomplete, of another
    kind, without a file that it `needs`, or when a file is missing or has another size than it was written with.
    """
    path = Path(path)
    if not path.is_dir() and _retired(_target(path)).exists():  # being replaced, or left so by a kill
        with contextlib.suppress(OSError), lock(path):
            _settle(_target(path))
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder; {_folder(kind)} is expected here")
    if not (path / MANIFEST).is_file():
        raise ValueError(f"{path}: no {MANIFEST}, so this {kind} folder is incomplete or not ours; write it again")
    manifest = _read_manifest(path, kind)
    if manifest["kind"] != kind:
        raise ValueError(f"{path} is {_folder(manifest['kind'])}; {_folder(kind)} is expected here")
    for name in needs:
        if name not in manifest["files"]:
            raise ValueError(f"{path} holds no {name}; write the {kind} folder again")
    for name, fact in manifest["files"].items():
        file = path / name
        if _editable(name):
            continue
        if not file.is_file():
            raise ValueError(f"{file} is missing; write the {kind} folder again")
        if file.stat().st_size != fact["bytes"]:
            raise ValueError(f"{file} holds {file.stat().st_size} bytes, not {fact['bytes']}; write the folder again")
        if verify and hash_file(file) != fact["sha256"]:
            raise ValueError(f"{file} has changed since it was written; write the {kind} folder again")
    return manifest


@contextlib.contextmanager
def read_folder(path: str | Path, kind: str, verify: bool = False, needs: Collection[str] = ()) -> Iterator[dict]:
    """`open_folder` around a block that reads the folder's files, with `reading`."""
    manifest = open_folder(path, kind, verify, needs)
    with reading(path, f"write the {kind} folder again"):
        yield manifest


@contextlib.contextmanager
def reading(path: str | Path, advice: str) -> Iterator[None]:
    """Around a block that does nothing but read files of `path`: what damage makes it raise becomes a `ValueError`.

    What names the path already stays as it is, and so do a missing package and too little memory.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or lacks_memory(error):
            raise
        if isinstance(error, (ValueError, OSError)) and str(path) in str(error):
            raise
        said = f"{path}: damaged, or written by another version ({reason(error)}); {advice}"
        raise ValueError(said) from error


def read_json(path: Path) -> Any:
    """What a JSON file holds; `ValueError` with its path where it is damaged."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: damaged ({reason(error)})") from error


def remove_folder(path: str | Path, own: Collection[str] = ()) -> None:
    """Remove an artefact, whole or damaged, and what killed writers of it left.

    Files that its manifest does not list stay, and their folder, but for those that a pattern of `own` names: where the
    manifest is damaged, nobody else knows whose they are. Does nothing while another run is writing there.
    """
    path = Path(path)
    with contextlib.suppress(BlockingIOError), lock(path, wait=False):
        target = _target(path)
        _settle(target)
        if target.is_dir():
            others = {name for name in foreign_files(target) if not any(map(partial(fnmatch, name), own))}
            found = sorted(target.rglob("*"), reverse=True)  # what a folder holds before the folder
            for place in (*found, target):
                with contextlib.suppress(OSError):  # a folder that is not empty
                    if place.is_dir() and not place.is_symlink():
                        place.rmdir()
                    elif place.relative_to(target).as_posix() not in others:
                        place.unlink()
        _sweep(target)


def content_fingerprint(manifest: dict[str, Any]) -> str:
    """One name for everything that a folder holds, whoever wrote it and when."""
    return fingerprint({name: fact["sha256"] for name, fact in manifest["files"].items() if not _editable(name)})


def record_options(options: dict[str, Any]) -> None:
    """From now on manifests hold these: the values of all options of the command that is running."""
    _options.clear()
    _options.update(options)


def provenance() -> dict[str, Any]:
    """How an artefact was made: the command, its options where it was a command, and the versions."""
    versions = {}
    for package in ("boustro", "torch", "transformers", "tokenizers", "numpy"):
        with contextlib.suppress(ImportError):
            versions[package] = version(package)
    program, *arguments = sys.argv or [""]
    options = {"options": dict(_options)} if _options else {}
    return {"command": [Path(program).name, *arguments], **options, "versions": versions}


def refuse_foreign(path: Path, kind: str) -> None:
    """`FileExistsError` for what may not be replaced: what is no folder of this kind, or holds files of others."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if kind_of(path) != kind:
        raise FileExistsError(f"{path} exists and is not {_folder(kind)}; choose another name or remove it")
    if others := foreign_files(path):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise FileExistsError(
            f"{path} holds {others[0]}{more}, which Boustro did not write or which was edited; move it elsewhere, or "
            "choose another name"
        )


def kind_of(path: str | Path) -> str | None:
    """The kind of an artefact; None for what is none of ours."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(read_json(Path(path) / MANIFEST)["kind"])
    return None


def foreign_files(path: Path) -> list[str]:
    """Files in a folder of ours that its manifest does not list, and edited ones."""
    listed = _listed(path)
    found = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir() or p.is_symlink())
    return [
        name
        for name in found
        if name != MANIFEST
        and (name not in listed or (_editable(name) and hash_file(path / name) != listed[name]["sha256"]))
    ]


def leftovers(folder: Path, pattern: str = "*") -> dict[Path, Path]:
    """Staging files and folders below `folder` that runs which were killed left, and what each was to become."""
    found = {}
    for staging in sorted({*folder.glob(f"{pattern}.staging"), *folder.glob(f"{pattern}.retired")}):
        target = staging.with_name(_name_of(staging))
        with contextlib.suppress(BlockingIOError), lock(target, wait=False):  # somebody is writing it
            found[staging] = target
    return found


def _listed(path: Path) -> dict[str, Any]:
    """What a folder's manifest lists; nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return _read_manifest(path, "artefact")["files"]
    return {}


def _read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Whole, and of files in this folder alone; `ValueError` for any other."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        manifest = read_json(path / MANIFEST)
        facts = [(name, fact["bytes"], fact["sha256"]) for name, fact in manifest["files"].items()]
        sound = all(isinstance(size, int) and isinstance(text, str) and _inside(name) for name, size, text in facts)
        if sound and manifest["kind"] and isinstance(manifest["kind"], str) and isinstance(manifest["made_by"], dict):
            return manifest
    raise ValueError(f"{path / MANIFEST}: damaged; write the {kind} folder again")


def _editable(name: str) -> bool:
    return Path(name).name in EDITABLE


def _inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _folder(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} folder"


def _target(path: str | Path) -> Path:
    """The path that is renamed to: what a symbolic link points at, not the link."""
    path = Path(path)
    try:
        return path.resolve() if path.is_symlink() or path.name in ("", "..") else path
    except RuntimeError as error:  # of Python before 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error


def _staging(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.staging")


def _retired(target: Path) -> Path:
    return target.with_name(f".{target.name}.retired")


def _name_of(staging: Path) -> str:
    """`.ner.1f3a9c20.staging`, `.ner.retired` → `ner`"""
    return re.sub(r"^\.|(\.[0-9a-f]{8})?\.(staging|retired)$", "", staging.name)


def _settle(target: Path) -> None:
    """After a kill between the two renames the older folder returns; the caller has the lock."""
    if _retired(target).exists() and not target.exists():
        _retired(target).rename(target)


def _sweep(target: Path) -> None:
    """Remove what writers of `target` left; the caller has the lock."""
    if not target.parent.is_dir():
        return
    for path in target.parent.iterdir():
        if path.name.endswith((".staging", ".retired")) and _name_of(path) == target.name:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Errors of the disk name the target and say what to do, whoever raises them."""
    try:
        yield
    except Exception as error:
        rust = None if isinstance(error, OSError) else RUST_ERROR.search(str(error))
        number = (error.errno or 0) if isinstance(error, OSError) else int(rust[1]) if rust else 0
        if number not in DISK_ERRORS or _is_of_another(error, _target(path)):
            raise
        advice = "free some space or choose another place" if number in FULL else "choose another place"
        raise OSError(number, f"{os.strerror(number)}; nothing was left behind, {advice}", str(path)) from error


def _is_of_another(error: Exception, target: Path) -> bool:
    """Whether the error names a file that has nothing to do with writing `target`, such as a corpus."""
    name = getattr(error, "filename", None)
    if not isinstance(name, (str, Path)):
        return False
    return not (target.is_relative_to(name) or str(name).startswith(str(target.with_name(f".{target.name}."))))
