"""Place after place is revealed, and each piece scored when it is: in an order that the LM or the text chooses.

    duel            next the place where the LM is surest of some piece      a likelihood: the order follows from what
                                                                             was read, never from the piece to come
    left-to-right   next the first hidden place                              a likelihood
    gold-order      next the place where the *text's* piece is likeliest     not one: the order looks at the answer, and
                                                                             the probabilities of all texts sum to more
                                                                             than 1

N readings for N pieces. Of equal places the first is next. Sources: DUEL's exact likelihood of a masked LM under its
own deterministic order of unmasking; the zero-shot score of BiGLM's published code for gold-order, with sums of
logarithms in place of products.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.generation.draws import Draws
from boustro.generation.options import ScoreConfig
from boustro.generation.scores.base import Gold, Read, Total, gold_log_probs

Preference = Callable[[Float[Tensor, "B S V"], Gold], Float[Tensor, "B S"]]
"""Log-probabilities and the text → what decides the next place, the highest first."""


def duel(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """The likelihood of writing in the order of confidence."""
    return _revealed(read, gold, blank, lambda log_probs, gold: log_probs.amax(-1))


def gold_order(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """The score along the order in which the text is easiest."""
    return _revealed(read, gold, blank, gold_log_probs)


def left_to_right(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """The likelihood of writing from left to right."""
    order = -torch.arange(gold.shape[1], device=gold.device, dtype=torch.float32)
    return _revealed(read, gold, blank, lambda log_probs, gold: order.expand(gold.shape))


def _revealed(read: Read, gold: Gold, blank: Gold, prefer: Preference) -> Total:
    pieces, total = blank, torch.zeros(len(gold), device=gold.device)
    hidden = torch.ones_like(gold, dtype=torch.bool)
    for _ in range(gold.shape[1]):
        log_probs = read(pieces)
        wanted = prefer(log_probs, gold).masked_fill(~hidden, -torch.inf)
        place: Int[Tensor, "B 1"] = wanted.argsort(dim=1, descending=True, stable=True)[:, :1]
        total = total + gold_log_probs(log_probs, gold).gather(1, place)[:, 0]
        pieces, hidden = pieces.scatter(1, place, gold.gather(1, place)), hidden.scatter(1, place, False)
    return Total(total, gold.shape[1])
