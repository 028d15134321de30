"""From the vectors of a sentence that goes on to its entities: what a head says now, and what it will not take back.

`TagDecoder`    fixed lag over the CRF: the tag of a word that becomes final is that of the best path at that moment,
                which begins with the tags that are final already. A path needs no end before the sentence has one.
`AnyDecoder`    every other head: it reads the sentence so far, and `tracks` keeps what is final.

    delay 1     Ada [Brandt]             Ada is final: B-PER on the best path of two words
                Ada Brandt [left]        Brandt is final: the best path that begins with B-PER

W words, C tags, d width.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.bodies import PerWord
from boustro.heads.crf.decode import LOWEST, Chain, best_path, log_sum_exp, make_chain, posteriors, softmax
from boustro.heads.crf.tags import valid_transitions
from boustro.heads.tagging import TaggingHead
from boustro.types import Entity, Sentence


class Decoder(ABC):
    """Entities of one sentence. Words are numbered from the first that the sentence still has; `drop` changes that."""

    def __init__(self, head: Any, labelling: Any) -> None:
        self.head, self._labelling = head, labelling

    @abstractmethod
    def update(self, vectors: Tensor, final: int, complete: bool) -> list[Entity]:
        """The entities of the words, given their vectors (W, d).

        The words before `final` were final before or become it now; `complete` says whether the sentence has an end.
        """

    @abstractmethod
    def drop(self, count: int) -> None:
        """The first words are no longer given."""

    def _read(self, output: Any, size: int) -> list[Entity]:
        return list(self._labelling.read(output, Sentence(("",) * size)).entities)


class AnyDecoder(Decoder):
    """Of a head that is asked for the whole sentence so far."""

    def update(self, vectors: Tensor, final: int, complete: bool) -> list[Entity]:
        (output,) = self.head.predict(vectors, torch.tensor([len(vectors)]))
        return self._read(output, len(vectors))

    def drop(self, count: int) -> None:
        return None


class TagDecoder(Decoder):
    """Of a head that scores tags and takes the best sequence."""

    head: TaggingHead

    def __init__(self, head: TaggingHead, labelling: Any, steady: bool) -> None:
        super().__init__(head, labelling)
        self._per_word = isinstance(head.body, PerWord)
        self._steady = steady and self._per_word
        self._scored: np.ndarray | None = None
        """The scores of the words that are not final, where they stay as they are."""
        self._ids: list[int] = []
        self._chosen: list[float] = []
        self._last: int | None = None
        self._reached: np.ndarray | None = None
        """Log of the sum over all paths to each tag of the last final word, at the head's temperature."""
        self._chain, self._soft = _chains(head)

    def update(self, vectors: Tensor, final: int, complete: bool) -> list[Entity]:
        done = len(self._ids)
        if done < len(vectors):
            scores = self._scores(vectors, done)
            if self._steady:
                self._scored = scores[max(final - done, 0) :]
            ids, chosen = self._decode(scores, final - done, complete)
            self._ids += ids[: max(final - done, 0)]
            self._chosen += chosen[: max(final - done, 0)]
            rest = slice(max(final - done, 0), None)
        else:
            ids, chosen, rest = [], [], slice(0)
        output = np.array([*self._ids, *ids[rest]], np.int64), np.array([*self._chosen, *chosen[rest]], np.float32)
        return self._read(output, len(vectors))

    def drop(self, count: int) -> None:
        del self._ids[:count], self._chosen[:count]

    def _scores(self, vectors: Tensor, done: int) -> np.ndarray:
        if not self._per_word:
            return _as_array(self.head.scores(vectors, torch.tensor([len(vectors)]))[done:])
        known = self._scored
        new = vectors[done:] if known is None else vectors[done + len(known) :]
        if known is not None and not len(new):
            return known
        scores = _as_array(self.head.scores(new, torch.tensor([len(new)])))
        return scores if known is None else np.concatenate([known, scores])

    def _decode(self, scores: np.ndarray, final: int, complete: bool) -> tuple[list[int], list[float]]:
        """The best path of the words that were not final before, the probability of each tag; `final` are so now."""
        lengths, soft = np.array([len(scores)]), scores / self.head.temperature
        chain, soft_chain = (self._as_it_stands(c, complete) for c in (self._chain, self._soft))
        if self._last is not None:
            chain = chain._replace(starts=self._chain.transitions[self._last])
        if self.head.crf is None and self.head.options.decode == "argmax":
            ids = scores.argmax(-1)
        else:
            ids = best_path(np.maximum(scores, LOWEST) if self.head.crf is None else scores, lengths, chain)
        if self.head.crf is None:
            probabilities = softmax(soft)
        else:
            if self._reached is not None:
                soft_chain = soft_chain._replace(starts=self._through(self._reached))
            probabilities = posteriors(soft, lengths, soft_chain)
            self._go_on(soft, soft_chain.starts, final)
        if final > 0:
            self._last = int(ids[min(final, len(ids)) - 1])
        return ids.tolist(), np.take_along_axis(probabilities, ids[:, None], 1)[:, 0].tolist()

    def _go_on(self, soft: np.ndarray, starts: np.ndarray, final: int) -> None:
        for row in soft[: max(final, 0)]:
            self._reached = reached = starts + row
            starts = self._through(reached)

    def _through(self, reached: np.ndarray) -> np.ndarray:
        """Log of the sum over all paths to each tag of the next word, without its own score."""
        return log_sum_exp(reached + self._soft.transitions.T)

    @staticmethod
    def _as_it_stands(chain: Chain, complete: bool) -> Chain:
        return chain if complete else chain._replace(ends=np.zeros_like(chain.ends))


def _as_array(scores: Tensor) -> np.ndarray:
    return scores.float().cpu().numpy().astype(np.float64)


def _chains(head: TaggingHead) -> tuple[Chain, Chain]:
    """The transitions of a head, and the same at its temperature."""
    if (chain := head.decoder.chain) is None:
        valid = valid_transitions(head.labels)
        none = make_chain(valid, *(np.zeros(allowed.shape) for allowed in valid))
        return none, none
    return chain, chain.over(head.temperature)


def make_decoder(head: Head, labelling: Any, steady: bool = False) -> Decoder:
    """The decoder of one sentence; `steady` says that a word's vectors never change once they are given."""
    if isinstance(head, TaggingHead) and head.options.threshold is None:
        return TagDecoder(head, labelling, steady)
    return AnyDecoder(head, labelling)
