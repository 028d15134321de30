"""Folders that are either complete or absent.

Every artefact (a model, a tagger, token shards) is written to a staging folder beside its target, its manifest (each
file's size and SHA-256) last; then one rename makes it visible. A folder that does not match its manifest is refused.

    with write_folder("ner", kind="tagger") as folder:
        (folder / "weights.bin").write_bytes(...)
    open_folder("ner", kind="tagger")   # its manifest, or a ValueError that says what is wrong

A target has one writer at a time (`locks.lock`). A file that Boustro did not write is never deleted: a folder that
holds one is not replaced.
"""

import contextlib
import errno
import hashlib
import json
import sys
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

from boustro.errors import lacks_memory, reason
from boustro.locks import disk_errors, lock, real_path, restore_older, retired_path, staging_path, sweep, sync

MANIFEST = "manifest.json"
POINTER = b"version https://git-lfs"  # how a file of a few lines begins that stands for a large one
EDITABLE = frozenset({"README.md"})  # a person may edit them: not verified, and an edited one is not replaced
_options: dict[str, Any] = {}


def fingerprint(*parts: Any) -> str:
    """A short SHA-256 of JSON-like values: equal values give equal strings on every machine."""
    blob = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    # 80 bits tell apart more than anyone stores, in a name that can be read
    return hashlib.sha256(blob.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: str | Path, data: str | bytes) -> Path:
    """Write one file atomically: a staging file beside it, fsync, rename, fsync of the folder.

    A path that is not a regular file (`/dev/stdout`, a pipe) is written to directly.
    """
    path, content = Path(path), data.encode() if isinstance(data, str) else data
    if path.exists() and not path.is_file() and not path.is_dir():
        with disk_errors(path):
            path.write_bytes(content)
        return path
    with lock(path):
        target = real_path(path)
        sweep(target)
        staging = staging_path(target)
        try:
            with disk_errors(path):
                staging.write_bytes(content)
                sync(staging)
                staging.replace(target)
                sync(target.parent)
        finally:
            staging.unlink(missing_ok=True)
    return path


def check_file(path: str | Path) -> None:
    """Raise `OSError` with the path if `write_file` cannot write it; called before long work, not after it."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file", str(path))
    if not path.exists() or path.is_file():
        with lock(path):
            pass


@contextlib.contextmanager
def write_folder(path: str | Path, kind: str, made_by: dict[str, Any] | None = None) -> Iterator[Path]:
    """Yield a staging folder; if the block raises nothing, one rename makes it `path`.

    An older folder of the same kind is replaced. Raises `FileExistsError` for anything else at `path` and for a folder
    with files that Boustro did not write, and `BlockingIOError` when another run is writing there. When the block
    fails, nothing is left behind.
    """
    with lock(path, wait=False):
        target = real_path(path)
        restore_older(target)
        refuse_foreign(target, kind)
        sweep(target)
        staging = staging_path(target)
        try:
            with disk_errors(Path(path)):
                staging.mkdir()
                yield staging
                write_manifest(staging, kind, made_by)
                refuse_foreign(target, kind)  # again, because the block may have taken hours
                if target.exists():
                    target.rename(retired_path(target))
                staging.rename(target)
                sync(target.parent)
        finally:
            restore_older(target)
            sweep(target)


@contextlib.contextmanager
def claim(path: str | Path, kind: str, overwrite: bool = False) -> Iterator[None]:
    """Reserve `path` for a run that writes a folder there at its end; what could fail then is checked now.

    Raises `FileExistsError` for what must not be replaced, including a complete folder unless `overwrite`;
    `BlockingIOError` when another run has reserved it; `OSError` where writing is not possible.
    """
    with lock(path, wait=False):
        restore_older(real_path(path))
        refuse_foreign(Path(path), kind)
        if not overwrite and (real_path(path) / MANIFEST).is_file():
            advice = "give --overwrite to replace it, or choose another --out"
            raise FileExistsError(f"{path} already holds {_folder(kind)}; {advice}")
        yield


def make_manifest(folder: Path, kind: str, made_by: dict[str, Any] | None = None) -> dict[str, Any]:
    """The files of `folder` with sizes and hashes, and what made them."""
    files = {}
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST):
        name = file.relative_to(folder).as_posix()
        files[name] = {"bytes": file.stat().st_size, "sha256": hash_file(file)}
    return {"kind": kind, "files": files, "made_by": {**provenance(), **(made_by or {})}}


def write_manifest(folder: Path, kind: str, made_by: dict[str, Any] | None = None) -> None:
    """List every file with size and hash, give it the mode of a new file (umask), sync; the manifest comes last."""
    manifest = make_manifest(folder, kind, made_by)
    for name in manifest["files"]:
        # temporary files are private; what is written is as open as its folder
        (folder / name).chmod(folder.stat().st_mode & 0o666)
        sync(folder / name)
    write_file(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))


def open_folder(path: str | Path, kind: str, verify: bool = False, needs: Collection[str] = ()) -> dict[str, Any]:
    """The manifest of a complete folder; `verify` also compares every hash.

    Raises `FileNotFoundError` for a missing folder, and `ValueError` for a folder that is incomplete, of another kind,
    or without a file in `needs`, and for a file that is missing or has changed in size.
    """
    path = Path(path)
    if not path.is_dir() and retired_path(real_path(path)).exists():  # being replaced, or left by a kill
        with contextlib.suppress(OSError), lock(path):
            restore_older(real_path(path))
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder; {_folder(kind)} is expected here")
    if not (path / MANIFEST).is_file():
        raise ValueError(
            f"{path}: no {MANIFEST}, so this {kind} folder is incomplete or was not written by Boustro; write it again"
        )
    manifest = _read_manifest(path, kind)
    if manifest["kind"] != kind:
        raise ValueError(f"{path} is {_folder(manifest['kind'])}; {_folder(kind)} is expected here")
    if lost := [name for name in needs if name not in manifest["files"]]:
        raise ValueError(f"{path} holds no {lost[0]}; write the {kind} folder again")
    for name, fact in manifest["files"].items():
        file = path / name
        if Path(name).name in EDITABLE:
            continue
        if not file.is_file():
            raise ValueError(f"{file} is missing; write the {kind} folder again")
        if file.stat().st_size != fact["bytes"]:
            refuse_pointers(path)
            raise ValueError(f"{file} holds {file.stat().st_size} bytes, not {fact['bytes']}; write the folder again")
        if verify and hash_file(file) != fact["sha256"]:
            raise ValueError(f"{file} has changed since it was written; write the {kind} folder again")
    return manifest


def refuse_pointers(path: str | Path) -> None:
    """`ValueError` for a folder that could not be read and holds pointers in place of files that Git LFS keeps."""
    path = Path(path)
    for file in sorted(path.iterdir()) if path.is_dir() else ():
        if not file.is_file():
            continue
        with file.open("rb") as opened:
            start = opened.read(len(POINTER))
        if start == POINTER:
            raise ValueError(
                f"{file} is a pointer of Git LFS, not the file itself; fetch the files with: git lfs pull, in {path}"
            )


@contextlib.contextmanager
def read_folder(path: str | Path, kind: str, verify: bool = False, needs: Collection[str] = ()) -> Iterator[dict]:
    """`open_folder` around a block that reads the folder's files, with `reading`."""
    manifest = open_folder(path, kind, verify, needs)
    with reading(path, f"write the {kind} folder again"):
        yield manifest


