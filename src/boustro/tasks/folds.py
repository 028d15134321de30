"""Parts of a training set that are left out in turn.

    documents a a b b c, two parts   →   left out: a a c, then b b

The sentences of a document stay together, since they repeat its names.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

FIFTH = 5


def left_out(examples: Sequence[Any], num_folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(kept, left out) numbers of examples, for each of `num_folds` parts; 1 leaves out one fifth, once.

    Documents are parted where there are enough of them, else examples. Raises `ValueError` for fewer than two examples.
    """
    if len(examples) < 2:
        raise ValueError(
            f"{len(examples)} training examples cannot be parted, and what was asked for needs parts that are left out"
        )
    names = np.array([getattr(example, "document", "") or f"\0{n}" for n, example in enumerate(examples)])
    _, groups = np.unique(names, return_inverse=True)
    parts = FIFTH if num_folds == 1 else num_folds
    if groups.max() + 1 < parts:
        groups = np.arange(len(examples))
    order = np.random.default_rng(seed).permutation(int(groups.max()) + 1)
    for own in np.array_split(order, min(parts, len(order)))[: 1 if num_folds == 1 else None]:
        outside = np.isin(groups, own)
        yield np.flatnonzero(~outside), np.flatnonzero(outside)
