"""Entities from tags, and their precision, recall and F1 as conlleval computes them, for any tag sequence.

Sequences that are not valid are repaired by conlleval's rules: an entity ends where its type changes, and
`I-X` after `O` begins one (the repair rule "conlleval"). Tags may have the prefixes B I O E S.

    O I-PER I-PER B-PER  →  PER [1, 3), PER [3, 4)

Source: the script conlleval of the CoNLL shared tasks, in Perl and with its IOBES extension.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from boustro.given import as_tags
from boustro.metrics.score import ShownScore
from boustro.types import Entity, is_span_tag

REPAIR_RULE = "conlleval"


def parse_tag(tag: str) -> tuple[str, str]:
    """`"B-PER"` → `("B", "PER")`, `"O"` → `("O", "")`; the type is everything after the first hyphen."""
    prefix, _, label = tag.partition("-")
    return prefix, label


def extract_spans(tags: Sequence[str]) -> list[Entity]:
    """Entities of one sentence, in order."""
    entities: list[Entity] = []
    start, previous, label = -1, "O", ""
    for position, tag in enumerate([*tags, "O"]):
        prefix, current = parse_tag(tag)
        if start >= 0 and (previous in "ES" or prefix in "BSO" or label != current):
            entities.append(Entity(label, start, position))
            start = -1
        if prefix != "O" and (prefix in "BS" or previous in "OES" or label != current):
            start = position
        previous, label = prefix, current
    return entities


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """The number of entities in the reference, in the prediction, and in both, where one may be right in part."""

    gold: int = 0
    predicted: int = 0
    correct: float = 0

    @property
    def precision(self) -> float:
        """Percent."""
        return 100 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Percent."""
        return 100 * self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Percent; 0 when nothing is correct, as in conlleval."""
        both = self.gold + self.predicted
        return 200 * self.correct / both if both else 0.0

    def to_dict(self, counted: str) -> dict:
        """Return the scores, and the number in the reference under the key `counted`."""
        return {"f1": self.f1, "precision": self.precision, "recall": self.recall, counted: self.gold}


@dataclass(frozen=True, slots=True, repr=False)
class SpanScore(ShownScore):
    """Scores over sentences, in total and per type; `signature` describes the metric and the data."""

    total: SpanCounts
    per_type: dict[str, SpanCounts]
    num_sentences: int
    signature: dict[str, str] = field(default_factory=dict)
    measure: ClassVar[str] = "F1"

    @property
    def f1(self) -> float:
        """Entity-level micro F1, percent."""
        return self.total.f1

    value = f1  # the score by which models are compared

    @property
    def precision(self) -> float:
        """Percent."""
        return self.total.precision

    @property
    def recall(self) -> float:
        """Percent."""
        return self.total.recall

    def to_dict(self) -> dict:
        """Return the output of `boustro evaluate --json`."""
        return {
            "f1": self.f1,
            "precision": self.precision,
            "recall": self.recall,
            "per_type": {label: counts.to_dict("num_entities") for label, counts in self.per_type.items()},
            "num_sentences": self.num_sentences,
            "num_entities": self.total.gold,
            "signature": self.signature,
        }


def score_spans(
    gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]], signature: dict[str, str] | None = None
) -> SpanScore:
    """Compare tag sequences, sentence by sentence.

    Raises `ValueError` where the numbers of words differ, and for tags that mark no spans, such as parts of speech.
    """
    gold, predicted = as_tags(gold), as_tags(predicted)
    strange = next((t for t in set().union(*gold, *predicted) if not is_span_tag(t)), None)
    if strange is not None:
        raise ValueError(f"{strange!r} marks no span, as O, B-PER or E-PER do; score plain labels with score_labels")
    for number, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted, strict=False), start=1):
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f"sentence {number}: {len(gold_tags)} gold tags and {len(predicted_tags)} predicted ones")
    wanted, got = ([extract_spans(tags) for tags in side] for side in (gold, predicted))
    return score_entities(wanted, got, {"repair": REPAIR_RULE, **(signature or {})})


def score_entities(
    gold: Sequence[Collection[Entity]],
    predicted: Sequence[Collection[Entity]],
    signature: dict[str, str] | None = None,
) -> SpanScore:
    """Compare entities, sentence by sentence; they may overlap.

    Two are equal when label, start and end are; text and score do not matter, nor duplicates.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences and {len(predicted)} predicted ones")
    counts: dict[str, Counter[str]] = {}
    for gold_entities, predicted_entities in zip(gold, predicted, strict=True):
        wanted, got = entity_keys(gold_entities), entity_keys(predicted_entities)
        for name, entities in (("gold", wanted), ("predicted", got), ("correct", wanted & got)):
            for label, _, _ in entities:
                counts.setdefault(label, Counter())[name] += 1
    per_type = {label: SpanCounts(**counts[label]) for label in sorted(counts)}
    return SpanScore(total_counts(per_type), per_type, len(gold), {"metric": "entity F1", **(signature or {})})


def entity_keys(entities: Iterable[Entity]) -> set[tuple[str, int, int]]:
    """Return label, start and end of each entity, which two equal ones share."""
    return {(e.label, e.start, e.end) for e in entities}


def total_counts(per_label: dict[str, SpanCounts]) -> SpanCounts:
    """Return all labels together: micro precision, recall and F1."""
    rows = per_label.values()
    return SpanCounts(sum(c.gold for c in rows), sum(c.predicted for c in rows), sum(c.correct for c in rows))
