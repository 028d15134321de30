"""Entity boundaries and entity types by two small heads, instead of one head over BIO tags.

    inside   scores every word: outside or inside an entity
    type     scores every entity, from the mean of its words' vectors

    words    Bank  of  England  cut  rates
    inside    1     1     1      0     0      →  an entity [0, 3)
    type     of (Bank + of + England) / 3     →  ORG

With BIO every type is learned twice, from B- and from I- words. Here all entities train `inside`, and one informative
word determines the type of the whole name. The disadvantage: adjacent entities become one, unless a CRF over B, I and O
finds the boundaries.

Letters: N words, E entities, d width, T types. `starts` (sentences + 1,) is where each sentence begins.
"""

from typing import NamedTuple

import numpy as np


class Runs(NamedTuple):
    """Entities [first, stop) over the words of all sentences, in order."""

    first: np.ndarray
    stop: np.ndarray

    def per_sentence(self, starts: np.ndarray) -> np.ndarray:
        """(sentences + 1,): where the entities of each sentence begin among all entities."""
        return np.searchsorted(self.first, starts)


def find_runs(kinds: np.ndarray, begins: np.ndarray, starts: np.ndarray) -> Runs:
    """Entities from the type of each word (N,), -1 outside; `begins` (N,) and sentences break runs of one type."""
    opens = np.zeros(len(kinds) + 1, bool)
    opens[starts] = True
    first = (kinds >= 0) & (begins | opens[:-1] | (kinds != np.roll(kinds, 1)))
    breaks = np.flatnonzero(np.append(first | (kinds < 0), True) | opens)
    rows = np.flatnonzero(first)
    return Runs(rows, breaks[np.searchsorted(breaks, rows, "right")])


def mean_vectors(vectors: np.ndarray, runs: Runs) -> np.ndarray:
    """(E, d) float32: the mean of each entity's words, of vectors (N, d)."""
    lengths = runs.stop - runs.first
    means = np.empty((len(lengths), vectors.shape[1]), np.float32)
    for length in np.unique(lengths):
        own = lengths == length
        rows = runs.first[own, None] + np.arange(length)
        means[own] = vectors[rows].mean(1, dtype=np.float32)
    return means


def compose_tags(runs: Runs, types: np.ndarray, num_words: int, num_types: int) -> np.ndarray:
    """(N,) ids of [O, B-type 0 … B-type T - 1, I-type 0 …] from runs with a type each (E,): always valid BIO."""
    tags = np.zeros(num_words, np.uint16)
    lengths = runs.stop - runs.first
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    tags[np.repeat(runs.first, lengths) + within] = 1 + num_types + np.repeat(types, lengths)
    tags[runs.first] = 1 + types
    return tags


def factored_tags(types: list[str]) -> list[str]:
    """The names of the ids of `compose_tags`."""
    return ["O", *(f"B-{t}" for t in types), *(f"I-{t}" for t in types)]
