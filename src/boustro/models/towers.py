"""Two LMs over the same pieces, one reading forward and one backward, with their states in text order.

    pieces           p0    p1    p2
    forward    f0    f1    f2    f3       f0 is the sentinel's; f_j knows p0 … p_{j-1}
    backward   b0    b1    b2    b3       b3 is the sentinel's; b_j knows p_j … p2

So f_i and b_{i+1} together know all but piece i, and f_{i+1} and b_i each know it. B texts, P pieces, Q = P + 1 states
of a tower, F and R widths of the forward and the backward LM.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

Lengths = Int[Tensor, " B"]


class TowerStates(NamedTuple):
    """The states of each tower, in text order; those beyond a text's own length have no meaning."""

    forward: Float[Tensor, "B Q F"]
    backward: Float[Tensor, "B Q R"]


@dataclass(frozen=True)
class Towers:
    """Two transformers without their heads; both start with the piece `sentinel`."""

    forward: nn.Module
    backward: nn.Module
    sentinel: int

    def states(self, pieces: Int[Tensor, "B P"], lengths: Lengths) -> TowerStates:
        """Top states of texts padded on the right, `lengths` long; gradients flow into towers that are trained."""
        ahead, back = both_readings(pieces, lengths, self.sentinel)
        return TowerStates(_read(self.forward, ahead), in_text_order(_read(self.backward, back), lengths))


def both_readings(
    texts: Int[Tensor, "B P"], lengths: Lengths, sentinel: int
) -> tuple[Int[Tensor, "B Q"], Int[Tensor, "B Q"]]:
    """Texts as they are and reversed, both after a sentinel: `[5, 7, 9]` → `[0, 5, 7, 9]`, `[0, 9, 7, 5]`."""
    start = torch.full_like(texts[:, :1], sentinel)
    places = torch.arange(texts.shape[1], device=texts.device)
    reversed_texts = texts.gather(1, (lengths[:, None] - 1 - places).clamp(min=0))
    return torch.cat([start, texts], 1), torch.cat([start, reversed_texts], 1)


def in_text_order(states: Float[Tensor, "*L B Q R"], lengths: Lengths) -> Float[Tensor, "*L B Q R"]:
    """The states of a reversed reading, in text order."""
    order = (lengths[:, None] - torch.arange(states.shape[-2], device=states.device)).clamp(min=0)
    return states.gather(-2, order[:, :, None].expand(states.shape))


def _read(tower: nn.Module, pieces: Tensor) -> Tensor:
    """Top states; nothing is kept for a backward pass through a frozen tower."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and next(tower.parameters()).requires_grad):
        return tower(input_ids=pieces, use_cache=False).last_hidden_state
