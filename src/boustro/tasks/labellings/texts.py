"""One label per text or pair of texts, from a set that the training data show; or several labels per text."""

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from boustro.heads.inputs import HeadInputs, Targets
from boustro.heads.options import ClassOptions, HeadOptions
from boustro.metrics.labels import LabelScore, LabelSetScore, score_label_sets, score_text_labels
from boustro.tasks.answers import Answer, Label, LabelSet
from boustro.tasks.data import data_name
from boustro.tasks.data.texts import WORDLESS_TEXTS
from boustro.tasks.labellings.base import Labelling, Units
from boustro.text.languages import language_of_words
from boustro.types import NO_LABEL, Entity, Sentence, label_set

UNSEEN_TEXTS = "dev texts with a label that the training data never show"


class LabelUnits(Units):
    """One label per text, or per pair of texts."""

    metric = credit = "accuracy"
    rules = (("metric", "accuracy"),)

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(example.label or NO_LABEL, 0, max(1, len(example)))]

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        pairs = zip(answer.tags, answer.scores, strict=True)
        return [Entity(label or NO_LABEL, 0, max(1, len(example)), score=score) for label, score in pairs]


class LabelSetUnits(LabelUnits):
    """Any number of labels per text."""

    metric, credit, plural = "micro F1", "mean F1", "labels"
    rules = (("metric", "micro F1 over labels"),)
    has_confusions = False

    def gold(self, example: Any) -> list[Entity]:
        return [Entity(label, 0, max(1, len(example))) for label in sorted(set(label_set(example)))]


