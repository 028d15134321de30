"""A head that assigns one class to a whole text, from the vectors of its words.

    mlp-pool      z = ReLU(W1 · h),               p = softmax(W2 · [mean z; max z])
    bilstm-pool   z = [LSTM→(h); LSTM←(h)],       p = softmax(W · max z)

Mean and maximum are taken over the words of a text; both are 0 for a text without words. There is no padding, and the
scores of a text depend on nothing else in its batch.

Source: Conneau et al. 2017, section 3.2 (BiLSTM with max pooling); concatenated pooling as in Howard and Ruder 2018,
section 3.3.

N words of a batch, S texts, d width, h hidden width, C classes.
"""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.bodies import BiLSTM
from boustro.heads.dropout import Dropout
from boustro.heads.layout import check_lengths
from boustro.heads.options import HeadOptions


def pool_mean(x: Float[Tensor, "N h"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S h"]:
    """The mean over the words of each text."""
    return x.new_zeros(len(lengths), x.shape[1]).index_add(0, _texts(lengths), x) / lengths.clamp_min(1)[:, None]


def pool_max(x: Float[Tensor, "N h"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S h"]:
    """The maximum over the words of each text."""
    texts = _texts(lengths)[:, None].expand_as(x)
    return x.new_zeros(len(lengths), x.shape[1]).scatter_reduce(0, texts, x, "amax", include_self=False)


def _texts(lengths: Int[Tensor, " S"]) -> Int[Tensor, " N"]:
    """The number of the text that each word belongs to."""
    return torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)


class PooledMLP(nn.Module):
    """An affine map with ReLU per word; the classes are scored from mean and maximum."""

    def __init__(self, width: int, num_labels: int, options: HeadOptions) -> None:
        super().__init__()
        hidden = options.hidden or width
        self.enter = nn.Sequential(Dropout(options.dropout), nn.Linear(width, hidden), nn.ReLU())
        self.leave = nn.Sequential(Dropout(options.dropout), nn.Linear(2 * hidden, num_labels))

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S C"]:
        """Scores (logits)."""
        z = self.enter(x)
        return self.leave(torch.cat([pool_mean(z, lengths), pool_max(z, lengths)], dim=1))


class PooledBiLSTM(BiLSTM):
    """A BiLSTM; the classes are scored from the maximum of its states."""

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S C"]:
        """Scores (logits)."""
        return self.leave(pool_max(self.states(x, lengths), lengths))


class PooledHead(Head):
    """Classes of texts. Targets are class ids (S,); the prediction for a text is the probabilities (C,)."""

    labelling = "class"

    def scores(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S C"]:
        """A score (logit) for every class of every text; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        return self.body(self.project(vectors), lengths.to(vectors.device))

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Int[Tensor, " S"]) -> Tensor:
        """Mean cross-entropy over texts."""
        scores = self.scores(vectors, lengths)
        return F.cross_entropy(scores, targets.to(scores.device))

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[np.ndarray]:
        return list(self.scores(vectors, lengths).softmax(-1).cpu().numpy())
