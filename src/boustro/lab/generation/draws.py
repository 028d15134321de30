"""Which piece, and which place next: random numbers of a row's own, drawing from log-probabilities, ties.

draws = Draws(seed=1, rows=[7, 9])               rows 7 and 9 of the input; nothing depends on the rows beside them
draws.uniforms(3)                                (2, 3) numbers in [0, 1)
draw_pieces(log_probs, 0.0)                      the likeliest piece of each row
draw_pieces(log_probs, 0.8, 0.9, uniforms)       from the likeliest pieces that hold 90% of the probability
in_order(scores)                                 places, the highest score first, equal ones in order of place

Source of top-p: Holtzman et al. 2020, *The Curious Case of Neural Text Degeneration*. N rows, B rows of a batch,
S places, K scores, V pieces.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.lab.objectives.examples import keyed_generator

EQUAL_NATS = {torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
"""Nats within which log-probabilities computed in a dtype are equal."""


class Draws:
    """The random numbers of the rows of a batch, by their numbers in the input."""

    def __init__(self, seed: int, rows: Sequence[int]) -> None:
        self._generators = [keyed_generator(seed, 0, row) for row in rows]

    def uniforms(self, count: int) -> Float[Tensor, "B N"]:
        """In [0, 1)."""
        return torch.from_numpy(np.stack([rng.random(count) for rng in self._generators])).float()

    def orders(self, count: int) -> Int[Tensor, "B N"]:
        """Return a random order of `count` places for each row."""
        return torch.from_numpy(np.stack([rng.permutation(count) for rng in self._generators]))


def write_pieces(
    log_probs: Float[Tensor, "B S V"], draws: Draws, temperature: float, top_p: float
) -> tuple[Int[Tensor, "B S"], Float[Tensor, "B S"]]:
    """Return a piece for every place, and its log-probability (before temperature and top-p)."""
    rows, places, _ = log_probs.shape
    uniforms = draws.uniforms(places).flatten().to(log_probs.device) if temperature else None
    pieces = draw_pieces(log_probs.flatten(0, 1), temperature, top_p, uniforms).view(rows, places)
    return pieces, log_probs.gather(2, pieces[..., None])[..., 0]


def draw_pieces(
    log_probs: Tensor, temperature: float = 0.0, top_p: float = 1.0, uniforms: Tensor | None = None
) -> Tensor:
    """Return (N,) piece ids from (N, V) log-probabilities, which need not be normalised; -inf is never drawn.

    `uniforms` (N,) in [0, 1) are needed where the temperature is above 0. `top_p` in (0, 1] always keeps the likeliest
    piece.
    """
    if temperature == 0:
        return log_probs.argmax(-1)
    assert uniforms is not None
    shares, pieces = (log_probs / temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    before = shares.cumsum(-1) - shares  # the probability of all likelier pieces
    kept = shares.masked_fill((before >= top_p) & (before > 0), 0.0).cumsum(-1)
    wanted = uniforms.to(kept)[:, None] * kept[:, -1:]
    # The first piece whose cumulative share exceeds the number; rounding must not lead beyond the last kept one.
    place = (kept <= wanted).sum(-1, keepdim=True).clamp_max(kept.shape[1] - 1)
    last = (before < top_p).sum(-1, keepdim=True) - 1
    return pieces.gather(-1, place.minimum(last.clamp_min(0)))[:, 0]


def in_order(scores: Float[Tensor, "B K"], dtype: torch.dtype = torch.float32) -> Int[Tensor, "B K"]:
    """Return the places of each row, the highest score first, equal ones in order of place.

        scores  -1.0000002  -1.0  -3.0  -1.0000001     →     places 0, 1, 3, 2

    An LM with relative positions (RoPE) that reads mask pieces alone gives all places the same distribution, but for
    rounding errors, which are others in another batch. What is written or scored first decides all that follows. So
    scores that are equal within the rounding of `dtype`, what the LM computed in, are equal, and so is a chain of such
    scores.
    """
    values, places = scores.sort(dim=1, descending=True)
    lower = values[:, 1:] < values[:, :-1] - EQUAL_NATS[dtype]
    groups = torch.zeros_like(places).scatter(1, places[:, 1:], lower.cumsum(1))
    return groups.argsort(dim=1, stable=True)
