"""Answers of a trained task: for an example, and for an input of `predict` with all its examples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from boustro.tasks.render import as_paragraph, in_a_row, shown_score, word_entities
from boustro.types import NO_LABEL, Entity, short_score

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
        return as_paragraph(self.text, self.marked)


class Label:
    """The label of a text or a pair: the text or the number that `fit` was given, as a `str`, an `int` or a `float`.

    As a text it is its name, which is "" for no label at all. True and False are 1 and 0, since nothing else can be a
    `bool`.

    Attributes:
        label: The name.
        score: Its probability.
        probabilities: That of every label, by name.
        value: The label as it was given to `fit`.
    """

    label: str
    score: float
    probabilities: dict[str, float]
    value: Any

    def __new__(cls, name: str, score: float, probabilities: Mapping[str, float], value: Any = None) -> "Label":
        """Make a label; without a value that is the name."""
        value = str(name) if value is None else value
        base, kind = next(pair for pair in LABEL_KINDS.items() if isinstance(value, pair[0]))
        made = base.__new__(kind, value)
        made.label, made.score, made.probabilities, made.value = str(name), score, dict(probabilities), value
        return made

    @classmethod
    def of(cls, answer: Answer, values: Mapping[str, Any]) -> "Label":
        """Return the most probable label of an answer; `values` are the labels that are not their names."""
        (name,), (score,) = answer.tags, answer.scores
        return cls(name, score, answer.probabilities or {}, values.get(name))

    def __getnewargs__(self) -> Any:
        return self.label, self.score, self.probabilities, self.value

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"Label({self.value!r}, {shown_score(self.score)})"

    def _repr_html_(self) -> str:
        return _as_marks({self.label or NO_LABEL: self.score})

    def to_dict(self) -> dict[str, Any]:
        """Return its fields by name, as JSON can hold them."""
        return {
            "label": self.label or None,
            "score": short_score(self.score),
            "probabilities": _short(self.probabilities),
        }


class TextLabel(Label, str):
    """A label that `fit` was given as a text."""


class IntegerLabel(Label, int):
    """A label that `fit` was given as a whole number, or as true or false."""


class FloatLabel(Label, float):
    """A label that `fit` was given as another number."""


LABEL_KINDS: dict[Any, type[Label]] = {str: TextLabel, int: IntegerLabel, float: FloatLabel}


class Labels(list[Label]):
    """The labels of several texts; as an array, which scikit-learn asks for, the labels as they were given to `fit`."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array([each.value for each in self], dtype)


class LabelSet(tuple[Any, ...]):
    """All labels of a text as they were given to `fit`, in alphabetical order of their names, perhaps none.

    Attributes:
        label: The name of the most probable label, answered or not.
        score: Its probability.
        probabilities: That of every label, by name.
        names: The names of all labels of the text.
    """

    label: str
    score: float
    probabilities: dict[str, float]
    names: tuple[str, ...]

    def __new__(cls, labels: Iterable[Any], names: Iterable[str], probabilities: Mapping[str, float]) -> "LabelSet":
        """Make a set of labels that have these names."""
        made = super().__new__(cls, labels)
        made.names, made.probabilities = tuple(names), dict(probabilities)
        made.label = max(made.probabilities, key=lambda name: made.probabilities[name])
        made.score = made.probabilities[made.label]
        return made

    @classmethod
    def of(cls, answer: Answer, values: Mapping[str, Any]) -> "LabelSet":
        """Return the labels of an answer; `values` are those that are not their names."""
        return cls([values.get(name, name) for name in answer.tags], answer.tags, answer.probabilities or {})

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels alone."""
        return tuple(self)

    def __getnewargs__(self) -> Any:
        return tuple(self), self.names, self.probabilities

    def __str__(self) -> str:
        return in_a_row(self.names)

    def __repr__(self) -> str:
        return f"LabelSet({tuple(self)!r})"

    def _repr_html_(self) -> str:
        return _as_marks({name: self.probabilities[name] for name in self.names} or {NO_LABEL: None})

    def to_dict(self) -> dict[str, Any]:
        """Labels and probabilities, as JSON can hold them."""
        return {"labels": list(self.names), "probabilities": _short(self.probabilities)}


def _short(probabilities: Mapping[str, float]) -> dict[str, float]:
    return {name: short_score(p) for name, p in probabilities.items()}


def _as_marks(scores: Mapping[str, float | None]) -> str:
    marks = [Entity(name, n, n + 1, score=score) for n, (name, score) in enumerate(scores.items())]
    return as_paragraph(*word_entities([*scores], marks, [True] * len(scores)))


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
    def fits_no_label(self) -> bool:
        """Whether it is a text that has no label because none fits it."""
        return any(own.tags == ("",) for _, own in self.parts)

    @property
    def entities(self) -> list[Entity]:
        """Entities over the characters of the text, half-open; for inputs that are a text."""
        text, entities = str(self.input), []
        for part, answer in self.parts:
            for e in answer.entities:
                start, end = part.places[e.start][0], part.places[e.end - 1][1]
                entities.append(Entity(e.label, start, end, text[start:end], short_score(e.score)))
        return entities
