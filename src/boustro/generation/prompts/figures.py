"""How right prompted answers are, beside their controls.

    answers        as they were asked for
    calibrated     with the prior divided out (or `not calibrated`, where that was asked for)
    majority       the most frequent label, for all
    prior only     the label that the LM prefers for a text without content, for all

A prompt that is no better than the two controls says nothing about the texts.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from boustro.generation.prompts.classifier import PromptClassifier, Prompted
from boustro.metrics.labels import LabelScore, score_text_labels
from boustro.output import give
from boustro.store import provenance


class Figures:
    """Gathers answers and labels; `labelled` are those of a training set, for the majority."""

    def __init__(self, classifier: PromptClassifier, labelled: Sequence[str] | None = None) -> None:
        self._classifier, self._labelled = classifier, labelled
        self._gold: list[str] = []
        self._answers: list[Prompted] = []
        self._num_without = 0

    def add(self, gold: Sequence[str | None], answers: Sequence[Prompted], places: Sequence[str]) -> None:
        """Answers, with the labels of their texts; `ValueError`, with the place, where only some have one."""
        for label, answer, place in zip(gold, answers, places, strict=True):
            if label is None:
                self._num_without += 1
            else:
                self._gold.append(label)
                self._answers.append(answer)
            if self._num_without and self._gold:
                raise ValueError(f"{place}: some texts have a label and some have none; give all of them one, or none")

    def to_dict(self) -> dict[str, Any]:
        """All figures; without labels only the prior."""
        classifier = self._classifier
        facts: dict[str, Any] = {
            "model": classifier.model,
            "template": classifier.template.name,
            "score": classifier.score,
            "calibrated": classifier.calibrate,
            "prior": classifier.prior,
        }
        if not self._gold:
            return facts | {"texts": self._num_without}
        scores = {name: own.to_dict() for name, own in self._scores().items()}
        return facts | {"texts": len(self._gold), "scores": scores}

    def _scores(self) -> dict[str, LabelScore]:
        prior = self._classifier.prior
        controls = {
            "majority": Counter(self._labelled or self._gold).most_common(1)[0][0],
            "prior only": max(prior, key=prior.__getitem__),
        }
        other = "not calibrated" if self._classifier.calibrate else "calibrated"
        found = {"answers": [a.label for a in self._answers], other: [a.other_label for a in self._answers]}
        found |= {f"{name} ({label})": [label] * len(self._gold) for name, label in controls.items()}
        versions = provenance()["versions"]
        signature = {"version": f"boustro {versions.get('boustro', '')}".rstrip(), "score": self._classifier.score}
        return {name: score_text_labels(self._gold, labels, signature) for name, labels in found.items()}

    def give(self, json: Path | None) -> None:
        """The figures to the file, and a table to standard error."""
        give(self.to_dict(), json, self._show, indent=1)

    def _show(self) -> None:
        if self._gold:
            print(
                f"{self._classifier.template.name}, {self._classifier.score}, {len(self._gold):,} texts",
                file=sys.stderr,
            )
            for name, score in self._scores().items():
                figures = f"accuracy {score.accuracy:6.2f}   macro F1 {score.macro_f1:6.2f}   MCC {score.mcc:6.2f}"
                print(f"{name:<28} {figures}", file=sys.stderr)
