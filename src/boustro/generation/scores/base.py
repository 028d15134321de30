"""What scores share: their input and their output. B rows, S places, V pieces.

A score of a masked LM is a function `(read, gold, blank, config, draws) → Total`: it calls `read` with pieces of the
text on some places and the mask piece on the others, and adds up log-probabilities of the text's own pieces.
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from boustro.generation.canvas import Read as Read

Gold = Int[Tensor, "B S"]
"""The pieces of the texts."""


class Total(NamedTuple):
    """The scores of a batch of texts."""

    log_probs: Float[Tensor, " B"]
    readings: int
    """How often the LM read them."""


def gold_log_probs(log_probs: Float[Tensor, "B K V"], gold: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    """Those of the texts' own pieces, or of those on the places that were read."""
    return log_probs.gather(2, gold[..., None])[..., 0]
