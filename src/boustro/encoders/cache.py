"""Features on disk: a wrapper with the encoder's own interface that computes each text once.

An entry is a folder named after everything that changes the numbers (the encoder's identity and the
text), and after nothing else. It holds one array, memory-mapped: all words end to end, (words, layers,
width). What comes back is bit for bit what the encoder gave, and what was noticed while it was computed is
told again. Each LM of a pair is cached by itself, so that its halves and the pair share what they have in common.

Several programs may share a cache: an entry has one writer at a time, the others wait for it and read what it wrote.
A damaged entry is written again.
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boustro.encoders.contract import Encoder, Features, Words, word_progress
from boustro.encoders.windows import group_sentences
from boustro.given import as_sentences, each_sentence
from boustro.locks import leftovers, lock
from boustro.store import fingerprint, kind_of, open_folder, read_folder, remove_folder, write_folder

KIND, ARRAY = "features", "features.bin"
DEFAULT_LIMIT = 20 * 2**30
NOTED_BYTES = 100 * 2**20


def cache_folder() -> Path:
    """`$BOUSTRO_CACHE`, or `boustro` in the user's cache folder."""
    if named := os.environ.get("BOUSTRO_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "boustro" / "features"


def cache_limit() -> int:
    """Bytes that the cache may hold: `$BOUSTRO_CACHE_LIMIT` such as `8GB`, or 20 GiB."""
    text = os.environ.get("BOUSTRO_CACHE_LIMIT", "").strip().upper().removesuffix("B")
    if not text:
        return DEFAULT_LIMIT
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    try:
        return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)
    except ValueError as error:
        raise ValueError(f"BOUSTRO_CACHE_LIMIT={text!r} is no size; write for example 8GB") from error


class CachedEncoder(Encoder):
    """Same numbers as `encoder`, from disk where they are there already."""

    def __init__(self, encoder: Encoder, folder: Path | None = None, limit: int | None = None) -> None:
        assert len(encoder.streams) == 1, "each stream is cached by itself"
        self.encoder = encoder
        self.folder = folder or cache_folder()
        self.limit = cache_limit() if limit is None else limit
        self.spec, self.streams, self.dtype = encoder.spec, encoder.streams, encoder.dtype
        self.num_parameters = encoder.num_parameters
        self.counts = Counter()
        self._identity = encoder.identity()

    def identity(self) -> dict[str, Any]:
        return self._identity

    def encode(self, sentences: Iterable[Words]) -> Iterator[tuple[np.ndarray, ...]]:
        yield from self.encode_all(list(sentences)).sentences()

    def encode_all(self, sentences: Sequence[Words]) -> Features:
        sentences = as_sentences(sentences)
        lengths = np.array([len(s) for s in sentences], np.int64)
        shape = (int(lengths.sum()), self.streams[0].num_layers, self.streams[0].width)
        if 0 in shape:
            return self.encoder.encode_all(sentences)
        entry = self.entry(sentences)
        size = int(np.prod(shape)) * self.dtype.itemsize
        with lock(entry):  # held until the array is open: nobody lets go of the entry before
            try:
                made_by = self._find(entry, size)
            except (ValueError, FileNotFoundError):
                remove_folder(entry, (ARRAY,))
                made_by = self._write(entry, sentences, shape, size)
            os.utime(entry)
            array = np.memmap(entry / ARRAY, dtype=self.dtype, mode="c", shape=shape)
        self.counts.update(made_by["notices"])
        return Features((array,), lengths)

    def entry(self, sentences: Sequence[Words]) -> Path:
        """The folder that holds the features of these sentences, or would."""
        groups = group_sentences(each_sentence(sentences), self._identity["context"])
        key = fingerprint(self._identity, [[(s.words, s.spaces) for s in group] for group in groups])
        return self.folder / key[:2] / key

    def _find(self, entry: Path, size: int) -> dict[str, Any]:
        """What the entry's manifest says of its making; `ValueError` where it does not hold the array."""
        manifest = open_folder(entry, KIND, needs=(ARRAY,))
        notices = manifest["made_by"].get("notices")
        told = isinstance(notices, dict) and all(isinstance(count, int) for count in notices.values())
        if manifest["files"][ARRAY]["bytes"] != size or not told:
            raise ValueError(f"{entry} holds other features")
        return manifest["made_by"]

    def _write(self, entry: Path, sentences: Sequence[Words], shape: tuple[int, int, int], size: int) -> dict[str, Any]:
        """Compute the features; returns what the manifest says of their making."""
        self._make_room(size)
        if size >= NOTED_BYTES:
            print(f"{self.spec}: writing {size / 2**20:,.0f} MB of features to {self.folder}", file=sys.stderr)
        before = Counter(self.encoder.counts)
        made_by = {"spec": self.spec, "identity": self._identity, "shape": shape, "notices": {}}
        with (
            write_folder(entry, KIND, made_by) as folder,
            (folder / ARRAY).open("wb") as file,
            word_progress(self.spec, shape[0]) as bar,
        ):
            for (vectors,) in self.encoder.encode(sentences):
                file.write(np.ascontiguousarray(vectors).data)
                bar.update(len(vectors))
            made_by["notices"] = dict(self.encoder.counts - before)
        return made_by

    def _make_room(self, needed: int) -> None:
        """Let go of the entries that were not used for longest; `ValueError` where that is not enough."""
        advice = "raise BOUSTRO_CACHE_LIMIT, name another place in BOUSTRO_CACHE, or do without (--no-cache)"
        if needed > self.limit:
            raise ValueError(
                f"the features need {needed / 2**30:.1f} GiB, the cache may hold {self.limit / 2**30:.1f}; {advice}"
            )
        held = [(entry, _size(entry)) for entry in sorted(_entries(self.folder), key=_last_used)]
        excess = needed + sum(size for _, size in held) - self.limit
        for entry, size in held:
            if excess <= 0 and needed <= shutil.disk_usage(self.folder).free:
                return
            remove_folder(entry, (ARRAY,))
            excess -= size
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise ValueError(
                f"{self.folder}: the features need {needed / 2**30:.2f} GiB, {free / 2**30:.2f} GiB are free; {advice}"
            )


