"""What a head is trained on, and what comes of it; all of it frozen.

    Examples        the training set, weak examples, a development set
    TrainingSet     the same with their features
    Fitted          the labels, the trained head, the record; the plan as training completed it

`tasks.fitting.fit` makes the last of the first and of a `plan.Plan`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from boustro import __version__
from boustro.heads.inputs import Inputs
from boustro.metrics.score import Score
from boustro.tasks.answers import Answer
from boustro.tasks.data.fingerprint import data_fingerprint
from boustro.tasks.labellings import Labelling
from boustro.tasks.plan import Plan

if TYPE_CHECKING:
    from boustro.features.reader import Reader
    from boustro.heads.base import Head
    from boustro.heads.training import Dev


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What is learned from: labelled examples, a development set, and weak examples, of which `weight` is how much
    their loss counts; `None` is to be chosen."""

    train: Sequence[Any]
    dev: Sequence[Any] = ()
    weak: Sequence[Any] = ()
    weight: float | None = None


@dataclass(frozen=True)
class Taught:
    """The features of training examples, and the reader of what is answered later.

    Where examples are read by what others of them are, `without` gives the features if those with some numbers came
    later.
    """

    reader: "Reader"
    inputs: Inputs
    notices: Mapping[str, int] = field(default_factory=dict)
    without: Callable[[np.ndarray], Inputs] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """The gold examples, then weak ones, with the features of all; and how heads learn from them.

    Attributes:
        inputs: Of all examples, in this order.
        seed: Of the head's weights, the order of examples and dropout.
        weight: How much the loss of weak examples counts.
        dev: What chooses the epoch.
        reread: The features where the gold examples with some numbers are later ones, if that makes a difference.
    """

    gold: Sequence[Any]
    inputs: Inputs
    seed: int
    weak: Sequence[Any] = ()
    weight: float = 0.0
    dev: "Dev | None" = None
    reread: Callable[[np.ndarray], Inputs] | None = None

    def leaving_out(self, left: np.ndarray) -> "TrainingSet":
        """The same as it is read where the gold examples with these numbers are not known: no memory has them."""
        return self if self.reread is None else replace(self, inputs=self.reread(left))

    @cached_property
    def examples(self) -> list[Any]:
        """All, in the order of `inputs`."""
        return [*self.gold, *self.weak]

    @property
    def numbers(self) -> np.ndarray:
        """Of the gold examples."""
        return np.arange(len(self.gold))

    @property
    def weak_numbers(self) -> np.ndarray:
        """Of the weak examples."""
        return np.arange(len(self.examples) - len(self.weak), len(self.examples))


@dataclass(frozen=True)
class Fitted:
    """A trained model.

    Attributes:
        plan: By which it was trained, and reads.
        labelling: What its outputs mean.
        head: The trained head.
        record: What training recorded.
        extras: What a task has besides, by name.
    """

    plan: Plan[Any]
    labelling: Labelling
    head: "Head"
    record: dict[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self, examples: Sequence[Any], cached: bool = False) -> Inputs:
        """The features of examples; a sentence that several examples share is encoded once."""
        return self.plan.reader.read(examples, cached, self.labelling.side(examples))

    def outputs(self, examples: Sequence[Any], cached: bool = False, candidates: bool = False) -> list[Any]:
        """What the head says of examples; with `candidates`, what it is calibrated on instead."""
        return self.head.outputs(self.inputs(examples, cached), candidates)

    def complete(self, outputs: Sequence[Any], examples: Sequence[Any]) -> Sequence[Any]:
        """The head's outputs for examples, with what stands beside the head."""
        return self.plan.task.complete(self, outputs, examples)

    def answers(self, outputs: Sequence[Any], examples: Sequence[Any]) -> list[Answer]:
        """The head's outputs for examples, as answers."""
        answered = zip(self.complete(outputs, examples), examples, strict=True)
        return [self.labelling.read(output, example) for output, example in answered]

    def score(self, examples: Sequence[Any], answers: Sequence[Answer]) -> Score:
        """Scores of answers, with their signature."""
        signature = {"data": data_fingerprint(examples), "version": f"boustro {__version__}"}
        return self.labelling.score(examples, answers, signature)


Stage = Callable[[Fitted, TrainingSet], tuple[Fitted, Mapping[str, Any]]]
"""What follows the training of the head: the model with more to it, and what the record says of that."""
Then = Callable[[Fitted, TrainingSet, float], Mapping[str, Any]]
"""What is asked of a trained model and of what it learned, knowing the seconds that this took: for its record."""
