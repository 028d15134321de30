"""Folders that are either complete or absent.

Every artefact (a model, a tagger, token shards) is written to a staging folder beside its target, its manifest (each
file's size and SHA-256) last; then one rename makes it visible. A folder that does not match its manifest is refused.

    with write_folder("ner", kind="tagger") as folder:
        (folder / "weights.bin").write_bytes(...)
    Artefact("ner").check("tagger")     # its manifest, or a ValueError that says what is wrong

Whoever reads a folder asks its `Artefact`, which opens each file of it once. A target has one writer at a time
(`locks.lock`). A file that Boustro did not write is never deleted: a folder that holds one is not replaced.
"""

import contextlib
import errno
import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatch
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from boustro.errors import lacks_memory, reason
from boustro.locks import (
    discard,
    disk_errors,
    lock,
    lock_for_run,
    real_path,
    restore_older,
    retired_path,
    staging_path,
    sweep,
    sync,
)

MANIFEST = "manifest.json"
POINTER = b"version https://git-lfs"  # how a file of a few lines begins that stands for a large one
EDITABLE = frozenset({"README.md"})  # a person may edit them: not verified, and an edited one is not replaced
SETTINGS_BYTES = 1 << 16  # settings, which several ask for; weights and words are given once
_options: dict[str, Any] = {}


def fingerprint(*parts: Any) -> str:
    """Return a short SHA-256 of JSON-like values: equal values give equal strings on every machine."""
    blob = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    # 80 bits tell apart more than anyone stores, in a name that can be read
    return hashlib.sha256(blob.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: str | Path, data: str | bytes) -> Path:
    """Write one file atomically (`staged`); directly to a path that is no regular file (`/dev/stdout`, a pipe)."""
    path, content = Path(path), data.encode() if isinstance(data, str) else data
    if path.exists() and not path.is_file() and not path.is_dir():
        with disk_errors(path):
            path.write_bytes(content)
        return path
    with lock(path), disk_errors(path), staged(real_path(path)) as staging:
        staging.write_bytes(content)
    return path


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a staging name, under which the block writes a file, or files of a folder that is there already; each then
    gets its own name by one rename. The caller holds the lock of `target`."""
    sweep(target)
    staging = staging_path(target)
    try:
        yield staging
        for path in sorted(staging.rglob("*")) if staging.is_dir() else [staging]:
            if path.is_file():
                sync(path)
                named = target / path.relative_to(staging)
                named.parent.mkdir(parents=True, exist_ok=True)
                path.replace(named)
        sync(target.resolve().parent)
    finally:
        discard(staging)


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
    with lock_for_run(path):
        restore_older(real_path(path))
        refuse_foreign(Path(path), kind)
        if not overwrite and (real_path(path) / MANIFEST).is_file():
            advice = "give --overwrite to replace it, or choose another --out"
            raise FileExistsError(f"{path} already holds {_folder(kind)}; {advice}")
        yield


def make_manifest(folder: Path, kind: str, made_by: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the files of `folder` with sizes and hashes, and what made them."""
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


