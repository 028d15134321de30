"""Word dropout: in training, some words are known by their context alone.

    a word's vector   [exit; before] of every stream        exit: the LM's state after the word, before: just before it
    with probability p                  [0; before]

So the head cannot rest on what a word mostly is and must learn what the context says. The states are standardised, so 0
is their mean. The neighbours' states know the word still: only what is read from it is dropped.

Source: in the spirit of Iyyer et al. 2015, section 3.2 (word dropout), applied to states. N words, d width, L layers.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

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
    """Sets `columns` of a share of the rows to 0; seeded by `torch.manual_seed`."""

    def __init__(self, columns: Bool[Tensor, " d"], share: float) -> None:
        self.columns, self.share = columns, share

    def __call__(self, vectors: Float[Tensor, "N d"]) -> Float[Tensor, "N d"]:
        """The vectors of a batch in training."""
        dropped = torch.rand(len(vectors)) < self.share
        return vectors.masked_fill((dropped[:, None] & self.columns).to(vectors.device), 0.0)
