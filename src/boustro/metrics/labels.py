"""Scores of one label per word (part of speech) or per text (topic): accuracy, and figures per label.

    gold DET NOUN VERB, predicted DET VERB VERB  →  accuracy 66.7; NOUN recall 0; VERB precision 50, recall 100

Accuracy is not called F1. With one label each, micro precision, recall and F1 over all labels equal the accuracy, so
only the figures of a single label are named precision, recall and F1.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from boustro.given import as_tags
from boustro.metrics.spans import SpanCounts

Unit = Literal["words", "texts"]


@dataclass(frozen=True, slots=True)
class LabelScore:
    """Accuracy and scores per label over words or texts; `signature` describes the metric and the data."""

    unit: Unit
    """What has a label and is counted."""
    num_labelled: int
    num_sentences: int
    """For texts, the number of texts."""
    per_label: dict[str, SpanCounts]
    """How many units have the label in the reference, in the prediction, and in both."""
    signature: dict[str, str] = field(default_factory=dict)
    measure: ClassVar[str] = "accuracy"

    @property
    def accuracy(self) -> float:
        """Share of units with the correct label, percent; 0 where there is none."""
        num_correct = sum(counts.correct for counts in self.per_label.values())
        return 100 * num_correct / self.num_labelled if self.num_labelled else 0.0

    value = accuracy  # the score by which models are compared

    def to_dict(self) -> dict:
        """The output of `--json`; the figures of a label in percent."""
        return {
            "accuracy": self.accuracy,
            "per_label": {label: counts.to_dict(f"num_{self.unit}") for label, counts in self.per_label.items()},
            "num_sentences": self.num_sentences,
            f"num_{self.unit}": self.num_labelled,
            "signature": self.signature,
        }


def score_labels(
    gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]], signature: dict[str, str] | None = None
) -> LabelScore:
    """Compare the labels of words, sentence by sentence; `ValueError` where the numbers of words differ."""
    gold, predicted = as_tags(gold), as_tags(predicted)
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences and {len(predicted)} predicted ones")
    for number, (gold_labels, predicted_labels) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(gold_labels) != len(predicted_labels):
            raise ValueError(
                f"sentence {number}: {len(gold_labels)} gold labels and {len(predicted_labels)} predicted ones"
            )
    flat_gold, flat_predicted = ([label for labels in side for label in labels] for side in (gold, predicted))
    return _score("words", len(gold), flat_gold, flat_predicted, signature)


def score_text_labels(
    gold: Sequence[str], predicted: Sequence[str], signature: dict[str, str] | None = None
) -> LabelScore:
    """Compare the labels of texts, one each; `ValueError` where their numbers differ."""
    if len(gold) != len(predicted):
        raise ValueError(f"gold labels of {len(gold)} texts and predicted ones of {len(predicted)}")
    return _score("texts", len(gold), gold, predicted, signature)


def _score(
    unit: Unit, num_sentences: int, gold: Sequence[str], predicted: Sequence[str], signature: dict[str, str] | None
) -> LabelScore:
    wanted, got = Counter(gold), Counter(predicted)
    right = Counter(a for a, b in zip(gold, predicted, strict=True) if a == b)
    per_label = {label: SpanCounts(wanted[label], got[label], right[label]) for label in sorted(wanted | got)}
    return LabelScore(unit, len(gold), num_sentences, per_label, {"metric": "accuracy", **(signature or {})})
