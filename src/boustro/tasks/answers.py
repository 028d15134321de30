"""Answers of a trained task: for an example, and for an input of `predict` with all its examples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from boustro.types import Entity

Input = TypeVar("Input")
Places = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one example.

    Attributes:
        tags: A tag for every word; for a text or a pair its label, once.
        scores: The probability of each tag.
        entities: Entities over words, with their probabilities.
        probabilities: For a text or a pair, the probability of every label.
        value: For a regression, the number.
    """

    tags: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    entities: tuple[Entity, ...] = ()
    probabilities: dict[str, float] | None = None
    value: float | None = None


class Entities(list[Entity]):
    """The entities of a text, in order; a notebook shows them marked in it, by colour and label.

    Attributes:
        text: The text that their characters are counted in.
        marked: The same entities as they are marked in it.
    """

    def __init__(self, found: Iterable[Entity], text: str, marked: Sequence[Entity] | None = None) -> None:
        super().__init__(found)
        self.text, self.marked = text, list(self if marked is None else marked)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ([*self], self.text, self.marked)

    def _repr_html_(self) -> str:
        from boustro.tasks.render import as_html, css

        labels = {entity.label for entity in self.marked}
        return f"<style>{css(labels)}</style><p dir=auto>{as_html(self.text, self.marked)}</p>"


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a text or a pair, its probability, and the probability of every label; "" for no label at all."""

    label: str
    score: float
    probabilities: dict[str, float]

    @classmethod
    def of(cls, answer: Answer) -> "Label":
        """The most probable label of an answer."""
        return cls(answer.tags[0], answer.scores[0], dict(answer.probabilities or {}))

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name, probabilities rounded, as JSON can hold them."""
        rounded = {name: round(p, 4) for name, p in self.probabilities.items()}
        return {"label": self.label or None, "score": round(self.score, 4), "probabilities": rounded}


class Labels(list[Label]):
    """The labels of several texts; as an array, which scikit-learn asks for, the labels as they were given to `fit`.

    Attributes:
        values: Those by the labels' names, where they are no texts.
    """

    def __init__(self, found: Iterable[Label], values: Mapping[str, Any]) -> None:
        super().__init__(found)
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array([self.values.get(each.label, each.label) for each in self], dtype)


@dataclass(frozen=True, slots=True)
class LabelSet(Label):
    """All labels of a text, in alphabetical order, perhaps none; `label` is the most probable one, answered or not."""

    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, answer: Answer) -> "LabelSet":
        """The labels of an answer."""
        probabilities = dict(answer.probabilities or {})
        best = max(probabilities, key=lambda name: probabilities[name])
        return cls(best, probabilities[best], probabilities, answer.tags)

    def to_dict(self) -> dict[str, Any]:
        """Labels and rounded probabilities, as JSON can hold them."""
        return {"labels": list(self.labels), "probabilities": Label.to_dict(self)["probabilities"]}


class InputPart(NamedTuple):
    """An example that was made of an input, and the half-open range of each of its words in the input's text."""

    example: Any
    places: Places = ()


@dataclass(frozen=True, slots=True)
class InputAnswer(Generic[Input]):
    """The answer for what `predict` was given, such as a running text: its examples in order, each with its answer."""

    input: Input
    parts: tuple[tuple[InputPart, Answer], ...]

    @property
    def entities(self) -> list[Entity]:
        """Entities over the characters of the text, half-open; for inputs that are a text."""
        text, entities = str(self.input), []
        for part, answer in self.parts:
            for e in answer.entities:
                start, end = part.places[e.start][0], part.places[e.end - 1][1]
                entities.append(Entity(e.label, start, end, text[start:end], round(e.score or 0, 4)))
        return entities
