"""The vectors that few-shot heads read: those of words (`features.vectors`), or for texts and pairs those of `views`.

Mean and standard deviation come from all sentences of the training set, without their labels, so they are the same for
every draw and every K.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boustro.encoders.options import UPPER
from boustro.features.reader import Reader
from boustro.features.vectors import VectorReader, Vectors
from boustro.heads.inputs import Inputs
from boustro.studies.fewshot.views import Views
from boustro.types import Sentence

SCALED = 4096
"""Training texts or pairs that the scales of their vectors come from."""


@dataclass(frozen=True, slots=True)
class TextVectors(Vectors):
    """A text or pair has one vector, as if it were one word, whose blocks are those of `views`."""

    views: Views


class TextReader(VectorReader):
    """A `VectorReader` of one vector for each example."""

    def __init__(self, reader: Reader, examples: Sequence[Any], layers: str = UPPER, standardise: bool = True) -> None:
        super().__init__(reader, examples, layers, standardise)
        self._texts, parts = reader.sentences(examples)
        self._views = Views(self._texts, parts)
        some = parts[np.linspace(0, len(parts) - 1, min(len(parts), SCALED), dtype=int)]
        own = super().mix(self._inputs, some)
        self._views.fit(own.words, own.starts, self._texts, some)

    def train_vectors(self, numbers: np.ndarray) -> TextVectors:
        return self._view(self._inputs, self._texts, self._inputs.parts[numbers])

    def vectors(self, examples: Sequence[Any]) -> TextVectors:
        inputs, (texts, parts) = self.reader.read(examples, cached=True), self.reader.sentences(examples)
        return self._view(inputs, texts, parts)

    def _view(self, inputs: Inputs, texts: Sequence[Sentence], parts: np.ndarray) -> TextVectors:
        own = self.mix(inputs, parts)
        viewed = self._views.vectors(own.words, own.starts, texts, parts)
        return TextVectors(viewed, np.arange(len(parts) + 1), self._views)


def make_reader(by_word: bool, reader: Reader, examples: Sequence[Any], layers: str, standardise: bool) -> VectorReader:
    """A reader of words or of whole examples."""
    return (VectorReader if by_word else TextReader)(reader, examples, layers, standardise)
