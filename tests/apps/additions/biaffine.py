"""A biaffine head for two marked places: scores = uᵀ W v, u and v the means of their words with a 1 behind them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from boustro.heads.relation import MARK_FEATURES, mean_of


class Biaffine(nn.Module):
    def __init__(self, width: int, num_labels: int, options: object) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_labels, width + 1, width + 1))

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "S C"]:
        u, v = (mean_of(x, x[:, place], lengths) for place in range(-MARK_FEATURES, 0))
        one = x.new_ones(len(lengths), 1)
        return torch.einsum("sa,cab,sb->sc", torch.cat([u, one], 1), self.weight, torch.cat([v, one], 1))