class TextLabelling(Labelling):
    """One label per text; scored by accuracy.

    Attributes:
        weights: While a head is trained, how much each label counts in its loss; `None` where all count the same.
        least: A text whose best score is below it has no label; `None` where every text has one.
        english: Whether a text in another language has no label.
    """

    weights: np.ndarray | None = None
    english = False

    scheme_name = "class"
    units = LabelUnits()
    by_label = True

    def __init__(self, scheme: Any, labels: Sequence[str], least: float | None = None, english: bool = False) -> None:
        super().__init__(scheme, labels)
        self.least, self.english = least, english

    def to_dict(self) -> dict[str, Any]:
        english = {"english": True} if self.english else {}
        return super().to_dict() | ({} if self.least is None else {"least": self.least}) | english

    def is_unread(self, example: Any) -> bool:
        """Return whether an example has no label for its language."""
        return self.english and language_of_words(example.words) is not None

    @property
    def gives_none(self) -> bool:
        return self.least is not None

    @classmethod
    def suiting(cls, examples: Sequence[Any]) -> type[Labelling]:
        """That of several labels per text where an example has `labels`, of marked places where one has `marks`."""
        if any(getattr(example, "marks", None) for example in examples):
            return MarkedLabelling
        several = any(getattr(example, "labels", None) is not None for example in examples)
        return LabelSetLabelling if several else cls

    @classmethod
    def learn(cls, examples: Sequence[Any], options: HeadOptions) -> "TextLabelling":
        """Return the labels of the training set in alphabetical order."""
        label_counts = Counter(s.label for s in examples if s.label is not None)
        labels = sorted(label_counts)
        if len(labels) < 2:
            only = f"only the label {labels[0]}" if labels else "no label"
            raise ValueError(f"{data_name(examples)}: {only}, so there is nothing to learn; give two labels at least")
        learned = cls(cls.scheme_name, labels)
        if isinstance(options, ClassOptions) and options.class_weights:
            learned.weights = learned._balanced(examples)
        return learned

    @classmethod
    def named(cls, types: Sequence[str]) -> list[Any]:
        return [Sentence((), label=label) for label in types]

    def of_part(self, examples: Sequence[Any]) -> Self:
        part = copy.copy(self)
        part.weights = None if self.weights is None else self._balanced(examples)
        return part

    def _balanced(self, examples: Sequence[Any]) -> np.ndarray:
        """Return (C,) the weights with which every label that examples have counts the same; 0 for the others."""
        label_counts = Counter(self.gold_labels(examples))
        counts = np.array([label_counts[label] for label in self.labels])
        present = counts > 0
        return np.divide(counts.sum(), present.sum() * counts, out=np.zeros(len(counts)), where=present)

    def gold_labels(self, examples: Sequence[Any]) -> list[str]:
        return [s.label for s in examples if s.label is not None]

    def answers_by_names(
        self, fitted: Any, named: Any, examples: Sequence[Any], inputs: HeadInputs
    ) -> list[Answer] | None:
        if named is None:
            return None
        from boustro.heads.training import pool_all

        head, alone = fitted.head, copy.copy(self)
        alone.least = None  # it is of the head's scores
        texts = None if named.unlabelled is None else pool_all(head, named.unlabelled)
        scores = head.scores_by_name(pool_all(head, inputs), (pool_all(head, named.inputs), named.labels), texts)
        return [alone.read(*each) for each in zip(scores, examples, strict=True)]

    def unpredictable(self, train: Sequence[Any], dev: Sequence[Any], max_span: int) -> dict[str, int]:
        known = {*self.labels, ""}
        counts = {
            UNSEEN_TEXTS: sum(any(label not in known for label in self.gold_labels([s])) for s in dev),
            WORDLESS_TEXTS: sum(not len(s) for s in (*train, *dev) if hasattr(s, "words")),
        }
        return {what: count for what, count in counts.items() if count}

    def ids(self, examples: Sequence[Any]) -> np.ndarray:
        """Return (S,) class ids, or (S, C) membership: what a head learns."""
        number = {label: i for i, label in enumerate(self.labels)}
        return np.array([number[label] for label in self.gold_labels(examples)], np.int64)

    def targets(self, examples: Sequence[Any]) -> Targets:
        import torch

        ids = torch.from_numpy(self.ids(examples))
        if self.weights is None:
            return lambda numbers, rows: ids[torch.from_numpy(numbers)].to(rows.device)
        weights = torch.from_numpy(self.weights).float()
        return lambda numbers, rows: (ids[torch.from_numpy(numbers)], weights)

    @staticmethod
    def log_probabilities(scores: np.ndarray) -> np.ndarray:
        """Return (S, C) scores as log softmax."""
        shifted = scores - scores.max(1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))

    def soften(self, scores: np.ndarray) -> Any:
        """Scores (S, C) as a target that another head can learn."""
        import torch

        from boustro.heads.pooled import Soft

        return Soft(torch.from_numpy(np.exp(self.log_probabilities(scores))).float())

    def loss(self, scores: np.ndarray, ids: np.ndarray) -> float:
        """Mean cross-entropy of scores (S, C)."""
        return -float(self.log_probabilities(scores)[np.arange(len(ids)), ids].mean())

    def read(self, output: np.ndarray, example: Any) -> Answer:
        probabilities = np.exp(self.log_probabilities(output[None].astype(np.float64))[0])  # sum to 1 for float64, too
        by_label = dict(zip(self.labels, map(float, probabilities), strict=True))
        if (self.least is not None and output.max() < self.least) or self.is_unread(example):
            return Answer(("",), (0.0,), (), by_label)
        label = self.labels[int(probabilities.argmax())]
        entities = (Entity(label, 0, len(example), score=by_label[label]),) if len(example) else ()
        return Answer((label,), (by_label[label],), entities, by_label)

    def judge(self, examples: Sequence[Any], answers: Sequence[Answer]) -> tuple[list[float], list[bool]]:
        pairs = zip(examples, answers, strict=True)
        given = [(e, *each) for e, a in pairs for each in zip(a.tags, a.scores, strict=True) if each[0]]
        right = [label in self.gold_labels([example]) for example, label, _ in given]
        return [score for *_, score in given], right

    def result(self, answer: Answer) -> Label:
        """Return the most probable label."""
        return Label.of(answer, self.values)

    def score(
        self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]
    ) -> LabelScore | LabelSetScore:
        gold = [label or NO_LABEL for label in self.gold_labels(examples)]
        return score_text_labels(gold, [answer.tags[0] or NO_LABEL for answer in answers], signature)


