"""Pieces and random numbers for a batch, such that a row has its own: they do not depend on the rows beside it.

draws = Draws(seed=1, rows=[7, 9])     rows 7 and 9 of the input
draws.uniforms(3)                      (2, 3) numbers in [0, 1)
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.generation.sampling import draw_pieces
from boustro.objectives.examples import keyed_generator


class Draws:
    """The random numbers of the rows of a batch, by their numbers in the input."""

    def __init__(self, seed: int, rows: Sequence[int]) -> None:
        self._generators = [keyed_generator(seed, 0, row) for row in rows]

    def uniforms(self, count: int) -> Float[Tensor, "B N"]:
        """In [0, 1)."""
        return torch.from_numpy(np.stack([rng.random(count) for rng in self._generators])).float()

    def orders(self, count: int) -> Int[Tensor, "B N"]:
        """A random order of `count` places for each row."""
        return torch.from_numpy(np.stack([rng.permutation(count) for rng in self._generators]))


def write_pieces(
    log_probs: Float[Tensor, "B S V"], draws: Draws, temperature: float, top_p: float
) -> tuple[Int[Tensor, "B S"], Float[Tensor, "B S"]]:
    """A piece for every place, and its log-probability (before temperature and top-p)."""
    rows, places, _ = log_probs.shape
    uniforms = draws.uniforms(places).flatten().to(log_probs.device) if temperature else None
    pieces = draw_pieces(log_probs.flatten(0, 1), temperature, top_p, uniforms).view(rows, places)
    return pieces, log_probs.gather(2, pieces[..., None])[..., 0]