class Artefact:
    """One look at a model folder, or at the name of one that may be elsewhere: its manifest, its settings and hashes.

    Nothing is read before it is asked for, and no file twice but a large one that is given whole. In messages it is the
    name that was given; as a path it is its folder.

        artefact = Artefact("ner")
        artefact.kind                           "tagger"; `None` where Boustro wrote no folder
        artefact.check("tagger")                its manifest, or an error that says what is wrong
        artefact.config()                       {"task": "tag", …}
        artefact.sha256("head.safetensors")
    """

    def __init__(self, place: "str | Path", is_ours: bool = False) -> None:
        """`is_ours`: the folder is the package's own, whose files have the hashes of its manifest if their sizes are
        right, since nothing changes them once they are installed."""
        self.name, self.path, self._is_ours = str(place), Path(place), is_ours
        self._hashes: dict[str, str] = {}
        self._kept: dict[str, bytes] = {}
        self._is_verified = False

    @classmethod
    def of(cls, place: "ModelPlace") -> "Artefact":
        """Return the artefact at a place, or the one that is given."""
        return place if isinstance(place, Artefact) else cls(place)

    def __str__(self) -> str:
        return self.name

    def __fspath__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def is_written(self) -> bool:
        """Whether it is a folder with a manifest."""
        return (self.path / MANIFEST).is_file()

    @cached_property
    def _listed(self) -> Any:
        with contextlib.suppress(OSError, ValueError):
            return read_json(self.path / MANIFEST)
        return None

    @property
    def kind(self) -> str | None:
        """Of what its manifest is; `None` where there is none."""
        with contextlib.suppress(KeyError, TypeError):
            return str(self._listed["kind"])
        return None

    @property
    def files(self) -> dict[str, Any]:
        """Size and hash of each file that its manifest lists, by name."""
        return self.manifest(self.kind or "model")["files"]

    @property
    def fingerprint(self) -> str:
        """Of all files that its manifest lists, whoever wrote it and when."""
        return fingerprint(
            {name: fact["sha256"] for name, fact in self.files.items() if Path(name).name not in EDITABLE}
        )

    def manifest(self, kind: str) -> dict[str, Any]:
        """Return the manifest, which has all its fields and lists only files inside; `ValueError` for any other."""
        manifest = self._listed
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            files = manifest["files"].items()
            inside = all(not Path(name).is_absolute() and ".." not in Path(name).parts for name, _ in files)
            sound = inside and all(isinstance(f["bytes"], int) and isinstance(f["sha256"], str) for _, f in files)
            named = manifest["kind"] and isinstance(manifest["kind"], str)
            if sound and named and isinstance(manifest["made_by"], dict):
                return manifest
        raise ValueError(f"{self.path / MANIFEST}: damaged; write the {kind} folder again")

    def check(self, kind: str, verify: bool = False, needs: Collection[str] = ()) -> dict[str, Any]:
        """Return the manifest of a complete folder; `verify` also compares every hash.

        Raises `FileNotFoundError` for a missing folder, and `ValueError` for a folder that is incomplete, of another
        kind, or without a file in `needs`, and for a file that is missing or has changed in size.
        """
        path = self.path
        if not path.is_dir() and retired_path(real_path(path)).exists():  # being replaced, or left by a kill
            with contextlib.suppress(OSError), lock(path):
                restore_older(real_path(path))
            vars(self).pop("_listed", None)
        if not path.is_dir():
            raise FileNotFoundError(f"{path}: no such folder; {_folder(kind)} is expected here")
        if not self.is_written:
            raise ValueError(
                f"{path}: no {MANIFEST}, so this {kind} folder is incomplete or was not written by Boustro; "
                "write it again"
            )
        manifest = self.manifest(kind)
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
                size = file.stat().st_size
                raise ValueError(f"{file} holds {size} bytes, not {fact['bytes']}; write the folder again")
            if verify and not self._is_verified and self.sha256(name) != fact["sha256"]:
                raise ValueError(f"{file} has changed since it was written; write the {kind} folder again")
        self._is_verified |= verify
        return manifest

    @contextlib.contextmanager
    def opened(self, kind: str, verify: bool = False, needs: Collection[str] = ()) -> Iterator[dict[str, Any]]:
        """Check the folder around a block that reads its files, whose errors say what is damaged (`reading`)."""
        manifest = self.check(kind, verify, needs)
        with reading(self.path, f"write the {kind} folder again"):
            yield manifest

    def read(self, name: str) -> bytes:
        """Return the bytes of a file, whose hash is known from then on."""
        if name in self._kept:
            return self._kept[name]
        data = (self.path / name).read_bytes()
        if not self._is_ours:
            self._hashes[name] = hashlib.sha256(data).hexdigest()
        if len(data) <= SETTINGS_BYTES:
            self._kept[name] = data
        return data

    def json(self, name: str) -> Any:
        """Return the content of a JSON file, anew each time; `ValueError` with its path when it is damaged."""
        return parse_file(self.path / name, lambda: self.read(name).decode())

    def config(self) -> dict[str, Any]:
        """Return the settings in config.json, as `json`."""
        if not isinstance(found := self.json("config.json"), dict):
            raise ValueError(f"{self.path / 'config.json'}: damaged (not an object)")
        return found

    def sha256(self, name: str, make: Callable[[Path], str] | None = None) -> str:
        """Return the hash of a file, made once by `hash_file` or `make`."""
        file = self.path / name
        if self._is_ours and not self._hashes:
            self._hashes = {listed: fact["sha256"] for listed, fact in self.files.items()}
        if name not in self._hashes and file.stat().st_size <= SETTINGS_BYTES:
            self.read(name)
        if name not in self._hashes:
            self._hashes[name] = (make or hash_file)(file)
        return self._hashes[name]


ModelPlace = str | Path | Artefact
"""A folder, a file of weights, or a name on the Hub."""


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
    """Return the content of a JSON file; `ValueError` with its path when it is damaged."""
    return parse_file(path, lambda: path.read_text("utf-8"))


def parse_file(path: Path, read: Callable[[], str]) -> Any:
    """Return what JSON in the text of a file says; `ValueError` with its path when it is damaged."""
    try:
        return json.loads(read())
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


def record_options(options: dict[str, Any]) -> None:
    """Set the options of the running command, for all manifests written from now on."""
    _options.clear()
    _options.update(options)


def provenance() -> dict[str, Any]:
    """Return how an artefact was made: the command, its options where it was a command, and the versions."""
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
    if Artefact(path).kind != kind:
        raise FileExistsError(f"{path} exists and is not {_folder(kind)}; choose another name or remove it")
    if others := foreign_files(path):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        message = "which Boustro did not write or which was edited; move it elsewhere or choose another name"
        raise FileExistsError(f"{path} holds {others[0]}{more}, {message}")


def foreign_files(path: Path) -> list[str]:
    """Files of an artefact that its manifest does not list, and edited ones."""
    listed: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        listed = Artefact(path).manifest("artefact")["files"]
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir() or p.is_symlink())
    edited = {
        n for n in names if n in listed and Path(n).name in EDITABLE and hash_file(path / n) != listed[n]["sha256"]
    }
    return [name for name in names if name != MANIFEST and (name not in listed or name in edited)]


def _folder(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} folder"
