"""A loss whose cost does not grow with the vocabulary: the softmax over a sample of the pieces.

The sum over all pieces in the softmax is estimated from the batch's own pieces, which are certain, and from pieces that
are drawn independently, each with its probability π (Horvitz and Thompson 1952):

    Z = Σ exp(s)  over the batch's own pieces  +  Σ exp(s) / π  over the other pieces that were drawn

so a drawn piece's logit is s - ln π, "logQ correction". The estimate of Z has no bias for any π above 0, and where all
pieces are drawn (π = 1) the loss is the plain one. Frequent pieces are drawn more often: π grows with count^0.75.

Sources: Bengio and Senécal 2003 (importance sampling); Jean et al. 2015, section 3; the power is word2vec's.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from boustro.models.loss import Finish, LMWithLoss, summed_loss

POWER = 0.75
ROWS, TILE = 4096, 1024  # logits at a time, which should fit the processor's cache
VectorsOf = Callable[[Int[Tensor, " C"]], Float[Tensor, "C d"]]
"""Piece ids → the head's rows."""


def inclusion(counts: np.ndarray, num_drawn: int) -> Float[Tensor, " V"]:
    """The probability with which each piece is drawn, so that about `num_drawn` are; all 1 where there are fewer.

    A piece that was counted c times has weight (c + 1)^0.75, so every piece can be drawn.

        counts [15, 0, 0], 2 drawn   →   weights 8, 1, 1   →   [1, 0.5, 0.5]
    """
    weights = (np.asarray(counts, np.float64) + 1) ** POWER
    if num_drawn >= len(weights):
        return torch.ones(len(weights))
    low, high = 0.0, num_drawn / weights.min()
    for _ in range(100):  # the factor with which the probabilities add up to `num_drawn`
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * weights, 1).sum() < num_drawn else (low, middle)
    return torch.from_numpy(np.minimum(high * weights, 1)).float()


class SampledLMWithLoss(LMWithLoss):
    """As `LMWithLoss`; in training the softmax is over a sample of the pieces, in evaluation over all."""

    probabilities: Tensor

    def __init__(self, lm: PreTrainedModel, probabilities: Float[Tensor, " V"]) -> None:
        super().__init__(lm)
        self.register_buffer("probabilities", probabilities, persistent=False)

    def loss(self, states: Float[Tensor, "B T d"], targets: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        vectors_of = self.lm.get_input_embeddings()  # the head is tied to them
        if self.training:
            return sampled_loss(states, vectors_of, targets, self.probabilities, self.finish)
        return exact_loss(states, vectors_of, targets, len(self.probabilities), self.finish)


@torch.compiler.disable()  # the number of pieces differs from batch to batch
def sampled_loss(
    states: Float[Tensor, "B T d"],
    vectors_of: VectorsOf,
    targets: Int[Tensor, "B T"],
    probabilities: Float[Tensor, " V"],
    finish: Finish | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy over a sample, drawn by torch's generator."""
    rows, wanted = states.flatten(0, 1), targets.flatten()
    own = torch.zeros_like(probabilities, dtype=torch.bool)
    own[wanted[wanted != -100]] = True
    chosen = own | (torch.rand_like(probabilities) < probabilities)
    pieces = chosen.nonzero()[:, 0]
    correction = torch.where(own, 0, -probabilities.log())[pieces]
    places = torch.where(wanted == -100, -100, (chosen.cumsum(0) - 1)[wanted.clamp_min(0)])
    vectors = vectors_of(pieces)

    def logits_of(part: Tensor) -> Tensor:
        logits = F.linear(part, vectors).float()
        return (logits if finish is None else finish(logits)) + correction

    return summed_loss(rows, logits_of, (vectors,), places) / (wanted != -100).sum().clamp_min(1)


@torch.compiler.disable()  # the compiler would unroll the tiles, and keep the logits of all
@torch.no_grad()
def exact_loss(
    states: Float[Tensor, "B T d"],
    vectors_of: VectorsOf,
    targets: Int[Tensor, "B T"],
    num_pieces: int,
    finish: Finish | None = None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy over all pieces, `TILE` of them at a time, so that a tile's logits stay in the cache."""
    known = targets != -100
    total = states.new_zeros((), dtype=torch.float32)
    for rows, wanted in zip(states[known].split(ROWS), targets[known].split(ROWS), strict=True):
        log_sum, right = (rows.new_full((len(rows),), start, dtype=torch.float32) for start in (-torch.inf, 0.0))
        for pieces in torch.arange(num_pieces, device=rows.device).split(TILE):
            logits = F.linear(rows, vectors_of(pieces)).float()
            logits = logits if finish is None else finish(logits)
            torch.logaddexp(log_sum, logits.logsumexp(-1), out=log_sum)  # nothing small is kept between large tensors
            here = (wanted >= pieces[0]) & (wanted <= pieces[-1])
            right[here] = logits[here, wanted[here] - pieces[0]]
        total += (log_sum - right).sum()
    return total / known.sum()
