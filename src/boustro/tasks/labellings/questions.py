"""Answers to questions: spans of a context, and, where the training data have such questions, no answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boustro.heads.answers import Found
from boustro.heads.inputs import Targets
from boustro.heads.options import HeadOptions
from boustro.metrics.questions import AnswerScore, best_threshold, score_answers
from boustro.tasks.answers import Answer
from boustro.tasks.data.questions import Question
from boustro.tasks.labellings.base import Labelling
from boustro.tasks.labellings.matches import match_features, stem_weights
from boustro.tasks.units import AnswerUnits, answer_text
from boustro.types import NO_ANSWER, Entity

ANSWER = "answer"
MOST_WORDS, COVERED = 20, 0.99


class QuestionLabelling(Labelling):
    """The words of the answer; scored by exact match and F1.

    An `Answer` has the best spans, in words, as `entities`; `value` is log p(no answer) - log p(the best span), and
    `tags` tell which of the labels it is.
    """

    units = AnswerUnits()

    def __init__(self, scheme: Any, labels: Sequence[str], weights: Mapping[str, float] | None = None) -> None:
        super().__init__(scheme, labels)
        self.weights = dict(weights or {})

    @classmethod
    def learn(cls, examples: Sequence[Question], options: HeadOptions) -> "QuestionLabelling":
        """Whether questions may have no answer, and the weights of frequent words."""
        if not any(q.spans for q in examples):
            raise ValueError("no question of the training data has an answer at its offset, so nothing is to learn")
        labels = [ANSWER] + [NO_ANSWER] * any(q.answers == () for q in examples)
        return cls("answers", labels, stem_weights({q.context.words for q in examples}))

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"weights": self.weights}

    def gold_labels(self, examples: Sequence[Question]) -> list[str]:
        return [ANSWER if q.answers else NO_ANSWER for q in examples if q.answers is not None]

    def longest(self, examples: Sequence[Question]) -> int:
        """The length that covers 99% of the answers, at most 20 words."""
        lengths = sorted(min(b - a for a, b in q.spans) for q in examples if q.spans)
        return min(MOST_WORDS, lengths[int(COVERED * (len(lengths) - 1))])

    def unpredictable(self, train: Sequence[Question], dev: Sequence[Question], max_span: int) -> dict[str, int]:
        count = sum(bool(q.spans) and min(b - a for a, b in q.spans) > max_span for q in train)
        return {f"answers of more than {max_span} words, never found": count} if count else {}

    def side(self, examples: Sequence[Question]) -> np.ndarray:
        found = [match_features(q.question.words, q.context.words, self.weights) for q in examples]
        return np.concatenate(found) if found else np.zeros((0, 0), np.float32)

    def targets(self, examples: Sequence[Question]) -> Targets:
        """Gold spans; `None` where the answer is known, but not its place."""
        gold = [None if q.answers and not q.spans else list(q.spans) for q in examples]
        return lambda numbers, rows: [gold[n] for n in numbers]

    def gold(self, examples: Sequence[Question]) -> Any:
        """What chooses the threshold from the head's outputs; `None` where every question has an answer."""
        if NO_ANSWER not in self.labels or not any(q.answers == () for q in examples):
            return None

        def choose(found: Sequence[Found]) -> float:
            texts = [q.passage(*f.spans[0][:2]) for q, f in zip(examples, found, strict=True)]
            return best_threshold([q.answers or () for q in examples], texts, [f.null for f in found])[1]

        return choose

    def read(self, output: Found, example: Question) -> Answer:
        label = NO_ANSWER if output.refused else ANSWER
        entities = tuple(Entity(ANSWER, start, end, score=p) for start, end, p in output.spans)
        return Answer((label,), (entities[0].score or 0.0,), entities, value=output.null)

    def score(self, examples: Sequence[Question], answers: Sequence[Answer], signature: dict[str, str]) -> AnswerScore:
        texts = [answer_text(q, answer) for q, answer in zip(examples, answers, strict=True)]
        return score_answers([q.answers or () for q in examples], texts, signature)
