"""Place after place is revealed, and each piece scored when it is: in an order that the LM or the text chooses.

    duel            next the place where the LM is surest of some piece      a likelihood: the order follows from what
                                                                             was read, never from the piece to come
    left-to-right   next the first hidden place                              a likelihood
    gold-order      next the place where the *text's* piece is likeliest     not one: the order looks at the answer, and
                                                                             the probabilities of all texts sum to more
                                                                             than 1

N readings for N pieces. Of equal places the first is next (`ties`). Sources: DUEL's exact likelihood of a masked LM
under its own deterministic order of unmasking; the zero-shot score of BiGLM's published code for gold-order, with sums
of logarithms in place of products.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.generation.draws import Draws
from boustro.generation.options import ScoreConfig
from boustro.generation.scores.base import Gold, Read, Total, gold_log_probs
from boustro.generation.ties import in_order

Preference = Callable[[Float[Tensor, "B K V"], Int[Tensor, "B K"]], Float[Tensor, "B K"]]
"""Of the hidden places, log-probabilities and the text's pieces → what decides the next place, the highest first."""


def duel(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """The likelihood of writing in the order of confidence."""
    return _revealed(read, gold, blank, lambda log_probs, gold: log_probs.amax(-1))


def gold_order(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """The score along the order in which the text is easiest."""
    return _revealed(read, gold, blank, gold_log_probs)


def left_to_right(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """The likelihood of writing from left to right."""
    return _revealed(read, gold, blank, lambda log_probs, gold: torch.zeros_like(log_probs[..., 0]))


def _revealed(read: Read, gold: Gold, blank: Gold, prefer: Preference) -> Total:
    pieces, total = blank, torch.zeros(len(gold), device=gold.device)
    hidden = torch.arange(gold.shape[1], device=gold.device).expand(gold.shape)  # (B, K), from left to right
    for _ in range(gold.shape[1]):
        log_probs, own = read(pieces, hidden), gold.gather(1, hidden)
        order = in_order(prefer(log_probs, own), read.dtype)
        best, rest = order[:, :1], order[:, 1:].sort(dim=1).values
        total = total + gold_log_probs(log_probs, own).gather(1, best)[:, 0]
        pieces = pieces.scatter(1, hidden.gather(1, best), own.gather(1, best))
        hidden = hidden.gather(1, rest)
    return Total(total, gold.shape[1])
