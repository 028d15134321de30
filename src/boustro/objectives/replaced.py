"""Replaced-piece detection, ELECTRA's: a small generator fills hidden pieces, a discriminator finds what it filled.

    pieces     [8, 3, 4, 6]
    input_ids  [8, M, 4, M]     what the generator reads; every chosen piece is masked
    positions  [1, 3]   targets [3, 6]   draws [.2, .7]

What the discriminator reads hangs on what the generator says, so it is made in `models.electra`; but not on chance:
`draws` are the random numbers that pick a piece out of the generator's distribution, so that a run that is resumed
reads the same. Source: ELECTRA, section 3.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from boustro.objectives.documents import document_ids, pad
from boustro.objectives.examples import IGNORED
from boustro.objectives.masked import choose_pieces
from boustro.objectives.masking import Masking


class Replaced(NamedTuple):
    """One segment as the generator reads it, and what it must predict where; draws lie in [0, 1)."""

    input_ids: Int[np.ndarray, " T"]
    positions: Int[np.ndarray, " K"]
    targets: Int[np.ndarray, " K"]
    draws: Float[np.ndarray, " K"]
    documents: Int[np.ndarray, " T"]


def replaced(
    pieces: Int[np.ndarray, " T"],
    rng: np.random.Generator,
    masking: Masking,
    words: Int[np.ndarray, " T"] | None = None,
) -> Replaced:
    """Hide pieces of one segment as `masked` does, but mask them all: the shares of `masking` play no part."""
    chosen = choose_pieces(pieces, rng, masking, words)
    room = masking.num_predictions(len(pieces))
    hidden = pieces.copy()
    hidden[chosen] = masking.mask_id
    return Replaced(
        input_ids=hidden,
        positions=pad(chosen, room, 0),
        targets=pad(pieces[chosen], room, IGNORED),
        draws=rng.random(room, np.float32),
        documents=document_ids(pieces, masking.end_id),
    )
