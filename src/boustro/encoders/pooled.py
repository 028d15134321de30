"""Every word also by what it is elsewhere: the mean vector of its mentions in its document, in raw text, or in both.

    Vellmar won .  …  She flew to Vellmar .      both mentions get the mean of their two vectors, as a further stream

Mentions are equal words, in the same case. Those of a document stand in sentences that follow each other and name the
same document; a sentence without a document stands alone. Those of raw text were counted beforehand
(`encoders.memory`): the mean is that of all of them and of the mentions at hand. The vectors are those of the highest
layer that is read.

Source: Akbik, Bergmann and Vollgraf 2019 (pooled contextualised embeddings), with the mean; there over all that was
read so far, here over the document, before and after the word, and over text that was read once for all taggers.
W words, K kinds of words, D width of a stream.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat, tee
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder, Features, WordList
from boustro.encoders.means import WordMeans, join_means
from boustro.encoders.options import Context
from boustro.encoders.windows import group_sentences
from boustro.given import as_sentences, each_sentence
from boustro.types import Sentence

POOLED = ", mentions pooled"  # behind the name of a stream
COLUMNS = 64  # dimensions that are summed at once, in float32


class PooledEncoder(Encoder):
    """The streams of `base`, and behind them one for each with its pooled mentions.

    The mentions are those of each sentence or of its document (`within`), those in `known`, the memory of the encoder,
    and those in `learned`, the memory of a tagger.
    """

    def __init__(
        self,
        base: Encoder,
        within: Context = "document",
        known: WordMeans | None = None,
        learned: WordMeans | None = None,
    ) -> None:
        self.base, self.spec = base, base.spec
        self.within: Context = within
        self.known, self.learned = known, learned
        pooled = (replace(s, name=s.name + POOLED, num_layers=1) for s in base.streams)
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
        for group in group_sentences(given, self.within):
            parts = [next(vectors) for _ in group]
            streams = tuple(np.concatenate(own) for own in zip(*parts, strict=True))
            yield from self.pooled(group, Features(streams, np.array([len(s) for s in group]))).sentences()

    def encode_all(self, sentences: Sequence[WordList]) -> Features:
        sentences = as_sentences(sentences)
        return self.pooled(sentences, self.base.encode_all(sentences))

    def pooled(self, sentences: Sequence[Sentence], features: Features) -> Features:
        """The features of sentences, as `base` gives them, with the pooled streams behind them."""
        words, kinds = number_mentions(sentences, self.within)
        memories = [memory for memory in (self.known, self.learned) if memory]
        earlier = join_means(memories, words) if memories else repeat(None)
        pooled = (pool_mean(s[:, -1], kinds, own)[:, None] for s, own in zip(features.streams, earlier, strict=False))
        return Features((*features.streams, *pooled), features.lengths)


def with_mentions(encoder: Encoder, wanted: bool, context: str, learned: WordMeans | None = None) -> Encoder:
    """The encoder with mentions of documents pooled, where they are wanted and it reads any, and with `learned`."""
    within: Context = "document" if wanted and context == "document" else "sentence"
    if isinstance(encoder, PooledEncoder):
        if within == encoder.within and learned is encoder.learned:
            return encoder
        twin = copy.copy(encoder)
        twin.within, twin.learned = within, learned
        return twin
    return encoder if within == "sentence" and learned is None else PooledEncoder(encoder, within, learned=learned)


def number_mentions(sentences: Iterable[Sentence], within: Context = "document") -> tuple[list[str], np.ndarray]:
    """The word of each of K kinds, and (W,) for each word the number of its kind: equal for equal words of one text."""
    numbers: dict[tuple[int, str], int] = {}
    groups = enumerate(group_sentences(sentences, within))
    words = ((place, word) for place, group in groups for s in group for word in s.words)
    found = np.array([numbers.setdefault(key, len(numbers)) for key in words], np.int64)
    return [word for _, word in numbers], found


def pool_mean(
    vectors: np.ndarray, kinds: np.ndarray, earlier: tuple[np.ndarray, np.ndarray] | None = None
) -> np.ndarray:
    """(W, D): the mean of the vectors (W, D) of each kind (W,), numbered from 0 without gaps, at each of its words.

    Args:
        vectors, kinds: Of the words at hand.
        earlier: For each kind the number of its earlier vectors (K,) and their mean (K, D), which count too.
    """
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    starts = np.cumsum(sizes) - sizes
    counts, means = earlier or (np.zeros(len(sizes), np.float32), None)
    result = np.empty(vectors.shape, vectors.dtype)
    for left in range(0, vectors.shape[1] if len(kinds) else 0, COLUMNS):
        some = slice(left, left + COLUMNS)
        sums = np.add.reduceat(vectors[order, some].astype(np.float32), starts, axis=0)
        if means is not None:
            sums += counts[:, None] * means[:, some]
        result[:, some] = (sums / (sizes + counts)[:, None])[kinds]
    return result
