"""Gibbs sampling: one place at a time is hidden and drawn from what the LM expects there, given all the others.

Each step visits every place once, in an order of its own. The first visit sees the places that were not visited yet as
mask pieces. Temperature 0 takes the likeliest piece, which climbs to a text that no single change improves. The log-
probability is the sum of those of the last draws, which is no likelihood. Source: Wang and Cho 2019, section 3.
"""

import torch

from boustro.generation.draws import Draws, write_pieces
from boustro.generation.options import GenerationConfig
from boustro.generation.strategies.base import Blank, Read, Text


def gibbs(read: Read, blank: Blank, config: GenerationConfig, draws: Draws) -> Text:
    """Draw every place `steps` times, with a reading for each draw of one place of each row."""
    num_places = blank.shape[1]
    pieces, chances = blank.clone(), torch.zeros(blank.shape, device=blank.device)
    steps = config.steps or 10
    for _ in range(steps):
        for place in draws.orders(num_places).to(blank.device).T[..., None]:  # (B, 1)
            pieces.scatter_(1, place, blank)
            piece, chance = write_pieces(read(pieces, place), draws, config.sampling_temperature(1.0), config.top_p)
            pieces.scatter_(1, place, piece)
            chances.scatter_(1, place, chance)
    return Text(pieces, chances.sum(1), steps * num_places)
