"""One LM of an exported folder as an encoder: the words, windows and places of `encoders.reading`, states of a graph.

The graph mixes the layers that the head mixes, so a word has M vectors in place of L: the mixed ones, and behind them
the highest layer as it is, where mentions are pooled. Letters as in `encoders.reading`.
"""

import copy
from typing import Any

import numpy as np

from boustro.apps.runtime.session import Session
from boustro.encoders.base import Identity
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import PieceEncoder, pad_rows


def inputs_of(num_places: int, lengths: bool) -> tuple[str, ...]:
    """The names of the inputs of an LM's graph, in order."""
    return ("ids", *(["lengths"] if lengths else []), *(f"places_{k}" for k in range(num_places)))


class GraphEncoder(PieceEncoder):
    """`empty` (K, M, D) is what a word has where there is no state to read."""

    dtype = np.dtype(np.float32)
    num_parameters = 0
    default_pooling = "exit+before"

    def __init__(
        self, facts: dict[str, Any], spec: str, reading: ReadingOptions, tokenizer: Any, session: Session, empty: Any
    ) -> None:
        self.spec, self.backward, self.sees_both_sides = spec, bool(facts["backward"]), bool(facts["centred"])
        self._prefix, self._suffix = tuple(facts["prefix"]), tuple(facts["suffix"])
        self._session, self._empty, self._lengths = session, empty, bool(facts["lengths"])
        self._set_reading(tokenizer, reading)
        self._set_output(tuple(range(facts["rows"])), facts["width"], facts["window"])

    def identity(self) -> Identity:
        return Identity(weights=self.spec, vocabulary="exported", pooling="+".join(self._places))

    def in_context(self, context: Any) -> "GraphEncoder":
        """The same, which reads sentences or documents."""
        twin = copy.copy(self)
        twin._context = context
        return twin

    def _pick(self, rows: list[list[int]], places: list[np.ndarray]) -> list[np.ndarray]:
        given = {"ids": pad_rows(rows, self._prefix[0] if self._prefix else 0)}
        if self._lengths:
            given["lengths"] = np.array([len(row) for row in rows], np.int64)
        return self._session.run(given | {f"places_{k}": at.astype(np.int64) for k, at in enumerate(places)})

    def _unread(self, num_words: int) -> np.ndarray:
        return np.repeat(np.moveaxis(self._empty, 0, 1)[None], num_words, 0)
