"""The head that labels words: a body scores the tags of every word, `heads.decoding` picks the sequence.

N words of a batch, end to end; W words of a sentence; d width; C tags.
"""

from typing import Any

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.crf.layer import CRF, Expected
from boustro.heads.decoding import TagDecoder
from boustro.heads.layout import check_lengths
from boustro.heads.options import SequenceOptions


class TaggingHead(Head):
    """Tags of words; the output is the best valid sequence, under a CRF unless `options.crf` is False.

    With `options.threshold` the output is every entity that is probable enough instead: the answer of the best expected
    F1 has those above half of that F1 (Lipton, Elkan and Narayanaswamy 2014).

    Targets are tag ids (N,), or what `soften` gives. The prediction for a sentence is (tag ids (W,), their
    probabilities (W,)).
    """

    options: SequenceOptions
    has_temperature = True
    has_likely_words = True
    mixed_precision = True

    def __init__(self, *given: Any) -> None:
        """Make the head; arguments as of `Head`, `ValueError` for a threshold where the labels are not tags of
        entities."""
        super().__init__(*given)
        if self.options.threshold is not None and "O" not in self.labels:
            raise ValueError("a threshold needs a CRF over the tags of entities; remove --threshold")
        self.crf = CRF(self.labels) if self.options.crf is not False else None

    def scores(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N C"]:
        """Return a score (logit) for every tag of every word."""
        return self.body(vectors, lengths)

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Tensor | Expected) -> Tensor:
        scores = self.scores(vectors, lengths).float()  # bf16 under autocast
        if isinstance(targets, Expected):
            assert self.crf is not None
            return self.crf.loss_to(scores, targets, lengths)
        if self.crf:
            return self.crf.loss(scores, targets, lengths)
        return F.cross_entropy(scores, targets) if len(scores) else scores.sum()  # 0 for a batch without words

    def soften(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Tensor | Expected:
        """Under a CRF what it expects of the sequences, else the probabilities of the tags (N, C)."""
        scores = self.scores(vectors, lengths)
        if self.crf:
            return self.crf.expect(scores, lengths, self.temperature)
        return (scores / self.temperature).softmax(-1)

    def candidates(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        """Return the candidates of `decoding.TagDecoder.candidates`."""
        return self.decoder.candidates(*self._decoded(vectors, lengths))

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[tuple[np.ndarray, ...]]:
        return self.decoder.predict(*self._decoded(vectors, lengths))

    @property
    def decoder(self) -> TagDecoder:
        """Decoder that makes tags of scores."""
        return TagDecoder(self.labels, self.options, self.crf.chain if self.crf else None, self.temperature, self.words)

    def _decoded(self, vectors: Tensor, lengths: Tensor) -> tuple[np.ndarray, np.ndarray]:
        check_lengths(lengths, len(vectors))
        return self.scores(vectors, lengths).detach().float().cpu().numpy(), lengths.cpu().numpy()
