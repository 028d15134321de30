"""The head that labels words: a body scores the tags of every word, a CRF or a decoder picks the sequence.

N words of a batch, end to end; W words of a sentence; d width; C tags.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.crf.chain import Expected
from boustro.heads.crf.layer import CRF, viterbi
from boustro.heads.crf.spans import entity_forms
from boustro.heads.options import SequenceOptions
from boustro.heads.span.decoding import overlaps, overlaps_or_joins, resolve

LONGEST, LEAST = 12, 1e-5
"""Words and probability of a candidate."""


class TaggingHead(Head):
    """Tags of words; the output is the best valid sequence, under a CRF unless `options.crf` is False.

    With `options.threshold` the output is every entity that is probable enough instead: the answer of the best expected
    F1 has those above half of that F1 (Lipton, Elkan and Narayanaswamy 2014).

    Targets are tag ids (N,), or what `soften` gives. The prediction for a sentence is (tag ids (W,), their
    probabilities (W,)).
    """

    options: SequenceOptions
    has_temperature = True
    mixed_precision = True

    def __init__(self, *given: Any) -> None:
        """As `Head`; `ValueError` for a threshold where the labels are not tags of entities."""
        super().__init__(*given)
        if self.options.threshold is not None and "O" not in self.labels:
            raise ValueError("a threshold needs a CRF over the tags of entities; leave --threshold out")
        self.crf = CRF(self.labels) if self.options.crf is not False else None

    def scores(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N C"]:
        """A score (logit) for every tag of every word."""
        return self.body(self.project(vectors), lengths)

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Tensor | Expected) -> Tensor:
        scores = self.scores(vectors, lengths).float()  # bf16 under autocast
        if isinstance(targets, Expected):
            assert self.crf is not None
            return self.crf.loss_to(scores, targets, lengths)
        return self.crf.loss(scores, targets, lengths) if self.crf else F.cross_entropy(scores, targets)

    def soften(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Tensor | Expected:
        """Under a CRF what it expects of the sequences, else the probabilities of the tags (N, C)."""
        scores = self.scores(vectors, lengths)
        if self.crf:
            return self.crf.expect(scores, lengths, self.temperature)
        return (scores / self.temperature).softmax(-1)

    def candidates(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        """Per sentence (start, end, number of the type, probability) of every entity that is not very improbable.

        None without a CRF, since entities then have no probabilities.
        """
        if self.crf is None:
            return [[] for _ in lengths]
        return self._spans(self.scores(vectors, lengths), lengths, LEAST)

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
        scores = self.scores(vectors, lengths)
        if self.crf:
            probabilities = self.crf.marginals(scores, lengths, self.temperature)
            if self.options.threshold is not None:
                return self._likely(scores, lengths, probabilities, self.options.threshold)
            ids = self.crf.decode(scores, lengths)
        else:
            probabilities = (scores / self.temperature).softmax(-1)
            ids = viterbi(scores, lengths, self.labels) if self.options.decode == "valid" else scores.argmax(-1)
        chosen = probabilities.gather(1, ids[:, None]).squeeze(1)
        return per_sentence(ids, chosen, lengths)

    def _spans(self, scores: Float[Tensor, "N C"], lengths: Tensor, least: float) -> list[Any]:
        assert self.crf is not None
        return self.crf.spans(scores, lengths, self.options.max_span or LONGEST, least, self.temperature)

    def _likely(
        self, scores: Float[Tensor, "N C"], lengths: Tensor, probabilities: Float[Tensor, "N C"], least: float
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The tags of the entities that are probable enough; the words of an entity have its probability."""
        assert self.crf is not None
        outside, forms = self.labels.index("O"), entity_forms(self.labels)
        conflict = overlaps_or_joins if forms[0].joined else overlaps
        ids = torch.full((len(scores),), outside)
        chosen = probabilities[:, outside].cpu()
        starts = (lengths.cumsum(0) - lengths).tolist()
        found = self._spans(scores, lengths, least)
        for begin, spans in zip(starts, found, strict=True):
            for start, end, kind, p in resolve(spans, conflict):
                ids[begin + start : begin + end] = torch.tensor(forms[kind].tags(end - start))
                chosen[begin + start : begin + end] = p
        return per_sentence(ids, chosen, lengths)


def per_sentence(ids: Tensor, probabilities: Tensor, lengths: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    """The tag ids of each sentence, and their probabilities."""
    ends = np.cumsum(lengths.cpu().numpy())[:-1]
    return list(zip(np.split(ids.cpu().numpy(), ends), np.split(probabilities.cpu().numpy(), ends), strict=True))
