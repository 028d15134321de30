"""Encoders whose words have further streams, made from the words and the vectors of the encoder inside."""

import copy
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from typing import Self

import numpy as np

from boustro.encoders.base import Encoder, Features, Stream
from boustro.encoders.options import Context
from boustro.encoders.windows import group_sentences
from boustro.types import Sentence


class ExtendedEncoder(Encoder):
    """The streams of `base`, and behind them `further` ones; `within` is what is needed at once to make these."""

    def __init__(self, base: Encoder, further: Iterable[Stream], within: Context) -> None:
        self.base, self.spec = base, base.spec
        self.streams = (*base.streams, *further)
        self.within: Context = within
        self.dtype, self.num_parameters = base.dtype, base.num_parameters

    def over(self, base: Encoder) -> Self:
        """The same encoder over another one that gives the same numbers, such as a cached one."""
        twin = copy.copy(self)
        twin.base = base
        return twin

    @property
    def innermost(self) -> Encoder:
        """What reads the text."""
        return self.base.innermost if isinstance(self.base, ExtendedEncoder) else self.base

    @property
    def parts(self) -> Sequence[Encoder]:
        """What is encoded and cached."""
        return getattr(self.innermost, "parts", [self.innermost])

    @property
    def counts(self) -> Counter[str]:
        return self.base.counts

    @abstractmethod
    def further(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        """The further streams (W, 1, width) of sentences, whose features are as `base` gives them."""

    def extend(self, sentences: Sequence[Sentence], features: Features) -> Features:
        """All streams of sentences, whose features are as `innermost` gives them."""
        if isinstance(self.base, ExtendedEncoder):
            features = self.base.extend(sentences, features)
        return Features((*features.streams, *self.further(sentences, features)), features.lengths)

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        given, read = tee(sentences)
        vectors = self.innermost.read(read)
        for group in group_sentences(given, self.within):
            parts = [next(vectors) for _ in group]
            streams = tuple(np.concatenate(own) for own in zip(*parts, strict=True))
            yield from self.extend(group, Features(streams, np.array([len(s) for s in group]))).sentences()

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        return self.extend(sentences, self.innermost.read_all(sentences))


def innermost(encoder: Encoder) -> Encoder:
    """The encoder without further streams."""
    return encoder.innermost if isinstance(encoder, ExtendedEncoder) else encoder
