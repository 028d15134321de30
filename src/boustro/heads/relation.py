"""Heads that give two marked places of a text a class, such as the relation between two entities.

    z = ReLU(W · [h; m])                       every word; m tells whether it is in the first or in the second place
    u, v = mean z of the first, of the second place
    b = [mean z; max z] of the words between them       t = [mean z; max z] of all words of the text

The scores are an mlp over [u; v; u * v; |u - v|; b; t]. Where there is no word between the places, b is 0. The encoder
reads a text once and without its marks, however many pairs of places it has.

Sources: Wu and He 2019 (the mean of each place beside the whole text); Zeng et al. 2015, section 3.3 (the words between
as a part of their own); |u - v| and u * v as in `heads.pairs`.

N words of a batch, S examples, k hidden width, C classes.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.bodies import Dropout
from boustro.heads.options import HiddenOptions
from boustro.heads.pooled import PooledHead, pool_max, pool_mean

MARK_FEATURES = 2
"""Side features: in the first place, in the second (`tasks.labellings.texts.MarkedLabelling`)."""


class MarkedPlaces(nn.Module):
    """The body; the last `MARK_FEATURES` columns of its input are the places."""

    def __init__(self, width: int, num_labels: int, options: HiddenOptions) -> None:
        super().__init__()
        k, p = options.hidden or width, options.dropout
        self.enter = nn.Sequential(Dropout(p), nn.Linear(width, k), nn.ReLU())
        self.leave = nn.Sequential(Dropout(p), nn.Linear(8 * k, k), nn.ReLU(), Dropout(p), nn.Linear(k, num_labels))

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S C"]:
        """Scores (logits)."""
        z = self.enter(x)
        first, second = x[:, -MARK_FEATURES], x[:, -1]
        u, v = mean_of(z, first, lengths), mean_of(z, second, lengths)
        between = words_between(first, second, lengths)
        features = [u, v, u * v, (u - v).abs()]
        features += [mean_of(z, between, lengths), pool_max(z * between[:, None], lengths)]  # z is not negative
        return self.leave(torch.cat([*features, pool_mean(z, lengths), pool_max(z, lengths)], 1))


def mean_of(z: Float[Tensor, "N k"], chosen: Float[Tensor, " N"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S k"]:
    """Return the mean over the words of each text where `chosen` is 1; 0 where there is none."""
    share = pool_mean(chosen[:, None], lengths)
    return pool_mean(z * chosen[:, None], lengths) / torch.where(share > 0, share, 1)


def words_between(
    first: Float[Tensor, " N"], second: Float[Tensor, " N"], lengths: Int[Tensor, " S"]
) -> Float[Tensor, " N"]:
    """1 for the words after the end of one place and before the start of the other, in either order.

    `[0 1 0 0 0], [0 0 0 0 1]` → `[0 0 1 1 0]`
    """
    seen = [_seen(mark, lengths) for mark in (first, second)]
    passed = [there * (1 - mark) for there, mark in zip(seen, (first, second), strict=True)]  # its last word is behind
    one, other = passed
    return one * (1 - seen[1]) + other * (1 - seen[0])


def _seen(mark: Float[Tensor, " N"], lengths: Int[Tensor, " S"]) -> Float[Tensor, " N"]:
    """1 for every word from the first marked one of its text on."""
    total = mark.cumsum(0)
    begun = torch.cat([total.new_zeros(1), total])[lengths.cumsum(0) - lengths]  # before each text
    return (total - begun.repeat_interleave(lengths) > 0).to(mark.dtype)


class RelationHead(PooledHead):
    """Classes of texts with two marked places, as `PooledHead` has them for texts."""

    mixed_precision = False
