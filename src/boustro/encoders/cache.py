"""Features on disk: a wrapper with the encoder's own interface that computes each text once.

An entry is a folder named after everything that changes the numbers (the encoder's identity and the
text), and after nothing else. It holds one array, memory-mapped: all words end to end, (words, layers,
width). What comes back is bit for bit what the encoder gave. Each LM of a pair is cached by itself, so
that its halves and the pair share what they have in common.
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm
from tyro.conf import Positional

from boustro.encoders.contract import Encoder, Features, Words, as_sentence
from boustro.store import fingerprint, open_folder, write_folder

KIND = "features"
DEFAULT_LIMIT = 20 * 2**30
NOTED_BYTES = 100 * 2**20


def cache_folder() -> Path:
    """`$BOUSTRO_CACHE`, or `boustro` in the user's cache folder."""
    if "BOUSTRO_CACHE" in os.environ:
        return Path(os.environ["BOUSTRO_CACHE"])
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
        self._identity = encoder.identity()

    @property
    def counts(self) -> Counter[str]:  # type: ignore[override]
        return self.encoder.counts

    def identity(self) -> dict[str, Any]:
        return self._identity

    def encode(self, sentences: Iterable[Words]) -> Iterator[tuple[np.ndarray, ...]]:
        yield from self.encode_all(list(sentences)).sentences()

    def encode_all(self, sentences: Sequence[Words]) -> Features:
        sentences = [as_sentence(s) for s in sentences]
        lengths = np.array([len(s) for s in sentences], np.int64)
        shape = (int(lengths.sum()), self.streams[0].num_layers, self.streams[0].width)
        if 0 in shape:
            return self.encoder.encode_all(sentences)
        entry = self.entry(sentences)
        try:
            open_folder(entry, KIND)
            os.utime(entry)
        except (ValueError, FileNotFoundError):
            shutil.rmtree(entry, ignore_errors=True)
            self._write(entry, sentences, shape)
        array = np.memmap(entry / "features.bin", dtype=self.dtype, mode="r", shape=shape)
        return Features((array,), lengths)

    def entry(self, sentences: Sequence[Words]) -> Path:
        """The folder that holds the features of these sentences, or would."""
        given = [as_sentence(s) for s in sentences]
        key = fingerprint(self._identity, [(s.words, s.spaces, s.document) for s in given])
        return self.folder / key[:2] / key

    def _write(self, entry: Path, sentences: Sequence[Words], shape: tuple[int, int, int]) -> None:
        needed = int(np.prod(shape)) * self.dtype.itemsize
        entry.parent.mkdir(parents=True, exist_ok=True)
        self._make_room(needed)
        if needed >= NOTED_BYTES:
            print(f"{self.spec}: writing {needed / 2**20:,.0f} MB of features to {self.folder}", file=sys.stderr)
        with (
            write_folder(entry, KIND, {"spec": self.spec, "identity": self._identity, "shape": shape}) as folder,
            (folder / "features.bin").open("wb") as file,
            tqdm(total=shape[0], desc=self.spec, unit=" words", unit_scale=True, disable=None, leave=False) as bar,
        ):
            for (vectors,) in self.encoder.encode(sentences):
                file.write(np.ascontiguousarray(vectors).data)
                bar.update(len(vectors))

    def _make_room(self, needed: int) -> None:
        """Refuse what cannot fit, and let go of the entries that were not used for longest."""
        advice = "raise BOUSTRO_CACHE_LIMIT, name another place in BOUSTRO_CACHE, or do without (--no-cache)"
        if needed > self.limit:
            raise ValueError(
                f"the features need {needed / 2**30:.1f} GiB, the cache may hold {self.limit / 2**30:.1f}; {advice}"
            )
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise ValueError(
                f"{self.folder}: the features need {needed / 2**30:.2f} GiB, {free / 2**30:.2f} GiB are free; {advice}"
            )
        entries = sorted(_entries(self.folder), key=lambda e: e.stat().st_mtime, reverse=True)
        room = self.limit - needed
        for entry in entries:
            room -= _size(entry)
            if room < 0:
                shutil.rmtree(entry, ignore_errors=True)


def cache(action: Positional[Literal["list", "clear"]], folder: Path | None = None) -> None:
    """List the cached features, or clear them all.

    Args:
        action: What to do.
        folder: The cache; by default $BOUSTRO_CACHE or the user's cache folder.
    """
    folder = folder or cache_folder()
    entries = _entries(folder)
    total = sum(_size(entry) for entry in entries)
    if action == "clear":
        for entry in entries:
            shutil.rmtree(entry)
        print(f"{folder}: {len(entries)} entries, {total / 2**20:,.1f} MB removed")
        return
    for entry in entries:
        made = open_folder(entry, KIND)["made_by"]
        words, layers, width = made["shape"]
        pooling = made["identity"]["pooling"]
        print(f"{_size(entry) / 2**20:9,.1f} MB  {words:>9,} words  {layers} x {width}  {pooling:<12} {made['spec']}")
    print(f"{folder}: {len(entries)} entries, {total / 2**20:,.1f} MB of at most {cache_limit() / 2**20:,.0f}")


def _entries(folder: Path) -> list[Path]:
    found = []
    for entry in sorted(folder.glob("??/*")):
        try:
            open_folder(entry, KIND)
            found.append(entry)
        except (ValueError, FileNotFoundError):
            if entry.name.startswith("."):
                continue  # being written, or left by a killed run: the next write of it sweeps it
    return found


def _size(entry: Path) -> int:
    return sum(f.stat().st_size for f in entry.iterdir())
