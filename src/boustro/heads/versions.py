"""Features that hold each sentence several times, read in another way each time; a batch has one of them, drawn anew.

    two sentences, of 3 words and of 1; two ways      streams: a a a b | A A A B     a batch: a a a b, or a a a B, …

So a head sees every sentence in every way in the course of its epochs, and an epoch is as long as before.
"""

import numpy as np

from boustro.heads.inputs import Inputs, Streams
from boustro.heads.rows import sentence_rows


class Versions(Inputs):
    """V ways of reading; `streams` (V · words, L, D) and `sides` (V · words, F) have one behind the other, `lengths`
    and `parts` are those of one. An example is one sentence."""

    def __init__(
        self, streams: Streams, lengths: np.ndarray, sides: np.ndarray, seed: int, parts: np.ndarray | None = None
    ) -> None:
        super().__init__(streams, lengths, parts)
        self._sides, self._seed = sides, seed
        self._draw = np.random.default_rng(seed)

    @property
    def side_width(self) -> int:
        return self._sides.shape[1]

    def select(self, examples: np.ndarray) -> "Versions":
        return Versions(self.streams, self.lengths, self._sides, self._seed, self.parts[examples])

    def keep(self, examples: np.ndarray) -> "Versions":
        numbers = self.parts[examples, 0]
        rows, total = sentence_rows(self.starts, numbers)[0], int(self.starts[-1])
        rows = np.concatenate([rows + first for first in range(0, len(self._sides), total)])
        return Versions([s[rows] for s in self.streams], self.lengths[numbers], self._sides[rows], self._seed)

    def arrays(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        rows, lengths, _ = super().arrays(examples)
        total = int(self.starts[-1])
        drawn = self._draw.integers(len(self._sides) // total, size=len(examples))
        rows = rows + np.repeat(drawn * total, lengths)
        return rows, lengths, self._sides[rows]
