"""A table of words that a sentence encoder has read: a text as the weighted mean of its words, without any LM.

    v(text) = Σ w_i · x_i / n        x_i the table's vector of a word in lower case, w_i = a / (a + p_i)

p_i is the share of the word among the words of the texts that the table was made from, so frequent words say less. A
word that the table lacks is cut into the longest parts that it has, and is their mean:

    "blorpings" → blor ##ping ##s

    words.json           the words, then the parts of words (`##ing`), the most frequent first
    table.safetensors    counts (V,), and their vectors (V, D): float16, or codes (`encoders.word_means`)
    config.json          the sentence encoder, the texts, and how both were read

`table:DIR` is an encoder whose words have one vector each, w · x; `starter-words` is the table of the package.
`boustro lab distill-words` makes tables. Sources: Arora et al. 2017 for the weights; Tulkens and van Dongen 2024,
*Model2Vec*, for words read one by one, and for learning to be the vectors of texts.

V words and parts, D width, S texts, N words of all texts.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from boustro.arrays import read_arrays, unit
from boustro.encoders.base import Encoder, Features, Identity, Stream
from boustro.encoders.options import ReadingOptions
from boustro.encoders.word_means import COUNTS, WORDS_FILE, CodedVectors
from boustro.names import SHIPPED_TABLE, TABLE, is_shipped, place_of
from boustro.store import Artefact, write_file
from boustro.types import Sentence

VECTORS, ARRAYS, CONFIG_FILE = "vectors", "table.safetensors", "config.json"
PART = "##"
"""Before a part of a word that does not begin it."""
SMOOTHING = 1e-3
"""The a of sif."""
LONGEST_PART = 20
"""Letters of a part that are looked for."""
OPENING = 3
"""Words that a text opens with."""
STREAM = "words of a table"


@dataclass(frozen=True)
class WordTable:
    """Words, how often each was read, and their vectors. `name` is where the table was read from, `mark` the
    fingerprint of its content."""

    rows: Mapping[str, int]
    counts: np.ndarray  # (V,) float32
    vectors: np.ndarray | CodedVectors  # (V, D)
    name: str = ""
    mark: str = ""

    @classmethod
    def of(cls, words: Any, arrays: Mapping[str, np.ndarray], name: str = "", mark: str = "") -> "WordTable":
        """From what its files have; `ValueError` where the words are not those of the vectors."""
        others = {name: array for name, array in arrays.items() if name != COUNTS}
        vectors = others[VECTORS] if VECTORS in others else CodedVectors(**others)
        if not all(isinstance(word, str) for word in words) or not len(words) == len(arrays[COUNTS]) == len(vectors):
            raise ValueError("the words are not those of the vectors")
        return cls({word: row for row, word in enumerate(words)}, arrays[COUNTS], vectors, name, mark)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts and the vectors or their codes, by name."""
        stored = vars(self.vectors) if isinstance(self.vectors, CodedVectors) else {VECTORS: self.vectors}
        return {COUNTS: self.counts, **stored}

    def save(self, words: Path, arrays: Path) -> None:
        """Write the two files."""
        from safetensors.numpy import save_file

        write_file(words, json.dumps(list(self.rows), ensure_ascii=False))
        save_file(self.arrays(), arrays)

    @classmethod
    def read(cls, folder: Artefact, words: str, arrays: str, name: str = "", mark: str = "") -> "WordTable":
        """Read two files that `save` wrote into a folder; raises as `of`."""
        return cls.of(folder.json(words), read_arrays(folder / arrays, folder.read(arrays)), name, mark)

    @property
    def width(self) -> int:
        """D."""
        return self.vectors.shape[1]

    @cached_property
    def weights(self) -> np.ndarray:
        """(V,) a / (a + p)."""
        share = self.counts / max(float(self.counts.sum()), 1.0)
        return (SMOOTHING / (SMOOTHING + share)).astype(np.float32)

    def find(self, word: str) -> list[int]:
        """Return the row of a word, or those of its parts; none where it has no letter that the table knows."""
        lower = word.lower()
        row = self.rows.get(lower)
        return [row] if row is not None else list(self._parts(lower))

    def _parts(self, word: str) -> Iterator[int]:
        place = 0
        while place < len(word):
            ends = range(min(len(word), place + LONGEST_PART), place, -1)
            matches = ((end, self.rows.get(PART * (place > 0) + word[place:end])) for end in ends)
            place, row = next(((end, row) for end, row in matches if row is not None), (place + 1, None))
            if row is not None:
                yield row

    def find_all(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the words of a text, and the share of each in the mean of all words."""
        by_word = [self.find(word) for word in words]
        shares = [1 / (len(rows) * len(words)) for rows in by_word for _ in rows]
        return np.array([row for rows in by_word for row in rows], np.int64), np.array(shares, np.float32)

    def means(self, texts: Sequence[Sequence[str]], weighted: bool = True) -> np.ndarray:
        """Return (S, D) float32: the mean of the words of each text, 0 for one of which nothing is known; without
        weights every vector of a word has length 1."""
        each = [self.find_all(words) for words in texts]
        rows = np.concatenate([np.zeros(0, np.int64), *(numbers for numbers, _ in each)])
        shares = np.concatenate([np.zeros(0, np.float32), *(portions for _, portions in each)])
        ends = np.cumsum([0, *(len(numbers) for numbers, _ in each)])
        sums = np.zeros((len(texts), self.width), np.float32)
        different, places = np.unique(rows, return_inverse=True)
        known = np.asarray(self.vectors[different], np.float32)
        known = known * self.weights[different, None] if weighted else unit(known)
        lengths = np.diff(ends)
        for number in range(lengths.max(initial=0)):  # of all texts at once, one row of each
            some = np.flatnonzero(lengths > number)
            at = ends[some] + number
            sums[some] += known[places[at]] * shares[at, None]
        return sums

    def describe(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """Return (S, 2, D), each of length 1 or 0: the weighted mean of a text, and the mean of its first words, which
        tell the kind of a question."""
        means = self.means(texts), self.means([words[:OPENING] for words in texts], weighted=False)
        return np.stack([unit(mean) for mean in means], axis=1)


@lru_cache(4)
def load_table(name: str) -> WordTable:
    """Return the table of the package, or of a folder; raises as `read_table`."""
    return read_table(place_of(name), name)


def read_table(folder: Artefact, name: str) -> WordTable:
    """Read the table of a folder; `FileNotFoundError` or `ValueError` where it is missing or damaged."""
    with folder.opened(TABLE, needs=(WORDS_FILE, ARRAYS, CONFIG_FILE)):
        return WordTable.read(folder, WORDS_FILE, ARRAYS, name, folder.fingerprint)


class TableEncoder(Encoder):
    """`table:DIR`: one stream with one layer, the weighted vector of each word; nothing is read around a word."""

    num_parameters = 0

    def __init__(self, table: WordTable, spec: str, dtype: np.dtype, weights: str = "", tokenizer: Any = None) -> None:
        self.table, self.spec, self.dtype, self._weights, self.tokenizer = table, spec, dtype, weights, tokenizer
        self.streams = (Stream(STREAM, 1, table.width),)
        self.counts: Counter[str] = Counter()

    def identity(self) -> Identity:
        return Identity(weights=self._weights, vocabulary="words", pooling="mean", rest={"dtype": str(self.dtype)})

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        for sentence in sentences:
            yield (self._words(sentence.words),)

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        words = [word for sentence in sentences for word in sentence.words]
        return Features((self._words(words),), np.array([len(s) for s in sentences], np.int64))

    def _words(self, words: Sequence[str]) -> np.ndarray:
        numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
        vectors = self.table.means([[word] for word in numbers])[:, None].astype(self.dtype)
        return vectors[[numbers[word] for word in words]]


def open_table(
    folder: Artefact, reading: ReadingOptions, *, spec: str, device: Any = None, tokenizer: Any = None
) -> TableEncoder:
    """Open `table:DIR`; raises as `read_table`."""
    from boustro.encoders.loading import weights_fingerprint  # with torch, which a table by itself does without

    dtype = np.dtype(np.float32 if reading.dtype == "float32" else np.float16)
    return TableEncoder(load_table(str(folder)), spec, dtype, weights_fingerprint(folder, None), tokenizer)


def table_for(spec: str, asked: str = "auto") -> WordTable | None:
    """Return the table beside an encoder: the one that is `asked` for; `auto` is that of the package beside its own
    LMs."""
    if asked == "none" or (asked == "auto" and not is_shipped(spec)):
        return None
    return load_table(SHIPPED_TABLE if asked == "auto" else asked)
