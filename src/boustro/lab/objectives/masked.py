"""Masked language modelling: pieces are hidden, and predicted from all the others of their document.

    pieces     [8, 3, 4, E, 1, 9, 7]       E: end of text; 2 of 6 pieces at a rate of a third
    input_ids  [8, 3, M, E, 1, 9, 7]       M: the mask piece; 9 is kept as it is, but predicted too
    positions  [2, 5]   targets  [4, 9]    loss on these only
    documents  [0, 0, 0, 0, 1, 1, 1]       no attention across them

A segment of T pieces has K = `num_predictions(T)` positions, the same in every segment, so that a compiled model
sees one shape; unused positions are 0 with the target -100. The number of chosen pieces is the exact share of those
that may be chosen, not a random number: less noise, and no segment without targets. With `Masking.word_starts` words
are chosen whole; each of their pieces is masked, replaced or kept independently.
Source: BERT, section 3.1; RoBERTa, section 4 (dynamic masking, full packing).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from boustro.lab.objectives.examples import IGNORED, document_ids, pad_right
from boustro.lab.objectives.masking import Masking, choose_words


class Masked(NamedTuple):
    """One segment as a masked LM reads it, and what it must predict where."""

    input_ids: Int[np.ndarray, " T"]
    positions: Int[np.ndarray, " K"]
    targets: Int[np.ndarray, " K"]
    documents: Int[np.ndarray, " T"]


def masked(pieces: Int[np.ndarray, " T"], rng: np.random.Generator, masking: Masking) -> Masked:
    """Hide pieces of one segment."""
    chosen = choose_pieces(pieces, rng, masking)
    room = masking.num_predictions(len(pieces))
    return Masked(
        input_ids=masking.hide(pieces, chosen, rng),
        positions=pad_right(chosen, room, 0),
        targets=pad_right(pieces[chosen], room, IGNORED),
        documents=document_ids(pieces, masking.end_id),
    )


def choose_pieces(pieces: Int[np.ndarray, " T"], rng: np.random.Generator, masking: Masking) -> Int[np.ndarray, " N"]:
    """Indices of the pieces to predict, ascending."""
    eligible, budget = masking.eligible(pieces)
    return choose_words(masking.words(pieces), eligible, budget, rng)
