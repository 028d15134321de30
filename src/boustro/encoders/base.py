"""What every encoder provides: words in, one vector per word, layer and stream out.

A stream is one LM. Its layers are kept apart, because how to mix them is learned and so belongs to the head.

    encoder.encode([["Ada", "left"]])    yields (array,) with one array (2 words, layers, width) per stream
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from boustro.encoders.identity import Identity, JoinedIdentity
from boustro.given import as_sentences, each_sentence
from boustro.progress import Progress
from boustro.types import Sentence

WordList = Sentence | Sequence[str]


@dataclass(frozen=True, slots=True)
class Stream:
    """The shape of what one LM gives for a word: `num_layers` vectors of `width`."""

    name: str
    num_layers: int
    width: int


@dataclass(frozen=True, slots=True)
class Features:
    """All words of many sentences, concatenated: one array (total words, layers, width) per stream."""

    streams: tuple[np.ndarray, ...]
    lengths: np.ndarray  # (sentences,) words in each

    @property
    def starts(self) -> np.ndarray:
        """(sentences + 1,) the first word of each sentence, and the number of all words."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def sentences(self) -> Iterator[tuple[np.ndarray, ...]]:
        """The same arrays as `Encoder.encode` yields."""
        for start, stop in pairwise(self.starts):
            yield tuple(stream[start:stop] for stream in self.streams)


class Encoder(ABC):
    """The interface of all encoders, cached ones too."""

    spec: str
    streams: tuple[Stream, ...]
    dtype: np.dtype  # of the arrays
    counts: Counter[str]  # texts read in windows, words that were cut or unknown, …
    num_parameters: int
    tokenizer: Any = None  # of an encoder that reads pieces

    @property
    def streams_by_lm(self) -> list[list[int]]:
        """The numbers of the streams that come from each LM."""
        return [[number] for number in range(len(self.streams))]

    @property
    def bytes_per_word(self) -> int:
        """What the features of one word take, in memory and on disk: layers x width x bytes of a value."""
        return sum(stream.num_layers * stream.width for stream in self.streams) * self.dtype.itemsize

    @abstractmethod
    def identity(self) -> Identity | JoinedIdentity:
        """What decides the numbers, and nothing else: weights, tokenizer, layers, pooling, dtype, …"""

    def encode(self, sentences: Iterable[WordList]) -> Iterator[tuple[np.ndarray, ...]]:
        """Per sentence a tuple of arrays (words, layers, width), one per stream, in text order.

        Raises `ValueError`, with the place, for what is no sentence.
        """
        return self.read(each_sentence(sentences))

    def encode_all(self, sentences: Iterable[WordList]) -> Features:
        """The vectors of all sentences, concatenated; raises as `encode`."""
        return self.read_all(as_sentences(sentences))

    @abstractmethod
    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        """As `encode`, of sentences that were checked when they came in."""

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        """As `encode_all`, of sentences that were checked when they came in."""
        lengths = np.array([len(s) for s in sentences], np.int64)
        total = int(lengths.sum())
        arrays = tuple(np.empty((total, s.num_layers, s.width), self.dtype) for s in self.streams)
        position = 0
        with Progress(self.spec, "words", total=total) as bar:
            for parts in self.read(sentences):
                for array, part in zip(arrays, parts, strict=True):
                    array[position : position + len(part)] = part
                position += len(parts[0])
                bar.update(len(parts[0]))
        return Features(arrays, lengths)
