"""Every word also by what it is elsewhere: the mean vector of its mentions in its document, in raw text, or in both.

    Vellmar won .  …  She flew to Vellmar .      both mentions get the mean of their two vectors, as a further stream

Mentions are equal words, in the same case. Those of a document stand in sentences that follow each other and name the
same document; a sentence without a document stands alone. Those of raw text were counted beforehand
(`encoders.memory`), and may be those of the word in another case: the mean is that of all of them and of the mentions
at hand. The vectors are those of the highest layer that is read.

Source: Akbik, Bergmann and Vollgraf 2019 (pooled contextualised embeddings), with the mean; there over all that was
read so far, here over the document, before and after the word, and over text that was read once for all taggers.
What is tagged later is no part of a tagger's memory, while its training sentences are: there they count once.
W words, K kinds of words, D width of a stream.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from boustro.encoders.base import Encoder, Features
from boustro.encoders.extended import ExtendedEncoder
from boustro.encoders.identity import Identity, JoinedIdentity
from boustro.encoders.options import Context
from boustro.encoders.windows import group_sentences
from boustro.encoders.word_means import WordMeans, join_means
from boustro.types import Sentence

POOLED = ", mentions pooled"  # behind the name of a stream
BLOCK_KINDS = 512  # whose float32 vectors fit into a processor's cache


class PooledEncoder(ExtendedEncoder):
    """The streams of `base`, and behind them one for each with its pooled mentions.

    The mentions are those of each sentence or of its document (`within`), those in `known`, the memory of the encoder,
    and those in `learned`, the memory of a tagger, which may have read the very sentences (`WordMeans.training`).
    """

    def __init__(
        self,
        base: Encoder,
        within: Context = "document",
        known: WordMeans | None = None,
        learned: WordMeans | None = None,
    ) -> None:
        super().__init__(base, (replace(s, name=s.name + POOLED, num_layers=1) for s in base.streams), within)
        self.known, self.learned = known, learned

    @property
    def streams_by_lm(self) -> list[list[int]]:
        count = len(self.base.streams)
        return [[*own, *(n + count for n in own)] for own in self.base.streams_by_lm]

    def identity(self) -> Identity | JoinedIdentity:
        return self.base.identity().with_facts(mentions="mean")

    def further(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        words, kinds = number_mentions(sentences, self.within)
        memories = [memory for memory in (self.known, self.learned) if memory]
        earlier = join_means(memories, words) if memories else repeat(None)
        at_hand = self.learned.find(words) < 0 if self.learned and self.learned.training else None
        for stream, own in zip(features.streams, earlier, strict=False):
            yield pool_mean(stream[:, -1], kinds, own, at_hand)[:, None]


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
    vectors: np.ndarray,
    kinds: np.ndarray,
    earlier: tuple[np.ndarray, np.ndarray] | None = None,
    at_hand: np.ndarray | None = None,
) -> np.ndarray:
    """(W, D): the mean of the vectors (W, D) of each kind (W,), numbered from 0 without gaps, at each of its words.

    Args:
        vectors, kinds: Of the words at hand.
        earlier: For each kind the number of its earlier vectors (K,) and their mean (K, D), which count too.
        at_hand: For each kind whether its vectors count (K,), and are not among the earlier ones. By default all do.
    """
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    ends = np.cumsum(sizes)
    counts, means = earlier or (np.zeros(len(sizes), np.float32), None)
    once = np.ones(len(sizes), np.float32) if at_hand is None else at_hand.astype(np.float32)
    result = np.empty(vectors.shape, vectors.dtype)
    for first in range(0, len(sizes), BLOCK_KINDS):
        some = slice(first, first + BLOCK_KINDS)
        starts = ends[some] - sizes[some]
        rows = order[starts[0] : ends[some][-1]]
        sums = np.add.reduceat(vectors[rows].astype(np.float32), starts - starts[0], axis=0) * once[some, None]
        if means is not None:
            sums += counts[some, None] * means[some]
        sums /= (once * sizes + counts)[some, None]
        result[rows] = np.repeat(sums.astype(vectors.dtype), sizes[some], axis=0)
    return result
