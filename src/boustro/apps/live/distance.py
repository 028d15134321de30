"""How far a word is from where the reading of its right side began, as side features of a head (`fit --live`).

words behind it   0   1   2   3–4   5–8   9–16   more, or all that there are
column            0   1   2   3     4     5      6
"""

from collections.abc import Sequence

import numpy as np

BOUNDS = np.array([0, 1, 2, 4, 8, 16])
COLUMNS = len(BOUNDS) + 1
ALL = 1 << 30
"""The distance of a word whose right side was read to the end of the text."""


def encode_distances(distances: Sequence[int] | np.ndarray) -> np.ndarray:
    """(W, 7) float32, a one in the column of each distance."""
    return np.eye(COLUMNS, dtype=np.float32)[np.searchsorted(BOUNDS, np.asarray(distances, np.int64))]
