"""Blocks: a block of places after the other, and within a block the most confident places first.

    block_length 4, steps 2     M M M M | M M M M   →   the M M left | M M M M   →   the ship had left | M M M M   → …

Each step of a block writes its share of the places for good: of 4 places in 3 steps 2, 1 and 1. With as many steps as
places, the sum of the log-probabilities is the likelihood of the text under the order that the LM's confidence chooses.
Source: the semi-autoregressive decoding of masked diffusion LMs (Arriola et al. 2025; Nie et al. 2025, section 2.4).
"""

import torch

from boustro.generation.draws import Draws, write_pieces
from boustro.generation.options import GenerationConfig
from boustro.generation.strategies.base import Blank, Read, Text
from boustro.generation.ties import in_order


def blocks(read: Read, blank: Blank, config: GenerationConfig, draws: Draws) -> Text:
    """Write block after block, with `steps` readings for each (fewer for a shorter last one)."""
    length, num_places = min(config.block_length, blank.shape[1]), blank.shape[1]
    steps, readings = config.num_steps(length), 0
    pieces, total = blank.clone(), torch.zeros(len(blank), device=blank.device)
    for start in range(0, num_places, length):
        places = torch.arange(start, min(start + length, num_places), device=blank.device).expand(len(blank), -1)
        for count in shares(places.shape[1], steps):
            found, sure = write_pieces(read(pieces, places), draws, config.sampling_temperature(), config.top_p)
            order = in_order(sure, read.dtype)
            best, rest = order[:, :count], order[:, count:].sort(dim=1).values
            pieces = pieces.scatter(1, places.gather(1, best), found.gather(1, best))
            total, readings = total + sure.gather(1, best).sum(1), readings + 1
            places = places.gather(1, rest)
    return Text(pieces, total, readings)


def shares(num_places: int, steps: int) -> list[int]:
    """How many places each step writes: 4 in 3 steps → [2, 1, 1]; never none."""
    steps = min(steps, num_places)
    return [num_places // steps + (step < num_places % steps) for step in range(steps)]
