"""Losses of sentence embeddings: pairs in the order of their scores, and neighbours among all others of a batch.

    cosent      log(1 + Σ_{score_i > score_j} exp(s · (cos_j - cos_i)))
    contrast    cross-entropy of softmax_j(s · cos(u_i, v_j)) against j = i, and the same from v to u

s is the scale, an inverse temperature. cosent uses only which of two pairs is more alike, so scores need no range.

Sources: Su 2022 (CoSENT); Gao et al. 2021, *SimCSE*, equation 1, and Henderson et al. 2017 (in-batch negatives).

S pairs of a batch, e width of an embedding.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def cosent(cosines: Float[Tensor, " S"], scores: Float[Tensor, " S"], scale: float) -> Tensor:
    """Zero where no two scores differ."""
    wrong = scale * (cosines[None, :] - cosines[:, None])[scores[:, None] > scores[None, :]]
    return torch.logsumexp(torch.cat([wrong.new_zeros(1), wrong]), 0)


def contrast(first: Float[Tensor, "S e"], second: Float[Tensor, "S e"], scale: float) -> Tensor:
    """The mean of both directions; `first[i]` belongs to `second[i]`, and to no other one."""
    scores = scale * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    own = torch.arange(len(scores), device=scores.device)
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2
