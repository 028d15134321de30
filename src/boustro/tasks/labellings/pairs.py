"""Pairs of texts: one label from the set that the training data show, or a number.

The side features of a word are whether it is in the other text, whatever its case; whether it is not; whether it is not
and has a capital first or a digit; and whether it is marked.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from boustro.heads.pairs import SIDE_FEATURES
from boustro.heads.training import Targets
from boustro.metrics.similarity import CorrelationScore, score_correlation
from boustro.tasks.answers import Answer
from boustro.tasks.config import TaskConfig
from boustro.tasks.data import data_name
from boustro.tasks.data.pairs import Pair
from boustro.tasks.labellings.base import Labelling
from boustro.tasks.labellings.texts import TextLabelling


def side_features(pairs: Sequence[Pair]) -> np.ndarray:
    """(all words of all pairs, SIDE_FEATURES)."""
    rows = []
    for pair in pairs:
        lower = [frozenset(word.lower() for word in part.words) for part in pair.parts]
        for number, part in enumerate(pair.parts):
            marked = pair.marks[number] if pair.marks else ()
            for i, word in enumerate(part.words):
                missing = word.lower() not in lower[1 - number]
                name = word[:1].isupper() or any(map(str.isdigit, word))
                rows.append((not missing, missing, missing and name, i in marked))
    return np.array(rows, np.float32).reshape(-1, SIDE_FEATURES)


class PairLabelling(TextLabelling):
    """One label per pair; scored by accuracy."""

    scheme_name = "pair"

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)


class PairScoreLabelling(Labelling):
    """A number per pair, learned with mean 0 and standard deviation 1; scored by correlation."""

    def __init__(self, scheme: Any, labels: Sequence[str], mean: float, deviation: float) -> None:
        super().__init__(scheme, labels)
        self.mean, self.deviation = mean, deviation

    @classmethod
    def learn(cls, examples: Sequence[Pair], config: TaskConfig) -> "PairScoreLabelling":
        """`ValueError` where all scores are equal."""
        scores = _scores(examples)
        if not scores.std() > 0:
            raise ValueError(f"{data_name(examples)}: all scores are equal, so there is nothing to learn")
        return cls("pair-score", ("score",), float(scores.mean()), float(scores.std()))

    @property
    def types(self) -> tuple[str, ...]:
        """None: an answer has no label."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"mean": self.mean, "deviation": self.deviation}

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)

    def targets(self, examples: Sequence[Pair]) -> Targets:
        scores = torch.from_numpy((_scores(examples) - self.mean) / self.deviation).float()
        return lambda numbers, rows: scores[torch.from_numpy(numbers)].to(rows.device)

    def read(self, output: float, example: Pair) -> Answer:
        return Answer(value=output * self.deviation + self.mean)

    def score(self, examples: Sequence[Pair], answers: Sequence[Answer], signature: dict[str, str]) -> CorrelationScore:
        predicted = [a.value for a in answers if a.value is not None]
        return score_correlation(_scores(examples).tolist(), predicted, signature)


def _scores(pairs: Sequence[Pair]) -> np.ndarray:
    return np.array([pair.score for pair in pairs], np.float64)
