"""What strategies share: their input and their output. B rows, S places, V pieces.

A strategy of a masked LM is a function `(read, blank, config, draws) → Text`: it calls `read` with pieces on some
places and the mask piece on the others, and gets log-probabilities for the places that it names. It knows nothing of
the prompt.
"""

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from boustro.generation.canvas import Read as Read

Blank = Int[Tensor, "B S"]
"""The places, all with the mask piece."""


class Text(NamedTuple):
    """What was written on a batch of places."""

    pieces: Int[Tensor, "B S"]
    log_probs: Float[Tensor, " B"]
    readings: int
    """How often the LM read them."""


@dataclass(frozen=True)
class Written:
    """What was written after one prompt."""

    pieces: list[int]
    log_prob: float
    steps: int
    """How often the LM read the text; for a causal LM its pieces."""
