"""Two LMs over the same pieces, one reading forward and one backward, their states side by side in text order.

Letters: B texts, P pieces, F and R widths of the forward and the backward LM.

    pieces           p0    p1    p2
    forward    f0    f1    f2    f3       f0 is the sentinel's; f_j knows p0 … p_{j-1}
    backward   b0    b1    b2    b3       b3 is the sentinel's; b_j knows p_j … p2

So f_i and b_{i+1} together know all but piece i, and f_{i+1} and b_i each know it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class TowerStates(NamedTuple):
    """P + 1 states of each tower, in text order; what lies beyond a text's own length is of no meaning."""

    forward: Float[Tensor, "B Q F"]
    backward: Float[Tensor, "B Q R"]


@dataclass(frozen=True)
class Towers:
    """Two transformers without their heads; `sentinel` is the piece that starts either's reading."""

    forward: nn.Module
    backward: nn.Module
    sentinel: int

    def states(self, pieces: Int[Tensor, "B P"], lengths: Int[Tensor, " B"]) -> TowerStates:
        """Top states for texts padded on the right; `lengths` tells what is no padding.

        Gradients flow into a tower whose parameters want them.
        """
        num_pieces = pieces.shape[1]
        start = torch.full_like(pieces[:, :1], self.sentinel)
        there = torch.arange(num_pieces, device=pieces.device)
        reversed_pieces = pieces.gather(1, (lengths[:, None] - 1 - there).clamp(min=0))
        read = _read(self.forward, torch.cat([start, pieces], 1))
        back = _read(self.backward, torch.cat([start, reversed_pieces], 1))
        order = (lengths[:, None] - torch.arange(num_pieces + 1, device=pieces.device)).clamp(min=0)
        return TowerStates(read, back.gather(1, order[:, :, None].expand(-1, -1, back.shape[-1])))


def _read(tower: nn.Module, pieces: Tensor) -> Tensor:
    """Top states; of a frozen tower nothing is kept for a backward pass."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and next(tower.parameters()).requires_grad):
        return tower(input_ids=pieces, use_cache=False).last_hidden_state
