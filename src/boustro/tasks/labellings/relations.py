"""One relation for two marked places of a text, from the set that the training data show."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from boustro.metrics.relations import RelationScore, is_no_relation, macro_f1, relation_counts, score_relations
from boustro.tasks.answers import Answer
from boustro.tasks.data.relations import MarkedText
from boustro.tasks.labellings.texts import MarkedLabelling
from boustro.tasks.units import LabelUnits

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

    def suited(self, config: Any) -> "RelationLabelling":
        """With the label of pairs without a relation; `ValueError` for one that the training set lacks."""
        if (no_relation := config.no_relation_label) is None:
            return self
        if no_relation not in self.labels:
            raise ValueError(
                f"no example has the no_relation_label {no_relation!r}; there are {', '.join(self.labels)}"
            )
        made = RelationLabelling(self.scheme, self.labels, no_relation)
        made.weights = self.weights
        return made

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({} if self.no_relation is None else {"no_relation": self.no_relation})

    def unpredictable(self, train: Sequence[Any], dev: Sequence[Any], max_span: int) -> dict[str, int]:
        without = [label for label in self.gold_labels(train) if is_no_relation(label, self.no_relation)]
        found = {f"{TAKEN}: {', '.join(sorted(set(without)))}": len(without)} if without else {NONE_TAKEN: len(train)}
        return super().unpredictable(train, dev, max_span) | found

    def score(
        self, examples: Sequence[MarkedText], answers: Sequence[Answer], signature: dict[str, str]
    ) -> RelationScore:
        found = [answer.tags[0] for answer in answers]
        return score_relations(self.gold_labels(examples), found, signature, self.no_relation)
