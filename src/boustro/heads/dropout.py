"""Dropout with cheap random numbers on a CPU.

PyTorch draws one Bernoulli number per element, on one thread: in a small head that takes longer than the
matrix products. Here one 64-bit random number serves four elements, 16 bits each. So the probability is
rounded to a multiple of 2⁻¹⁶, and the scale is exact for the rounded one. N words, d width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16


class Dropout(nn.Module):
    """As `torch.nn.Dropout`; also seeded by `torch.manual_seed`."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        kept = draw_kept(x.numel(), self.p).view(x.shape).to(x.dtype).mul_(kept_scale(self.p))
        return x * kept if x.requires_grad else kept.mul_(x)  # what a step allocates costs as much as what it computes


def draw_kept(numel: int, p: float, generator: torch.Generator | None = None, room: Tensor | None = None) -> Tensor:
    """(numel,) int16: 1 where an element is kept, 0 where it is dropped with probability `p`.

    `generator` is PyTorch's global one by default; `room` is an int64 buffer of at least numel / 4 elements.
    """
    count = -(-numel // 4)
    drawn = torch.empty(count, dtype=torch.int64) if room is None else room[:count]
    drawn.random_(-(1 << 63), None, generator=generator)
    return drawn.view(torch.int16)[:numel].ge_(round(p * LEVELS) - LEVELS // 2)


def kept_scale(p: float) -> float:
    """The factor for kept elements that preserves the mean."""
    return LEVELS / (LEVELS - round(p * LEVELS))
