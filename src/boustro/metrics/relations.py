"""Scores of relations between two places in a text: the official metric of SemEval-2010 task 8.

    gold      Cause-Effect(e1,e2)   Cause-Effect(e2,e1)   Other                  Entity-Origin(e1,e2)
    answer    Cause-Effect(e1,e2)   Cause-Effect(e1,e2)   Entity-Origin(e1,e2)   Other

    Cause-Effect     2 gold, 2 answered, 1 right: F1 50        the second answer has the wrong direction
    Entity-Origin    1 gold, 1 answered, 0 right: F1 0
    macro F1         (50 + 0) / 2 = 25

A label is a relation and, mostly, a direction: (e1,e2) or (e2,e1). An answer is right where both are. The reference and
the answers of a relation are counted in both directions together, so an answer in the wrong direction costs precision
and recall of its relation. The label of pairs without a relation is counted for no relation: `NO_RELATION` in any
spelling, or the label that is named; the signature says which label it is. Precision, recall and F1
are means over the relations of the reference: an answer with a relation that the reference never has is a missed one,
and no more. Source: Hendrickx et al. 2010, section 4, "(9+1)-way evaluation taking directionality into account", as its
scorer computes it, version 1.2.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from boustro.metrics.score import ShownScore
from boustro.metrics.spans import SpanCounts, total_counts

DIRECTION = re.compile(r"\s*\((?:e1,\s*e2|e2,\s*e1)\)$")
NO_RELATION = frozenset(
    "other na none null nil nota norel norelation norelationship noneoftheabove notrelated unrelated".split()
)
"""Labels of pairs without a relation: their letters, in lower case."""
NONE_NAMED = "no label"
"""What a signature says where there is no such label."""


def is_no_relation(label: str, named: str | None = None) -> bool:
    """Return whether a label stands for no relation: `named`, or without it any spelling of `NO_RELATION`."""
    plain = DIRECTION.sub("", label)
    return plain == named if named is not None else re.sub(r"[\W_]", "", plain).casefold() in NO_RELATION


def relation_of(label: str, no_relation: str | None = None) -> str | None:
    """Return the relation without its direction: `"Cause-Effect(e2,e1)"` → `"Cause-Effect"`; `None` where there is
    none."""
    return None if is_no_relation(label, no_relation) else DIRECTION.sub("", label)


def _relations(labels: Iterable[str], no_relation: str | None) -> list[str]:
    return sorted({name for label in labels if (name := relation_of(label, no_relation)) is not None})


@dataclass(frozen=True, slots=True, repr=False)
class RelationScore(ShownScore):
    """Scores per relation; precision, recall and F1 are their means, in percent. `signature` describes the data."""

    per_relation: dict[str, SpanCounts]
    """How many pairs have the relation in the reference and in the answers, and how many are right."""
    num_examples: int
    num_right: int
    """Examples with the right label, also those without a relation."""
    signature: dict[str, str] = field(default_factory=dict)
    measure: ClassVar[str] = "macro F1"

    @property
    def f1(self) -> float:
        """The mean F1 of the relations; 0 where there is none."""
        return self._mean("f1")

    value = f1  # the score by which models are compared

    @property
    def accuracy(self) -> float:
        """Share of all examples with the right label."""
        return 100 * self.num_right / self.num_examples if self.num_examples else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `--json`."""
        return {
            "f1": self.f1,
            "precision": self._mean("precision"),
            "recall": self._mean("recall"),
            "micro_f1": total_counts(self.per_relation).f1,
            "right_labels": self.accuracy,
            "per_label": {name: counts.to_dict("num_texts") for name, counts in self.per_relation.items()},
            "num_labels": sum(counts.gold for counts in self.per_relation.values()),
            "num_texts": self.num_examples,
            "signature": self.signature,
        }

    def _mean(self, figure: str) -> float:
        figures = [getattr(counts, figure) for counts in self.per_relation.values()]
        return sum(figures) / len(figures) if figures else 0.0


def score_relations(
    gold: Sequence[str],
    predicted: Sequence[str],
    signature: dict[str, str] | None = None,
    no_relation: str | None = None,
) -> RelationScore:
    """Compare the labels of pairs of places, one each; `ValueError` where their numbers differ.

    `no_relation` is the label of pairs without one; by default any that `is_no_relation` knows.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"gold labels of {len(gold)} pairs and predicted ones of {len(predicted)}")
    wanted, got = (Counter(relation_of(label, no_relation) for label in labels) for labels in (gold, predicted))
    right = Counter(relation_of(a, no_relation) for a, b in zip(gold, predicted, strict=True) if a == b)
    per_relation = {name: SpanCounts(wanted[name], got[name], right[name]) for name in _relations(gold, no_relation)}
    without = sorted({label for label in gold if is_no_relation(label, no_relation)})
    described = {"metric": "macro F1 of relations, SemEval-2010 task 8", **(signature or {})}
    described["no_relation"] = ", ".join(without) or NONE_NAMED
    return RelationScore(per_relation, len(gold), sum(right.values()), described)


def relation_counts(gold: Sequence[str], predicted: Sequence[str], no_relation: str | None = None) -> np.ndarray:
    """Return (N, 3 R): for each of the R relations of the reference, whether each pair has it in the reference, in the
    answers, and whether it is right; what `macro_f1` needs."""
    numbers = {name: i for i, name in enumerate(_relations(gold, no_relation))}
    indicators = np.zeros((len(gold), 3, len(numbers)))
    for row, wanted, got in zip(indicators, gold, predicted, strict=True):
        for kind, label in enumerate((wanted, got)):
            if (number := numbers.get(relation_of(label, no_relation) or "")) is not None:
                row[kind, number] = 1
                row[2, number] = wanted == got
    return indicators.reshape(len(gold), -1)


def macro_f1(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return a `significance.Statistic` of `relation_counts`."""
    counts = np.einsum("bn,snc->bsc", times, values, optimize=True)
    gold, predicted, right = np.moveaxis(counts.reshape(*counts.shape[:2], 3, -1), 2, 0)
    return (200 * right / np.maximum(gold + predicted, 1)).mean(-1) if gold.shape[-1] else counts.sum(-1)
