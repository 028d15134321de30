"""The head of an exported folder: scores of a graph, read as the trained head reads its own.

S sentences, N words, C labels, L longest span.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from boustro.apps.runtime.session import Session
from boustro.heads.answers import read_scores
from boustro.heads.crf.decode import Chain, softmax
from boustro.heads.decoding import TagDecoder
from boustro.heads.factored import mean_vectors, read_runs
from boustro.heads.inputs import Inputs
from boustro.heads.options import SequenceOptions
from boustro.heads.rows import length_blocks
from boustro.heads.span.decoding import FLOOR, read_spans

CHAIN = ("crf.starts", "crf.transitions", "crf.ends")
THRESHOLD = "threshold"
SIDE, LENGTHS, QUESTION, CONTEXT = "side", "lengths", "question", "context"
"""Inputs of graphs besides streams: side features, the lengths of sentences, the rows of the words of two parts."""


class GraphHead:
    """What a task asks of a head: its outputs, and what it is.

    Attributes:
        arrays: The scores of transitions (`CHAIN`), of a head with a CRF; the threshold of one that has its own.
    """

    is_exported = True

    def __init__(
        self,
        kind: str,
        options: Any,
        labels: tuple[str, ...],
        temperature: float,
        session: Session,
        inputs: tuple[str, ...],
        arrays: Mapping[str, np.ndarray],
    ) -> None:
        self.kind, self.options, self.labels, self.temperature = kind, options, labels, temperature
        self._session, self._inputs, self._arrays = session, inputs, arrays
        self._graph = GRAPHS[kind]

    def outputs(self, inputs: Inputs, candidates: bool = False) -> list[Any]:
        """As `heads.training.predict_inputs`; a text's output depends on nothing else in its batch."""
        found: dict[int, Any] = {}
        for examples in length_blocks(inputs.sizes, self._graph.words):
            rows, lengths, side = inputs.arrays(examples)
            given = {f"stream_{n}": stream[rows] for n, stream in enumerate(inputs.streams)}
            given |= {LENGTHS: lengths, QUESTION: np.arange(lengths[0]), CONTEXT: np.arange(lengths[0], len(rows))}
            given |= {} if side is None else {SIDE: side}
            (scores,) = self._session.run({name: given[name] for name in self._inputs})
            found.update(zip(examples.tolist(), self._graph.read(self, scores, lengths, candidates), strict=True))
        return [found[example] for example in range(len(inputs))]

    @property
    def threshold(self) -> float:
        """Of a head that has its own; `ValueError` where the folder has none."""
        if THRESHOLD not in self._arrays:
            raise ValueError(
                f"a {self.kind} head needs the array {THRESHOLD!r}, which the export lacks; export it again"
            )
        return float(self._arrays[THRESHOLD])

    @property
    def decoder(self) -> TagDecoder:
        """What makes tags of scores."""
        assert isinstance(self.options, SequenceOptions)
        chain = Chain(*(self._arrays[name] for name in CHAIN)) if CHAIN[0] in self._arrays else None
        return TagDecoder(self.labels, self.options, chain, self.temperature)

    def read_tags(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(N, C) scores of words."""
        return (self.decoder.candidates if candidates else self.decoder.predict)(scores, lengths)

    def read_runs(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(N, 2 + types) scores of outside, inside and types of words."""
        if candidates:
            return [[] for _ in lengths]
        return read_runs(
            softmax(scores[:, :2]), lambda runs: softmax(mean_vectors(scores[:, 2:], runs)), self.labels, lengths
        )

    def read_spans(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(N, L, 1 + C) probabilities of spans."""
        return read_spans(scores, lengths, FLOOR if candidates else self.threshold)

    def read_answers(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(words of the context · L + 1,) scores of spans and of no answer."""
        return read_scores(scores[None], (len(scores) - 1) // int(lengths[1]), self.threshold)

    def read_classes(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(S, C) scores of texts or pairs."""
        return list(scores / np.float32(self.temperature))

    def read_numbers(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(S, 1) numbers of texts or pairs."""
        return scores[:, 0].tolist()


class Graph(NamedTuple):
    """How the graph of a kind of head is run and read."""

    read: Callable[[GraphHead, np.ndarray, np.ndarray, bool], list[Any]]
    given: tuple[str, ...] = ()
    """Its inputs besides streams and side features."""
    words: int = 1024
    """Of a run, about, whose vectors fit a cache; 1 where it reads an example by itself."""


GRAPHS: dict[str, Graph] = {
    "linear": Graph(GraphHead.read_tags),
    "mlp": Graph(GraphHead.read_tags),
    "block": Graph(GraphHead.read_tags, (LENGTHS,), 1),
    "bilstm": Graph(GraphHead.read_tags, words=1),
    "ridge": Graph(GraphHead.read_runs),
    "span": Graph(GraphHead.read_spans),
    "mlp-pool": Graph(GraphHead.read_classes, (LENGTHS,)),
    "bilstm-pool": Graph(GraphHead.read_classes, (LENGTHS,), 1),
    "ridge-pool": Graph(GraphHead.read_classes, (LENGTHS,)),
    "score-pool": Graph(GraphHead.read_numbers, (LENGTHS,)),
    "answer": Graph(GraphHead.read_answers, (QUESTION, CONTEXT), 1),
    "pair": Graph(GraphHead.read_classes, (LENGTHS,), 1),
    "pair-score": Graph(GraphHead.read_numbers, (LENGTHS,), 1),
    "relation": Graph(GraphHead.read_classes, (LENGTHS,)),
}
"""The kinds of heads that are exported."""
