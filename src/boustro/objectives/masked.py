"""Masked language modelling: pieces are hidden, and predicted from all the others of their document.

    pieces     [8, 3, 4, E, 1, 9, 7]       E: end of text; 2 of 6 pieces at a rate of a third
    input_ids  [8, 3, M, E, 1, 9, 7]       M: the mask piece; 9 is kept as it is, and asked for all the same
    positions  [2, 5]   targets  [4, 9]    loss on these only
    documents  [0, 0, 0, 0, 1, 1, 1]       nothing is read across them

A segment of T pieces has room for K = `num_predictions(T)`, the same in every segment, so that a compiled model
sees one shape; where fewer are chosen, a position 0 with the target -100 fills the place. The number of chosen
pieces is the exact share of those that may be chosen, and no draw: less noise, and no empty segment.
`Masking.word_starts`, or word ids of one's own, hide words whole; each of their pieces is masked, replaced or
kept by itself. Source: BERT, section 3.1; RoBERTa, section 4 (dynamic masking, full packing).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from boustro.objectives.documents import document_ids, pad
from boustro.objectives.examples import IGNORED
from boustro.objectives.masking import Masking, choose_words


class Masked(NamedTuple):
    """One segment as a masked LM reads it, and what it must predict where."""

    input_ids: Int[np.ndarray, " T"]
    positions: Int[np.ndarray, " K"]
    targets: Int[np.ndarray, " K"]
    documents: Int[np.ndarray, " T"]


def masked(
    pieces: Int[np.ndarray, " T"],
    rng: np.random.Generator,
    masking: Masking,
    words: Int[np.ndarray, " T"] | None = None,
) -> Masked:
    """Hide pieces of one segment; `words` are word ids (equal for the pieces of a word, which stand together)."""
    chosen = choose_pieces(pieces, rng, masking, words)
    room = masking.num_predictions(len(pieces))
    return Masked(
        input_ids=masking.hide(pieces, chosen, rng),
        positions=pad(chosen, room, 0),
        targets=pad(pieces[chosen], room, IGNORED),
        documents=document_ids(pieces, masking.end_id),
    )


def choose_pieces(
    pieces: Int[np.ndarray, " T"],
    rng: np.random.Generator,
    masking: Masking,
    words: Int[np.ndarray, " T"] | None = None,
) -> Int[np.ndarray, " N"]:
    """Which pieces are asked for, ascending; `words` as in `masked`."""
    eligible, budget = masking.eligible(pieces)
    return choose_words(masking.words(pieces) if words is None else words, eligible, budget, rng)


def dense_targets(positions: Int[np.ndarray, " K"], targets: Int[np.ndarray, " K"], length: int) -> np.ndarray:
    """Targets (T,) as transformers takes them for `labels`: -100 where nothing is asked."""
    labels = np.full(length, IGNORED, np.int64)
    asked = targets != IGNORED
    labels[positions[asked]] = targets[asked]
    return labels