class LabelSetLabelling(TextLabelling):
    """Any number of labels per text, each with a probability of its own; scored by micro F1.

    A label is answered where its probability is above `threshold`: 0.5, or what is best on the development set.
    """

    units = LabelSetUnits()
    by_label = False

    def __init__(self, scheme: Any, labels: Sequence[str], threshold: float = 0.5, english: bool = False) -> None:
        super().__init__(scheme, labels, english=english)
        self.threshold = threshold

    @classmethod
    def learn(cls, examples: Sequence[Any], options: HeadOptions) -> "LabelSetLabelling":
        """Return the labels of the training set in alphabetical order; a text with one `label` has that one."""
        labels = sorted({label for s in examples for label in label_set(s)})
        if not labels:
            raise ValueError(f"{data_name(examples)}: no label, so there is nothing to learn")
        if isinstance(options, ClassOptions) and options.class_weights:
            raise ValueError(f"{data_name(examples)}: --class-weights is for one label per text; remove it")
        return cls("label-set", labels)

    def for_config(self, config: Any) -> Self:
        if getattr(config, "none", 0):
            raise ValueError("none is not for texts with several labels, which may have none anyway; remove it")
        return self

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"threshold": self.threshold}

    def gold_labels(self, examples: Sequence[Any]) -> list[str]:
        return [label for s in examples for label in label_set(s)]

    def ids(self, examples: Sequence[Any]) -> np.ndarray:
        indicators = np.zeros((len(examples), len(self.labels)), np.float32)
        number = {label: i for i, label in enumerate(self.labels)}
        for row, example in zip(indicators, examples, strict=True):
            row[[number[label] for label in label_set(example) if label in number]] = 1
        return indicators

    @staticmethod
    def log_probabilities(scores: np.ndarray) -> np.ndarray:
        """Return (S, C): the scores themselves, log-odds; the labels are independent."""
        return scores

    def soften(self, scores: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(_sigmoid(scores)).float()

    def loss(self, scores: np.ndarray, ids: np.ndarray) -> float:
        return float((np.logaddexp(0, scores) - ids * scores).sum(1).mean())

    def calibrate(self, outputs: Sequence[np.ndarray], examples: Sequence[Any]) -> None:
        """Set the threshold of the best micro F1; every gold label counts, also one that training never showed."""
        p, gold = _sigmoid(np.stack(outputs)).ravel(), self.ids(examples).ravel()
        order = np.argsort(-p, kind="stable")
        p, right = p[order], np.cumsum(gold[order])
        f1 = 2 * right / (np.arange(1, len(p) + 1) + len(self.gold_labels(examples)))
        below = np.append(p[1:], 0.0)
        f1[p == below] = -1  # no threshold is between equal probabilities
        best = int(f1.argmax())
        self.threshold = float((p[best] + below[best]) / 2)

    def read(self, output: np.ndarray, example: Any) -> Answer:
        probabilities = dict(zip(self.labels, map(float, _sigmoid(output)), strict=True))
        unread = self.is_unread(example)
        chosen = tuple(label for label, p in probabilities.items() if p > self.threshold and not unread)
        scores = tuple(probabilities[label] for label in chosen)
        pairs = zip(chosen, scores, strict=True) if len(example) else ()
        entities = tuple(Entity(label, 0, len(example), score=score) for label, score in pairs)
        return Answer(chosen, scores, entities, probabilities)

    def result(self, answer: Answer) -> LabelSet:
        """Return all labels of the text."""
        return LabelSet.of(answer, self.values)

    def score(self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]) -> LabelSetScore:
        how = {"threshold": f"{self.threshold:.4f}"}
        return score_label_sets([label_set(s) for s in examples], [a.tags for a in answers], how | signature)


class MarkedLabelling(TextLabelling):
    """One label per text with marked places: `marks` of an example are half-open ranges of its words.

    The side features of a word are whether it is in the first place, in the second, and so on. Few-shot heads do not
    read them, so with few examples the task's own head is trained.
    """

    scheme_name = "marked"
    by_label = False

    @classmethod
    def suiting(cls, examples: Sequence[Any]) -> type[Labelling]:
        return cls

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        """Return (all words of all examples, places)."""
        rows = np.zeros((sum(map(len, examples)), len(examples[0].marks) if examples else 0), np.float32)
        begin = 0
        for example in examples:
            for column, (start, end) in enumerate(example.marks):
                rows[begin + start : begin + end, column] = 1
            begin += len(example)
        return rows


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -scores.astype(np.float64)))  # 1 / (1 + exp(-scores)) overflows
