"""Which document each piece of a packed segment belongs to, from the end-of-text pieces in it.

    pieces     [5, 7, E, 4, E, 9]      E: the end-of-text piece, which follows each document
    documents  [0, 0, 0, 1, 1, 2]      it belongs to the document that it ends

`models.packing` makes a block-diagonal attention mask and restarted positions of these numbers: (T,) integers
travel to the device instead of a (T, T) mask. -1 stands for padding. Source: RoBERTa's FULL-SENTENCES packing,
without attention from one document to another.
"""

import numpy as np
from jaxtyping import Int

PADDING = -1


def document_ids(pieces: Int[np.ndarray, " T"], end_id: int) -> Int[np.ndarray, " T"]:
    """How many documents end before each piece: 0 for the pieces of the first one."""
    ends = pieces == end_id
    return np.cumsum(ends) - ends


def pad(array: np.ndarray, length: int, value: int) -> np.ndarray:
    """`array` (n,) with `value` behind it, up to `length`."""
    padded = np.full(length, value, array.dtype)
    padded[: len(array)] = array
    return padded
