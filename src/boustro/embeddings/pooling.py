"""From the vectors of words to one vector per text, without training.

    mean    v = Σ x_w / n
    sif     v = Σ a / (a + p(w)) · x_w / n,   then v - u (u · v)

p(w) is the share of a word (in lower case) among all words of some texts, a is small; u is the first singular vector of
the vectors of those texts. A text without words is 0.

Source: Arora et al. 2017, *A simple but tough-to-beat baseline for sentence embeddings*, algorithm 1.

N words of S texts, end to end; d width.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np

from boustro.types import Sentence


class WordFrequencies:
    """How often each word occurs, in lower case."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = Counter(counts)
        self.total = self.counts.total()

    @classmethod
    def fit(cls, sentences: Iterable[Sentence]) -> Self:
        """Counts of all words; `ValueError` where there is none."""
        counts = Counter(word.lower() for sentence in sentences for word in sentence.words)
        if not counts:
            raise ValueError("the texts hold no word; give texts to count the words of")
        return cls(counts)

    def weights(self, sentence: Sentence, smoothing: float) -> np.ndarray:
        """(N,) a / (a + p(w)), float32; 1 for a word that was never seen."""
        seen = np.array([self.counts[word.lower()] for word in sentence.words], np.float64)
        return (smoothing / (smoothing + seen / self.total)).astype(np.float32)


def pool_words(vectors: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """(d,) the mean of the words (N, d) of one text, weighted by (N,); zeros without words."""
    if not len(vectors):
        return np.zeros(vectors.shape[1], np.float32)
    weighted = vectors.astype(np.float32) if weights is None else vectors.astype(np.float32) * weights[:, None]
    return weighted.mean(0)


def first_component(vectors: np.ndarray) -> np.ndarray:
    """(d,) the first right singular vector of vectors (S, d), which are not centred, as in the paper."""
    wide = vectors.astype(np.float64)
    return np.linalg.eigh(wide.T @ wide)[1][:, -1].astype(np.float32)


def remove_component(vectors: np.ndarray, component: np.ndarray) -> np.ndarray:
    """The vectors (S, d) without their part along a unit vector (d,)."""
    return vectors - (vectors @ component)[:, None] * component
