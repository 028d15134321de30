"""Side features of words: the last columns of a head's input, as many as its kind has them.

How far a word is from where the reading of its right side began (`fit --live`):

    words behind it   0   1   2   3–4   5–8   9–16   more, or all that there are
    column            0   1   2   3     4     5      6
"""

from collections.abc import Sequence

import numpy as np

PAIR = 4
"""In the other text; not in it; not in it, with a capital or a digit; marked (`tasks.labellings.pairs`)."""
SENSE = 2
"""Where the candidates of a word begin and end among the labels; 0 and 0 for a word without candidates."""
WEIGHT = 1
"""The weight of a word."""
BOUNDS = np.array([0, 1, 2, 4, 8, 16])
COLUMNS = len(BOUNDS) + 1
ALL = 1 << 30
"""The distance of a word whose right side was read to the end of the text."""


def encode_distances(distances: Sequence[int] | np.ndarray) -> np.ndarray:
    """(W, 7) float32, a one in the column of each distance."""
    return np.eye(COLUMNS, dtype=np.float32)[np.searchsorted(BOUNDS, np.asarray(distances, np.int64))]
