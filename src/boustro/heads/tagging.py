"""Heads that label words or spans, around the bodies that score them."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.base import Head, MakeBody
from boustro.heads.crf import CRF, viterbi
from boustro.heads.dropout import Dropout
from boustro.heads.options import HeadOptions
from boustro.heads.span import Gold
from boustro.heads.span_decoding import FoundSpan


class PerWord(nn.Sequential):
    """A body that scores every word independently."""

    def forward(self, x: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N C"]:
        return super().forward(x)


def linear(width: int, num_labels: int, options: HeadOptions) -> nn.Module:
    """One affine map."""
    return PerWord(Dropout(options.dropout), nn.Linear(width, num_labels))


def mlp(width: int, num_labels: int, options: HeadOptions) -> nn.Module:
    """Two affine maps with a ReLU between them."""
    hidden = options.hidden or width
    return PerWord(
        Dropout(options.dropout),
        nn.Linear(width, hidden),
        nn.ReLU(),
        Dropout(options.dropout),
        nn.Linear(hidden, num_labels),
    )


DECODERS: dict[str, Callable[[Tensor, Tensor, Sequence[str]], Tensor]] = {
    "valid": viterbi,
    "argmax": lambda scores, lengths, labels: scores.argmax(-1),
}


class TaggingHead(Head):
    """A body scores the tags of every word; the best valid sequence is the output, under a CRF unless `crf` is False.

    Targets are tag ids (N,). The prediction for a sentence is (tag ids (W,), their probabilities (W,)).
    """

    labelling = "tags"

    def __init__(
        self,
        kind: str,
        make_body: MakeBody,
        options: HeadOptions,
        streams: Sequence[tuple[int, int]],
        labels: Sequence[str],
    ) -> None:
        super().__init__(kind, make_body, options, streams, labels)
        self.crf = CRF(self.labels) if options.crf is not False else None

    def scores(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N C"]:
        """A score (logit) for every tag of every word."""
        return self.body(self.project(vectors), lengths)

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Tensor) -> Tensor:
        scores = self.scores(vectors, lengths)
        return self.crf.loss(scores, targets, lengths) if self.crf else F.cross_entropy(scores, targets)

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
        scores = self.scores(vectors, lengths)
        if self.crf:
            ids, probabilities = self.crf.decode(scores, lengths), self.crf.marginals(scores, lengths)
        else:
            probabilities = scores.softmax(-1)
            ids = DECODERS[self.options.decode](scores, lengths, self.labels)
        sure = probabilities.gather(1, ids[:, None]).squeeze(1)
        ends = np.cumsum(lengths.cpu().numpy())[:-1]
        return list(zip(np.split(ids.cpu().numpy(), ends), np.split(sure.cpu().numpy(), ends), strict=True))


class SpanTaggingHead(Head):
    """Labels spans instead of words, so that entities may be nested.

    Targets and predictions are, per sentence, tuples (start, end, label id), a prediction with its probability.
    """

    labelling = "spans"

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Gold) -> Tensor:
        return self.body.loss(self.project(vectors), lengths, targets)  # type: ignore[operator]

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[list[FoundSpan]]:
        return self.body.predict(self.project(vectors), lengths)  # type: ignore[operator]

    def calibrate(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Gold) -> None:
        """Set the probability from which on a span is predicted."""
        with torch.inference_mode():
            self.body.calibrate(self.project(vectors), lengths, targets)  # type: ignore[operator]
