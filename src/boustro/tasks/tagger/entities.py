"""Common parts of the labellings of entities in sentences: the reference, the score, and what can never be found."""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from boustro.heads.inputs import TO_THE_END, Targets, encode_distances
from boustro.heads.options import HeadOptions
from boustro.heads.span import FoundSpan, GoldSpans, count_unreachable, propose_max_span
from boustro.metrics.spans import REPAIR_RULE, extract_spans, is_span_tag, score_entities
from boustro.tasks.answers import Answer
from boustro.tasks.data import data_name
from boustro.tasks.data.schemes import entities_to_bio, flatten_entities, gold_entities
from boustro.tasks.labellings.base import Labelling, Units
from boustro.types import Entity, Sentence

if TYPE_CHECKING:
    from boustro.metrics.score import Score

UNSEEN_ENTITIES = "dev entities with a label that the training data never show"


class EntityUnits(Units):
    """Entities in sentences."""

    metric, credit = "F1", "recall"
    plural, label = "entities", "type"
    has_positions = has_spans = True
    rules = (("metric", "entity F1"), ("repair", REPAIR_RULE), ("scheme", "BIO"))

    def gold(self, example: Any) -> list[Entity]:
        return sorted({Entity(e.label, e.start, e.end) for e in gold_entities(example)})

    def check_data(self, name: str, examples: Sequence[Any]) -> None:
        strange = next((t for s in examples for t in s.tags or () if not is_span_tag(t)), None)
        if strange:
            raise ValueError(
                f"{data_name(examples)} ({name}): the tag {strange!r} marks no entity, and entities are compared; "
                "name the column of entities with --tag-column, train on labels of words with boustro fit, or give "
                "--scheme io if a run of one label is an entity"
            )

    def count_hidden(self, examples: Sequence[Any]) -> int:
        return sum(len(self.gold(s)) - len(extract_spans(s.tags)) for s in examples if s.tags is not None)


class EntityLabelling(Labelling):
    """Entities of sentences, scored by entity-level F1."""

    units = EntityUnits()

    def __init__(self, scheme: Any, labels: Sequence[str], live: bool = False) -> None:
        """`live` heads are told how far each word was read on (`heads.inputs`); whole text is read to its end."""
        super().__init__(scheme, labels)
        self.live = live

    @classmethod
    def named(cls, types: Sequence[str]) -> list[Sentence]:
        return [Sentence((label, label), (f"B-{label}", f"I-{label}")) for label in types]

    @classmethod
    def check(cls, examples: Sequence[Sentence]) -> None:
        if {tag for s in examples for tag in s.tags or ()} <= {"O"}:
            raise ValueError(f"{data_name(examples)}: no word is labelled with an entity, so there is nothing to learn")

    def for_config(self, config: Any) -> Self:
        """With `live`, the head is told how far each word was read on."""
        twin = copy(self)
        twin.live = config.live
        return twin

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({"live": True} if self.live else {})

    def side(self, examples: Sequence[Sentence]) -> np.ndarray | None:
        return encode_distances(np.full(sum(map(len, examples)), TO_THE_END)) if self.live else None

    @property
    def rules(self) -> dict[str, str]:
        """How answers were found, for a score's signature."""
        return {"scheme": self.scheme}

    def gold_labels(self, sentences: Sequence[Sentence]) -> list[str]:
        return [e.label for s in sentences for e in gold_entities(s)]

    def unknown(self, examples: Sequence[Sentence]) -> dict[str, int]:
        """Gold labels that are never answered; `ValueError` for labels of words, which mark no entity."""
        self.units.check_data("gold", examples)
        return super().unknown(examples)

    def unpredictable(self, train: Sequence[Sentence], dev: Sequence[Sentence], max_span: int) -> dict[str, int]:
        known = {tag for sentence in train for tag in sentence.tags or ()}
        count = sum(not set(s.tags[e.start : e.end]) <= known for s in dev if s.tags for e in extract_spans(s.tags))
        return {UNSEEN_ENTITIES: count} if count else {}

    def gold(self, examples: Sequence[Sentence]) -> GoldSpans:
        """Return (start, end, number of the label among `types`); -1 for a label that training never showed."""
        ids = {label: i for i, label in enumerate(self.types)}
        return [[(e.start, e.end, ids.get(e.label, -1)) for e in gold_entities(s)] for s in examples]

    def judge(self, examples: Sequence[Sentence], answers: Sequence[Answer]) -> tuple[list[float], list[bool]]:
        scores, right = [], []
        for sentence, answer in zip(examples, answers, strict=True):
            gold = {(e.label, e.start, e.end) for e in gold_entities(sentence)}
            scores += [e.score or 0.0 for e in answer.entities]
            right += [(e.label, e.start, e.end) in gold for e in answer.entities]
        return scores, right

    def read_spans(self, spans: Sequence[FoundSpan], example: Sentence) -> Answer:
        """Entities from (start, end, number of the label, probability); the tags are those of the outermost."""
        entities = sorted(Entity(self.types[label], start, end, score=p) for start, end, label, p in spans)
        outermost = flatten_entities(entities)
        scores = np.ones(len(example))
        for e in outermost:
            scores[e.start : e.end] = e.score
        return Answer(entities_to_bio(outermost, len(example)), tuple(scores.tolist()), tuple(entities))

    def score(self, sentences: Sequence[Sentence], answers: Sequence[Answer], signature: dict[str, str]) -> "Score":
        """Entity-level precision, recall and F1 of answers."""
        gold = [gold_entities(s) for s in sentences]
        return score_entities(gold, [a.entities for a in answers], self.rules | signature)


class SpanLabelling(EntityLabelling):
    """Entity types as labels; the tags of an answer are those of its outermost entities."""

    nested = True

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], options: HeadOptions) -> "SpanLabelling":
        """Return the types of the training set in alphabetical order."""
        if not all(is_span_tag(tag) for s in sentences for tag in s.tags or ()):
            raise ValueError("a span head needs entities, and the training data have plain labels; use another head")
        return cls("spans", sorted({e.label for s in sentences for e in gold_entities(s)}))

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        gold = self.gold(sentences)
        return lambda numbers, _: [gold[n] for n in numbers]

    def longest(self, sentences: Sequence[Sentence]) -> int:
        gold = self.gold(sentences)
        return propose_max_span(gold) if any(gold) else 1  # a part of a small training set may have no entity

    def unpredictable(self, train: Sequence[Sentence], dev: Sequence[Sentence], max_span: int) -> dict[str, int]:
        return super().unpredictable(train, dev, max_span) | dict(count_unreachable(self.gold(train), max_span))

    def read(self, output: list[tuple[int, int, int, float]], example: Sentence) -> Answer:
        return self.read_spans(output, example)
