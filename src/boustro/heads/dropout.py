"""Dropout whose random numbers cost little on a CPU.

PyTorch draws one Bernoulli number an element, on one thread: in a small head that takes longer than the
matrix products. Here one 64-bit random number serves four elements, 16 bits each; the probability is so
rounded to a multiple of 2⁻¹⁶, and the scale is exact for the rounded one.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16


class Dropout(nn.Module):
    """As `torch.nn.Dropout`, and seeded by `torch.manual_seed` like it."""

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
        dropped = round(self.p * LEVELS)
        drawn = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        kept = drawn.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - LEVELS // 2
        return x * (kept.to(x.dtype) * (LEVELS / (LEVELS - dropped)))
