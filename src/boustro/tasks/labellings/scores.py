"""A number per example, learned with mean 0 and standard deviation 1, and scored by correlation."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from boustro.heads.inputs import Targets
from boustro.heads.options import HeadOptions
from boustro.metrics.score import CorrelationScore, score_correlation
from boustro.metrics.significance import spearman
from boustro.tasks.answers import Answer
from boustro.tasks.data import data_name
from boustro.tasks.labellings.base import Labelling, Units
from boustro.tasks.render import shown_number
from boustro.types import Entity


class NumberUnits(Units):
    """A number per text or pair of texts."""

    metric, credit = "Spearman", "agreement of ranks"
    has_labels = has_confusions = has_scores = False
    has_values = True
    statistic = staticmethod(spearman)
    rules = (("metric", "Spearman's correlation of ranks, times 100"),)

    def gold(self, example: Any) -> list[Entity]:
        return []

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        return ()

    def reference(self, example: Any) -> str:
        return shown_number(example.score)

    def describe_answer(self, example: Any, answer: Answer) -> str:
        return shown_number(answer.value or 0.0)

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """Return (N, 2): the reference and the answer."""
        pairs = zip(examples, answers, strict=True)
        return np.array([(example.score, answer.value) for example, answer in pairs], float).reshape(-1, 2)

    def credits(self, values: np.ndarray) -> np.ndarray:
        gold, predicted = (np.argsort(np.argsort(side, kind="stable")) for side in values.T)
        return 1 - np.abs(gold - predicted) / max(1, len(values) - 1)


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
        mean, deviation = _moments(examples)
        if not deviation > 0:
            raise ValueError(f"{data_name(examples)}: all scores are equal, so there is nothing to learn")
        return cls(cls.scheme_name, ("score",), mean, deviation)

    def of_part(self, examples: Sequence[Any]) -> Self:
        part, (mean, deviation) = copy.copy(self), _moments(examples)
        part.mean, part.deviation = mean, deviation or self.deviation
        return part

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

    def result(self, answer: Answer) -> float:
        """Return the score."""
        return float(answer.value or 0.0)

    def score(self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]) -> CorrelationScore:
        predicted = [a.value for a in answers if a.value is not None]
        return score_correlation(_scores(examples).tolist(), predicted, signature)


def _scores(examples: Sequence[Any]) -> np.ndarray:
    return np.array([example.score for example in examples], np.float64)


def _moments(examples: Sequence[Any]) -> tuple[float, float]:
    """Return mean and standard deviation of the scores, whose squares may pass the range of a float."""
    scores = _scores(examples)
    power = int(np.frexp(np.abs(scores).max())[1])
    scores = np.ldexp(scores, -power)  # a power of two changes no digit
    return float(np.ldexp(scores.mean(), power)), float(np.ldexp(scores.std(), power))
