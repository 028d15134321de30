"""Features on disk: a wrapper with the encoder's own interface that computes each text once.

An entry is a folder named after everything that changes the numbers (the encoder's identity and the text), and nothing
else. It contains one memory-mapped array of all words, (words, layers, width), bit for bit what the encoder gave, and
the encoder's counts. Each LM of a pair is cached separately, so that pairs share the entries of their LMs.

Several programs may share a cache: an entry has one writer at a time; the others wait and read what it wrote. A damaged
entry is computed again.
"""

import contextlib
import errno
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder, Features, Identity, WordList, base_parts
from boustro.encoders.reading import group_sentences
from boustro.errors import count_of
from boustro.given import chunk_by_size
from boustro.locks import leftovers, lock
from boustro.output import duration
from boustro.progress import Progress
from boustro.store import Artefact, fingerprint, read_json, remove_folder, write_file, write_folder
from boustro.text.alignment import LONG_WORDS
from boustro.text.words import LONGEST
from boustro.types import Sentence

PROBE_SENTENCES, PROBE_WORDS = 100, 500  # by so many the speed is measured before a long run
FEATURES_KIND, ARRAY = "features", "features.bin"
NOTABLE, LARGE_FEATURES = 100 * 2**20, 2 * 2**30  # bytes that are told beforehand, and with advice
SLOW = 5e12  # words times parameters that are told beforehand: about a minute on one core
NAME_ONE = "name a folder for the cache in BOUSTRO_CACHE"
_UNCACHED_SAID: set[str] = set()
"""Why there is no cache, as far as it was printed."""
FEWER = "fewer layers need less (--layers 25%,50%,last or --layers 50%)"


def num_words(sentences: Iterable[WordList]) -> int:
    """Words of all sentences together."""
    return sum(map(len, sentences))


def words_per_second(encoder: Encoder, sentences: Sequence[WordList]) -> float:
    """Return the speed over the first sentences, after one that warms up; what is noticed there is not counted."""
    noticed, sample = encoder.counts.copy(), next(chunk_by_size(sentences, len, PROBE_WORDS))
    encoder.encode_all(sample[:1])
    started = time.perf_counter()
    encoder.encode_all(sample)
    seconds = time.perf_counter() - started
    encoder.counts.clear()
    encoder.counts.update(noticed)
    return num_words(sample) / seconds


def cache_folder() -> Path:
    """`$BOUSTRO_CACHE`, or `boustro` in the user's cache folder; `OSError` where the user has no home."""
    if named := os.environ.get("BOUSTRO_CACHE"):
        return Path(named)
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise FileNotFoundError(f"there is no home folder; {NAME_ONE}") from error
    return Path(caches) / "boustro" / "features"


def remembered(file: str, key: str, make: Callable[[], Any], keep: bool = True) -> Any:
    """Return what a key decides, made once and kept in a file of the cache's folder; anew where that cannot be read."""
    known: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        known = dict(read_json(cache_folder() / file))
    if key not in known:
        known[key] = make()
        if keep:
            with contextlib.suppress(OSError):  # without the memory it only takes longer
                write_file(cache_folder() / file, json.dumps(known, indent=1))
    return known[key]


def default_cache() -> Path | None:
    """`cache_folder`, or None, said once, where nobody named it and nothing can be written there, as in containers."""
    if os.environ.get("BOUSTRO_CACHE"):
        return cache_folder()
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    except OSError as error:
        why = f"{error.filename}: {error.strerror}; {NAME_ONE}" if error.filename else str(error)
        if why not in _UNCACHED_SAID:
            print(f"note: features are not kept on disk: {why}", file=sys.stderr)
            _UNCACHED_SAID.add(why)
        return None
    return folder


def cache_limit() -> int:
    """Return the most bytes in the cache: `$BOUSTRO_CACHE_LIMIT` such as `8GB`, or 20 GiB."""
    text = os.environ.get("BOUSTRO_CACHE_LIMIT", "").strip().upper().removesuffix("B")
    if not text:
        return 20 * 2**30
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    try:
        return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)
    except ValueError as error:
        raise ValueError(f"BOUSTRO_CACHE_LIMIT={text!r} is not a size; write for example 8GB") from error


