"""Which pieces of a corpus make the pairs of `sentence_pair`: numbers only, no text.

Documents are cut into chunks of at most `room` pieces; example `index` is a chunk and, for the case that a random
text follows, a run of another document, from a place that is drawn:

    PairPlan([5, 3], room=2)    chunks of 2 + 2 (1 is left out) and 2 (1 is left out): 3 examples
    plan.draw(1, rng)           Run(document=0, start=2, stop=4), Run(document=1, start=…, stop=…)
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

MIN_CHUNK = 2


class Run(NamedTuple):
    """Pieces [start, stop) of a document."""

    document: int
    start: int
    stop: int


class PairPlan:
    """`len(plan)` examples; `num_left_out` pieces are in none of them, being alone at the end of a document.

    `lengths` are the documents' pieces, without end-of-text pieces; `room` is `Frame.room`. Raises `ValueError`
    for fewer than two documents with text, since the second text could not be from elsewhere.
    """

    def __init__(self, lengths: Int[np.ndarray, " D"], room: int) -> None:
        self.lengths, self.room = lengths, room
        self._filled = np.flatnonzero(lengths > 0)
        if len(self._filled) < 2:
            raise ValueError(
                f"next-sentence prediction needs two documents with text, and there are {len(self._filled)}; split the "
                "corpus into documents (boustro tokenize --split), or take the objective masked"
            )
        whole, rest = np.divmod(lengths, room)
        self._ends = np.cumsum(whole + (rest >= MIN_CHUNK))
        self.num_left_out = int(rest[rest < MIN_CHUNK].sum())
        if not len(self):
            raise ValueError(f"no document has {MIN_CHUNK} pieces, so there is nothing to make pairs of")

    def __len__(self) -> int:
        return int(self._ends[-1])

    def draw(self, index: int, rng: np.random.Generator) -> tuple[Run, Run]:
        """The chunk of an example, and a run of another document. Raises `IndexError` beyond the last."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        document = int(np.searchsorted(self._ends, index, side="right"))
        start = (index - (int(self._ends[document - 1]) if document else 0)) * self.room
        chunk = Run(document, start, min(start + self.room, int(self.lengths[document])))
        place = int(rng.integers(len(self._filled) - 1))
        other = int(self._filled[place + (self._filled[place] >= document)])
        start = int(rng.integers(self.lengths[other]))
        return chunk, Run(other, start, min(start + self.room, int(self.lengths[other])))
