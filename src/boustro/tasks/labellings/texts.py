"""One label per text or pair of texts, from a set that the training data show."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from boustro.heads.training import Targets
from boustro.metrics.labels import LabelScore, score_text_labels
from boustro.tasks.answers import Answer
from boustro.tasks.config import TaskConfig
from boustro.tasks.data import data_name
from boustro.tasks.labellings.base import Labelling
from boustro.types import Entity


class TextLabelling(Labelling):
    """One label per text; scored by accuracy."""

    scheme_name = "class"

    @classmethod
    def learn(cls, examples: Sequence[Any], config: TaskConfig) -> "TextLabelling":
        """The labels of the training set in alphabetical order."""
        labels = sorted({s.label for s in examples if s.label is not None})
        if len(labels) < 2:
            found = f"only the label {labels[0]}" if labels else "no label"
            raise ValueError(f"{data_name(examples)}: {found}, so there is nothing to learn; give two labels at least")
        return cls(cls.scheme_name, labels)

    def gold_labels(self, examples: Sequence[Any]) -> list[str]:
        return [s.label for s in examples if s.label is not None]

    def unpredictable(self, train: Sequence[Any], dev: Sequence[Any], max_span: int) -> dict[str, int]:
        known = set(self.labels)
        count = sum(s.label not in known for s in dev)
        return {"dev texts with a label that the training data never show": count} if count else {}

    def targets(self, examples: Sequence[Any]) -> Targets:
        ids = {label: i for i, label in enumerate(self.labels)}
        labels = torch.tensor([ids[s.label] for s in examples if s.label is not None], dtype=torch.int64)
        return lambda numbers, rows: labels[torch.from_numpy(numbers)].to(rows.device)

    def read(self, output: np.ndarray, example: Any) -> Answer:
        best = int(output.argmax())
        label, score = self.labels[best], float(output[best])
        entities = (Entity(label, 0, len(example), score=score),) if len(example) else ()
        probabilities = dict(zip(self.labels, map(float, output), strict=True))
        return Answer((label,), (score,), entities, probabilities)

    def score(self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]) -> LabelScore:
        return score_text_labels(self.gold_labels(examples), [a.tags[0] for a in answers], signature)
