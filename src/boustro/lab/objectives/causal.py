"""Next-piece prediction in either direction.

A segment is read from its first piece (forward) or from its last (backward), after a sentinel:

    pieces    [5, 7, 9]
    forward   inputs [S, 5, 7]   targets [5, 7, 9]
    backward  inputs [S, 9, 7]   targets [9, 7, 5]

So every piece is predicted once, and the state of the sentinel is trained: the state of an empty context.
Source: backward-LM paper, section 3.1; the sentinel is our addition.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from boustro.types import Direction


class CausalBatch(NamedTuple):
    """Input ids, and the piece to predict at each position."""

    input_ids: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]


def causal(pieces: Int[Tensor, "B T"], direction: Direction, sentinel: int) -> CausalBatch:
    """Inputs and targets for segments of piece ids in text order."""
    reading = pieces.flip(1) if direction == "backward" else pieces
    start = torch.full_like(reading[:, :1], sentinel)
    return CausalBatch(torch.cat([start, reading[:, :-1]], dim=1), reading)
