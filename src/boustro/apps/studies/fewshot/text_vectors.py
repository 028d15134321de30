"""What few-shot heads read of a text or a pair of texts: blocks of one vector, chosen by leaving examples out.

    text   mean      the mean of its words' vectors
           first     its first word's vector: the backward LM has read all of the text by then
           terms     the principal axes of TF-IDF
    pair   mean      |u - v| and u · v of the means of its texts
           matches   shared words, similarity of TF-IDF and of the means, lengths

Blocks are centred and scaled on all training texts, without their labels, so they are the same for every draw and K.
A closed form reads one of `choices`: for each draw the one of the best accuracy by cross-validation within the draw.
Which one is best depends on the task: the first word tells the kind of a question, but not the intent of a request.

Sources: Salton and Buckley 1988 (TF-IDF); Deerwester et al. 1990 (its principal axes). T texts, P parts, N examples.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boustro.encoders.options import UPPER
from boustro.features.reader import Reader
from boustro.features.vectors import VectorReader, Vectors
from boustro.heads.closed_form import LabelledWords, LinearSolution
from boustro.heads.factored import Runs, mean_vectors
from boustro.heads.inputs import Inputs
from boustro.heads.words import vectorizer
from boustro.types import Sentence

AXES = 300
FOLDS, VALIDATED, MOST_SPLITS = 4, 600, 20
"""Parts of a draw that are left out in turn, until about so many examples have been, in so many parts at most."""
TEXT_CHOICES: tuple[Mapping[str, float], ...] = (
    {"mean": 1.0},
    {"mean": 1.0, "first": 1.5},
    {"mean": 1.0, "terms": 1.0},
    {"mean": 1.0, "first": 1.5, "terms": 1.0},
)
PAIR_CHOICES: tuple[Mapping[str, float], ...] = ({"mean": 1.0}, {"mean": 1.0, "matches": 1.0})
"""Blocks with the lengths that they are scaled to."""
SCALED = 4096
"""Training texts or pairs that the scales of their vectors come from."""


class Views:
    """The blocks of texts or pairs; `fit` sets their centres and scales."""

    def __init__(self, texts: Sequence[Sentence], parts: np.ndarray) -> None:
        """From all training texts (T) and the numbers (N, P) of those that each example consists of."""
        self.choices = PAIR_CHOICES if parts.shape[1] == 2 else TEXT_CHOICES
        self.blocks: dict[str, slice] = {}
        self._vectorizer = vectorizer()
        tfidf = self._vectorizer.fit_transform([text.words or ("",) for text in texts])
        self._axes = _principal_axes(tfidf) if len(self.choices[-1]) == 3 else None
        self._norms: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def fit(self, words: np.ndarray, starts: np.ndarray, texts: Sequence[Sentence], parts: np.ndarray) -> None:
        """Centre and scale each block so that the mean square of its values is 1; for arguments see `vectors`."""
        place = 0
        for name, block in self._raw(words, starts, texts, parts).items():
            centre, spread = block.mean(0), block.std(0)
            if name == "terms":  # axes keep their proportions
                spread = np.full_like(spread, np.sqrt(np.mean(np.square(spread))))
            self._norms[name] = centre, np.where(spread > 0, spread, 1)
            self.blocks[name] = slice(place, place := place + block.shape[1])

    def vectors(
        self, words: np.ndarray, starts: np.ndarray, texts: Sequence[Sentence], parts: np.ndarray
    ) -> np.ndarray:
        """(N, d) float16 from the words of all parts, (words, d), text `parts.ravel()[i]` from `starts[i]` on."""
        raw = self._raw(words, starts, texts, parts)
        return np.concatenate([(raw[n] - c) / s for n, (c, s) in self._norms.items()], 1).astype(np.float16)

    def _raw(
        self, words: np.ndarray, starts: np.ndarray, texts: Sequence[Sentence], parts: np.ndarray
    ) -> dict[str, np.ndarray]:
        means = np.zeros((parts.size, words.shape[1]), np.float32)  # a text without words stays 0
        full = np.diff(starts) > 0
        means[full] = mean_vectors(words, Runs(starts[:-1][full], starts[1:][full]))
        own = [texts[number] for number in parts.ravel()]
        tfidf: Any = self._vectorizer.transform([text.words for text in own])
        if parts.shape[1] == 2:
            one, other = means[::2], means[1::2]
            both = np.concatenate([np.abs(one - other), one * other], 1)
            cosines = np.asarray(tfidf[::2].multiply(tfidf[1::2]).sum(1))[:, 0]
            return {"mean": both, "matches": _matches(own[::2], own[1::2], cosines, one, other)}
        first = np.zeros_like(means)
        first[full] = words[starts[:-1][full]]
        return {"mean": means, "first": first, "terms": np.asarray(tfidf @ self._axes)}


@dataclass(frozen=True, slots=True)
class TextVectors(Vectors):
    """A text or pair has one vector, as if it were one word, whose blocks are those of `views`."""

    views: Views


class TextReader(VectorReader):
    """A `VectorReader` of one vector for each example."""

    def __init__(self, reader: Reader, examples: Sequence[Any], layers: str = UPPER, standardise: bool = True) -> None:
        super().__init__(reader, examples, layers, standardise)
        self._texts, parts = reader.sentences(examples)
        self._views = Views(self._texts, parts)
        some = parts[np.linspace(0, len(parts) - 1, min(len(parts), SCALED), dtype=int)]
        own = super().mix(self._inputs, some)
        self._views.fit(own.words, own.starts, self._texts, some)

    def train_vectors(self, numbers: np.ndarray) -> TextVectors:
        return self._view(self._inputs, self._texts, self._inputs.parts[numbers])

    def vectors(self, examples: Sequence[Any]) -> TextVectors:
        inputs, (texts, parts) = self.reader.read(examples, cached=True), self.reader.sentences(examples)
        return self._view(inputs, texts, parts)

    def _view(self, inputs: Inputs, texts: Sequence[Sentence], parts: np.ndarray) -> TextVectors:
        own = self.mix(inputs, parts)
        viewed = self._views.vectors(own.words, own.starts, texts, parts)
        return TextVectors(viewed, np.arange(len(parts) + 1), self._views)


def make_reader(by_word: bool, reader: Reader, examples: Sequence[Any], layers: str, standardise: bool) -> VectorReader:
    """A reader of words or of whole examples."""
    return (VectorReader if by_word else TextReader)(reader, examples, layers, standardise)


def solve_best(
    views: Views,
    vectors: np.ndarray,
    ids: np.ndarray,
    num_labels: int,
    solve: Callable[[LabelledWords], LinearSolution],
) -> tuple[LinearSolution, str]:
    """The solution for the best of `views.choices`, over all columns of vectors (N, d), and the names of its blocks."""

    def solution(scales: np.ndarray, rows: np.ndarray) -> LinearSolution:
        used = scales > 0
        x = vectors[rows][:, used].astype(np.float32) * scales[used]
        solved = solve(LabelledWords(x, ids[rows], num_labels, np.arange(len(x) + 1)))
        weight = np.zeros((num_labels, len(scales)), np.float32)
        weight[:, used] = solved.weight * scales[used]
        return LinearSolution(weight, solved.bias, solved.strength)

    def right(scales: np.ndarray, left: np.ndarray) -> int:
        solved = solution(scales, np.flatnonzero(~left))
        scores = vectors[left].astype(np.float32) @ solved.weight.T + solved.bias
        return int((scores.argmax(1) == ids[left]).sum())

    splits = list(_splits(ids))
    choices = [_scales(views, choice) for choice in views.choices]
    found = [sum(right(scales, left) for left in splits) for scales in choices]
    best = int(np.argmax(found))  # the smallest of equally good ones
    return solution(choices[best], np.arange(len(ids))), "+".join(views.choices[best])


def _scales(views: Views, choice: Mapping[str, float]) -> np.ndarray:
    """(d,) what each column is multiplied by: a block has the length that the choice says, others are 0."""
    scales = np.zeros(max(block.stop for block in views.blocks.values()), np.float32)
    for name, length in choice.items():
        block = views.blocks[name]
        scales[block] = length / np.sqrt(max(1, block.stop - block.start))
    return scales


def _splits(ids: np.ndarray) -> Iterator[np.ndarray]:
    """Masks (N,) of examples to leave out, each label spread over the folds; a small draw is split repeatedly."""
    rng, wanted = np.random.default_rng(0), min(MOST_SPLITS, math.ceil(FOLDS * VALIDATED / len(ids)))
    fold = np.zeros(len(ids), int)
    for number in range(wanted):
        if number % FOLDS == 0:
            for label in np.unique(ids):
                rows = rng.permutation(np.flatnonzero(ids == label))
                fold[rows] = (np.arange(len(rows)) + rng.integers(FOLDS)) % FOLDS
        left = np.equal(fold, number % FOLDS)
        if left.any() and not left.all():
            yield left


def _principal_axes(tfidf: Any) -> np.ndarray:
    """(terms, A)"""
    from sklearn.decomposition import TruncatedSVD

    room = min(tfidf.shape) - 1
    if room < 1:
        return np.zeros((tfidf.shape[1], 1), np.float32)
    axes: Any = TruncatedSVD(min(AXES, room), random_state=0).fit(tfidf).components_
    return axes.T.astype(np.float32)


def _matches(
    one: Sequence[Sentence], other: Sequence[Sentence], tfidf: np.ndarray, u: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """(N, 6): shared words by all and by the shorter text, difference in length, cosines, distance of the means."""
    rows = []
    for a, b in zip(one, other, strict=True):
        left, right = ({word.lower() for word in text.words} for text in (a, b))
        shared, least = len(left & right), max(1, min(len(left), len(right)))
        longest = max(1, len(a.words), len(b.words))
        rows.append((shared / max(1, len(left | right)), shared / least, abs(len(a.words) - len(b.words)) / longest))
    distance = np.linalg.norm(u - v, axis=1)
    cosine = (u * v).sum(1) / np.maximum(np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1), 1e-9)
    return np.column_stack([np.array(rows, np.float32).reshape(-1, 3), tfidf, cosine, distance]).astype(np.float32)
