"""Every word also by what it is elsewhere in its document: the mean vector of all its mentions there.

    Vellmar won .  …  She flew to Vellmar .      both mentions get the mean of their two vectors, as a further stream

Mentions are equal words, in the same case, in sentences that follow each other and name the same document; a sentence
without a document stands alone. The vectors are those of the highest layer that is read.

Source: Akbik, Bergmann and Vollgraf 2019 (pooled contextualised embeddings), with the mean; there over all that was
read so far, here over the document, before and after the word. W words, D width of a stream.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import tee
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder, Features, WordList
from boustro.encoders.windows import group_sentences
from boustro.given import as_sentences, each_sentence
from boustro.types import Sentence

COLUMNS = 64  # dimensions that are summed at once, in float32


class PooledEncoder(Encoder):
    """The streams of `base`, and behind them one for each with its pooled mentions."""

    def __init__(self, base: Encoder) -> None:
        self.base, self.spec = base, base.spec
        pooled = (replace(s, name=f"{s.name}, mentions pooled", num_layers=1) for s in base.streams)
        self.streams = (*base.streams, *pooled)
        self.dtype, self.num_parameters = base.dtype, base.num_parameters

    def over(self, base: Encoder) -> "PooledEncoder":
        """The same encoder over another one that gives the same numbers, such as a cached one."""
        twin = copy.copy(self)
        twin.base = base
        return twin

    @property
    def parts(self) -> Sequence[Encoder]:
        """What is encoded and cached."""
        return getattr(self.base, "parts", [self.base])

    @property
    def streams_by_lm(self) -> list[list[int]]:
        count = len(self.base.streams)
        return [[*own, *(n + count for n in own)] for own in self.base.streams_by_lm]

    @property
    def counts(self) -> Counter[str]:  # type: ignore[override]
        return self.base.counts

    def identity(self) -> dict[str, Any]:
        return {**self.base.identity(), "mentions": "mean"}

    def encode(self, sentences: Iterable[WordList]) -> Iterator[tuple[np.ndarray, ...]]:
        given, read = tee(each_sentence(sentences))
        vectors = self.base.encode(read)
        for group in group_sentences(given, "document"):
            parts = [next(vectors) for _ in group]
            streams = tuple(np.concatenate(own) for own in zip(*parts, strict=True))
            yield from self._with_pooled(group, Features(streams, np.array([len(s) for s in group]))).sentences()

    def encode_all(self, sentences: Sequence[WordList]) -> Features:
        sentences = as_sentences(sentences)
        return self._with_pooled(sentences, self.base.encode_all(sentences))

    def _with_pooled(self, sentences: Sequence[Sentence], features: Features) -> Features:
        mentions = number_mentions(sentences)
        pooled = (pool_mean(stream[:, -1], mentions)[:, None] for stream in features.streams)
        return Features((*features.streams, *pooled), features.lengths)


def with_mentions(encoder: Encoder, wanted: bool, context: str) -> Encoder:
    """The encoder with pooled mentions, where they are wanted and it reads documents; else as it is."""
    return PooledEncoder(encoder) if wanted and context == "document" else encoder


def number_mentions(sentences: Iterable[Sentence]) -> np.ndarray:
    """(W,) for each word the number of its kind: equal for equal words of one document."""
    numbers: dict[tuple[int, str], int] = {}
    groups = enumerate(group_sentences(sentences, "document"))
    words = ((place, word) for place, group in groups for s in group for word in s.words)
    return np.array([numbers.setdefault(key, len(numbers)) for key in words], np.int64)


def pool_mean(vectors: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """(W, D): the mean of the vectors (W, D) of each kind (W,), numbered from 0 without gaps, at each of its words."""
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    starts = np.cumsum(sizes) - sizes
    result = np.empty(vectors.shape, vectors.dtype)
    for left in range(0, vectors.shape[1] if len(kinds) else 0, COLUMNS):
        some = slice(left, left + COLUMNS)
        sums = np.add.reduceat(vectors[order, some].astype(np.float32), starts, axis=0)
        result[:, some] = (sums / sizes[:, None])[kinds]
    return result
