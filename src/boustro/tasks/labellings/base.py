"""Base class of labellings: what a head learns from labelled examples, and what its answers mean.

A `Labelling` is learned from the training set, turns examples into a head's targets, and reads the head's output as
answers, which it scores. Every kind is a file beside this one; `boustro.tasks.labellings` lists them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from boustro.choose import lazy
from boustro.heads.inputs import Targets
from boustro.heads.options import HeadOptions
from boustro.tasks.answers import Answer

if TYPE_CHECKING:
    from boustro.metrics.score import Score

UNKNOWN_LABELS = "gold labels that the head does not know, so they are never right"


class UnitsOf:
    """Units of `tasks.units` by their name, imported where they are asked for: training counts nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, labelling: Any, kind: Any = None) -> Any:
        return lazy(f"boustro.tasks.units:{self.name}")()


class Labelling(ABC):
    """Labels of a set of examples. `labels` are what the head scores, in its order; `scheme` says in which form.

    An example is what the task reads: a `Sentence`, a `TextPair`, …
    """

    labels: tuple[str, ...]
    scheme: Any
    units: Any
    """What is counted in examples and answers, and how it is shown."""
    nested: ClassVar[bool] = False
    """Whether entities of an answer may be inside or across each other."""
    values: Mapping[str, Any] = MappingProxyType({})
    """The labels as they were given, by their names, where they are numbers or booleans."""
    by_label: ClassVar[bool] = False
    """Whether K examples can be drawn for each label, as those of one are known by it."""

    def __init__(self, scheme: Any, labels: Sequence[str]) -> None:
        self.scheme, self.labels = scheme, tuple(labels)

    @classmethod
    def suiting(cls, examples: Sequence[Any]) -> "type[Labelling]":
        """The labelling for these examples: this one, or a variant of it where they are labelled in another way."""
        return cls

    @classmethod
    @abstractmethod
    def learn(cls, examples: Sequence[Any], options: HeadOptions) -> "Labelling":
        """The labels of the training set; `ValueError` for data without any."""

    @classmethod
    def named(cls, types: Sequence[str]) -> list[Any]:
        """Return examples without words of the labels that options name, so that these stay labels."""
        return []

    @property
    def types(self) -> tuple[str, ...]:
        """The labels that an answer can have, in alphabetical order."""
        return tuple(sorted(self.labels))

    @property
    def gives_none(self) -> bool:
        """Whether a text may be answered with no label, and may have none in data that this is judged on."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return what `open_labelling` needs to make it again."""
        typed = {"values": [self.values[label] for label in self.labels]} if self.values else {}
        return {"scheme": self.scheme, "labels": list(self.labels), **typed}

    def for_config(self, config: Any) -> Self:
        """Return the labelling as the options of the task want it; `ValueError` where they do not suit."""
        return self

    def of_part(self, examples: Sequence[Any]) -> Self:
        """Copy the labelling with the statistics of these training examples alone, the others being left out."""
        return self

    def gold_labels(self, examples: Sequence[Any]) -> list[str]:
        """All labels of the reference, in order."""
        return []

    def unknown(self, examples: Sequence[Any]) -> dict[str, int]:
        """Gold labels that are never answered: a message with their names, and how many there are; or nothing."""
        known = {*self.types, *([""] if self.gives_none else [])}
        unknown = [label for label in self.gold_labels(examples) if label not in known]
        return {f"{UNKNOWN_LABELS}: {', '.join(sorted(set(unknown)))}": len(unknown)} if unknown else {}

    def known_by_names(self, fitted: Any) -> Any:
        """Return what knows the labels of a trained model by their names, without learning; `None` where nothing
        does, or where the model begins there."""
        return None

    def unpredictable(self, train: Sequence[Any], dev: Sequence[Any], max_span: int) -> dict[str, int]:
        """Count, by reason, what of the reference the head can never answer."""
        return {}

    def gold(self, examples: Sequence[Any]) -> Any:
        """Return what the head is calibrated on, or `None`."""
        return None

    def judge(self, examples: Sequence[Any], answers: Sequence[Answer]) -> tuple[list[float], list[bool]]:
        """The probability of each thing answered, and whether it is right; nothing where answers have none."""
        return [], []

    def calibrate(self, outputs: Sequence[Any], examples: Sequence[Any]) -> None:
        """Set what is chosen on the development set, from the head's outputs there. By default nothing."""
        return None

    def longest(self, examples: Sequence[Any]) -> int | None:
        """Length in words of the longest span that the head should find; `None` for no limit."""
        return None

    def side(self, examples: Sequence[Any]) -> np.ndarray | None:
        """(all words of all parts of the examples, F) float32: features of words that are not the encoder's."""
        return None

    @abstractmethod
    def targets(self, examples: Sequence[Any]) -> Targets:
        """Return the targets that the head's loss needs."""

    @abstractmethod
    def read(self, output: Any, example: Any) -> Answer:
        """The head's output for one example, as an answer."""

    def result(self, answer: Answer) -> Any:
        """Return what `predict` gives for an input with one example, by its answer."""
        raise NotImplementedError

    @abstractmethod
    def score(self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]) -> "Score":
        """Scores of answers, in percent."""
