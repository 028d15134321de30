"""Several encoders side by side, `gpt2+./backward`: the streams of all parts for the same words.

A forward and a backward LM are the pair of the paper (section 2.2). The vectors stay separate, stream by stream:
the head joins them.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee

import numpy as np

from boustro.encoders.base import Encoder, Features
from boustro.encoders.identity import Identity, JoinedIdentity
from boustro.types import Sentence


class ConcatEncoder(Encoder):
    """All streams of `parts`, in their order."""

    def __init__(self, parts: Sequence[Encoder], spec: str) -> None:
        self.parts, self.spec = list(parts), spec
        self.streams = tuple(stream for part in parts for stream in part.streams)
        self.dtype = self.parts[0].dtype
        self.num_parameters = sum(part.num_parameters for part in parts)

    def over(self, parts: Sequence[Encoder]) -> "ConcatEncoder":
        """The same encoder over other parts that give the same numbers, such as cached ones."""
        twin = copy.copy(self)
        twin.parts = list(parts)
        return twin

    @property
    def counts(self) -> Counter[str]:
        return sum((part.counts for part in self.parts), Counter())

    @property
    def streams_by_lm(self) -> list[list[int]]:
        found, start = [], 0
        for part in self.parts:
            found += [[start + number for number in own] for own in part.streams_by_lm]
            start += len(part.streams)
        return found

    def identity(self) -> Identity | JoinedIdentity:
        return JoinedIdentity(lms=tuple(lm for part in self.parts for lm in part.identity().lms))

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        copies = tee(sentences, len(self.parts))
        for arrays in zip(*(part.read(given) for part, given in zip(self.parts, copies, strict=True)), strict=True):
            yield tuple(array for part in arrays for array in part)

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        features = [part.read_all(sentences) for part in self.parts]
        return Features(tuple(s for f in features for s in f.streams), features[0].lengths)


def check_vocabularies(names: Sequence[str], vocabularies: Sequence[dict[str, int]]) -> None:
    """Raise `ValueError` unless all vocabularies are equal."""
    for name, vocabulary in zip(names[1:], vocabularies[1:], strict=True):
        if vocabulary != vocabularies[0]:
            differing = sum(vocabularies[0].get(piece) != i for piece, i in vocabulary.items())
            raise ValueError(
                f"{names[0]} and {name} have different vocabularies ({len(vocabularies[0]):,} and {len(vocabulary):,} "
                f"pieces, {differing:,} differ); pair LMs that share one tokenizer, or train a backward LM with it"
            )
