"""Scores of labels: one per word (part of speech), one per text (topic), or several per text (topics).

    gold DET NOUN VERB, predicted DET VERB VERB  →  accuracy 66.7; NOUN recall 0; VERB precision 50, recall 100
    gold {a, b} {c}, predicted {a} {c}           →  micro F1 80, exact match 50

Accuracy is not called F1. With one label each, micro precision, recall and F1 over all labels equal the accuracy, so
only the figures of a single label, and their mean over labels (macro F1), have these names.

The Matthews correlation is that of Gorodkin 2004, equation 8, which for two labels is Matthews 1975: with n units, c of
them right, and for each label k t_k gold and p_k predicted ones,

    (c n - Σ t_k p_k) / √((n² - Σ p_k²) (n² - Σ t_k²))
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from boustro.given import as_tags
from boustro.metrics.score import ShownScore
from boustro.metrics.spans import SpanCounts, total_counts

Unit = Literal["words", "texts"]


@dataclass(frozen=True, slots=True, repr=False)
class LabelScore(ShownScore):
    """Accuracy and scores per label over words or texts; `signature` describes the metric and the data."""

    unit: Unit
    """What has a label and is counted."""
    num_labelled: int
    num_sentences: int
    """For texts, the number of texts."""
    per_label: dict[str, SpanCounts]
    """How many units have the label in the reference, in the prediction, and in both."""
    signature: dict[str, str] = field(default_factory=dict)
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    """For texts, how often each gold label got each answer; what never occurred is left out."""
    measure: ClassVar[str] = "accuracy"

    @property
    def accuracy(self) -> float:
        """Share of units with the correct label, percent; 0 where there is none."""
        num_correct = sum(counts.correct for counts in self.per_label.values())
        return 100 * num_correct / self.num_labelled if self.num_labelled else 0.0

    value = accuracy  # the score by which models are compared

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, percent."""
        counts = self.per_label.values()
        return sum(label_counts.f1 for label_counts in counts) / len(counts) if counts else 0.0

    @property
    def mcc(self) -> float:
        """The Matthews correlation, times 100; 0 where all units have one label, in the reference or in the answers."""
        counts, n = self.per_label.values(), self.num_labelled
        right, agreed = sum(c.correct for c in counts), sum(c.gold * c.predicted for c in counts)
        spread = (n * n - sum(c.predicted**2 for c in counts)) * (n * n - sum(c.gold**2 for c in counts))
        return 100 * (right * n - agreed) / math.sqrt(spread) if spread else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `--json`; the figures of a label in percent. `mcc` is there for two labels."""
        of_texts: dict[str, Any] = {}
        if self.unit == "texts":
            of_texts = {"macro_f1": self.macro_f1} | ({"mcc": self.mcc} if len(self.per_label) <= 2 else {})
        return {
            "accuracy": self.accuracy,
            **of_texts,
            "per_label": _per_label(self.per_label, self.unit),
            **({"confusion": self.confusion} if self.unit == "texts" else {}),
            "num_sentences": self.num_sentences,
            f"num_{self.unit}": self.num_labelled,
            "signature": self.signature,
        }


@dataclass(frozen=True, slots=True, repr=False)
class LabelSetScore(ShownScore):
    """Scores of several labels per text; `signature` describes the metric and the data."""

    num_texts: int
    num_exact: int
    """Texts with all labels right and no other."""
    per_label: dict[str, SpanCounts]
    """How many texts have the label in the reference, in the prediction, and in both."""
    signature: dict[str, str] = field(default_factory=dict)
    measure: ClassVar[str] = "micro F1"

    @property
    def total(self) -> SpanCounts:
        """All labels together, whose precision, recall and F1 are the micro averages."""
        return total_counts(self.per_label)

    @property
    def value(self) -> float:
        """Micro F1, by which models are compared."""
        return self.total.f1

    macro_f1 = LabelScore.macro_f1

    @property
    def exact_match(self) -> float:
        """Share of texts with exactly the reference's labels, percent; 0 where there is none."""
        return 100 * self.num_exact / self.num_texts if self.num_texts else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `--json`; all figures in percent."""
        return {
            **self.total.to_dict("num_labels"),
            "macro_f1": self.macro_f1,
            "exact_match": self.exact_match,
            "per_label": _per_label(self.per_label, "texts"),
            "num_texts": self.num_texts,
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


def score_label_sets(
    gold: Sequence[Collection[str]], predicted: Sequence[Collection[str]], signature: dict[str, str] | None = None
) -> LabelSetScore:
    """Compare the labels of texts, any number each; `ValueError` where the numbers of texts differ."""
    if len(gold) != len(predicted):
        raise ValueError(f"gold labels of {len(gold)} texts and predicted ones of {len(predicted)}")
    pairs = [(set(a), set(b)) for a, b in zip(gold, predicted, strict=True)]
    wanted = Counter(label for a, _ in pairs for label in a)
    got = Counter(label for _, b in pairs for label in b)
    right = Counter(label for a, b in pairs for label in a & b)
    per_label = {label: SpanCounts(wanted[label], got[label], right[label]) for label in sorted(wanted | got)}
    exact = sum(a == b for a, b in pairs)
    return LabelSetScore(len(pairs), exact, per_label, {"metric": "micro F1 over labels", **(signature or {})})


def _per_label(counts: Mapping[str, SpanCounts], unit: Unit) -> dict[str, dict[str, Any]]:
    return {label: label_counts.to_dict(f"num_{unit}") for label, label_counts in counts.items()}


def _score(
    unit: Unit, num_sentences: int, gold: Sequence[str], predicted: Sequence[str], signature: dict[str, str] | None
) -> LabelScore:
    wanted, got = Counter(gold), Counter(predicted)
    both = Counter(zip(gold, predicted, strict=True))
    per_label = {label: SpanCounts(wanted[label], got[label], both[label, label]) for label in sorted(wanted | got)}
    confusion: dict[str, dict[str, int]] = {}
    for (a, b), count in sorted(both.items()) if unit == "texts" else ():
        confusion.setdefault(a, {})[b] = count
    signature = {"metric": "accuracy", **(signature or {})}
    return LabelScore(unit, len(gold), num_sentences, per_label, signature, confusion)
