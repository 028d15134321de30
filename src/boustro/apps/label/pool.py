"""The sentences that are ready to be suggested, with scores that follow what a tagger learns; the next one to ask for.

Sources: Settles 2009, sections 3.1 and 3.7 (information density); MacKay 1992 (variance of a linear model).
Letters: N words of a chunk of the pool, d width, T types.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from boustro.apps.label.incremental import LiveTagger, LiveTopics
from boustro.apps.label.updated_ridge import RidgeUpdate, times
from boustro.apps.label.vectors import WordVectors

Order = Literal["uncertain", "diverse", "in-order"]
ORDERS: dict[str, Order] = {"uncertain": "uncertain", "diverse": "diverse", "in-order": "in-order"}
KIND_WEIGHT = 3.0  # how much more the type of a word counts than whether it is inside: types are what is learned last
FIRST, EASY = 8, 3
"""Answers before `uncertain` is used; of topics that are known by name, those of each."""
SURE_BY_NAME = 0.8
"""Probability by the names from which on a text is easy: the most probable of all alone are too much alike."""


@dataclass(slots=True, eq=False)
class PoolChunk:
    """Some sentences: which, where each begins, and of every word its vector, scores and leverage."""

    numbers: np.ndarray
    starts: np.ndarray  # (sentences + 1,)
    vectors: np.ndarray  # (N, d) float32
    scores: np.ndarray  # (N, T + 1) float32: inside, kinds; with topics (N, 2 T + 1)
    leverage: np.ndarray  # (N, 2) float32: in the regressions of inside and of kinds
    prior: np.ndarray | None  # (N, T + 1): the part of the scores that is given

    def update(self, inside: RidgeUpdate, kinds: RidgeUpdate) -> None:
        """After the tagger has changed; one matrix product."""
        parts = (np.hstack([inside.weight, kinds.weight]), inside.root, kinds.root)
        ends = np.cumsum([part.shape[1] for part in parts])[:-1]
        weights, *roots = np.split(times(self.vectors, np.hstack(parts)), ends, axis=1)
        self.scores += weights
        for column, (change, root) in enumerate(zip((inside, kinds), roots, strict=True)):
            self.leverage[:, column] -= change.sign * np.square(root).sum(1)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return (sentences,): the mean of each sentence's words; no sentence is empty."""
        return np.add.reduceat(values, self.starts[:-1]) / np.diff(self.starts)


