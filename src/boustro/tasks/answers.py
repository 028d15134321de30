"""What a head learns from labelled sentences, and what its answers mean: the ways of labelling words.

A `Labelling` is learned from the training set, turns sentences into a head's targets, and reads its answers:

    TagLabelling    BIO, BIOES or IO tags
    WordLabelling   tags that are no spans (part of speech)
    SpanLabelling   entities as spans, which may hold each other
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from boustro.given import refuse_no_texts
from boustro.heads.registry import head_class
from boustro.heads.span.head import Gold, count_unreachable, propose_max_span
from boustro.heads.training import Targets
from boustro.metrics.labels import LabelScore, score_labels
from boustro.metrics.spans import REPAIR_RULE, SpanScore, extract_spans, is_span_tag, parse_tag, score_entities
from boustro.tasks.data.schemes import Scheme, encode_tags, entities_to_bio, flatten_entities, gold_entities, to_bio
from boustro.text.words import Placed
from boustro.types import Entity, Sentence

INSIDE = ("bio", "io", "bioes")


@dataclass(frozen=True, slots=True)
class Answer:
    """A tag for every word with its probability, and the entities, over words, with theirs."""

    tags: tuple[str, ...]
    scores: tuple[float, ...]
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """The answer for a running text: its sentences, in order, each with its own."""

    text: str
    sentences: tuple[tuple[Placed, Answer], ...]

    @property
    def entities(self) -> list[Entity]:
        """Entities over the characters of the text, with what stands there."""
        found = []
        for placed, answer in self.sentences:
            for e in answer.entities:
                start, end = placed.places[e.start][0], placed.places[e.end - 1][1]
                found.append(Entity(e.label, start, end, self.text[start:end], round(e.score or 0, 4)))
        return found

    @property
    def tagged(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Words and tags of every sentence."""
        return [(placed.sentence.words, answer.tags) for placed, answer in self.sentences]


class Labelling(ABC):
    """See the module. `labels` are what the head scores, in its order; `inside` is the scheme that it learns."""

    labels: tuple[str, ...]
    inside: Any

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types, or, where tags are no spans, the tags, in alphabetical order."""
        return tuple(sorted(self.labels))

    @property
    def rules(self) -> dict[str, str]:
        """What a score's signature says of how entities were found."""
        return {"scheme": self.inside.upper(), "repair": REPAIR_RULE}

    def to_dict(self) -> dict[str, Any]:
        """What `open_labelling` needs to make it again."""
        return {"inside": self.inside, "labels": list(self.labels)}

    def gold_labels(self, sentences: Sequence[Sentence]) -> list[str]:
        """The type of every entity, or, where tags are no spans, the tag of every word."""
        return [e.label for s in sentences for e in gold_entities(s)]

    def unknown(self, sentences: Sequence[Sentence]) -> dict[str, int]:
        """What is labelled as no answer ever is: what that means, with the names, and how often; or nothing."""
        known = set(self.types)
        unknown = [label for label in self.gold_labels(sentences) if label not in known]
        names = ", ".join(sorted(set(unknown)))
        what = f"gold labels that this tagger does not know, so they are never right: {names}"
        return {what: len(unknown)} if unknown else {}

    def gold(self, sentences: Sequence[Sentence]) -> Any:
        """What the head is calibrated on, where it is."""
        return None

    def longest(self, sentences: Sequence[Sentence]) -> int | None:
        """How many words the longest span has that the head should be able to find; `None` where it has no limit."""
        return None

    def unreachable(self, sentences: Sequence[Sentence], max_span: int) -> dict[str, int]:
        """Entities that such a head can never find, counted by reason."""
        return {}

    @abstractmethod
    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        """What the head's loss wants."""

    @abstractmethod
    def read(self, answer: Any, num_words: int) -> Answer:
        """The head's answer for one sentence."""

    def score(
        self, sentences: Sequence[Sentence], answers: Sequence[Answer], signature: dict[str, str]
    ) -> SpanScore | LabelScore:
        """Entity-level precision, recall and F1 of answers."""
        gold = [gold_entities(s) for s in sentences]
        return score_entities(gold, [a.entities for a in answers], self.rules | signature)


class TagLabelling(Labelling):
    """Entities as tags of the scheme `inside`: bio, bioes or io."""

    def __init__(self, inside: Scheme, labels: Sequence[str]) -> None:
        self.inside, self.labels = inside, tuple(labels)

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], inside: Scheme) -> "TagLabelling":
        """O first, then the tags of the training set in alphabetical order."""
        found = {tag for s in sentences for tag in cls.tags(s, inside)}
        return cls(inside, ["O", *sorted(found - {"O"})])

    @property
    def types(self) -> tuple[str, ...]:
        bare = self.inside == "io"  # no prefix to take off: person-actor is a type
        return tuple(sorted({label if bare else parse_tag(label)[1] for label in self.labels} - {"O", ""}))

    @staticmethod
    def tags(sentence: Sentence, inside: Scheme) -> tuple[str, ...]:
        """`B-PER I-PER B-LOC` as the scheme has it: io `PER PER LOC`, bioes `B-PER E-PER S-LOC`."""
        return encode_tags(extract_spans(sentence.tags or ()), len(sentence), inside)

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        ids = {tag: i for i, tag in enumerate(self.labels)}
        tags = torch.tensor([ids[t] for s in sentences for t in self.tags(s, self.inside)], dtype=torch.int64)
        return lambda _, rows: tags.to(rows.device)[rows]

    def read(self, answer: tuple[np.ndarray, np.ndarray], num_words: int) -> Answer:
        ids, scores = answer
        tags = tuple(self.labels[i] for i in ids)
        scores = tuple(float(s) for s in scores)
        tags = to_bio(tags, self.inside)
        entities = [Entity(e.label, e.start, e.end, score=_mean(scores[e.start : e.end])) for e in extract_spans(tags)]
        return Answer(tags, scores, tuple(entities))


