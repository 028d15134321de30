"""What a head learns from labelled examples, and what its answers mean: the ways of labelling words and texts.

A `Labelling` is learned from the training set, turns sentences into a head's targets, and reads its answers:

    TagLabelling    BIO, BIOES or IO tags
    WordLabelling   one label per word, no entities (part of speech)
    SpanLabelling   entities as spans, which may be nested
    TextLabelling   one label per text

Every answer has entities over words, so that whatever counts, compares or shows entities serves all of them: the
label of a word or of a text is an entity that covers it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from boustro.choose import choose
from boustro.given import refuse_no_texts
from boustro.heads.registry import head_class
from boustro.heads.span.head import Gold, count_unreachable, propose_max_span
from boustro.heads.training import Targets
from boustro.metrics.labels import LabelScore, score_labels, score_text_labels
from boustro.metrics.spans import REPAIR_RULE, SpanScore, extract_spans, is_span_tag, parse_tag, score_entities
from boustro.tasks.config import TaskConfig
from boustro.tasks.data import data_name
from boustro.tasks.data.schemes import Scheme, encode_tags, entities_to_bio, flatten_entities, gold_entities, to_bio
from boustro.text.words import Placed
from boustro.types import Entity, Sentence

UNSEEN = "dev entities with a label that the training data never show"
UNKNOWN = "gold labels that the head does not know, so they are never right"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one example.

    Attributes:
        tags: A tag for every word; for a text its label, once.
        scores: The probability of each tag.
        entities: Entities over words, with their probabilities.
        probabilities: For a text, the probability of every label.
    """

    tags: tuple[str, ...]
    scores: tuple[float, ...]
    entities: tuple[Entity, ...]
    probabilities: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """The answer for a running text: its examples, in order, each with its own answer."""

    text: str
    parts: tuple[tuple[Placed, Answer], ...]

    @property
    def entities(self) -> list[Entity]:
        """Entities over the characters of the text, half-open."""
        found = []
        for placed, answer in self.parts:
            for e in answer.entities:
                start, end = placed.places[e.start][0], placed.places[e.end - 1][1]
                found.append(Entity(e.label, start, end, self.text[start:end], round(e.score or 0, 4)))
        return found


class Labelling(ABC):
    """See the module. `labels` are what the head scores, in its order; `scheme` says in which form."""

    labels: tuple[str, ...]
    scheme: Any

    def __init__(self, scheme: Any, labels: Sequence[str]) -> None:
        self.scheme, self.labels = scheme, tuple(labels)

    @classmethod
    @abstractmethod
    def learn(cls, sentences: Sequence[Sentence], config: TaskConfig) -> "Labelling":
        """The labels of the training set; `ValueError` for data without any."""

    @property
    def types(self) -> tuple[str, ...]:
        """The labels that an answer can have, in alphabetical order."""
        return tuple(sorted(self.labels))

    @property
    def rules(self) -> dict[str, str]:
        """How answers were found, for a score's signature."""
        return {"scheme": self.scheme}

    def to_dict(self) -> dict[str, Any]:
        """What `open_labelling` needs to make it again."""
        return {"scheme": self.scheme, "labels": list(self.labels)}

    def gold_labels(self, sentences: Sequence[Sentence]) -> list[str]:
        """The label of every gold entity."""
        return [e.label for s in sentences for e in gold_entities(s)]

    def unknown(self, sentences: Sequence[Sentence]) -> dict[str, int]:
        """Gold labels that are never answered: a message with their names, and how many there are; or nothing."""
        known = set(self.types)
        unknown = [label for label in self.gold_labels(sentences) if label not in known]
        return {f"{UNKNOWN}: {', '.join(sorted(set(unknown)))}": len(unknown)} if unknown else {}

    def unpredictable(self, train: Sequence[Sentence], dev: Sequence[Sentence], max_span: int) -> dict[str, int]:
        """Entities that the head can never find, counted by reason."""
        known = {tag for sentence in train for tag in sentence.tags or ()}
        count = sum(not set(s.tags[e.start : e.end]) <= known for s in dev if s.tags for e in extract_spans(s.tags))
        return {UNSEEN: count} if count else {}

    def gold(self, sentences: Sequence[Sentence]) -> Any:
        """What the head is calibrated on, where it is."""
        return None

    def longest(self, sentences: Sequence[Sentence]) -> int | None:
        """Length in words of the longest span that the head should find; `None` for no limit."""
        return None

    @abstractmethod
    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        """What the head's loss needs."""

    @abstractmethod
    def read(self, answer: Any, num_words: int) -> Answer:
        """The head's answer for one example."""

    def score(
        self, sentences: Sequence[Sentence], answers: Sequence[Answer], signature: dict[str, str]
    ) -> SpanScore | LabelScore:
        """Entity-level precision, recall and F1 of answers."""
        gold = [gold_entities(s) for s in sentences]
        return score_entities(gold, [a.entities for a in answers], self.rules | signature)


