"""Replaced-piece detection (ELECTRA): a small generator fills hidden pieces, a discriminator finds the replaced ones.

    pieces     [8, 3, 4, 6]
    input_ids  [8, M, 4, M]     what the generator reads; every chosen piece is masked
    positions  [1, 3]   targets [3, 6]   draws [.2, .7]

The discriminator's input depends on the generator's output, so `lab.masked` makes it; `draws` are the random
numbers that sample from the generator's distribution, so that a resumed run reads the same. Source: ELECTRA, section 3.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from boustro.lab.objectives.examples import IGNORED, document_ids, pad_right
from boustro.lab.objectives.masked import choose_pieces
from boustro.lab.objectives.masking import Masking


class Replaced(NamedTuple):
    """One segment as the generator reads it, and what it must predict where; draws are in [0, 1)."""

    input_ids: Int[np.ndarray, " T"]
    positions: Int[np.ndarray, " K"]
    targets: Int[np.ndarray, " K"]
    draws: Float[np.ndarray, " K"]
    documents: Int[np.ndarray, " T"]


def replaced(pieces: Int[np.ndarray, " T"], rng: np.random.Generator, masking: Masking) -> Replaced:
    """Choose pieces of one segment as `masked` does, and mask all of them: the shares of `masking` are not used."""
    chosen = choose_pieces(pieces, rng, masking)
    room = masking.num_predictions(len(pieces))
    hidden = pieces.copy()
    hidden[chosen] = masking.mask_id
    return Replaced(
        input_ids=hidden,
        positions=pad_right(chosen, room, 0),
        targets=pad_right(pieces[chosen], room, IGNORED),
        draws=rng.random(room, np.float32),
        documents=document_ids(pieces, masking.end_id),
    )