class WordLabelling(TagLabelling):
    """Tags that are no spans, such as parts of speech; they are scored by accuracy."""

    types = Labelling.types

    def gold_labels(self, sentences: Sequence[Sentence]) -> list[str]:
        return [tag for s in sentences for tag in s.tags or ()]

    @staticmethod
    def tags(sentence: Sentence, inside: Scheme) -> tuple[str, ...]:
        """As they stand."""
        return sentence.tags or ()

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], inside: Scheme = "labels") -> "WordLabelling":
        """The tags of the training set in alphabetical order."""
        return cls(inside, sorted({tag for s in sentences for tag in s.tags or ()}))

    def read(self, answer: tuple[np.ndarray, np.ndarray], num_words: int) -> Answer:
        """Every word is an entity of its own, so that whatever shows entities shows the labels."""
        ids, scores = answer
        tags, scores = tuple(self.labels[i] for i in ids), tuple(float(s) for s in scores)
        pairs = enumerate(zip(tags, scores, strict=True))
        return Answer(tags, scores, tuple(Entity(tag, i, i + 1, score=score) for i, (tag, score) in pairs))

    def score(self, sentences: Sequence[Sentence], answers: Sequence[Answer], signature: dict[str, str]) -> LabelScore:
        return score_labels([s.tags or () for s in sentences], [a.tags for a in answers], signature)


class SpanLabelling(Labelling):
    """Entity types as labels; the tags of an answer are its outermost entities'."""

    def __init__(self, inside: str, labels: Sequence[str]) -> None:
        self.inside, self.labels = inside, tuple(labels)

    @property
    def rules(self) -> dict[str, str]:
        return {"scheme": "spans"}

    @classmethod
    def learn(cls, sentences: Sequence[Sentence]) -> "SpanLabelling":
        """The types of the training set in alphabetical order."""
        return cls("spans", sorted({e.label for s in sentences for e in gold_entities(s)}))

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        gold = self.gold(sentences)
        return lambda numbers, _: [gold[n] for n in numbers]

    def gold(self, sentences: Sequence[Sentence]) -> Gold:
        ids = {label: i for i, label in enumerate(self.labels)}  # a label that training never showed is -1
        return [[(e.start, e.end, ids.get(e.label, -1)) for e in gold_entities(s)] for s in sentences]

    def longest(self, sentences: Sequence[Sentence]) -> int:
        return propose_max_span(self.gold(sentences))

    def unreachable(self, sentences: Sequence[Sentence], max_span: int) -> dict[str, int]:
        return dict(count_unreachable(self.gold(sentences), max_span))

    def read(self, answer: list[tuple[int, int, int, float]], num_words: int) -> Answer:
        entities = sorted(Entity(self.labels[label], start, end, score=p) for start, end, label, p in answer)
        outermost = flatten_entities(entities)
        scores = np.ones(num_words)
        for e in outermost:
            scores[e.start : e.end] = e.score
        return Answer(entities_to_bio(outermost, num_words), tuple(scores.tolist()), tuple(entities))


def make_labelling(head: str, sentences: Sequence[Sentence], inside: Scheme) -> Labelling:
    """The labelling that suits a head and the training data."""
    labelling = head_class(head).labelling
    if labelling == "class":
        raise ValueError(f"head {head} labels whole texts, not words; take another head")
    spans = labelling == "spans"
    if not all(is_span_tag(tag) for s in sentences for tag in s.tags or ()):
        if spans:
            raise ValueError(
                "the tags of the training data mark no entities, which a span head needs; take another head"
            )
        return WordLabelling.learn(sentences)
    return SpanLabelling.learn(sentences) if spans else TagLabelling.learn(sentences, inside)


def open_labelling(inside: Any, labels: Sequence[str]) -> Labelling:
    """A saved labelling; `ValueError` for what is none."""
    classes: dict[str, Any] = {"spans": SpanLabelling, "labels": WordLabelling, **dict.fromkeys(INSIDE, TagLabelling)}
    if not isinstance(inside, str) or inside not in classes:
        raise ValueError(f"unknown labelling {inside!r}: known are {', '.join(classes)}")
    refuse_no_texts(labels, "label")
    return classes[inside](inside, labels)


def _mean(scores: Sequence[float]) -> float:
    """Geometric mean, so that one doubtful word makes the entity doubtful."""
    return float(np.exp(np.log(np.maximum(scores, 1e-12)).mean()))