class TagLabelling(Labelling):
    """Entities as tags of a scheme: bio, bioes or io."""

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], config: TaskConfig) -> Labelling:
        """O first, then the tags of the training set in alphabetical order; labels that are no tags as they are."""
        if not all(is_span_tag(tag) for s in sentences for tag in s.tags or ()):
            return WordLabelling.learn(sentences, config)
        scheme: Scheme = getattr(config, "tag_scheme", "bio")
        found = {tag for s in sentences for tag in cls.tags(s, scheme)}
        return cls(scheme, ["O", *sorted(found - {"O"})])

    @property
    def types(self) -> tuple[str, ...]:
        bare = self.scheme == "io"  # no prefix to remove: person-actor is a type
        return tuple(sorted({label if bare else parse_tag(label)[1] for label in self.labels} - {"O", ""}))

    @property
    def rules(self) -> dict[str, str]:
        return {"scheme": self.scheme.upper(), "repair": REPAIR_RULE}

    @staticmethod
    def tags(sentence: Sentence, scheme: Scheme) -> tuple[str, ...]:
        """`B-PER I-PER B-LOC` in the scheme: io `PER PER LOC`, bioes `B-PER E-PER S-LOC`."""
        return encode_tags(extract_spans(sentence.tags or ()), len(sentence), scheme)

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        ids = {tag: i for i, tag in enumerate(self.labels)}
        tags = torch.tensor([ids[t] for s in sentences for t in self.tags(s, self.scheme)], dtype=torch.int64)
        return lambda _, rows: tags.to(rows.device)[rows]

    def read(self, answer: tuple[np.ndarray, np.ndarray], num_words: int) -> Answer:
        ids, scores = answer
        scores = tuple(float(s) for s in scores)
        tags = to_bio(tuple(self.labels[i] for i in ids), self.scheme)
        entities = [Entity(e.label, e.start, e.end, score=_mean(scores[e.start : e.end])) for e in extract_spans(tags)]
        return Answer(tags, scores, tuple(entities))


class WordLabelling(TagLabelling):
    """One label per word, such as parts of speech; scored by accuracy."""

    types = Labelling.types

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], config: TaskConfig) -> "WordLabelling":
        """The labels of the training set in alphabetical order."""
        return cls("labels", sorted({tag for s in sentences for tag in s.tags or ()}))

    def gold_labels(self, sentences: Sequence[Sentence]) -> list[str]:
        return [tag for s in sentences for tag in s.tags or ()]

    @staticmethod
    def tags(sentence: Sentence, scheme: Scheme) -> tuple[str, ...]:
        """Unchanged."""
        return sentence.tags or ()

    def read(self, answer: tuple[np.ndarray, np.ndarray], num_words: int) -> Answer:
        """Every word is an entity."""
        ids, scores = answer
        tags, scores = tuple(self.labels[i] for i in ids), tuple(float(s) for s in scores)
        pairs = enumerate(zip(tags, scores, strict=True))
        return Answer(tags, scores, tuple(Entity(tag, i, i + 1, score=score) for i, (tag, score) in pairs))

    def score(self, sentences: Sequence[Sentence], answers: Sequence[Answer], signature: dict[str, str]) -> LabelScore:
        return score_labels([s.tags or () for s in sentences], [a.tags for a in answers], signature)


