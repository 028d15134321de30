"""All that a head is trained on, and in which order: silver labels with gold ones first, then gold ones alone.

    stage 1   gold + weak examples, the loss of a weak one times `weight`     only where there are weak ones
    stage 2   gold, from the weights of stage 1                              always; it chooses the epoch

How much the silver labels are worth is not known, so `weight` is the one with the best score on parts of the gold
examples that were left out, 0 (no stage 1) among those tried. A weak example with the text of a gold one that is left
out is left out with it: else the part would show how well the silver labels were learned by heart.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boustro.features.reader import Parts
from boustro.heads.base import Head
from boustro.heads.solve import Run, Solved, solve
from boustro.heads.training import predict_inputs
from boustro.tasks.fitted import Fitted, TrainingSet
from boustro.tasks.folds import left_out

WEIGHTS = (0.0, 0.1, 0.3, 1.0)
FOLDS = 3


def train_stages(
    like: Fitted, data: TrainingSet, numbers: np.ndarray | None = None, weak: np.ndarray | None = None
) -> Solved:
    """A head like that of a model, trained on the examples with these numbers, by default all but the weak ones.

    It learns from weak ones (all, or those with the numbers `weak`) first, where their weight is above 0.
    """
    plan, head = like.plan, like.head
    targets = like.labelling.targets(data.examples)

    def train(chosen: np.ndarray, **how: Any) -> Solved:
        run = Run(head.options, data.seed, chosen, **how)
        return solve(head.shape, data.inputs, targets, [run], plan.device)[0]

    numbers = data.numbers if numbers is None else numbers
    silver = data.weak_numbers if weak is None else weak
    if data.weight and len(silver):
        places = np.split(np.arange(len(numbers) + len(silver)), [len(numbers)])
        groups = list(zip(places, (1.0, data.weight), strict=True))
        first = train(np.concatenate([numbers, silver]), groups=groups)
        return train(numbers, dev=data.dev, head=first.head)
    return train(numbers, dev=data.dev)


def train_on_part(fitted: Fitted, data: TrainingSet, kept: np.ndarray) -> Head:
    """A head like the fitted one, trained on the gold examples with the numbers `kept`, and on weak ones.

    Weak examples with the text of a gold one that is not kept are left out.
    """
    parts = fitted.plan.task.parts
    hidden = {text_of(parts, data.gold[n]) for n in np.setdiff1d(np.arange(len(data.gold)), kept)}
    weak = np.array([n for n in data.weak_numbers if text_of(parts, data.examples[n]) not in hidden], np.int64)
    return train_stages(fitted, data, kept, weak).head


def text_of(parts: Parts, example: Any) -> tuple[str, ...]:
    """What examples with the same text have in common: its letters, however it is split into words."""
    return tuple("".join(part.words) for part in parts(example))


def choose_weight(fitted: Fitted, data: TrainingSet) -> tuple[float, Mapping[str, float]]:
    """The weight of weak examples, and the score of each that was tried; among equals the smallest.

    `fitted` has an untrained head. Raises `ValueError` for fewer than two gold examples.
    """
    parts, scores = list(left_out(data.gold, FOLDS, data.seed, fitted.plan.task.shared)), {}
    for weight in WEIGHTS:
        answers: list[Any] = [None] * len(data.gold)
        for kept, left in parts:
            own = replace(data.leaving_out(left), weight=weight, dev=None)
            head = train_on_part(fitted, own, kept)
            for number, output in zip(left, predict_inputs(head, own.inputs.select(left)), strict=True):
                answers[number] = fitted.labelling.read(output, data.gold[number])
        scores[weight] = round(fitted.score(data.gold, answers).value, 3)
    return max(scores, key=lambda weight: (scores[weight], -weight)), {f"{w:g}": s for w, s in scores.items()}