class SentencePool:
    """Encoded sentences: their vectors, and their scores, kept current as the tagger learns.

        pool.attach(numbers, vectors, tagger)       sentences that have been encoded
        pool.update(*tagger.learn(…))               a matrix product over all of them, not a new prediction
        pool.choose("uncertain", …)                 the number of the sentence to show next

    Orders:

        uncertain   the highest mean over words of  H(inside) · leverage + 3 · P(inside) · H(type) · leverage'
        diverse     the highest mean over words of  leverage + leverage'
        in-order    the first

    H is an entropy; the two leverages are those of the regressions of inside and of types, and say how much the word is
    unlike all words, and all entities, that were answered. Alone, uncertainty asks again and again for the same hard
    words, and leverage for oddities; the product approximates what an answer would teach. The mean over words, and not
    the sum, because a person reads words. The first sentences, before there is anything to be uncertain of, come at
    random; of topics that are known by name, `EASY` texts of each that its name fits, in turn.
    """

    def __init__(self) -> None:
        self.chunks: list[PoolChunk] = []
        self._places: dict[int, tuple[PoolChunk, slice]] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def numbers(self) -> list[int]:
        """Of all its sentences."""
        return [*self._places]

    def __contains__(self, number: object) -> bool:
        return number in self._places

    def attach(
        self, numbers: Sequence[int], vectors: WordVectors, tagger: LiveTagger, prior: np.ndarray | None = None
    ) -> None:
        """Add sentences, none of them empty."""
        words = np.asarray(vectors.words, np.float32)
        scores = tagger.scores(words) + (0 if prior is None else tagger.given(prior))
        leverage = np.stack([tagger.inside.leverage(words), tagger.kinds.leverage(words)], 1)
        chunk = PoolChunk(np.array(numbers), vectors.starts, words, scores.astype(np.float32), leverage, prior)
        self.chunks.append(chunk)
        for i, number in enumerate(numbers):
            self._places[number] = chunk, slice(int(vectors.starts[i]), int(vectors.starts[i + 1]))

    def update(self, inside: RidgeUpdate, kinds: RidgeUpdate) -> None:
        """After the tagger has learned or forgotten a sentence."""
        for chunk in self.chunks:
            chunk.update(inside, kinds)

    def rescore(self, tagger: LiveTagger) -> None:
        """After the tagger has got another label, or another beginning."""
        for chunk in self.chunks:
            scores = tagger.scores(chunk.vectors)
            if chunk.prior is not None:
                scores += tagger.given(chunk.prior)
            chunk.scores = scores

    def vectors(self, number: int) -> np.ndarray:
        """Return (words, d) of a sentence."""
        chunk, rows = self._places[number]
        return chunk.vectors[rows]

    def scores(self, number: int) -> np.ndarray:
        """Return (words, T + 1) of a sentence."""
        chunk, rows = self._places[number]
        return chunk.scores[rows]

    def prior(self, number: int) -> np.ndarray | None:
        """Return what is given of a sentence's scores."""
        chunk, rows = self._places[number]
        return None if chunk.prior is None else chunk.prior[rows]

    def choose(self, order: Order, answered: int, tagger: LiveTagger, left_out: Collection[int]) -> int | None:
        """Return the next sentence that is not left out; `None` where there is none. `answered` is how many are."""
        best, choice, how = -np.inf, None, str(order)
        if order == "uncertain" and (easy := tagger.num_named) and answered < EASY * easy:
            how = "easy"
        elif answered < FIRST and order != "in-order":
            how = "first"
        for chunk in self.chunks:
            values = self._values(chunk, how, tagger, answered)
            for place in np.argsort(-values, kind="stable"):
                if int(chunk.numbers[place]) not in left_out:
                    if values[place] > best:
                        best, choice = values[place], int(chunk.numbers[place])
                    break
        return choice

    def unsure(self, tagger: LiveTagger, left_out: Collection[int], most: int) -> list[tuple[int, int, float]]:
        """Return (sentence, word, uncertainty) of the words that the tagger is least sure of, at most one per
        sentence."""
        rows = []
        for chunk in self.chunks:
            values = np.sum(tagger.uncertainty(chunk.scores), 0)
            for number, start, stop in zip(chunk.numbers.tolist(), chunk.starts, chunk.starts[1:], strict=False):
                if number not in left_out:
                    word = int(values[start:stop].argmax())
                    rows.append((number, word, float(values[start + word])))
        return sorted(rows, key=lambda row: -row[2])[:most]

    def _values(self, chunk: PoolChunk, order: str, tagger: LiveTagger, answered: int) -> np.ndarray:
        """Return (sentences,): the highest comes first."""
        if order == "easy" and isinstance(tagger, LiveTopics):
            return np.minimum(tagger.fit_of_names(chunk.scores, answered), SURE_BY_NAME)
        if order == "in-order":
            return -chunk.numbers.astype(np.float64)
        if order == "first":  # chunks come in a random order, and so do their sentences
            return -np.arange(len(chunk.numbers)) - 1e9 * self.chunks.index(chunk)
        if order == "diverse":
            return chunk.means(chunk.leverage.sum(1))
        boundary, kind = tagger.uncertainty(chunk.scores)
        return chunk.means(boundary * chunk.leverage[:, 0] + KIND_WEIGHT * kind * chunk.leverage[:, 1])