class SpanLabelling(Labelling):
    """Entity types as labels; the tags of an answer are those of its outermost entities."""

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], config: TaskConfig) -> "SpanLabelling":
        """The types of the training set in alphabetical order."""
        if not all(is_span_tag(tag) for s in sentences for tag in s.tags or ()):
            raise ValueError("a span head needs entities, and the training data have plain labels; use another head")
        return cls("spans", sorted({e.label for s in sentences for e in gold_entities(s)}))

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        gold = self.gold(sentences)
        return lambda numbers, _: [gold[n] for n in numbers]

    def gold(self, sentences: Sequence[Sentence]) -> Gold:
        ids = {label: i for i, label in enumerate(self.labels)}  # a label that training never showed is -1
        return [[(e.start, e.end, ids.get(e.label, -1)) for e in gold_entities(s)] for s in sentences]

    def longest(self, sentences: Sequence[Sentence]) -> int:
        return propose_max_span(self.gold(sentences))

    def unpredictable(self, train: Sequence[Sentence], dev: Sequence[Sentence], max_span: int) -> dict[str, int]:
        return super().unpredictable(train, dev, max_span) | dict(count_unreachable(self.gold(train), max_span))

    def read(self, answer: list[tuple[int, int, int, float]], num_words: int) -> Answer:
        entities = sorted(Entity(self.labels[label], start, end, score=p) for start, end, label, p in answer)
        outermost = flatten_entities(entities)
        scores = np.ones(num_words)
        for e in outermost:
            scores[e.start : e.end] = e.score
        return Answer(entities_to_bio(outermost, num_words), tuple(scores.tolist()), tuple(entities))


class TextLabelling(Labelling):
    """One label per text; scored by accuracy."""

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], config: TaskConfig) -> "TextLabelling":
        """The labels of the training set in alphabetical order."""
        labels = sorted({s.label for s in sentences if s.label is not None})
        if len(labels) < 2:
            found = f"only the label {labels[0]}" if labels else "no label"
            raise ValueError(f"{data_name(sentences)}: {found}, so there is nothing to learn; give two labels at least")
        return cls("class", labels)

    def gold_labels(self, sentences: Sequence[Sentence]) -> list[str]:
        return [s.label for s in sentences if s.label is not None]

    def unpredictable(self, train: Sequence[Sentence], dev: Sequence[Sentence], max_span: int) -> dict[str, int]:
        known = set(self.labels)
        count = sum(s.label not in known for s in dev)
        return {"dev texts with a label that the training data never show": count} if count else {}

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        ids = {label: i for i, label in enumerate(self.labels)}
        labels = torch.tensor([ids[s.label] for s in sentences if s.label is not None], dtype=torch.int64)
        return lambda numbers, rows: labels[torch.from_numpy(numbers)].to(rows.device)

    def read(self, answer: np.ndarray, num_words: int) -> Answer:
        best = int(answer.argmax())
        label, score = self.labels[best], float(answer[best])
        entities = (Entity(label, 0, num_words, score=score),) if num_words else ()
        probabilities = dict(zip(self.labels, map(float, answer), strict=True))
        return Answer((label,), (score,), entities, probabilities)

    def score(self, sentences: Sequence[Sentence], answers: Sequence[Answer], signature: dict[str, str]) -> LabelScore:
        return score_text_labels(self.gold_labels(sentences), [a.tags[0] for a in answers], signature)


LEARNED: dict[str, type[Labelling]] = {"tags": TagLabelling, "spans": SpanLabelling, "class": TextLabelling}
"""By what a head learns (`heads.base.Head.labelling`)."""
SAVED: dict[str, type[Labelling]] = {
    **dict.fromkeys(("bio", "io", "bioes"), TagLabelling),
    "labels": WordLabelling,
    "spans": SpanLabelling,
    "class": TextLabelling,
}
"""By the scheme that a folder names."""


def make_labelling(kind: str, sentences: Sequence[Sentence], config: TaskConfig) -> Labelling:
    """The labelling that a kind of head learns from the training data; `ValueError` for data that do not suit it."""
    learned = LEARNED[head_class(kind).labelling]
    if learned is not TextLabelling and {tag for s in sentences for tag in s.tags or ()} <= {"O"}:
        raise ValueError(f"{data_name(sentences)}: no word is labelled with an entity, so there is nothing to learn")
    return learned.learn(sentences, config)


def open_labelling(scheme: Any, labels: Sequence[str]) -> Labelling:
    """A saved labelling; `ValueError` for an unknown scheme."""
    found = choose(scheme if isinstance(scheme, str) else repr(scheme), SAVED, "labelling")
    refuse_no_texts(labels, "label")
    return found(scheme, labels)


def _mean(scores: Sequence[float]) -> float:
    """Geometric mean, so that one uncertain word makes the entity uncertain."""
    return float(np.exp(np.log(np.maximum(scores, 1e-12)).mean()))
