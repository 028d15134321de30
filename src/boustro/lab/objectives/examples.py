"""Common parts of the masked objectives: their random generator, document numbers, padding, and batching.

An objective draws from a generator keyed by (seed, epoch, index). So a segment is masked in the same way whichever
worker reads it, in any order and after any resume, and in another way in the next epoch.

A document number per piece keeps attention within documents of a packed segment (RoBERTa's FULL-SENTENCES packing,
but without attention across documents); `lab.masked` makes a mask and positions of the numbers:

    pieces     [5, 7, E, 4, E, 9]      E: the end-of-text piece, which ends each document
    documents  [0, 0, 0, 1, 1, 2]      -1 for padding
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

IGNORED = -100
"""The target that carries no loss, as in `torch.nn.functional.cross_entropy`."""
PADDING_DOCUMENT = -1
"""The document number of padding."""


def keyed_generator(seed: int, epoch: int, index: int) -> np.random.Generator:
    """Return the generator of one example. Raises `ValueError` for a negative number."""
    if min(seed, epoch, index) < 0:
        raise ValueError(f"seed, epoch and index count from 0, not {(seed, epoch, index)}")
    return np.random.default_rng((seed, epoch, index))


def collate(examples: Sequence[Any]) -> dict[str, Tensor]:
    """Examples (named tuples of arrays of equal shapes) as tensors with a leading batch axis."""
    columns = zip(*examples, strict=True)
    return {name: torch.from_numpy(np.stack(column)) for name, column in zip(examples[0]._fields, columns, strict=True)}


def document_ids(pieces: Int[np.ndarray, " T"], end_id: int) -> Int[np.ndarray, " T"]:
    """Return how many documents end before each piece: 0 for the pieces of the first one."""
    ends = pieces == end_id
    return np.cumsum(ends) - ends


def pad_right(array: np.ndarray, length: int, value: int) -> np.ndarray:
    """`array` (n,) padded on the right with `value` to `length`."""
    padded = np.full(length, value, array.dtype)
    padded[: len(array)] = array
    return padded
