"""Heads that compare two texts, each read by itself, and give the pair a class or a score.

    z = ReLU(W · h)                                   every word of both texts
    u, v = [mean z; max z; mean z of marked words]    of the first and of the second text
    a_i = Σ_j softmax_j(z_i · z_j / √k) · z_j         what the other text has for word i
    c_i = ReLU(V · [|z_i - a_i|; z_i * a_i])          how it differs

The output is an mlp over [|u - v|; u * v], the mean and maximum of c over the words of each text, and the means of the
side features. `symmetric` adds up what belongs to the first and to the second text, so that their order does not
matter; otherwise both are joined, and u and v themselves are read as well.

Sources: Conneau et al. 2017, section 3.2 (|u - v| and u * v); Parikh et al. 2016 (alignment by attention).

N words of a batch, P pairs, T words of the longest text, k hidden width, C classes.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.bodies import Dropout
from boustro.heads.inputs import PAIR_FEATURES
from boustro.heads.layout import pad, unpad
from boustro.heads.options import PairOptions
from boustro.heads.pooled import PooledHead, PooledScoreHead, pool_max, pool_mean

PADDING_SCORE = -1e4  # exp of it is 0 in float32, and bf16 and float16 can hold it


class PairBody(nn.Module):
    """The body of both heads."""

    def __init__(self, width: int, num_labels: int, options: PairOptions) -> None:
        super().__init__()
        self.symmetric = options.symmetric
        k, p = options.hidden or width, options.dropout
        self.enter = nn.Sequential(Dropout(p), nn.Linear(width, k), nn.ReLU())
        self.compare = nn.Sequential(Dropout(p), nn.Linear(2 * k, k), nn.ReLU())
        one_text = 3 * k, 2 * k + PAIR_FEATURES
        joined = 2 * one_text[0] + 2 * one_text[1] if self.symmetric else 4 * one_text[0] + 2 * one_text[1]
        self.leave = nn.Sequential(Dropout(p), nn.Linear(joined, k), nn.ReLU(), Dropout(p), nn.Linear(k, num_labels))

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "P C"]:
        """Scores (logits); `lengths` (2 P,) of the texts, pair after pair."""
        side, z = x[:, -PAIR_FEATURES:], self.enter(x)
        marks = side[:, -1:]
        # a pair may have no marked word
        marked = pool_mean(z * marks, lengths) / pool_mean(marks, lengths).clamp_min(1e-6)
        u, v = _sides(torch.cat([pool_mean(z, lengths), pool_max(z, lengths), marked], 1))
        c = self.compare(self._against_other(z, lengths))
        sides = _sides(torch.cat([pool_mean(c, lengths), pool_max(c, lengths), pool_mean(side, lengths)], 1))
        features = [(u - v).abs(), u * v]
        features += [sides[0] + sides[1], (sides[0] - sides[1]).abs()] if self.symmetric else [u, v, *sides]
        return self.leave(torch.cat(features, 1))

    @staticmethod
    def _against_other(z: Float[Tensor, "N k"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "N e"]:
        """[|z - a|; z * a] of every word."""
        padded, mask = pad(z, lengths)  # (2 P, T, k)
        others = padded.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
        theirs = mask.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
        padding = theirs.logical_not() * PADDING_SCORE  # not -inf: beside an empty text, nothing but padding is left
        bias = padding[:, None, None].expand(-1, 1, padded.shape[1], -1).to(z.dtype)
        a = F.scaled_dot_product_attention(padded[:, None], others[:, None], others[:, None], bias)[:, 0]
        a = unpad(a, mask)
        return torch.cat([(z - a).abs(), z * a], 1)


def _sides(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the first and of the second texts."""
    return x[0::2], x[1::2]


class PairHead(PooledHead):
    """Classes of pairs. Targets are class ids (P,); the prediction for a pair is its scores (C,), before softmax."""

    parts, has_temperature, mixed_precision = 2, False, False
    soften = Head.soften  # none


class PairScoreHead(PooledScoreHead):
    """A number for each pair, in standard deviations of the training scores. Targets are numbers (P,)."""

    parts, mixed_precision = 2, False