def list_features(folder: Path) -> None:
    """Print the entries of a cache and what they hold."""
    entries, left = _entries(folder), leftovers(folder, "??/.*")
    for entry in entries:
        print(f"{_size(entry) / 2**20:9,.1f} MB  {_describe(entry)}")
    for path in left:
        print(f"{_size(path) / 2**20:9,.1f} MB  left half-written by a run that was killed")
    total = sum(map(_size, [*entries, *left]))
    print(f"{folder}: {len(entries)} entries, {total / 2**20:,.1f} MB of at most {cache_limit() / 2**20:,.0f}")


def clear_features(folder: Path) -> None:
    """Remove the entries of a cache, and what runs that were killed have left of theirs."""
    entries, left = _entries(folder), leftovers(folder, "??/.*")
    total = sum(map(_size, [*entries, *left]))
    for entry in (*entries, *left.values()):
        remove_folder(entry, (ARRAY,))
    print(f"{folder}: {len(entries)} entries, {total / 2**20:,.1f} MB removed")


def _describe(entry: Path) -> str:
    try:
        with read_folder(entry, KIND) as manifest:
            made = manifest["made_by"]
            words, layers, width = made["shape"]
            return f"{words:>9,} words  {layers} x {width}  {made['identity']['pooling']:<12} {made['spec']}"
    except ValueError:
        return "damaged; written again when it is needed"


def _entries(folder: Path) -> list[Path]:
    """Folders of features, whole or damaged."""
    return [entry for entry in sorted(folder.glob("??/*")) if kind_of(entry) == KIND or (entry / ARRAY).is_file()]


def _last_used(entry: Path) -> float:
    return entry.stat().st_mtime


def _size(entry: Path) -> int:
    return sum(f.stat().st_size for f in entry.rglob("*") if f.is_file())
