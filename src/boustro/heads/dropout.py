"""Dropout with cheap random numbers on a CPU, and dropout of words.

PyTorch draws one Bernoulli number per element, on one thread: in a small head that takes longer than the
matrix products. Here one 64-bit random number serves four elements, 16 bits each. So the probability is
rounded to a multiple of 2⁻¹⁶, and the scale is exact for the rounded one. N words, d width.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
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


CONTEXT = "before"
"""The place that a word is read from before the LM has read it."""


def own_columns(
    places: Sequence[Sequence[str]], streams: Sequence[tuple[int, int]], concat: bool
) -> Bool[Tensor, " d"]:
    """Which columns of a mixed vector know the word itself.

    Args:
        places: For each stream the places that its vectors join, such as ("exit", "before").
        streams: (layers, width) of each.
        concat: Whether layers are concatenated, not mixed.
    """
    columns = []
    for names, (layers, width) in zip(places, streams, strict=True):
        own = torch.tensor([name != CONTEXT for name in names]).repeat_interleave(width // len(names))
        columns.append(own.repeat(layers if concat else 1))
    return torch.cat(columns)


class WordDropout:
    """In training, some words are known by their context alone: sets `columns` of a share of the rows to 0.

        a word's vector   [exit; before] of every stream      exit: the LM's state after the word, before: just before
        with probability p                  [0; before]

    So the head cannot rest on what a word mostly is and must learn what the context says. The states are standardised,
    so 0 is their mean. The neighbours' states know the word still: only what is read from it is dropped. Seeded by
    `torch.manual_seed`.

    Source: in the spirit of Iyyer et al. 2015, section 3.2 (word dropout), applied to states.
    """

    def __init__(self, columns: Bool[Tensor, " d"], share: float) -> None:
        self.columns, self.share = columns, share

    def __call__(self, vectors: Float[Tensor, "N d"]) -> Float[Tensor, "N d"]:
        """The vectors of a batch in training."""
        dropped = torch.rand(len(vectors)) < self.share
        return vectors.masked_fill((dropped[:, None] & self.columns).to(vectors.device), 0.0)
