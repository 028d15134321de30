"""Two LMs over the same pieces, one reading forward and one backward, with their states in text order.

    pieces           p0    p1    p2
    forward    f0    f1    f2    f3       f0 is the start piece's; f_j knows p0 … p_{j-1}
    backward   b0    b1    b2    b3       b3 is the start piece's; b_j knows p_j … p2

So f_i and b_{i+1} together know all but piece i, and f_{i+1} and b_i each know it. B texts, P pieces, Q = P + 1 states
of a tower, F and R widths of the forward and the backward LM.
"""

from collections.abc import Sequence
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
    """Two transformers without their heads, and the pieces that each starts with, at least one."""

    forward: nn.Module
    backward: nn.Module
    starts: tuple[Sequence[int], Sequence[int]]

    def states(self, pieces: Int[Tensor, "B P"], lengths: Lengths) -> TowerStates:
        """Top states of texts padded on the right, `lengths` long; gradients flow into towers that are trained."""
        (first, last), (ahead, back) = self.starts, both_readings(pieces, lengths)
        read = _read(self.backward, last, back)
        return TowerStates(_read(self.forward, first, ahead), in_text_order(read, lengths))


def both_readings(texts: Int[Tensor, "B P"], lengths: Lengths) -> tuple[Int[Tensor, "B P"], Int[Tensor, "B P"]]:
    """Texts as they are and reversed: `[5, 7, 9]` → `[5, 7, 9]`, `[9, 7, 5]`."""
    places = torch.arange(texts.shape[1], device=texts.device)
    return texts, texts.gather(1, (lengths[:, None] - 1 - places).clamp(min=0))


def after(start: Sequence[int], texts: Int[Tensor, "B P"]) -> Int[Tensor, "B Q"]:
    """Texts after their start pieces: `[5, 7, 9]` → `[0, 5, 7, 9]`."""
    begin = torch.tensor(start, dtype=texts.dtype, device=texts.device)
    return torch.cat([begin.expand(len(texts), -1), texts], 1)


def in_text_order(states: Float[Tensor, "*L B Q R"], lengths: Lengths) -> Float[Tensor, "*L B Q R"]:
    """The states of a reversed reading, in text order."""
    order = (lengths[:, None] - torch.arange(states.shape[-2], device=states.device)).clamp(min=0)
    return states.gather(-2, order[:, :, None].expand(states.shape))


def _read(tower: nn.Module, start: Sequence[int], texts: Tensor) -> Tensor:
    """Top states from the last start piece on; nothing is kept for a backward pass through a frozen tower."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and next(tower.parameters()).requires_grad):
        return tower(input_ids=after(start, texts), use_cache=False).last_hidden_state[:, len(start) - 1 :]
