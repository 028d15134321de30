"""One label or a number for a text, two texts, or two marked places of one.

Numbers are learned with mean 0 and standard deviation 1, and scored by correlation. For two texts the side features of
a word are whether it is in the other text, whatever its case; whether it is not; whether it is not and has a capital
first or a digit; and whether it is marked.
"""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from boustro.heads.inputs import PAIR_FEATURES, Targets
from boustro.heads.options import HeadOptions
from boustro.metrics.relations import RelationScore, is_no_relation, macro_f1, relation_counts, score_relations
from boustro.metrics.score import CorrelationScore, score_correlation
from boustro.tasks.answers import Answer
from boustro.tasks.data import data_name
from boustro.tasks.data.pairs import TextPair
from boustro.tasks.data.relations import MarkedText
from boustro.tasks.labellings.base import Labelling
from boustro.tasks.labellings.texts import MarkedLabelling, TextLabelling
from boustro.tasks.units import LabelUnits, NumberUnits


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

    def of_part(self, examples: Sequence[Any]) -> Self:
        part, scores = copy.copy(self), _scores(examples)
        part.mean, part.deviation = float(scores.mean()), float(scores.std()) or self.deviation
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
        """The score."""
        return round(float(answer.value or 0.0), 4)

    def score(self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]) -> CorrelationScore:
        predicted = [a.value for a in answers if a.value is not None]
        return score_correlation(_scores(examples).tolist(), predicted, signature)


def _scores(examples: Sequence[Any]) -> np.ndarray:
    return np.array([example.score for example in examples], np.float64)


def side_features(pairs: Sequence[TextPair]) -> np.ndarray:
    """(all words of all pairs, PAIR_FEATURES)."""
    rows = []
    for pair in pairs:
        lower = [frozenset(word.lower() for word in part.words) for part in pair.parts]
        for number, part in enumerate(pair.parts):
            marked = pair.marks[number] if pair.marks else ()
            for i, word in enumerate(part.words):
                missing = word.lower() not in lower[1 - number]
                name = word[:1].isupper() or any(map(str.isdigit, word))
                rows.append((not missing, missing, missing and name, i in marked))
    return np.array(rows, np.float32).reshape(-1, PAIR_FEATURES)


class PairLabelling(TextLabelling):
    """One label per pair; scored by accuracy."""

    scheme_name = "pair"

    @classmethod
    def suiting(cls, examples: Sequence[Any]) -> type[Labelling]:
        return cls

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)


class PairScoreLabelling(ScoreLabelling):
    """A number per pair."""

    scheme_name = "pair-score"

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)


TAKEN = "examples have a label that is taken for no relation (no_relation_label names another)"
NONE_TAKEN = "examples, and no label of theirs is taken for no relation (no_relation_label names one)"


class RelationUnits(LabelUnits):
    """One label per pair of places, counted by its relation."""

    metric, credit, label = "macro F1", "accuracy", "relation"
    rules = (("metric", "macro F1 of relations, SemEval-2010 task 8"),)
    has_values = True
    statistic = staticmethod(macro_f1)

    def __init__(self, no_relation: str | None = None) -> None:
        self.no_relation = no_relation

    def values(self, examples: Sequence[MarkedText], answers: Sequence[Answer]) -> np.ndarray:
        """(N, 3 R), see `metrics.relations.relation_counts`."""
        gold = [str(example.label) for example in examples]
        return relation_counts(gold, [answer.tags[0] for answer in answers], self.no_relation)

    def credits(self, values: np.ndarray) -> np.ndarray:
        return super().credits(values.reshape(len(values), 3, -1).sum(2))


class RelationLabelling(MarkedLabelling):
    """One label per pair of places; scored by the macro F1 of the relations, see `metrics.relations`.

    Attributes:
        no_relation: The label of pairs without a relation, where it is named.
    """

    scheme_name = "relation"
    units = RelationUnits()

    def __init__(self, scheme: Any, labels: Sequence[str], no_relation: str | None = None) -> None:
        super().__init__(scheme, labels)
        self.no_relation, self.units = no_relation, RelationUnits(no_relation)

    def for_config(self, config: Any) -> "RelationLabelling":
        """With the label of pairs without a relation; `ValueError` for one that the training set lacks."""
        if (no_relation := config.no_relation_label) is None:
            return self
        if no_relation not in self.labels:
            raise ValueError(
                f"no example has the no_relation_label {no_relation!r}; there are {', '.join(self.labels)}"
            )
        made = RelationLabelling(self.scheme, self.labels, no_relation)
        made.weights, made.values = self.weights, self.values
        return made

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({} if self.no_relation is None else {"no_relation": self.no_relation})

    def unpredictable(self, train: Sequence[Any], dev: Sequence[Any], max_span: int) -> dict[str, int]:
        without = [label for label in self.gold_labels(train) if is_no_relation(label, self.no_relation)]
        counts = {f"{TAKEN}: {', '.join(sorted(set(without)))}": len(without)} if without else {NONE_TAKEN: len(train)}
        return super().unpredictable(train, dev, max_span) | counts

    def score(
        self, examples: Sequence[MarkedText], answers: Sequence[Answer], signature: dict[str, str]
    ) -> RelationScore:
        labels = [answer.tags[0] for answer in answers]
        return score_relations(self.gold_labels(examples), labels, signature, self.no_relation)
