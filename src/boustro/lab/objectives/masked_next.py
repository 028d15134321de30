"""Masked next-piece prediction: pieces are hidden, and each is predicted from the state of the piece before it.

A causal LM's head predicts the next piece, so a piece hidden at position i in reading order is predicted from the
state at i - 1, which without the causal mask also depends on what follows. S is the start piece, M the mask piece, and
the second and the fourth of four pieces are hidden:

    pieces     [8, 3, 4, 9]
    forward    input_ids  [S, 8, M, 4, M]    positions  [1, 3]    targets  [3, 9]
    backward   input_ids  [S, M, 4, M, 8]    positions  [0, 2]    targets  [9, 3]

Without a start piece no state precedes the first piece read, so it is never hidden:

    forward    input_ids  [8, M, 4, M]       positions  [0, 2]    targets  [3, 9]

Documents of one segment attend to each other, as in the LM's pretraining. Source: BehnamGhader et al. 2024 (LLM2Vec),
section 2.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from boustro.lab.objectives.examples import IGNORED, pad_right
from boustro.lab.objectives.masked import choose_pieces
from boustro.lab.objectives.masking import Masking
from boustro.types import Direction


class MaskedNext(NamedTuple):
    """One segment as the LM reads it; the state at `positions[k]` must predict `targets[k]`."""

    input_ids: Int[np.ndarray, " R"]
    positions: Int[np.ndarray, " K"]
    targets: Int[np.ndarray, " K"]


def masked_next(
    pieces: Int[np.ndarray, " T"],
    rng: np.random.Generator,
    masking: Masking,
    direction: Direction,
    start: Sequence[int],
) -> MaskedNext:
    """Hide pieces of a segment in text order; R is T, plus the start piece. Unused positions have target -100."""
    reading = pieces[::-1] if direction == "backward" else pieces
    first = np.array(start, reading.dtype) if len(start) else reading[:1]
    rest = reading if len(start) else reading[1:]
    chosen = choose_pieces(rest, rng, masking)
    room = masking.num_predictions(len(rest))
    return MaskedNext(
        input_ids=np.concatenate([first, masking.hide(rest, chosen, rng)]),
        positions=pad_right(chosen + len(first) - 1, room, 0),  # one before the hidden piece
        targets=pad_right(rest[chosen], room, IGNORED),
    )
