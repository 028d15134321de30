"""The vectors that few-shot heads read: layers standardised and averaged, streams joined.

    (words, layers, width) per stream  →  (x_l - mean_l) / sd_l, the mean over l  →  streams side by side

Mean and standard deviation come from all sentences of the training set, without their labels, so they are the same for
every draw and every K. The average is an untrained `LayerMix`: a few dozen sentences are too few to learn a mix from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from boustro.encoders.base import Encoder, Features
from boustro.encoders.options import Context
from boustro.encoders.pooled import with_mentions
from boustro.encoders.spec import load_encoder
from boustro.encoders.spelling import with_spelling
from boustro.features.sentences import distinct_sentences
from boustro.heads.layout import sentence_rows
from boustro.heads.mix import LayerMix
from boustro.studies.fewshot.options import UPPER
from boustro.studies.fewshot.views import Views
from boustro.tasks.base import Task
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

BLOCK_WORDS = 8192
SCALED = 4096
"""Training texts or pairs that the scales of their vectors come from."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector per word, (words, d) float16; `starts` (sentences + 1,) is the first word of each sentence.

    A text or pair has one vector, as if it were one word, whose blocks are those of `views`.
    """

    words: np.ndarray
    starts: np.ndarray
    views: Views | None = None


def reading_context(examples: Sequence[Any], context: Context | None) -> Context:
    """`context`, or "sentence" where no example names a document: heads see the context that they are trained with."""
    named = any(getattr(example, "document", "") for example in examples)
    return context or "sentence" if named else "sentence"


def reading_encoder(
    spec: str,
    train: Sequence[Any],
    layers: str = UPPER,
    cache: bool | Path = True,
    context: Context | None = None,
    pool_mentions: bool = False,
    spelling: bool = False,
    **options: Any,
) -> Encoder:
    """The encoder of a `FeatureReader`.

    Args:
        layers: "upper" (the upper half: of 12 blocks, 6 to 12), all, last, or a list such as 2,3,4 or 50%,last.
        context: "document" reads whole documents, if the training set has document boundaries.
        pool_mentions: Add the mean vector of a word's mentions in its document, of the highest layer.
        spelling: Add a vector of a word's letters.
        options: `load_encoder`'s: device, pooling, spacing, start_piece, dtype, quantise.
    """
    read = reading_context(train, context)
    chosen = {name: value for name, value in options.items() if value is not None}
    encoder = load_encoder(spec, layers="all" if layers == UPPER else layers, cache=cache, context=read, **chosen)
    return with_spelling(with_mentions(encoder, pool_mentions, read), spelling)


class FeatureReader:
    """An encoder, the layers that are used, and the standardisation that all heads share."""

    def __init__(
        self,
        encoder: Encoder,
        train: Sequence[Any],
        layers: str = UPPER,
        standardise: bool = True,
        task: type[Task[Any, Any]] = Tagger,
        by_word: bool = True,
    ) -> None:
        """Encode the training set; `layers` as in `reading_encoder`. Where not `by_word` there is one vector per
        example, made by `Views`."""
        self.encoder, self.parts = encoder, task.parts
        self._first_layer = [(s.num_layers - 1) // 2 if layers == UPPER else 0 for s in encoder.streams]
        self._texts, self._parts = distinct_sentences(train, self.parts)
        self._train = encoder.encode_all(self._texts)
        self._mixes = []
        for stream, shape, first in zip(self._train.streams, encoder.streams, self._first_layer, strict=True):
            self._mixes.append(LayerMix(shape.num_layers - first, shape.width, standardise))
            self._mixes[-1].fit_standardisation(stream[:, first:])
        self._views = None if by_word else Views(self._texts, self._parts)
        if self._views:
            some = self._parts[np.linspace(0, len(train) - 1, min(len(train), SCALED), dtype=int)]
            self._views.fit(*self._words(self._train, some), self._texts, some)

    @property
    def mixes(self) -> list[tuple[int, LayerMix]]:
        """Per stream the first layer that is used, and the average of it and the later ones."""
        return list(zip(self._first_layer, self._mixes, strict=True))

    def train_vectors(self, examples: np.ndarray) -> Vectors:
        """Of the training examples with these numbers, in this order."""
        return self._units(self._train, self._texts, self._parts[examples])

    def vectors(self, examples: Sequence[Any]) -> Vectors:
        """Of other examples."""
        sentences, parts = distinct_sentences(examples, self.parts)
        return self._units(self.encoder.encode_all(sentences), sentences, parts)

    def _units(self, features: Features, texts: Sequence[Sentence], parts: np.ndarray) -> Vectors:
        words, starts = self._words(features, parts)
        if self._views is None:
            return Vectors(words, starts)
        return Vectors(self._views.vectors(words, starts, texts, parts), np.arange(len(parts) + 1), self._views)

    def _words(self, features: Features, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The words of texts, one after another, (words, d), and the first word of each."""
        rows, starts = sentence_rows(features.starts, parts.ravel())
        return self._mix(features.streams, rows), starts

    @torch.inference_mode()
    def _mix(self, streams: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
        width = sum(stream.width for stream in self.encoder.streams)
        result = np.empty((len(rows), width), np.float16)
        for start in range(0, len(rows), BLOCK_WORDS):
            block = rows[start : start + BLOCK_WORDS]
            parts = [
                mix(torch.from_numpy(np.array(stream[block])[:, first:]))
                for mix, stream, first in zip(self._mixes, streams, self._first_layer, strict=True)
            ]
            result[start : start + len(block)] = torch.cat(parts, 1).half().numpy()
        return result
