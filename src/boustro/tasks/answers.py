"""What a head learns from labelled sentences, and what its answers mean: the two ways of labelling words.

A `Labelling` is learned from the training set, turns sentences into a head's targets, and reads its answers:

    TagLabelling    BIO, BIOES or IO tags, or tags that are no spans (part of speech)
    SpanLabelling   entities as spans, which may hold each other
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from boustro.heads.training import Targets
from boustro.metrics.spans import extract_spans
from boustro.tasks.schemes import entities_to_bio, from_bio, is_bio, to_bio
from boustro.types import Entity, Sentence


@dataclass(frozen=True, slots=True)
class Answer:
    """A tag for every word with its probability, and the entities, over words, with theirs."""

    tags: tuple[str, ...]
    scores: tuple[float, ...]
    entities: tuple[Entity, ...]


class Labelling(ABC):
    """See the module. `labels` are what the head scores, in its order."""

    labels: tuple[str, ...]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What `open_labelling` needs to make it again."""

    @abstractmethod
    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        """What the head's loss wants."""

    @abstractmethod
    def read(self, answer: Any, num_words: int) -> Answer:
        """The head's answer for one sentence."""


class TagLabelling(Labelling):
    """`inside` is the scheme that the head learns: bio, bioes, io; labels for tags that are no spans."""

    def __init__(self, inside: str, labels: Sequence[str]) -> None:
        self.inside, self.labels = inside, tuple(labels)

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], inside: str) -> "TagLabelling":
        """O first, then the tags of the training set in alphabetical order."""
        found = {tag for s in sentences for tag in from_bio(s.tags or (), inside)}
        return cls(inside, [*(["O"] if inside != "labels" else []), *sorted(found - {"O"})])

    def to_dict(self) -> dict[str, Any]:
        return {"inside": self.inside, "labels": list(self.labels)}

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        ids = {tag: i for i, tag in enumerate(self.labels)}
        tags = torch.tensor([ids[t] for s in sentences for t in from_bio(s.tags or (), self.inside)], dtype=torch.int64)
        return lambda _, rows: tags.to(rows.device)[rows]

    def read(self, answer: tuple[np.ndarray, np.ndarray], num_words: int) -> Answer:
        ids, scores = answer
        tags = tuple(self.labels[i] for i in ids)
        scores = tuple(float(s) for s in scores)
        if self.inside == "labels":
            return Answer(tags, scores, ())
        tags = to_bio(tags, "bio")
        entities = [Entity(e.label, e.start, e.end, score=_mean(scores[e.start : e.end])) for e in extract_spans(tags)]
        return Answer(tags, scores, tuple(entities))


class SpanLabelling(Labelling):
    """Entity types as labels; the tags of an answer are its outermost entities'."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)

    @classmethod
    def learn(cls, sentences: Sequence[Sentence]) -> "SpanLabelling":
        """The types of the training set in alphabetical order."""
        return cls(sorted({e.label for s in sentences for e in extract_spans(s.tags or ())}))

    def to_dict(self) -> dict[str, Any]:
        return {"inside": "spans", "labels": list(self.labels)}

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        ids = {label: i for i, label in enumerate(self.labels)}
        gold = [[(e.start, e.end, ids[e.label]) for e in extract_spans(s.tags or ())] for s in sentences]
        return lambda numbers, _: [gold[n] for n in numbers]

    def read(self, answer: list[tuple[int, int, int, float]], num_words: int) -> Answer:
        entities = sorted(Entity(self.labels[label], start, end, score=p) for start, end, label, p in answer)
        outermost = [e for e in entities if not any(o.start <= e.start and e.end <= o.end and o != e for o in entities)]
        scores = np.ones(num_words)
        for e in outermost:
            scores[e.start : e.end] = e.score
        return Answer(entities_to_bio(outermost, num_words), tuple(scores.tolist()), tuple(entities))


def make_labelling(head: str, sentences: Sequence[Sentence], inside: str) -> Labelling:
    """The labelling that suits a head and the training data."""
    if head == "span":
        return SpanLabelling.learn(sentences)
    return TagLabelling.learn(sentences, inside if is_bio(sentences) else "labels")


def open_labelling(inside: str, labels: Sequence[str]) -> Labelling:
    """A saved labelling."""
    return SpanLabelling(labels) if inside == "spans" else TagLabelling(inside, labels)


def _mean(scores: Sequence[float]) -> float:
    """Geometric mean, so that one doubtful word makes the entity doubtful."""
    return float(np.exp(np.log(np.maximum(scores, 1e-12)).mean()))
