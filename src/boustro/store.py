"""Folders that are either complete or absent.

Every artefact (a model, a tagger, token shards, a cache entry) is written to a staging folder beside
its target; the manifest, with each file's size and SHA-256, goes in last; then one rename makes it
visible. A reader refuses a folder whose manifest is missing or does not match what lies there.

    with write_folder("ner", kind="tagger") as folder:
        (folder / "weights.bin").write_bytes(...)
    open_folder("ner", kind="tagger")   # its manifest, or a ValueError that says what is wrong
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
DISK_ERRORS = {getattr(errno, e) for e in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO", "ENOTDIR")}


def fingerprint(*parts: Any) -> str:
    """A short SHA-256 of JSON-like values: equal values give equal names on every machine."""
    blob = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(blob.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: str | Path, data: str | bytes) -> Path:
    """Write one file atomically: a staging file beside it, fsync, rename, fsync of the folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.staging")
    try:
        staging.write_bytes(data.encode() if isinstance(data, str) else data)
        _sync(staging)
        staging.replace(path)
        _sync(path.parent)
    except OSError as error:
        staging.unlink(missing_ok=True)
        raise _disk_error(error, path) from error
    return path


@contextlib.contextmanager
def write_folder(path: str | Path, kind: str, made_by: dict[str, Any] | None = None) -> Iterator[Path]:
    """Yield a staging folder; when the block ends well, it becomes `path`, complete, in one rename.

    An older folder of the same kind is replaced, and so is a half-written one; anything else that
    stands at `path` is left alone: `FileExistsError`. When the block fails, nothing is left behind.
    """
    path = Path(path)
    refuse_foreign(path, kind)
    staging, retired = (path.with_name(f".{path.name}.{stage}") for stage in ("staging", "retired"))
    if retired.exists() and not path.exists():  # killed between the two renames: the older folder returns
        retired.rename(path)
    for leftover in (staging, retired):  # of a run that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        staging.mkdir(parents=True)
        yield staging
        write_manifest(staging, kind, made_by)
        if path.exists():
            path.rename(retired)
        try:
            staging.rename(path)
        except OSError:
            if retired.exists():
                retired.rename(path)
            raise
        _sync(path.parent)
    except OSError as error:
        raise _disk_error(error, path) from error
    finally:
        for leftover in (staging, retired):
            shutil.rmtree(leftover, ignore_errors=True)


def write_manifest(folder: Path, kind: str, made_by: dict[str, Any] | None = None) -> None:
    """List every file of `folder` with size and hash, sync them, and write the manifest last."""
    files = {}
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST):
        _sync(file)
        name = file.relative_to(folder).as_posix()
        files[name] = {"bytes": file.stat().st_size, "sha256": hash_file(file)}
    manifest = {"kind": kind, "files": files, "made_by": {**provenance(), **(made_by or {})}}
    write_file(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))


def open_folder(path: str | Path, kind: str, verify: bool = False) -> dict[str, Any]:
    """The manifest of a complete folder; `verify` also compares every hash.

    Raises `FileNotFoundError` when nothing is there, and `ValueError` when the folder is
    incomplete, of another kind, or when a file is missing or has another size than it was written with.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder; {_folder(kind)} is expected here")
    if not (path / MANIFEST).is_file():
        raise ValueError(f"{path}: no {MANIFEST}, so this {kind} folder is incomplete or not ours; write it again")
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        found, files = manifest["kind"], manifest["files"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path / MANIFEST}: damaged; write the {kind} folder again") from error
    if found != kind:
        raise ValueError(f"{path} is {_folder(found)}; {_folder(kind)} is expected here")
    for name, fact in files:
        file = path / name
        if not file.is_file():
            raise ValueError(f"{file} is missing; write the {kind} folder again")
        if file.stat().st_size != fact["bytes"]:
            raise ValueError(f"{file} holds {file.stat().st_size} bytes, not {fact['bytes']}; write the folder again")
        if verify and hash_file(file) != fact["sha256"]:
            raise ValueError(f"{file} has changed since it was written; write the {kind} folder again")
    return manifest


def content_fingerprint(manifest: dict[str, Any]) -> str:
    """One name for everything that a folder holds, whoever wrote it and when."""
    return fingerprint({name: fact["sha256"] for name, fact in manifest["files"].items()})


def provenance() -> dict[str, Any]:
    """What a reader of an artefact wants to know of its making: the command and the versions."""
    versions = {}
    for package in ("boustro", "torch", "transformers", "tokenizers", "numpy"):
        with contextlib.suppress(ImportError):
            versions[package] = version(package)
    program, *arguments = sys.argv or [""]
    return {"command": [Path(program).name, *arguments], "versions": versions}


def refuse_foreign(path: Path, kind: str) -> None:
    """Only a folder of ours may be replaced: what a typing mistake could destroy is not."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if path.is_dir():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads((path / MANIFEST).read_text("utf-8"))["kind"] == kind:
                return
    raise FileExistsError(f"{path} exists and is not {_folder(kind)}; choose another name or remove it")


def _folder(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} folder"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _disk_error(error: OSError, path: Path) -> OSError:
    """The same error with the target's name and what to do."""
    if error.errno not in DISK_ERRORS:
        return error
    reason = error.strerror or str(error)
    return OSError(
        error.errno, f"{reason}; nothing was left behind, free some space or choose another place", str(path)
    )
