"""Vectors of texts: what a word weighs in its text, and how alike two texts are, by the cosine of their vectors.

    statistics   `VectorLabelling`       any texts; nothing is a target
    embedding    `PairVectorLabelling`   pairs, all of them with scores or none: such pairs belong together

The side feature of a word is its weight: a / (a + p(w)) for sif, where p(w) is the share of the word (in lower case)
among all words of the training texts and a is small, else 1.

Source: Arora et al. 2017, *A simple but tough-to-beat baseline for sentence embeddings*.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from boustro.arrays import unit
from boustro.encoders.word_table import SMOOTHING
from boustro.heads.inputs import Targets
from boustro.heads.options import HeadOptions, PoolingOptions
from boustro.metrics.score import CorrelationScore, score_correlation
from boustro.tasks.answers import Answer
from boustro.tasks.config import NEIGHBOURS
from boustro.tasks.data import data_name
from boustro.tasks.embed.data import Alone
from boustro.tasks.labellings.base import Labelling
from boustro.tasks.labellings.scores import NumberUnits
from boustro.tasks.pairs import TextPair
from boustro.types import Sentence

ZERO_VECTORS = "texts without a word; their vectors are zero"
UNKNOWN_TEXTS = "texts of whose words the table knows none; their vectors are zero"


@dataclass(frozen=True, slots=True, eq=False)
class VectorAnswer(Answer):
    """`vector` (width,) is that of the first text; `value` is the cosine of both, where there are two."""

    vector: np.ndarray | None = None


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

    def weights(self, sentence: Sentence, smoothing: float = SMOOTHING) -> np.ndarray:
        """Return (N,) a / (a + p(w)), float32; 1 for a word that was never seen."""
        seen = np.array([self.counts[word.lower()] for word in sentence.words], np.float64)
        return (smoothing / (smoothing + seen / self.total)).astype(np.float32)


class VectorLabelling(Labelling):
    """A vector per text.

    Attributes:
        frequencies: Of the words of the training texts, `None` where all words weigh the same.
    """

    scheme_name = "vectors"
    units = NumberUnits()

    def __init__(self, scheme: Any, labels: Sequence[str], words: Mapping[str, int] | None) -> None:
        """`words` is how often each word occurs, `None` where all words weigh the same."""
        super().__init__(scheme, labels)
        self.frequencies = None if words is None else WordFrequencies(words)

    @classmethod
    def learn(cls, examples: Sequence[TextPair], options: HeadOptions) -> "VectorLabelling":
        assert isinstance(options, PoolingOptions)
        words = None
        if options.text_pooling == "sif":
            words = WordFrequencies.fit(part for example in examples for part in example.parts).counts
        return cls(cls.scheme_name, (), words)

    def to_dict(self) -> dict[str, Any]:
        words = self.frequencies and dict(self.frequencies.counts.most_common())
        return super().to_dict() | {"words": words}

    def unpredictable(self, train: Sequence[TextPair], dev: Sequence[TextPair], max_span: int) -> dict[str, int]:
        count = sum(not len(e.first) for e in (*train, *dev))
        return {ZERO_VECTORS: count} if count else {}

    def side(self, examples: Sequence[TextPair]) -> np.ndarray:
        parts = [part for example in examples for part in (example.first, example.second)]
        if self.frequencies is None:
            return np.ones((sum(map(len, parts)), 1), np.float32)
        weights = [self.frequencies.weights(part) for part in parts]
        return np.concatenate(weights)[:, None] if weights else np.zeros((0, 1), np.float32)

    def targets(self, examples: Sequence[TextPair]) -> Targets:
        return lambda numbers, rows: None

    def read(self, output: np.ndarray, example: TextPair) -> VectorAnswer:
        first, second = output
        if isinstance(example, Alone):
            return VectorAnswer(vector=first)
        lengths = np.linalg.norm(first) * np.linalg.norm(second)
        return VectorAnswer(value=float((first * second).sum() / lengths.clip(1e-12)), vector=first)

    def score(
        self, examples: Sequence[TextPair], answers: Sequence[Answer], signature: dict[str, str]
    ) -> CorrelationScore:
        """Return the correlation of cosines with scores; `ValueError` for an example without a score."""
        without = next((e for e in examples if e.score is None), None)
        if without is not None:
            raise ValueError(f"{without.where or data_name(examples)}: no score, so there is nothing to compare with")
        gold = [e.score for e in examples if e.score is not None]
        return score_correlation(gold, [a.value or 0.0 for a in answers], signature)


class PairVectorLabelling(VectorLabelling):
    """Vectors of texts that are learned from pairs."""

    scheme_name = "pair-vectors"

    @classmethod
    def learn(cls, examples: Sequence[TextPair], options: HeadOptions) -> "VectorLabelling":
        """`ValueError` for texts alone, and for pairs that are all equally alike."""
        if single := next((e for e in examples if isinstance(e, Alone)), None):
            raise ValueError(
                f"{single.where or data_name(examples)}: a text alone, and an embedding head learns from pairs; take "
                f"sentences that follow each other ({NEIGHBOURS}FILE), or statistics of the texts (--head statistics)"
            )
        scores = {e.score for e in examples if e.score is not None}
        if len(scores) == 1:
            raise ValueError("all pairs have the same score; training needs pairs that are more and less alike")
        return super().learn(examples, options)

    def targets(self, examples: Sequence[TextPair]) -> Targets:
        """Return the scores of a batch, or `None` where it has a pair without one."""
        scores = np.array([np.nan if e.score is None else e.score for e in examples], np.float32)

        import torch

        def of(numbers: np.ndarray, rows: Any) -> torch.Tensor | None:
            batch_scores = scores[numbers]
            return None if np.isnan(batch_scores).any() else torch.from_numpy(batch_scores)

        return of


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (n, m) between rows (n, d) and (m, d); 0 for a zero vector."""
    return unit(first) @ unit(second).T
