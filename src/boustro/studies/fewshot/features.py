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
from boustro.encoders.spec import load_encoder
from boustro.heads.factored import Runs, mean_vectors
from boustro.heads.layout import sentence_rows
from boustro.heads.mix import LayerMix
from boustro.studies.core.task import TAG, StudiedTask
from boustro.studies.fewshot.options import UPPER

BLOCK_WORDS = 8192


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector per word, (words, d) float16; `starts` (sentences + 1,) is the first word of each sentence."""

    words: np.ndarray
    starts: np.ndarray


def reading_encoder(
    spec: str, train: Sequence[Any], layers: str = UPPER, cache: bool | Path = True, **options: Any
) -> Encoder:
    """The encoder of a `FeatureReader`; it reads whole documents if the training set has document boundaries.

    Args:
        layers: "upper" (the upper half: of 12 blocks, 6 to 12), all, last, or numbers such as 2,3,4.
        options: `load_encoder`'s: device, pooling, spacing, context, sentinel, dtype.
    """
    if not any(
        getattr(example, "document", "") for example in train
    ):  # heads see the context that they were trained with
        options = {**options, "context": "sentence"}
    chosen = {name: value for name, value in options.items() if value is not None}
    return load_encoder(spec, layers="all" if layers == UPPER else layers, cache=cache, **chosen)


class FeatureReader:
    """An encoder, the layers that are used, and the standardisation that all heads share."""

    def __init__(
        self,
        encoder: Encoder,
        train: Sequence[Any],
        layers: str = UPPER,
        standardise: bool = True,
        task: StudiedTask = TAG,
    ) -> None:
        """Encode the training set; `layers` as in `reading_encoder`. Without positions (`task`) there is one vector
        per example, as if it had one word: the mean of its words', or |u - v| and u · v of the two means of a pair."""
        self.encoder, self.task = encoder, task
        self._first_layer = [(s.num_layers - 1) // 2 if layers == UPPER else 0 for s in encoder.streams]
        sentences, self._parts = task.sentences(train)
        self._train = encoder.encode_all(sentences)
        self._mixes = []
        for stream, shape, first in zip(self._train.streams, encoder.streams, self._first_layer, strict=True):
            self._mixes.append(LayerMix(shape.num_layers - first, shape.width, standardise))
            self._mixes[-1].fit_standardisation(stream[:, first:])

    def train_vectors(self, examples: np.ndarray) -> Vectors:
        """Of the training examples with these numbers, in this order."""
        return self._units(self._train, self._parts[examples])

    def vectors(self, examples: Sequence[Any]) -> Vectors:
        """Of other examples."""
        sentences, parts = self.task.sentences(examples)
        return self._units(self.encoder.encode_all(sentences), parts)

    def _units(self, features: Features, parts: np.ndarray) -> Vectors:
        rows, starts = sentence_rows(features.starts, parts.ravel())
        words = self._mix(features.streams, rows)
        if self.task.has_positions:
            return Vectors(words, starts)
        means = np.zeros((parts.size, words.shape[1]), np.float32)  # a text without words stays 0
        full = np.diff(starts) > 0
        means[full] = mean_vectors(words, Runs(starts[:-1][full], starts[1:][full]))
        if parts.shape[1] == 2:
            one, other = means[::2], means[1::2]
            means = np.concatenate([np.abs(one - other), one * other], 1)
        return Vectors(means.astype(np.float16), np.arange(len(parts) + 1))

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
