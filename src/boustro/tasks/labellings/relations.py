"""One relation for two marked places of a text, from the set that the training data show."""

from collections.abc import Sequence

import numpy as np

from boustro.metrics.relations import RelationScore, macro_f1, relation_counts, score_relations
from boustro.tasks.answers import Answer
from boustro.tasks.data.relations import MarkedText
from boustro.tasks.labellings.texts import MarkedLabelling
from boustro.tasks.units import LabelUnits


class RelationUnits(LabelUnits):
    """One label per pair of places, counted by its relation."""

    metric, credit, label = "macro F1", "accuracy", "relation"
    rules = (("metric", "macro F1 of relations, SemEval-2010 task 8"),)
    has_values = True
    statistic = staticmethod(macro_f1)

    def values(self, examples: Sequence[MarkedText], answers: Sequence[Answer]) -> np.ndarray:
        """(N, 3 R), see `metrics.relations.relation_counts`."""
        return relation_counts([str(example.label) for example in examples], [answer.tags[0] for answer in answers])

    def credits(self, values: np.ndarray) -> np.ndarray:
        return super().credits(values.reshape(len(values), 3, -1).sum(2))


class RelationLabelling(MarkedLabelling):
    """One label per pair of places; scored by the macro F1 of the relations, see `metrics.relations`."""

    scheme_name = "relation"
    units = RelationUnits()

    def score(
        self, examples: Sequence[MarkedText], answers: Sequence[Answer], signature: dict[str, str]
    ) -> RelationScore:
        return score_relations(self.gold_labels(examples), [answer.tags[0] for answer in answers], signature)
