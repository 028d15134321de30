"""Labels of whole texts on the page: how they are written, what learns from them, and the folder that they leave.

    {"text": "Where is my parcel?", "label": "delivery", "note": "", "source": "mail.txt:7"}       one label
    {"text": "Late, and broken.", "labels": ["delivery", "damage"], …}                         several, or none

A label of a text is an entity that covers all of its words, as everywhere (`tasks.units`), so the session, its curve
and its comparison with gold are those of entities. A text is one vector, the mean and the maximum over its words, and
one ridge regression learns the labels: `LiveTopics` is a `LiveTagger` in which every text is one word, inside.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from boustro.apps.label.answers import NO_ANSWER, Answer, check_label
from boustro.apps.label.incremental import FEWEST_TO_SCALE, SCALES, Learned, LiveTagger, Scales, entropy
from boustro.features.vectors import Vectors
from boustro.heads.closed_form import best_scale
from boustro.heads.updated_ridge import Change
from boustro.tasks.data.texts import are_labels, is_label, label_set, whole_text
from boustro.types import Entity, Sentence


@dataclass(frozen=True)
class TopicAnswer(Answer):
    """A text with the one label that a person gave it."""

    text: str = ""
    fields = frozenset({"text", "label", "labels", "note", "source"})

    @classmethod
    def of(cls, text: Any, entities: tuple[Entity, ...], note: str) -> Self:
        return cls(text.sentence, entities, note, text.text)

    @classmethod
    def parse(cls, record: Any, where: str) -> Self:
        text = record.get("text") if isinstance(record, Mapping) and "source" in record else None
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{where}: {NO_ANSWER}")
        sentence = replace(whole_text(text).sentence, where=str(record["source"]))
        labels = [check_label(name, f"{where}: ") for name in cls._labels(record, where)]
        return cls(sentence, over(sentence, labels), str(record.get("note") or ""), text)

    @staticmethod
    def _labels(record: Mapping[str, Any], where: str) -> list[str]:
        if not is_label(record.get("label")):
            raise ValueError(f"{where}: no label; a text that has several or none is labelled with --several")
        return [str(record["label"])]

    @property
    def names(self) -> list[str]:
        """Its labels."""
        return sorted(entity.label for entity in self.entities)

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "label": self.names[0], "note": self.note, "source": self.sentence.where}

    def labelled(self) -> Sentence:
        return replace(self.sentence, label=self.names[0])


class TopicSetAnswer(TopicAnswer):
    """A text with any number of labels."""

    @staticmethod
    def _labels(record: Mapping[str, Any], where: str) -> list[str]:
        labels = record.get("labels", [record["label"]] if "label" in record else None)
        if not are_labels(labels):
            raise ValueError(f"{where}: expected a list of labels under 'labels'")
        return list(dict.fromkeys(map(str, labels)))

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "labels": self.names, "note": self.note, "source": self.sentence.where}

    def labelled(self) -> Sentence:
        return replace(self.sentence, labels=tuple(self.names))


class LiveTopics(LiveTagger):
    """See the module. Vectors are of texts, (1, d)."""

    several = False

    def learn(
        self, number: int, words: np.ndarray, entities: Sequence[Entity], prior: np.ndarray | None = None
    ) -> tuple[Change, Change]:
        assert number not in self.learned and prior is None
        kinds = np.zeros((1, len(self.labels)))
        kinds[0, [self.labels.index(entity.label) for entity in entities]] = 1
        example = self.learned[number] = Learned(words, np.ones((1, 1)), words, kinds, None)
        return self.inside.add(example.words, example.inside), self.kinds.add(example.means, example.kinds)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """(S, T): of each label, from scores (S, T + 1)."""
        own = self.scales.kind * scores[:, 1:]
        raised = np.exp(own - own.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)

    def decode(self, scores: np.ndarray, sentences: Sequence[Sentence]) -> list[tuple[Entity, ...]]:
        """The most probable label of each text; none before anything is learned."""
        if not self.labels or not self.learned:
            return [() for _ in sentences]
        found = []
        for row, sentence in zip(self.probabilities(scores), sentences, strict=True):
            chosen = np.flatnonzero(row > 0.5) if self.several else [int(row.argmax())]
            found.append(tuple(Entity(self.labels[n], 0, len(sentence), score=float(row[n])) for n in chosen))
        return found

    def rescale(self, held_out: Mapping[int, np.ndarray], gold: Mapping[int, Sequence[Entity]]) -> None:
        if len(self.labels) < 2 or len(held_out) < FEWEST_TO_SCALE:
            return
        scores = np.concatenate([*held_out.values()])[:, 1:]
        self.scales = Scales(kind=self._best(scores, [[e.label for e in gold[n]] for n in held_out]))

    def uncertainty(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(scores)), entropy(self.probabilities(scores)) if self.labels else np.zeros(len(scores))

    def _best(self, scores: np.ndarray, names: Sequence[Sequence[str]]) -> float:
        return best_scale(scores, np.array([self.labels.index(own[0]) for own in names], np.int64), SCALES)


class LiveTopicSets(LiveTopics):
    """The same with any number of labels per text, each with a probability of its own."""

    several = True

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-self.scales.kind * np.clip(scores[:, 1:] - 0.5, -4, 4)))

    def uncertainty(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.probabilities(scores)
        return np.zeros(len(scores)), entropy(np.stack([p, 1 - p], 2).reshape(len(p), -1))

    def _best(self, scores: np.ndarray, names: Sequence[Sequence[str]]) -> float:
        truth = np.array([[label in own for label in self.labels] for own in names]).ravel()
        return best_scale(np.stack([np.zeros(truth.size), scores.ravel() - 0.5], 1), truth.astype(np.int64), SCALES)


def over(sentence: Sentence, labels: Iterable[str]) -> tuple[Entity, ...]:
    """Labels of a whole text as entities over its words."""
    return tuple(Entity(label, 0, len(sentence)) for label in sorted(set(labels)))


def gold_labels(sentence: Sentence) -> tuple[Entity, ...] | None:
    """The same of the labels that a text has in a file; `None` where it has none."""
    return over(sentence, label_set(sentence)) if sentence.is_labelled else None


def pool_texts(vectors: Vectors) -> Vectors:
    """One vector per text: the mean and the maximum of its words'."""
    words, starts = vectors.words.astype(np.float32), vectors.starts[:-1]
    means = np.add.reduceat(words, starts) / np.diff(vectors.starts)[:, None]
    both = np.hstack([means, np.maximum.reduceat(words, starts)])
    return Vectors(both.astype(np.float16), np.arange(len(starts) + 1))
