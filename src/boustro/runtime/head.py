"""The head of an exported folder: scores of a graph, read as the trained head reads its own.

S sentences, N words, C labels.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from boustro.heads.crf.decode import Chain
from boustro.heads.decoding import TagDecoder
from boustro.heads.inputs import Inputs
from boustro.heads.options import SequenceOptions
from boustro.heads.registry import head_kind
from boustro.heads.rows import length_blocks
from boustro.runtime.session import Session

BLOCK_WORDS = 8192
CHAIN = ("crf.starts", "crf.transitions", "crf.ends")
LENGTHS, SIDE = "lengths", "side"


class GraphHead:
    """What a task asks of a head: its outputs, and what it is.

    Attributes:
        arrays: The scores of transitions (`CHAIN`), of a head with a CRF.
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
        learned = head_kind(kind).labelling
        self._read, self._block = READERS[learned], 1 if learned in ALONE else BLOCK_WORDS

    def outputs(self, inputs: Inputs, candidates: bool = False) -> list[Any]:
        """As `heads.training.predict_inputs`; a text's output depends on nothing else in its batch."""
        found: dict[int, Any] = {}
        for examples in length_blocks(inputs.sizes, self._block):
            rows, lengths, side = inputs.arrays(examples)
            given = {f"stream_{n}": stream[rows] for n, stream in enumerate(inputs.streams)}
            given |= {LENGTHS: lengths} | ({} if side is None else {SIDE: side})
            (scores,) = self._session.run({name: given[name] for name in self._inputs})
            found.update(zip(examples.tolist(), self._read(self, scores, lengths, candidates), strict=True))
        return [found[example] for example in range(len(inputs))]

    @property
    def decoder(self) -> TagDecoder:
        """What makes tags of scores."""
        assert isinstance(self.options, SequenceOptions)
        chain = Chain(*(self._arrays[name] for name in CHAIN)) if CHAIN[0] in self._arrays else None
        return TagDecoder(self.labels, self.options, chain, self.temperature)

    def read_tags(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(N, C) scores of words."""
        return (self.decoder.candidates if candidates else self.decoder.predict)(scores, lengths)

    def read_classes(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(S, C) scores of texts or pairs."""
        return list(scores / np.float32(self.temperature))

    def read_numbers(self, scores: np.ndarray, lengths: np.ndarray, candidates: bool) -> list[Any]:
        """(S, 1) numbers of texts or pairs."""
        return scores[:, 0].tolist()


Reader = Callable[[GraphHead, np.ndarray, np.ndarray, bool], list[Any]]
READERS: dict[str, Reader] = {
    "tags": GraphHead.read_tags,
    "class": GraphHead.read_classes,
    "score": GraphHead.read_numbers,
    "relation": GraphHead.read_classes,
    "pair": GraphHead.read_classes,
    "pair-score": GraphHead.read_numbers,
}
"""By what a head learns."""
ALONE = ("pair", "pair-score")
"""Whose graph pads each text to the words of all, so that an example is read by itself."""
