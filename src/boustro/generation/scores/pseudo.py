"""Pseudo-log-likelihood: each piece from the prompt and all other pieces, one reading for each.

It is no likelihood: every piece sees the pieces after it, so the probabilities of all texts do not sum to 1. Pieces of
one word give each other away. Source: Salazar et al. 2020, section 2.
"""

import torch

from boustro.generation.draws import Draws
from boustro.generation.options import ScoreConfig
from boustro.generation.scores.base import Gold, Read, Total, gold_log_probs


def pseudo_log_likelihood(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """Σ log p(y_i | x, y without i)."""
    total = torch.zeros(len(gold), device=gold.device)
    for number in range(gold.shape[1]):
        place = torch.full_like(gold[:, :1], number)
        log_probs = read(gold.scatter(1, place, blank), place)
        total = total + gold_log_probs(log_probs, gold.gather(1, place))[:, 0]
    return Total(total, gold.shape[1])
