"""Words of texts, how often each was read, and its mean vector; two files of a folder:

    words.json            the words, the most frequent first
    memory.safetensors    counts (V,), and per stream the mean vectors (V, D), float16, or their codes

The folder is that of a tagger with `--memory`, or one that `boustro lab memory` writes; `config.json` of the latter has
the encoder's exact spec, how it read, and what. While texts are read only the sums are in memory, 4 bytes for each
dimension. A word that was read in other cases only is what the most frequent of these is.

Codes are product quantisation after a rotation: a vector as a few bytes, each of which names one of 256 centroids.

    vector      0.3 0.1 2.0 0.4 …           D dimensions
    components  1.9 0.2 0.7 | -0.4 0.1 0.3  the R largest principal components, in M parts
    codes       17          | 203           M bytes instead of 2 · D
    decoded     mean + Σ centroids · axes

Dimensions are standardised first, so that every one counts the same, whatever its variance. Components are dealt out so
that the product of the variances is about the same in every part, and a part has equally many (parametric optimised
product quantisation). At 24 bytes for 512 dimensions this says as much of the mean vectors of words as product
quantisation without a rotation at 64 (docs/log.md). Source: Ge, He, Ke and Sun 2013, section 3.2; Jégou, Douze and
Schmid 2011, section II-B.

V words or vectors, D width of a stream, W words of a chunk, M parts, R components, K rows that are asked for.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from boustro.arrays import read_arrays
from boustro.encoders.base import Encoder, Stream
from boustro.given import chunk_by_size
from boustro.names import MEMORY
from boustro.progress import Progress
from boustro.store import Artefact, write_file
from boustro.types import Sentence

NUM_CENTROIDS = 256  # a code is one byte
SAMPLED_VECTORS = 20_000  # vectors that centroids and axes are found among
PART_COMPONENTS = 8
"""Components of a part, where there are so many."""


@dataclass(frozen=True)
class CodedVectors:
    """Vectors as codes; `vectors[rows]` decodes some of them."""

    codes: np.ndarray  # (V, M) uint8
    centroids: np.ndarray  # (M, 256, R / M) float16
    axes: np.ndarray  # (R, D) float16, part after part
    mean: np.ndarray  # (D,) float16

    def __post_init__(self) -> None:
        """Raises `ValueError` where the arrays do not fit together."""
        parts, number, size = self.centroids.shape
        fits = self.codes.shape[1:] == (parts,) and self.axes.shape == (parts * size, len(self.mean))
        if number != NUM_CENTROIDS or not fits:
            raise ValueError("the codes are not those of the centroids")

    @property
    def shape(self) -> tuple[int, int]:
        """(V, D)."""
        return len(self.codes), len(self.mean)

    @property
    def num_components(self) -> int | None:
        """R, or `None` where there is none for each dimension that could be left out."""
        return len(self.axes) if len(self.axes) < len(self.mean) else None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Return (K, D) float32: the vectors of rows (K,)."""
        parts = np.arange(self.codes.shape[1])
        different, inverse = np.unique(rows, return_inverse=True)  # of a text, where words come again: decoded once
        components = self.centroids[parts, self.codes[different]].reshape(len(different), len(self.axes))
        return (components.astype(np.float32) @ self.axes.astype(np.float32) + self.mean)[inverse]


def check_parts(width: int, num_parts: int) -> None:
    """`ValueError` where vectors of this width cannot be codes of so many bytes."""
    if num_parts > width:
        raise ValueError(f"a vector of width {width} has codes of at most {width} bytes, not {num_parts}")