@contextlib.contextmanager
def reading(path: str | Path, advice: str) -> Iterator[None]:
    """Around a block that only reads files of `path`: an error caused by damage becomes a `ValueError`.

    Errors that already name the path, a missing package and too little memory are raised unchanged.
    """
    try:
        yield
    except Exception as error:
        named = isinstance(error, (ValueError, OSError)) and str(path) in str(error)
        if named or isinstance(error, ImportError) or lacks_memory(error):
            raise
        raise ValueError(f"{path}: damaged, or written by another version ({reason(error)}); {advice}") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; `ValueError` with its path when it is damaged."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: damaged ({reason(error)})") from error


def remove_folder(path: str | Path, own: Collection[str] = ()) -> None:
    """Remove an artefact, complete or damaged, and what killed writers of it left.

    Files that its manifest does not list are kept, except those that match a pattern of `own` (needed where the
    manifest is damaged). Does nothing while another run is writing there.
    """
    path = Path(path)
    with contextlib.suppress(BlockingIOError), lock(path, wait=False):
        target = real_path(path)
        restore_older(target)
        if target.is_dir():
            others = {name for name in foreign_files(target) if not any(fnmatch(name, p) for p in own)}
            for place in (*sorted(target.rglob("*"), reverse=True), target):  # files before their folders
                with contextlib.suppress(OSError):  # a folder that is not empty
                    if place.is_dir() and not place.is_symlink():
                        place.rmdir()
                    elif place.relative_to(target).as_posix() not in others:
                        place.unlink()
        sweep(target)


def content_fingerprint(manifest: dict[str, Any]) -> str:
    """One fingerprint of all files in a folder, independent of who wrote it and when."""
    return fingerprint(
        {name: fact["sha256"] for name, fact in manifest["files"].items() if Path(name).name not in EDITABLE}
    )


def record_options(options: dict[str, Any]) -> None:
    """Set the options of the running command, for all manifests written from now on."""
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
    """`FileExistsError` for what must not be replaced: no folder of this kind, or files not written by Boustro."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if kind_of(path) != kind:
        raise FileExistsError(f"{path} exists and is not {_folder(kind)}; choose another name or remove it")
    if others := foreign_files(path):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        message = "which Boustro did not write or which was edited; move it elsewhere or choose another name"
        raise FileExistsError(f"{path} holds {others[0]}{more}, {message}")


def kind_of(path: str | Path) -> str | None:
    """The kind of an artefact; `None` for anything else."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(read_json(Path(path) / MANIFEST)["kind"])
    return None


def foreign_files(path: Path) -> list[str]:
    """Files of an artefact that its manifest does not list, and edited ones."""
    listed: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        listed = _read_manifest(path, "artefact")["files"]
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir() or p.is_symlink())
    edited = {
        n for n in names if n in listed and Path(n).name in EDITABLE and hash_file(path / n) != listed[n]["sha256"]
    }
    return [name for name in names if name != MANIFEST and (name not in listed or name in edited)]


def _read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """A manifest with all its fields that lists only files inside the folder; `ValueError` for any other."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        manifest = read_json(path / MANIFEST)
        files = manifest["files"].items()
        inside = all(not Path(name).is_absolute() and ".." not in Path(name).parts for name, _ in files)
        sound = inside and all(isinstance(f["bytes"], int) and isinstance(f["sha256"], str) for _, f in files)
        if sound and manifest["kind"] and isinstance(manifest["kind"], str) and isinstance(manifest["made_by"], dict):
            return manifest
    raise ValueError(f"{path / MANIFEST}: damaged; write the {kind} folder again")


def _folder(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} folder"
