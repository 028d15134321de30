"""A bound below the log-likelihood: the mean over random orders of writing, from random sets of hidden pieces.

    log p(y | x)  ≥  E_σ Σ_t log p(y_σ(t) | x, y_σ(<t))  =  E_k E_H  N/k · Σ_(i in H) log p(y_i | x, y without H)

with k uniform in 1 … N and H a random set of k of the N places. The estimate has no bias; its spread falls with
`samples`, and the numbers k are spread evenly over 1 … N. p is the mixture over all orders, so models are compared by
it, but not with a causal LM's likelihood as an equal. Sources: Uria et al. 2014; Hoogeboom et al. 2022, section 3.1.
"""

import torch

from boustro.generation.draws import Draws
from boustro.generation.options import ScoreConfig
from boustro.generation.scores.base import Gold, Read, Total, gold_log_probs


def bound(read: Read, gold: Gold, blank: Gold, config: ScoreConfig, draws: Draws) -> Total:
    """The mean of `samples` draws."""
    num_places, total = gold.shape[1], torch.zeros(len(gold), device=gold.device)
    shifts = draws.uniforms(1).to(gold.device)  # (B, 1): one shift for all samples of a row
    for sample in range(config.samples):
        share = (sample + shifts) / config.samples
        count = (1 + (share * num_places).long()).clamp_max(num_places)  # (B, 1)
        hidden = draws.orders(num_places).to(gold.device).argsort(1) < count
        found = gold_log_probs(read(torch.where(hidden, blank, gold)), gold)
        total = total + (found * hidden).sum(1) * num_places / count[:, 0]
    return Total(total / config.samples, config.samples)
