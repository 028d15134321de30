"""All that a head is trained on, and in which order: silver labels with gold ones first, then gold ones alone.

    stage 1   gold + copies + weak examples, the loss of a weak one times `weight`     only where there are weak ones
    stage 2   gold + copies, from the weights of stage 1                               always; it chooses the epoch

How much the silver labels are worth is not known, so `weight` is the one with the best score on parts of the gold
examples that were left out, 0 (no stage 1) among those tried. A weak example with the text of a gold one that is left
out is left out with it: else the part would show how well the silver labels were learned by heart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from boustro.heads.base import Head
from boustro.heads.inputs import Inputs
from boustro.heads.registry import make_head
from boustro.heads.training import Dev, TrainLog, predict_inputs, propose_batch, train_head
from boustro.tasks.context import training_noise
from boustro.tasks.folds import left_out

if TYPE_CHECKING:
    from boustro.tasks.base import Task

WEIGHTS = (0.0, 0.1, 0.3, 1.0)
FOLDS = 3


@dataclass(frozen=True)
class TrainingSet:
    """The gold examples, copies of them, then weak ones, with the features of all."""

    gold: Sequence[Any]
    inputs: Inputs
    copies: Sequence[Any] = ()
    weak: Sequence[Any] = ()

    @cached_property
    def examples(self) -> list[Any]:
        """All, in the order of `inputs`."""
        return [*self.gold, *self.copies, *self.weak]

    @property
    def numbers(self) -> np.ndarray:
        """Of the gold examples and the copies."""
        return np.arange(len(self.gold) + len(self.copies))

    @property
    def weak_numbers(self) -> np.ndarray:
        """Of the weak examples."""
        return np.arange(len(self.examples) - len(self.weak), len(self.examples))


def train_stages(
    task: "Task[Any, Any]",
    head: Head,
    data: TrainingSet,
    numbers: np.ndarray,
    seed: int,
    weight: float = 0.0,
    dev: Dev | None = None,
    weak: np.ndarray | None = None,
) -> TrainLog:
    """Train `head` on the examples with these numbers, after the weak ones (or some) where `weight` is above 0."""
    assert task.labelling is not None
    targets, noise = task.labelling.targets(data.examples), training_noise(task)

    def train(chosen: np.ndarray, **how: Any) -> TrainLog:
        return train_head(
            head,
            data.inputs.select(chosen),
            lambda some, rows: targets(chosen[some], rows),
            task.config,
            seed=seed,
            batch_sentences=task.config.batch_sentences or propose_batch(len(chosen)),
            device=task.device,
            noise=noise,
            **how,
        )

    silver = data.weak_numbers if weak is None else weak
    if weight and len(silver):
        places = np.split(np.arange(len(numbers) + len(silver)), [len(numbers)])
        train(np.concatenate([numbers, silver]), groups=list(zip(places, (1.0, weight), strict=True)))
        return train(numbers, dev=dev, started=True)
    return train(numbers, dev=dev)


def train_on_part(
    task: "Task[Any, Any]",
    data: TrainingSet,
    kept: np.ndarray,
    seed: int,
    weight: float = 0.0,
    dev: Dev | None = None,
) -> Head:
    """A head like the task's own, trained on the gold examples with the numbers `kept`, and on weak ones.

    Weak examples with the text of a gold one that is not kept are left out.
    """
    hidden = {text_of(task, data.gold[n]) for n in np.setdiff1d(np.arange(len(data.gold)), kept)}
    weak = np.array([n for n in data.weak_numbers if text_of(task, data.examples[n]) not in hidden], np.int64)
    made = task.trained_head()
    torch.manual_seed(seed)
    head = make_head(made.kind, made.options, made.streams, made.labels, made.side)
    train_stages(task, head, data, kept, seed, weight, dev, weak)
    return head


def text_of(task: "Task[Any, Any]", example: Any) -> tuple[str, ...]:
    """What examples with the same text have in common: its letters, however it is split into words."""
    return tuple("".join(part.words) for part in task.parts(example))


def choose_weight(task: "Task[Any, Any]", data: TrainingSet, seed: int) -> tuple[float, Mapping[str, float]]:
    """The weight of weak examples, and the score of each that was tried; among equals the smallest.

    Raises `ValueError` for fewer than two gold examples.
    """
    assert task.labelling is not None
    parts, scores = list(left_out(data.gold, FOLDS, seed)), {}
    for weight in WEIGHTS:
        answers: list[Any] = [None] * len(data.gold)
        for kept, left in parts:
            head = train_on_part(task, data, kept, seed, weight)
            for number, output in zip(left, predict_inputs(head, data.inputs.select(left)), strict=True):
                answers[number] = task.labelling.read(output, data.gold[number])
        scores[weight] = round(task.score(data.gold, answers).value, 3)
    return max(scores, key=lambda weight: (scores[weight], -weight)), {f"{w:g}": s for w, s in scores.items()}