def encode_vectors(vectors: np.ndarray, num_parts: int) -> CodedVectors:
    """Return the codes of vectors (V, D); the same vectors give the same codes. `ValueError` as `check_parts` raises
    it."""
    from sklearn.cluster import KMeans

    width = vectors.shape[1]
    check_parts(width, num_parts)
    mean = vectors.mean(0, dtype=np.float64)
    deviation = vectors.std(0, dtype=np.float64) + 1e-6  # a dimension may be constant
    standardised = ((vectors - mean) / deviation).astype(np.float32)
    sampled = np.random.default_rng(0).permutation(len(vectors))[:SAMPLED_VECTORS]
    variances, axes = np.linalg.eigh(np.cov(standardised[sampled], rowvar=False, ddof=0).reshape(width, width))
    order = deal_out(variances[::-1], num_parts, min(PART_COMPONENTS, width // num_parts))
    turned = axes[:, ::-1][:, order]
    codes = np.empty((len(vectors), num_parts), np.uint8)
    centroids = np.zeros((num_parts, NUM_CENTROIDS, len(order) // num_parts), np.float16)
    components = standardised @ turned.astype(np.float32)
    for number, part in enumerate(np.split(components, num_parts, 1)):
        means = KMeans(min(NUM_CENTROIDS, len(np.unique(part[sampled], axis=0))), max_iter=30, random_state=0)
        means.fit(part[sampled])
        codes[:, number] = means.predict(part)
        centroids[number, : means.n_clusters] = means.cluster_centers_
    return CodedVectors(codes, centroids, (turned.T * deviation).astype(np.float16), mean.astype(np.float16))


def deal_out(variances: np.ndarray, num_parts: int, size: int) -> np.ndarray:
    """Return (num_parts · size,) the numbers of the largest variances, which fall, part after part.

    Each goes to the part with the smallest product of variances that has room.
    """
    parts: list[list[int]] = [[] for _ in range(num_parts)]
    products = np.zeros(num_parts)
    logarithms = np.log(np.maximum(variances[: num_parts * size], 1e-6 * max(variances[0], 1e-6)))
    for number, gain in enumerate(logarithms - logarithms[-1] + 1e-3):  # above 0, so that all parts grow alike
        part = min((p for p in range(num_parts) if len(parts[p]) < size), key=products.__getitem__)
        parts[part].append(number)
        products[part] += gain
    return np.concatenate(parts).astype(np.int64)


MEMORY_KIND, MEMORY_FILE = MEMORY, "memory.safetensors"
WORDS_FILE, COUNTS, READ_KEY = "words.json", "counts", "read"
SOUGHT_WORDS = 32  # by then a dict has paid for itself
SUMMED_WORDS = 20_000  # features of so many words of one layer of 1,024 take 40 MB


@dataclass(frozen=True)
class WordMeans:
    """How often each word was read, and its mean vector in each stream."""

    rows: Mapping[str, int]
    """Word → its row, in order."""
    counts: np.ndarray  # (V,) float32
    means: Sequence[np.ndarray | CodedVectors]  # (V, D) per stream
    training: bool = False
    """Whether the sentences that are read with it are among those that it has read."""

    @cached_property
    def rows_by_letters(self) -> "RowsByLetters":
        """Word without its case → the row of its most frequent form."""
        return RowsByLetters(self.rows)

    def find(self, words: Iterable[str], any_case: bool = False) -> np.ndarray:
        """Return the row (K,) of each word, -1 for one that was never read, in this case or in any."""
        rows = (self.rows_by_letters.get(w.casefold()) if any_case else self.rows.get(w, -1) for w in words)
        return np.fromiter(rows, np.int64)

    def at(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each stream the counts (K,) of rows, 0 where a row is -1, and their mean vectors (K, D)."""
        counts = np.where(rows < 0, np.float32(0), self.counts[rows])
        return ((counts, means[rows]) for means in self.means)

    def in_training(self, share: float, seed: int) -> "WordMeans":
        """Return the means for the sentences that it has read, without a random share of the words, each in every case.

        Equal seeds leave out equal words.
        """
        kept = np.random.default_rng(seed).random(len(self.counts)) >= share
        rows = {word: row for word, row in self.rows.items() if kept[self.rows_by_letters.get(word.casefold())]}
        return WordMeans(rows, self.counts, self.means, training=True)


class RowsByLetters:
    """Rows of words by their letters, of any case. The first few words are sought in one text, which takes a third of
    the time that a dict of 110,000 words takes to make."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows, self._text = rows, "\n".join(["", *rows, ""]).casefold()  # at once: calls for each take longer
        has_breaks = self._text.count("\n") != len(rows) + 1  # in a word
        self._left = 0 if has_breaks else SOUGHT_WORDS

    def get(self, folded: str) -> int:
        """Return the row of a word without its case, -1 for one that was never read."""
        if self._left <= 0 or "\n" in folded:
            return self._all.get(folded, -1)
        self._left -= 1
        place = self._text.find(f"\n{folded}\n")
        return -1 if place < 0 else next(islice(self._rows.values(), self._text.count("\n", 0, place), None))

    @cached_property
    def _all(self) -> dict[str, int]:
        words = [*self._rows][::-1]
        folded = self._text[1:-1].split("\n")[::-1]
        if len(folded) != len(words):
            folded = [word.casefold() for word in words]
        return dict(zip(folded, [*self._rows.values()][::-1], strict=True))


def join_means(memories: Sequence[WordMeans], words: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each stream how often the memories have read each of K words, (K,), and the mean vectors (K, D).

    A word that none has read is looked up in any case: "LISSE" and "lisse" are what "Lisse" is.
    """
    rows = [memory.find(words) for memory in memories]
    unread = np.flatnonzero(np.all([numbers < 0 for numbers in rows], axis=0))
    for memory, rows_found in zip(memories, rows, strict=True):
        rows_found[unread] = memory.find([words[k] for k in unread.tolist()], any_case=True)
    if len(memories) == 1:
        yield from memories[0].at(rows[0])
        return
    for parts in zip(*(memory.at(numbers) for memory, numbers in zip(memories, rows, strict=True)), strict=True):
        counts = np.sum([count for count, _ in parts], axis=0)
        sums = np.sum([count[:, None] * means for count, means in parts], axis=0)
        yield counts, sums / np.maximum(counts, 1)[:, None]


class MeanSums:
    """The sums that the mean vectors come from, of the `most` most frequent of some words."""

    def __init__(self, word_counts: Counter[str], most: int, streams: Sequence[Stream]) -> None:
        self.rows = {word: row for row, (word, _) in enumerate(word_counts.most_common(most))}
        self.num_documents = self.num_words = 0  # what `read` has read
        self._counts = np.zeros(len(self.rows), np.float32)
        self._names = [str(number) for number in range(len(streams))]
        self._sums = [np.zeros((len(self.rows), stream.width), np.float32) for stream in streams]

    def add(self, sentences: Iterable[Sentence], streams: Iterable[np.ndarray]) -> None:
        """Count the words of sentences, with the vectors (W, L, D) of each stream; those of the highest layer count."""
        read = np.array([self.rows.get(word, -1) for sentence in sentences for word in sentence.words], np.int64)
        kept = np.flatnonzero(read >= 0)
        if not len(kept):
            return
        order = kept[np.argsort(read[kept], kind="stable")]
        rows, starts, sizes = np.unique(read[order], return_index=True, return_counts=True)
        self._counts[rows] += sizes
        for total, vectors in zip(self._sums, streams, strict=True):
            total[rows] += np.add.reduceat(vectors[order, -1].astype(np.float32), starts, axis=0)

    def read(
        self,
        encoder: Encoder,
        documents: Iterable[Sequence[Sentence]],
        num_words: int,
        after_chunk: Callable[[], None] = lambda: None,
    ) -> None:
        """Count the words of documents that the encoder reads, but those that were read before `restore`.

        `num_words` is how many all documents have.
        """
        unread = islice(documents, self.num_documents, None)
        with Progress("reading", "words", total=num_words, done=self.num_words) as bar:
            for chunk in chunk_by_size(unread, lambda document: sum(map(len, document)), SUMMED_WORDS):
                sentences = [sentence for document in chunk for sentence in document]
                self.add(sentences, encoder.read_all(sentences).streams)
                self.num_documents += len(chunk)
                self.num_words += (read := sum(map(len, sentences)))
                bar.update(read)
                after_chunk()

    def save(self, folder: Path) -> None:
        """Write what was read so far: the counts (V,), the sums (V, D) of each stream, the documents and words."""
        from safetensors.numpy import save_file

        read = np.array([self.num_documents, self.num_words])
        save_file(
            {COUNTS: self._counts, READ_KEY: read, **dict(zip(self._names, self._sums, strict=True))},
            folder / MEMORY_FILE,
        )

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote, of the same words and streams."""
        arrays = {name: array.copy() for name, array in read_arrays(folder / MEMORY_FILE).items()}
        self.num_documents, self.num_words = arrays.pop(READ_KEY).tolist()
        self._counts, *self._sums = (arrays[name] for name in (COUNTS, *self._names))

    def means(self, code_bytes: int = 0) -> WordMeans:
        """Return the means of the words that were read; the vectors as codes of so many bytes, unless it is 0.

        Raises `ValueError` for vectors that cannot have such codes.
        """
        read = np.flatnonzero(self._counts)
        words, counts = [*self.rows], self._counts[read]
        means = [(total[read] / counts[:, None]).astype(np.float16) for total in self._sums]
        coded = [encode_vectors(stream_means, code_bytes) for stream_means in means] if code_bytes else means
        return WordMeans({words[old]: row for row, old in enumerate(read.tolist())}, counts, coded)


def save_means(folder: Path, known: WordMeans) -> None:
    """Write the two files."""
    from safetensors.numpy import save_file

    save_file(means_to_arrays(known), folder / MEMORY_FILE)
    write_file(folder / WORDS_FILE, json.dumps(list(known.rows), ensure_ascii=False))


def means_to_arrays(known: WordMeans) -> dict[str, np.ndarray]:
    """Return the counts, and for each stream its mean vectors or their codes, by name."""
    arrays = {COUNTS: known.counts}
    for number, means in enumerate(known.means):
        if isinstance(means, CodedVectors):
            arrays |= {f"{number}.{name}": array for name, array in vars(means).items()}
        else:
            arrays[str(number)] = means
    return arrays


def read_means(folder: Artefact) -> WordMeans:
    """Return the words of a folder that is being read; `ValueError` where the two files do not fit."""
    return means_of(read_arrays(folder / MEMORY_FILE, folder.read(MEMORY_FILE)), folder.json(WORDS_FILE))


def means_of(arrays: Mapping[str, np.ndarray], words: Any) -> WordMeans:
    """Read back the arrays of `means_to_arrays`, of these words; `ValueError` where they do not fit."""
    arrays = dict(arrays)
    counts = arrays.pop(COUNTS)
    num_streams = len({name.partition(".")[0] for name in arrays})
    coded = [field.name for field in fields(CodedVectors)]
    means = [
        arrays[n] if n in arrays else CodedVectors(*(arrays[f"{n}.{name}"] for name in coded))
        for n in map(str, range(num_streams))
    ]
    if not {*map(type, words)} <= {str}:
        raise ValueError(f"{WORDS_FILE} has something that is not a word")
    rows = dict(zip(words, range(len(words)), strict=True))
    if any(len(array) != len(rows) for array in (counts, *means)):
        raise ValueError("the words are not those of the vectors")
    return WordMeans(rows, counts, means)


def load_means(folder: Artefact) -> tuple[WordMeans, dict[str, Any]]:
    """Return the words and the config of a memory; `FileNotFoundError` or `ValueError` where it is missing or
    damaged."""
    with folder.opened(MEMORY_KIND, needs=(MEMORY_FILE, WORDS_FILE, "config.json")):
        known, config = read_means(folder), folder.config()
        if not isinstance(config["encoder"], str) or "reading" not in config:
            raise ValueError("no encoder is named")
        return known, config
