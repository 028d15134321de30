"""Mask-predict: all places are written at once; then the least confident are hidden and written again.

    step 1 of 2   M   M    M   M      →   the ship ship left     confidence -0.2, -1.1, -2.5, -0.9
    step 2 of 2   the M    M   left   →   the ship had left      ⌊4 · (1 - 1/2)⌋ = 2 places were hidden again

After step t of T, ⌊N (1 - t / T)⌋ of N places are hidden again, those that were kept before included; the other pieces
keep the confidence of the step in which they were written. Of equal places the first are hidden (`ties`). The sum of
the confidences ranks texts of one length; it is no likelihood. Places that are written at once do not know of each
other, so they often get the same piece; with `hide_repeats` a piece that is equal to the one before it counts as the
least confident. Source: Ghazvininejad et al. 2019, section 3; repeats are ours.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from boustro.generation.draws import Draws, write_pieces
from boustro.generation.options import GenerationConfig
from boustro.generation.strategies.base import Blank, Read, Text
from boustro.generation.ties import in_order


def mask_predict(read: Read, blank: Blank, config: GenerationConfig, draws: Draws) -> Text:
    """Write on every place of `blank`, with as many readings as steps."""
    num_places = blank.shape[1]
    steps, temperature = config.num_steps(num_places), config.sampling_temperature()
    pieces, confidence = write_pieces(read(blank), draws, temperature, config.top_p)
    for step in range(1, steps):
        doubt = confidence.masked_fill(repeats(pieces), -torch.inf) if config.hide_repeats else confidence
        hidden = in_order(-doubt, read.dtype)[:, : num_places * (steps - step) // steps]
        log_probs = read(pieces.scatter(1, hidden, blank), hidden)
        again, sure = write_pieces(log_probs, draws, temperature, config.top_p)
        pieces, confidence = pieces.scatter(1, hidden, again), confidence.scatter(1, hidden, sure)
    return Text(pieces, confidence.sum(1), steps)


def repeats(pieces: Int[Tensor, "B S"]) -> Bool[Tensor, "B S"]:
    """Which pieces are equal to the one before them."""
    same = pieces[:, 1:] == pieces[:, :-1]
    return torch.cat([torch.zeros_like(pieces[:, :1], dtype=torch.bool), same], dim=1)
