"""Several encoders side by side: the streams of all, for the same words.

This is the pair of the paper (section 2.2) when the parts are a forward and a backward LM; any number
of parts joins in the same way. The vectors stay apart, stream by stream: joining them is the head's.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from typing import Any

import numpy as np

from boustro.encoders.contract import Encoder, Features, Words


class ConcatEncoder(Encoder):
    """The parts must share a vocabulary: `ValueError` says which pieces they disagree on."""

    def __init__(self, parts: Sequence[Encoder], spec: str) -> None:
        self.parts, self.spec = list(parts), spec
        self.streams = tuple(stream for part in parts for stream in part.streams)
        self.dtype = self.parts[0].dtype
        self.num_parameters = sum(part.num_parameters for part in parts)

    def over(self, parts: Sequence[Encoder]) -> "ConcatEncoder":
        """The same with parts that give the same, such as cached ones."""
        twin = copy.copy(self)
        twin.parts = list(parts)
        return twin

    @property
    def counts(self) -> Counter[str]:  # type: ignore[override]
        return sum((part.counts for part in self.parts), Counter())

    def identity(self) -> dict[str, Any]:
        return {"parts": [part.identity() for part in self.parts]}

    def encode(self, sentences: Iterable[Words]) -> Iterator[tuple[np.ndarray, ...]]:
        copies = tee(sentences, len(self.parts))
        for arrays in zip(*(part.encode(given) for part, given in zip(self.parts, copies, strict=True)), strict=True):
            yield tuple(array for part in arrays for array in part)

    def encode_all(self, sentences: Sequence[Words]) -> Features:
        features = [part.encode_all(sentences) for part in self.parts]
        return Features(tuple(s for f in features for s in f.streams), features[0].lengths)


def check_vocabularies(names: Sequence[str], vocabularies: Sequence[dict[str, int]]) -> None:
    """Raise `ValueError` unless all the vocabularies are the first one."""
    for name, vocabulary in zip(names[1:], vocabularies[1:], strict=True):
        if vocabulary != vocabularies[0]:
            differing = sum(vocabularies[0].get(piece) != i for piece, i in vocabulary.items())
            raise ValueError(
                f"{names[0]} and {name} have different vocabularies ({len(vocabularies[0]):,} and {len(vocabulary):,} "
                f"pieces, {differing:,} differ); pair LMs that share one tokenizer, or train a backward LM with it"
            )
