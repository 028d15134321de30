"""A number per text or pair of texts, learned with mean 0 and standard deviation 1; scored by correlation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from boustro.heads.inputs import Targets
from boustro.heads.options import HeadOptions
from boustro.metrics.similarity import CorrelationScore, score_correlation
from boustro.tasks.answers import Answer
from boustro.tasks.data import data_name
from boustro.tasks.labellings.base import Labelling
from boustro.tasks.units import NumberUnits


class ScoreLabelling(Labelling):
    """A number per example, whose `score` it is.

    Attributes:
        mean, deviation: Of the training scores.
    """

    scheme_name = "score"
    units = NumberUnits()

    def __init__(self, scheme: Any, labels: Sequence[str], mean: float, deviation: float) -> None:
        super().__init__(scheme, labels)
        self.mean, self.deviation = mean, deviation

    @classmethod
    def learn(cls, examples: Sequence[Any], options: HeadOptions) -> "ScoreLabelling":
        """`ValueError` where all scores are equal."""
        scores = _scores(examples)
        if not scores.std() > 0:
            raise ValueError(f"{data_name(examples)}: all scores are equal, so there is nothing to learn")
        return cls(cls.scheme_name, ("score",), float(scores.mean()), float(scores.std()))

    @property
    def types(self) -> tuple[str, ...]:
        """None: an answer has no label."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"mean": self.mean, "deviation": self.deviation}

    def targets(self, examples: Sequence[Any]) -> Targets:
        import torch

        scores = torch.from_numpy((_scores(examples) - self.mean) / self.deviation).float()
        return lambda numbers, rows: scores[torch.from_numpy(numbers)].to(rows.device)

    def read(self, output: float, example: Any) -> Answer:
        return Answer(value=output * self.deviation + self.mean)

    def score(self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]) -> CorrelationScore:
        predicted = [a.value for a in answers if a.value is not None]
        return score_correlation(_scores(examples).tolist(), predicted, signature)


def _scores(examples: Sequence[Any]) -> np.ndarray:
    return np.array([example.score for example in examples], np.float64)
