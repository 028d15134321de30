"""Base classes of labellings, which say what a head learns from labelled examples and what its answers mean, and of
their units: what is counted in examples and answers, the score that is made of them, and how they are shown.

A `Labelling` is learned from the training set, turns examples into a head's targets, and reads the head's output as
answers, which it scores. Those of one task alone are in its own file or folder; `boustro.tasks.labellings` lists all.

Every example has some values from which `statistic` makes a system's score (`metrics.significance`). References and
answers that are labels or spans are entities over the example's words too, so one way of counting serves them all:

    EntityUnits      entities in a sentence                                        entity F1
    WordUnits        a label for every word of a sentence                          accuracy
    LabelUnits       one label, of all words                                       accuracy
    LabelSetUnits    any number of labels, each of all words                       micro F1 over labels
    RelationUnits    one label of two places                                       macro F1 of relations
    AnswerUnits      some words of a context, or none; several may be right        mean F1 of questions
    NumberUnits      a number; no entities                                         Spearman's correlation
    SenseUnits       one of the senses of a word                                   F1

A labelling names its units, which stand beside it. They know nothing of heads and need no torch: saved predictions are
counted and compared without a model. N examples, C values of each.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from boustro.choose import lazy
from boustro.heads.inputs import HeadInputs, Targets
from boustro.heads.options import HeadOptions
from boustro.tasks.answers import Answer
from boustro.text.words import apart
from boustro.types import Entity

if TYPE_CHECKING:
    from boustro.metrics.score import Score
    from boustro.metrics.significance import Statistic

UNKNOWN_LABELS = "gold labels that the head does not know, so they are never right"

REPORTED_FACTS = ("label", "credit", "has_positions", "has_spans", "has_labels", "has_confusions", "has_scores")


class Units(ABC):
    """Units of a labelling, which have no state but what it names."""

    metric: str
    """The score in tables."""
    plural: str = ""
    """What is counted in an example, in the plural; empty where that is the example itself."""
    label: str = "label"
    """What a unit's label is called."""
    credit: str
    """What the mean of `credits` is called."""
    has_positions: bool = False
    """Whether a unit has a position and a length in its sentence, and its own words that training may have seen."""
    has_spans: bool = False
    """Whether a unit may be several words: an entity, counted by conlleval's rules."""
    has_labels: bool = True
    """Whether a unit has one of the labels of the training set."""
    has_confusions: bool = True
    """Whether one label may be given instead of another."""
    has_scores: bool = True
    """Whether a unit has a probability."""
    has_values: bool = False
    """Whether `values` say more than the counts of entities, so that they are saved with the answers."""
    statistic: "Statistic" = staticmethod(lazy("boustro.metrics.significance:f1"))
    rules: tuple[tuple[str, str], ...]
    """How scores are computed."""

    @property
    def is_one_label(self) -> bool:
        """Whether a unit is the one label of a whole example."""
        return self.has_confusions and not self.has_positions

    def facts(self, examples: str) -> dict[str, Any]:
        """Return the facts that reports know of them; `examples` is what the task calls its examples."""
        named = {"metric": self.metric, "examples": examples, "units": self.plural or examples}
        return named | {name: getattr(self, name) for name in REPORTED_FACTS}

    def words(self, example: Any) -> Sequence[str]:
        """Return the words that entities are over."""
        return example.words or ("",)

    def spaces(self, example: Any) -> list[bool]:
        """Return whether a space stands before each of the words, as the text was given where that is known."""
        words = example.words or ("",)
        given = [part.spaces for part in example.parts]
        known = [spaces for spaces in given if spaces is not None]
        if len(known) < len(given):
            return apart(words)
        joined = [space for n, spaces in enumerate(known) for space in (*[True] * (n > 0), *spaces)]  # a bar between
        return joined if len(joined) == len(words) else apart(words)

    def title(self, example: Any) -> str:
        """Return the line above the words."""
        return ""

    @abstractmethod
    def gold(self, example: Any) -> list[Entity]:
        """Return the reference, each entity once."""

    def found(self, example: Any, answer: Answer) -> Sequence[Entity]:
        """Return the answer, with scores."""
        return answer.entities

    def reference(self, example: Any) -> str:
        """Return the reference as text."""
        return ", ".join(e.label for e in self.gold(example))

    def describe_answer(self, example: Any, answer: Answer) -> str:
        """Return the answer as text."""
        return ", ".join(e.label for e in self.found(example, answer))

    def values(self, examples: Sequence[Any], answers: Sequence[Answer]) -> np.ndarray:
        """Return (N, C): what `statistic` needs of every example."""
        predicted = [self.found(example, answer) for example, answer in zip(examples, answers, strict=True)]
        from boustro.metrics.significance import entity_counts

        return entity_counts([self.gold(example) for example in examples], predicted)

    def score(self, examples: Sequence[Any], answers: Sequence[Answer]) -> float:
        """Return the score in tables, in percent."""
        values = self.values(examples, answers)
        return float(self.statistic(values[None], np.ones((1, len(values))))[0, 0])

    def credits(self, values: np.ndarray) -> np.ndarray:
        """Return (N,) how right the answer for each example is, from 0 to 1."""
        gold, predicted, both = values.T[:3]
        return np.where(gold + predicted > 0, 2 * both / np.maximum(gold + predicted, 1), 1.0)

    def right(
        self, gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]], values: np.ndarray
    ) -> list[list[bool]]:
        """Return whether each of the entities that were found is right, example by example."""
        return [[entity in wanted for entity in got] for wanted, got in zip(gold, predicted, strict=True)]

    def check_data(self, name: str, examples: Sequence[Any]) -> None:
        """`ValueError` for data that cannot be studied; `name` is train, dev or test. By default nothing is refused."""
        return None

    def count_hidden(self, examples: Sequence[Any]) -> int:
        """Entities inside or across another one, which tags cannot represent: tags hold the outermost only."""
        return 0


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
        """Return the labelling for these examples: this one, or a variant of it where they are labelled in another
        way."""
        return cls

    @classmethod
    @abstractmethod
    def learn(cls, examples: Sequence[Any], options: HeadOptions) -> "Labelling":
        """Return the labels of the training set; `ValueError` for data without any."""

    @classmethod
    def named(cls, types: Sequence[str]) -> list[Any]:
        """Return examples without words of the labels that options name, so that these stay labels."""
        return []

    @classmethod
    def check(cls, examples: Sequence[Any]) -> None:
        """`ValueError` for examples that teach nothing. By default nothing is refused before they are learned."""
        return None

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
        """Return all labels of the reference, in order."""
        return []

    def unknown(self, examples: Sequence[Any]) -> dict[str, int]:
        """Gold labels that are never answered: a message with their names, and how many there are; or nothing."""
        known = {*self.types, *([""] if self.gives_none else [])}
        unknown = [label for label in self.gold_labels(examples) if label not in known]
        return {f"{UNKNOWN_LABELS}: {', '.join(sorted(set(unknown)))}": len(unknown)} if unknown else {}

    def known_by_names(self, fitted: Any) -> Any:
        """Return what knows the labels of a trained model by their names, without learning; `None` where nothing
        does, or where they say nothing."""
        return None

    def answers_by_names(
        self, fitted: Any, named: Any, examples: Sequence[Any], inputs: HeadInputs
    ) -> list[Answer] | None:
        """Return what the names of a trained model's labels alone answer for examples, by their features; `None` as for
        `known_by_names`. `named` is what a head has learned from them, a `NamedLabels`, or what knows them already."""
        return None

    def unpredictable(self, train: Sequence[Any], dev: Sequence[Any], max_span: int) -> dict[str, int]:
        """Count, by reason, what of the reference the head can never answer."""
        return {}

    def gold(self, examples: Sequence[Any]) -> Any:
        """Return what the head is calibrated on, or `None`."""
        return None

    def judge(self, examples: Sequence[Any], answers: Sequence[Answer]) -> tuple[list[float], list[bool]]:
        """Return the probability of each thing answered, and whether it is right; nothing where answers have none."""
        return [], []

    def calibrate(self, outputs: Sequence[Any], examples: Sequence[Any]) -> None:
        """Set what is chosen on the development set, from the head's outputs there. By default nothing."""
        return None

    def longest(self, examples: Sequence[Any]) -> int | None:
        """Length in words of the longest span that the head should find; `None` for no limit."""
        return None

    def side(self, examples: Sequence[Any]) -> np.ndarray | None:
        """Return (all words of all parts of the examples, F) float32: features of words that are not the encoder's."""
        return None

    @abstractmethod
    def targets(self, examples: Sequence[Any]) -> Targets:
        """Return the targets that the head's loss needs."""

    @abstractmethod
    def read(self, output: Any, example: Any) -> Answer:
        """Return the head's output for one example, as an answer."""

    def result(self, answer: Answer) -> Any:
        """Return what `predict` gives for an input with one example, by its answer."""
        raise NotImplementedError

    @abstractmethod
    def score(self, examples: Sequence[Any], answers: Sequence[Answer], signature: dict[str, str]) -> "Score":
        """Scores of answers, in percent."""
