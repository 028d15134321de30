"""What every encoder promises: words in, one vector a word out, per stream and layer.

`encode` yields, for each sentence in order, a tuple with one array a stream, (words, layers, width), in
reading order of the text. A stream is one LM; its layers are kept apart because mixing them is learned,
so it belongs to the head.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from tqdm import tqdm

from boustro.given import as_sentences
from boustro.types import Sentence

Words = Sentence | Sequence[str]
PROGRESS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Stream:
    """The shape of what one LM gives for a word: `num_layers` vectors of `width`."""

    name: str
    num_layers: int
    width: int


@dataclass(frozen=True, slots=True)
class Features:
    """All words of many sentences in one array a stream, (total words, layers, width), end to end."""

    streams: tuple[np.ndarray, ...]
    lengths: np.ndarray  # (sentences,) words in each

    @property
    def starts(self) -> np.ndarray:
        """Where each sentence begins, and, last, where all end: (sentences + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def sentences(self) -> Iterator[tuple[np.ndarray, ...]]:
        """The same as `Encoder.encode` gives."""
        starts = self.starts
        for start, stop in pairwise(starts):
            yield tuple(stream[start:stop] for stream in self.streams)


class Encoder(ABC):
    """`spec` names it; `identity` holds everything that changes its numbers, and nothing else."""

    spec: str
    streams: tuple[Stream, ...]
    dtype: np.dtype  # of the arrays
    counts: Counter[str]  # what was windowed or could not be read as it stands
    num_parameters: int

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """JSON-like facts that decide the numbers: weights, tokenizer, layers, pooling, dtype, …"""

    @abstractmethod
    def encode(self, sentences: Iterable[Words]) -> Iterator[tuple[np.ndarray, ...]]:
        """Per sentence, per stream, an array (words, layers, width)."""

    def encode_all(self, sentences: Sequence[Words]) -> Features:
        """The same, end to end in one array a stream."""
        sentences = as_sentences(sentences)
        lengths = np.array([len(s) for s in sentences], np.int64)
        total = int(lengths.sum())
        arrays = tuple(np.empty((total, s.num_layers, s.width), self.dtype) for s in self.streams)
        position = 0
        with word_progress(self.spec, total) as bar:
            for parts in self.encode(sentences):
                for array, part in zip(arrays, parts, strict=True):
                    array[position : position + len(part)] = part
                position += len(parts[0])
                bar.update(len(parts[0]))
        return Features(arrays, lengths)


def word_progress(spec: str, num_words: int) -> tqdm:
    """A bar on standard error, in a terminal, for an encoder that reads for longer than `PROGRESS_SECONDS`."""
    shown = {"desc": spec, "unit": " words", "unit_scale": True, "leave": False, "delay": PROGRESS_SECONDS}
    return tqdm(total=num_words, disable=None, **shown)