class CachedEncoder(Encoder):
    """The numbers of `encoder`, which has one stream, from disk if they are there."""

    def __init__(self, encoder: Encoder, folder: Path | None = None, limit: int | None = None) -> None:
        assert len(encoder.streams) == 1, "each stream has its own cache"
        self.encoder = encoder
        self.folder = folder or cache_folder()
        self.limit = cache_limit() if limit is None else limit
        self.spec, self.streams, self.dtype = encoder.spec, encoder.streams, encoder.dtype
        self.num_parameters = encoder.num_parameters
        self.counts = Counter()
        (self._identity,) = encoder.identity().lms
        self._facts = self._identity.to_dict()

    def identity(self) -> Identity:
        return self._identity

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        yield from self.read_all(list(sentences)).sentences()

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        lengths = np.array([len(s) for s in sentences], np.int64)
        shape = (int(lengths.sum()), self.streams[0].num_layers, self.streams[0].width)
        if 0 in shape:
            return self.encoder.read_all(sentences)
        entry = self.entry(sentences)
        size = shape[0] * self.bytes_per_word
        with lock(entry):  # held until the array is open: nobody removes the entry before
            try:
                made_by = self._find(entry, size)
            except (ValueError, FileNotFoundError):
                remove_folder(entry, (ARRAY,))
                made_by = self._write(entry, sentences, shape, size)
            os.utime(entry)
            array = np.memmap(entry / ARRAY, dtype=self.dtype, mode="c", shape=shape)
        self.counts.update(made_by["notices"])
        return Features((array,), lengths)

    def entry(self, sentences: Sequence[Sentence]) -> Path:
        """Return the folder for the features of these sentences, whether or not it exists."""
        groups = group_sentences(sentences, self._identity.context or "sentence")
        texts = [[(s.words, s.spaces, *self._given(s)) for s in group] for group in groups]
        long = any(len(word) > LONGEST for text in texts for words, *_ in text for word in words)
        key = fingerprint(self._facts, texts, *([LONG_WORDS] if long else []))
        return self.folder / key[:2] / key

    def _given(self, sentence: Sentence) -> list[str]:
        """Return the text, where the encoder reads it as it was given."""
        return [sentence.text] if self.streams[0].whole and sentence.text else []

    def _find(self, entry: Path, size: int) -> dict[str, Any]:
        """Return the `made_by` of the entry's manifest; `ValueError` if the entry does not contain the array."""
        manifest = Artefact(entry).check(FEATURES_KIND, needs=(ARRAY,))
        notices = manifest["made_by"].get("notices")
        told = isinstance(notices, dict) and all(isinstance(count, int) for count in notices.values())
        if manifest["files"][ARRAY]["bytes"] != size or not told:
            raise ValueError(f"{entry} contains other features")
        return manifest["made_by"]

    def _write(self, entry: Path, sentences: Sequence[Sentence], shape: tuple[int, ...], size: int) -> dict[str, Any]:
        """Compute and write the features; returns the `made_by` of the manifest."""
        self._make_room(size, shape)
        if entry not in _TOLD:
            tell_cost(self, [sentences])
        before = Counter(self.encoder.counts)
        made_by = {"spec": self.spec, "identity": self._facts, "shape": shape, "notices": {}}
        with (
            write_folder(entry, FEATURES_KIND, made_by) as folder,
            (folder / ARRAY).open("wb") as file,
            Progress(self.spec, "words", total=shape[0]) as bar,
        ):
            for (vectors,) in self.encoder.read(sentences):
                file.write(np.ascontiguousarray(vectors).data)
                bar.update(len(vectors))
            made_by["notices"] = dict(self.encoder.counts - before)
        return made_by

    def _cost(self, size: int, shape: tuple[int, ...]) -> str:
        """`1.00 GiB of features (131,072 words x 4 layers x 1,024 values x 2 bytes)`."""
        words, layers, width = shape
        each = f"{count_of(words, 'words')} x {layers} layers x {width:,} values x {self.dtype.itemsize} bytes"
        return f"{size / 2**30:.2f} GiB of features ({each})"

    def _make_room(self, needed: int, shape: tuple[int, ...]) -> None:
        """Remove the least recently used entries; `ValueError` if that is not enough."""
        advice = "raise BOUSTRO_CACHE_LIMIT, name another folder in BOUSTRO_CACHE, or use no cache (--no-cache)"
        advice = f"{FEWER}, {advice}" if shape[1] > 1 else advice
        size = f"{self._cost(needed, shape)} are needed"
        if needed > self.limit:
            raise ValueError(f"{size}, the cache's limit is {self.limit / 2**30:.2f} GiB; {advice}")
        held = _by_age(self.folder)
        total = sum(size for _, size in held)
        excess = needed + total - self.limit
        if needed <= shutil.disk_usage(self.folder).free + total:
            for entry, freed in held:
                if excess <= 0 and needed <= shutil.disk_usage(self.folder).free:
                    return
                remove_folder(entry, (ARRAY,))
                excess -= freed
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise ValueError(f"{self.folder}: {size}, only {free / 2**30:.2f} GiB are free; {advice}")


