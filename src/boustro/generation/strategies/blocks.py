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


def blocks(read: Read, blank: Blank, config: GenerationConfig, draws: Draws) -> Text:
    """Write block after block, with `steps` readings for each (fewer for a shorter last one)."""
    length, num_places = min(config.block_length, blank.shape[1]), blank.shape[1]
    steps, readings = config.num_steps(length), 0
    pieces, total = blank.clone(), torch.zeros(len(blank), device=blank.device)
    hidden = torch.ones_like(blank, dtype=torch.bool)
    for start in range(0, num_places, length):
        inside = slice(start, min(start + length, num_places))
        for count in shares(inside.stop - start, steps):
            found, sure = write_pieces(read(pieces), draws, config.sampling_temperature(), config.top_p)
            open_here = sure[:, inside].masked_fill(~hidden[:, inside], -torch.inf)
            places = start + open_here.argsort(dim=1, descending=True, stable=True)[:, :count]
            pieces = pieces.scatter(1, places, found.gather(1, places))
            total = total + sure.gather(1, places).sum(1)
            hidden = hidden.scatter(1, places, False)
            readings += 1
    return Text(pieces, total, readings)


def shares(num_places: int, steps: int) -> list[int]:
    """How many places each step writes: 4 in 3 steps → [2, 1, 1]; never none."""
    steps = min(steps, num_places)
    return [num_places // steps + (step < num_places % steps) for step in range(steps)]
