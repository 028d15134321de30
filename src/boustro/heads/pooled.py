"""Heads that score the classes of a whole text, or give it a number, from the vectors of its words.

    mlp-pool      z = ReLU(W1 · h),               scores = W2 · [mean z; max z]
    bilstm-pool   z = [LSTM→(h); LSTM←(h)],       scores = W · max z
    score-pool    mlp-pool with one score: the number in standard deviations of the training scores

With one class per text the probabilities are softmax(scores), with several sigmoid(scores).

Mean and maximum are taken over the words of a text; both are 0 for a text without words. There is no padding, and the
scores of a text depend on nothing else in its batch.

Source: Conneau et al. 2017, section 3.2 (BiLSTM with max pooling); concatenated pooling as in Howard and Ruder 2018,
section 3.3.

N words of a batch, S texts, d width, h hidden width, C classes.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.bodies import BiLSTM, Dropout, WordMap
from boustro.heads.layout import check_lengths, texts_of
from boustro.heads.options import HiddenOptions


def pool_mean(x: Float[Tensor, "N h"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S h"]:
    """Return the mean over the words of each text."""
    texts = texts_of(lengths, x.shape[0])
    return x.new_zeros(lengths.shape[0], x.shape[1]).index_add(0, texts, x) / lengths.clamp_min(1)[:, None]


def pool_max(x: Float[Tensor, "N h"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S h"]:
    """Return the maximum over the words of each text."""
    texts = texts_of(lengths, x.shape[0])[:, None].expand_as(x)
    return x.new_zeros(lengths.shape[0], x.shape[1]).scatter_reduce(0, texts, x, "amax", include_self=False)


class PooledMLP(nn.Module):
    """An affine map with ReLU per word; the classes are scored from mean and maximum."""

    def __init__(self, width: int, num_labels: int, options: HiddenOptions) -> None:
        super().__init__()
        hidden = options.hidden or width
        self.enter = nn.Sequential(Dropout(options.dropout), WordMap(width, hidden), nn.ReLU())
        self.leave = nn.Sequential(Dropout(options.dropout), nn.Linear(2 * hidden, num_labels))

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S C"]:
        """Scores (logits)."""
        z = self.enter(x).float()  # bf16 under autocast
        return self.leave(torch.cat([pool_mean(z, lengths), pool_max(z, lengths)], dim=1))


class PooledBiLSTM(BiLSTM):
    """A BiLSTM; the classes are scored from the maximum of its states."""

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S C"]:
        """Scores (logits)."""
        return self.leave(pool_max(self.states(x, lengths), lengths))


class Soft(NamedTuple):
    """Probabilities (S, C) that sum to 1, of another head."""

    probabilities: Tensor


TextTargets = Tensor | Soft | tuple[Tensor, Tensor]
"""Class ids (S,); ids and the weight of each class (C,); probabilities; or membership (S, C), floating point, for
several classes."""


def text_loss(scores: Float[Tensor, "S C"], targets: TextTargets) -> Tensor:
    """Mean cross-entropy over texts; for membership that of every class by itself, summed."""
    if isinstance(targets, Soft):
        return F.cross_entropy(scores, targets.probabilities.to(scores.device))
    if isinstance(targets, tuple):
        ids, weights = (part.to(scores.device) for part in targets)
        return F.cross_entropy(scores, ids, weights)
    targets = targets.to(scores.device)
    if targets.is_floating_point():
        return F.binary_cross_entropy_with_logits(scores, targets, reduction="sum") / max(1, len(scores))
    return F.cross_entropy(scores, targets)


class PooledHead(Head):
    """Classes of texts. The prediction for a text is its scores (C,) / temperature, before softmax or sigmoid."""

    has_temperature = True
    mixed_precision = True

    def scores(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S C"]:
        """Return a score (logit) for every class of every text; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        return self.body(vectors, lengths.to(vectors.device))

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: TextTargets) -> Tensor:
        """Return the `text_loss` of a batch."""
        return text_loss(self.scores(vectors, lengths), targets)

    def soften(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S C"]:
        """Return the scores / temperature."""
        return self.scores(vectors, lengths) / self.temperature

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        return list((self.scores(vectors, lengths) / self.temperature).cpu().numpy())


class PooledScoreHead(PooledHead):
    """A number for each text, in standard deviations of the training scores. Targets are numbers (S,)."""

    has_temperature = False
    soften = Head.soften  # none

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error over texts."""
        return F.mse_loss(self.scores(vectors, lengths)[:, 0], targets.to(vectors.device))

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        return self.scores(vectors, lengths)[:, 0].tolist()


class SolvedHead(Head):
    """Classes of texts, trained at once from a vector of each. Targets are class ids (S,); the prediction for a text is
    its scores (C,), before softmax."""

    closed_form = True

    @abstractmethod
    def _pool(self, vectors: Tensor, lengths: Tensor) -> Float[Tensor, "S e"]:
        """Return the vector of each text, 0 of one without words."""

    @abstractmethod
    def _scores(self, x: Float[Tensor, "S e"]) -> Float[Tensor, "S C"]: ...

    def pool(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """Return the vector of each text; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        return self._pool(vectors, lengths.to(vectors.device))

    def graph(self, vectors: Float[Tensor, "N d"], *given: Tensor) -> Float[Tensor, "S C"]:
        return self._scores(self._pool(vectors, *given))

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        return list(self._scores(self.pool(vectors, lengths)).cpu().numpy())

    def soften(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S C"]:
        """Return the scores."""
        return self._scores(self.pool(vectors, lengths))
