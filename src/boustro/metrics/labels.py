"""Scores of one label a word (part of speech): accuracy over words, and figures per label.

    gold DET NOUN VERB, predicted DET VERB VERB  →  accuracy 66.7; NOUN recall 0; VERB precision 50, recall 100

Accuracy is not F1 and is never called so. With one label a word, micro precision, recall and F1 over all
labels equal the accuracy, so only the figures of a single label are named precision, recall and F1.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from boustro.given import as_tags
from boustro.metrics.spans import SpanCounts


@dataclass(frozen=True, slots=True)
class LabelScore:
    """Scores over words, in all and per label; `signature` says how they came about."""

    num_correct: int
    num_words: int
    num_sentences: int
    per_label: dict[str, SpanCounts]
    """How many words have the label in the reference, in the prediction, and in both."""
    signature: dict[str, str] = field(default_factory=dict)
    unit: str = "words"
    measure: ClassVar[str] = "accuracy"

    @property
    def value(self) -> float:
        """What a tagger is judged by: the accuracy."""
        return self.accuracy

    @property
    def accuracy(self) -> float:
        """Share of words whose label is right, percent; 0 where there is no word."""
        return 100 * self.num_correct / self.num_words if self.num_words else 0.0

    def to_dict(self) -> dict:
        """What `--json` writes; a label's figures in percent."""
        return {
            "accuracy": self.accuracy,
            "per_label": {
                label: {"f1": c.f1, "precision": c.precision, "recall": c.recall, "num_words": c.gold}
                for label, c in self.per_label.items()
            },
            "num_sentences": self.num_sentences,
            "num_words": self.num_words,
            "signature": self.signature,
        }


def score_labels(
    gold: Iterable[Sequence[str]],
    predicted: Iterable[Sequence[str]],
    signature: dict[str, str] | None = None,
    unit: str = "words",
) -> LabelScore:
    """Compare label sequences, sentence by sentence; `ValueError` where their numbers of words differ."""
    gold, predicted = as_tags(gold), as_tags(predicted)
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences and {len(predicted)} predicted ones")
    wanted, got, right = Counter(), Counter(), Counter()
    for number, (gold_labels, predicted_labels) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(gold_labels) != len(predicted_labels):
            raise ValueError(
                f"sentence {number}: {len(gold_labels)} gold labels and {len(predicted_labels)} predicted ones"
            )
        wanted.update(gold_labels)
        got.update(predicted_labels)
        right.update(a for a, b in zip(gold_labels, predicted_labels, strict=True) if a == b)
    return LabelScore(
        num_correct=right.total(),
        num_words=wanted.total(),
        num_sentences=len(gold),
        per_label={label: SpanCounts(wanted[label], got[label], right[label]) for label in sorted(wanted | got)},
        signature={"metric": "accuracy", **(signature or {})},
        unit=unit,
    )
