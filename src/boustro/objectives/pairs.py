"""Which pieces of a corpus make the pairs of `sentence_pair`: numbers only, no text.

Documents are cut into chunks of at most `room` pieces; example `index` is a chunk and, for the case that a random
text follows, a chunk of another document, each being as likely:

    PairPlan([5, 3], room=2)    chunks of 2 + 2 (1 is left out) and 2 (1 is left out): 3 examples
    plan.draw(1, rng)           Run(document=0, start=2, stop=4), Run(document=1, start=0, stop=2)
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
    for fewer than two documents with a chunk, since the second text could not be from elsewhere.
    """

    def __init__(self, lengths: Int[np.ndarray, " D"], room: int) -> None:
        self.lengths, self.room = lengths, room
        whole, rest = np.divmod(lengths, room)
        self._chunks = whole + (rest >= MIN_CHUNK)
        self._ends = np.cumsum(self._chunks)
        self.num_left_out = int(rest[rest < MIN_CHUNK].sum())
        found = int((self._chunks > 0).sum())
        if found < 2:
            raise ValueError(
                f"next-sentence prediction needs two documents of at least {MIN_CHUNK} pieces, and there are {found}; "
                "split the corpus into documents (boustro tokenize --split), or take the objective masked"
            )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def draw(self, index: int, rng: np.random.Generator) -> tuple[Run, Run]:
        """The chunk of an example, and one of another document. Raises `IndexError` beyond the last."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        chunk = self._chunk(index)
        own = int(self._chunks[chunk.document])
        other = int(rng.integers(len(self) - own))
        return chunk, self._chunk(other + own * (other >= int(self._ends[chunk.document]) - own))

    def _chunk(self, index: int) -> Run:
        document = int(np.searchsorted(self._ends, index, side="right"))
        start = (index - int(self._ends[document] - self._chunks[document])) * self.room
        return Run(document, start, min(start + self.room, int(self.lengths[document])))
