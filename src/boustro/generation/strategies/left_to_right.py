"""Left to right: the first hidden place is written, then the next, with all later places hidden.

The sum of the log-probabilities is the likelihood of the text under this order (`scores.left_to_right`).
"""

import torch

from boustro.generation.draws import Draws, write_pieces
from boustro.generation.options import GenerationConfig
from boustro.generation.strategies.base import Blank, Read, Text


def left_to_right(read: Read, blank: Blank, config: GenerationConfig, draws: Draws) -> Text:
    """Write place after place, with a reading for each."""
    pieces, total = blank.clone(), torch.zeros(len(blank), device=blank.device)
    for number in range(blank.shape[1]):
        place = torch.full_like(blank[:, :1], number)
        piece, chance = write_pieces(read(pieces, place), draws, config.sampling_temperature(), config.top_p)
        pieces, total = pieces.scatter(1, place, piece), total + chance[:, 0]
    return Text(pieces, total, blank.shape[1])
