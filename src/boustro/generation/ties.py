"""The order of scores in which equal ones are in order of place, whatever the batch adds to their last bits.

    scores  -1.0000002  -1.0  -3.0  -1.0000001     →     places 0, 1, 3, 2

An LM with relative positions (RoPE) that reads mask pieces alone gives all places the same distribution, but for
rounding errors, which are others in another batch. What is written or scored first decides all that follows. So scores
that are equal within the rounding of the LM's dtype are equal, and so is a chain of such scores. B rows, K scores.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

EQUAL = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
"""Nats within which log-probabilities computed in a dtype are equal."""


def in_order(scores: Float[Tensor, "B K"], dtype: torch.dtype = torch.float32) -> Int[Tensor, "B K"]:
    """The places of each row, the highest score first; `dtype` is what the LM computed in."""
    values, places = scores.sort(dim=1, descending=True)
    lower = values[:, 1:] < values[:, :-1] - EQUAL[dtype]
    groups = torch.zeros_like(places).scatter(1, places[:, 1:], lower.cumsum(1))
    return groups.argsort(dim=1, stable=True)