_TOLD: set[Path] = set()
"""Entries whose cost was printed, or is too small to print."""


def tell_cost(encoder: Encoder, data: Sequence[Sequence[Sentence]]) -> None:
    """Print what it takes to compute and write the features that are missing, of all sets at once, if it is much."""
    missing = _missing(encoder, data)
    _TOLD.update(missing)
    needed = [(part, num_words(some)) for part, some in missing.values()]
    size = sum(words * part.bytes_per_word for part, words in needed)
    if size < NOTABLE and sum(words * part.num_parameters for part, words in needed) < SLOW:
        return
    seconds, words = sum(seconds for _, seconds in _costs(missing).values()), sum(map(num_words, data))
    fewer = f"; {FEWER}" if size >= LARGE_FEATURES and max(part.streams[0].num_layers for part, _ in needed) > 1 else ""
    speed = f"{duration(seconds)} ({words / seconds:,.0f} words a second)"
    written = f"{size / 2**30:.2f} GiB of features of {words:,} words, written to {needed[0][0].folder}"
    print(f"{encoder.spec}: {speed}, {written}{fewer}", file=sys.stderr)


def features_to_write(encoder: Encoder, data: Iterable[Sequence[Sentence]]) -> dict[Path, tuple[int, float]]:
    """Missing cache entries: bytes, and seconds from a sample. An encoder that several pairs share counts once."""
    return _costs(_missing(encoder, data))


Missing = dict[Path, tuple[CachedEncoder, Sequence[Sentence]]]


def _missing(encoder: Encoder, data: Iterable[Sequence[Sentence]]) -> Missing:
    parts = [part for part in base_parts(encoder) if isinstance(part, CachedEncoder)]
    sets = list(data)
    entries = {part.entry(some): (part, some) for part in parts for some in sets if some}
    return {entry: each for entry, each in entries.items() if not entry.exists()}


def _costs(missing: Missing) -> dict[Path, tuple[int, float]]:
    speeds, costs = dict[int, float](), {}
    for entry, (part, some) in missing.items():
        if id(part) not in speeds:
            speeds[id(part)] = words_per_second(part.encoder, some)
        words = num_words(some)
        costs[entry] = words * part.bytes_per_word, words / speeds[id(part)]
    return costs


def list_features(folder: Path) -> None:
    """Print the entries of a cache and their sizes."""
    entries, left = _entries(folder), leftovers(folder, "??/.*")
    for entry in entries:
        print(f"{_size(entry) / 2**20:9,.1f} MB  {_describe(entry)}")
    for path in left:
        print(f"{_size(path) / 2**20:9,.1f} MB  left incomplete by a run that was killed")
    total = sum(map(_size, [*entries, *left]))
    most = f"{cache_limit() / 2**20:,.0f}"
    print(f"{folder}: {count_of(len(entries), 'entries')}, {total / 2**20:,.1f} MB of at most {most}")


def clear_features(folder: Path) -> None:
    """Remove the entries of a cache, and incomplete ones of runs that were killed."""
    entries, left = _entries(folder), leftovers(folder, "??/.*")
    total = sum(map(_size, [*entries, *left]))
    for entry in (*entries, *left.values()):
        remove_folder(entry, (ARRAY,))
    print(f"{folder}: {count_of(len(entries), 'entries')}, {total / 2**20:,.1f} MB removed")


def _describe(entry: Path) -> str:
    try:
        with Artefact(entry).opened(FEATURES_KIND) as manifest:
            made = manifest["made_by"]
            words, layers, width = made["shape"]
            return f"{words:>9,} words  {layers} x {width}  {made['identity']['pooling']:<12} {made['spec']}"
    except ValueError:
        return "damaged; computed again when needed"


def _entries(folder: Path) -> list[Path]:
    """Folders of features, complete or damaged; not those that a program is writing."""
    entries = (entry for entry in sorted(folder.glob("??/*")) if not entry.name.startswith("."))
    return [entry for entry in entries if Artefact(entry).kind == FEATURES_KIND or (entry / ARRAY).is_file()]


def _by_age(folder: Path) -> list[tuple[Path, int]]:
    """Entries and their sizes, the least recently used first; without what another program removes meanwhile."""
    dated = []
    for entry in _entries(folder):
        with contextlib.suppress(FileNotFoundError):
            dated.append((entry.stat().st_mtime, entry, _size(entry)))
    return [(entry, size) for _, entry, size in sorted(dated)]


def _size(entry: Path) -> int:
    return sum(f.stat().st_size for f in entry.rglob("*") if f.is_file())
