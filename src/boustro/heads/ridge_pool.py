"""A head for texts without gradient descent: ridge regression on the mean and the maximum of the words' vectors.

    x = [mean h; max h]        W = (Σ (x - x̄)(x - x̄)ᵀ + strength · I)⁻¹ Σ (x - x̄) yᵀ        scores = scale · (W · x + b)

The sums are stored with the head. The strength has the least squared error on each text left out in turn, with its
copies, and the scale the least cross-entropy there. The layers are averaged.

Source: `heads.closed_form`. S texts, d width of h, e = 2 d, C classes.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.closed_form import LabelledWords, ridge, ridge_scale
from boustro.heads.inputs import Kinship
from boustro.heads.options import HeadOptions
from boustro.heads.pooled import SolvedHead, pool_max, pool_mean

LEAST_STRENGTH = 1e-9
"""The least strength: texts that are all equal have none of their own."""


class RidgeSums(nn.Module):
    """The sums over texts and the solution; `anchor` (e,) is what x is measured from, so that sums are exact."""

    anchor: Tensor
    total: Tensor
    gram: Tensor
    moments: Tensor
    counts: Tensor
    strength: Tensor
    scale: Tensor

    def __init__(self, width: int, num_labels: int, options: HeadOptions) -> None:
        super().__init__()
        wide = 2 * width
        shapes = {"anchor": (wide,), "total": (wide,), "gram": (wide, wide), "moments": (wide, num_labels)}
        for name, shape in {**shapes, "counts": (num_labels,), "strength": (), "scale": ()}.items():
            self.register_buffer(name, torch.zeros(shape))
        self.weight = nn.Parameter(torch.zeros(num_labels, wide), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(num_labels), requires_grad=False)

    def add(self, x: Float[Tensor, "S e"], ids: Int[Tensor, " S"]) -> None:
        """Add texts to the sums."""
        centred = x - self.anchor
        onehot = nn.functional.one_hot(ids, len(self.counts)).to(x)
        self.total += centred.sum(0)
        self.gram += centred.T @ centred
        self.moments += centred.T @ onehot
        self.counts += onehot.sum(0)

    def solve(self) -> None:
        """Set weight and bias from the sums."""
        total, gram, moments, counts = (getattr(self, n).double().cpu() for n in ("total", "gram", "moments", "counts"))
        mean, number = total / counts.sum(), counts.sum()
        gram = gram - number * mean[:, None] * mean
        gram.diagonal().add_(max(float(self.strength), LEAST_STRENGTH))
        weight = torch.linalg.solve(gram, moments - mean[:, None] * counts).T  # (C, e)
        self.weight.copy_(weight)
        self.bias.copy_(counts / number - weight @ (mean + self.anchor.double().cpu()))


class PooledRidge(SolvedHead):
    """Ridge regression over pooled texts."""

    alone = True
    body: RidgeSums
    soften = Head.soften  # none

    def _pool(self, vectors: Tensor, lengths: Tensor) -> Float[Tensor, "S e"]:
        return torch.cat([pool_mean(vectors, lengths), pool_max(vectors, lengths)], dim=1)

    @torch.no_grad()
    def solve(self, pooled: Float[Tensor, "S e"], targets: Any, lengths: Tensor, kin: Kinship | None = None) -> None:
        """Train on texts, whatever their lengths; `ValueError` for several labels per text."""
        if targets.is_floating_point():
            raise ValueError("a ridge-pool head learns one label per text; use another head")
        x, ids, body = pooled.cpu().numpy(), targets.cpu().numpy(), self.body
        texts = LabelledWords(x, ids, len(self.labels), np.arange(len(ids) + 1), kin)
        strength = ridge(texts).strength
        body.strength.fill_(strength)
        body.scale.fill_(ridge_scale(texts, strength))
        body.anchor.copy_(pooled.mean(0))
        for name in ("total", "gram", "moments", "counts"):
            getattr(body, name).zero_()
        body.add(pooled, targets.to(pooled.device))
        body.solve()

    def _scores(self, x: Float[Tensor, "S e"]) -> Float[Tensor, "S C"]:
        return self.body.scale * (x @ self.body.weight.T + self.body.bias)
