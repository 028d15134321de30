"""Train heads: one entry for one head and for thirty.

    solve(HeadShape("mlp", streams, labels), inputs, targets, [Run(options, seed=1), Run(options, seed=2), …])

Every run gives the head that it gives alone. Where runs ask for nothing but steps over one vector per word, and the
body consists of affine maps, their heads take the steps together (`heads.lockstep`), which is many times as fast and
changes no more than the order of summation. All others are trained one after the other (`heads.training`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.hardware import uses_bf16
from boustro.heads.base import Head
from boustro.heads.inputs import Inputs, Targets
from boustro.heads.options import HeadOptions, TrainedOptions
from boustro.heads.registry import HeadShape
from boustro.heads.training import Dev, Groups, TrainLog, train_head

if TYPE_CHECKING:
    from boustro.heads.lockstep.batches import Member, TrainingWords

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Run:
    """One head.

    Attributes:
        options: Of the head and its training.
        seed: Of its weights, of the order of examples and of dropout.
        examples: Numbers of those that it learns from; by default all.
        dev: The epoch with the best score there is kept; without it, the last one.
        groups: Places among `examples`, and how much their loss counts; a batch is of one group. By default one.
        head: A head that is trained further, in place; by default a new one is made.
    """

    options: HeadOptions
    seed: int = 1
    examples: np.ndarray | None = None
    dev: Dev | None = None
    groups: Groups | None = None
    head: Head | None = None


class Solved(NamedTuple):
    """A trained head, and how that went; of heads that are trained together no losses are known."""

    head: Head
    log: TrainLog


def solve(
    shape: HeadShape,
    inputs: Inputs,
    targets: Targets,
    runs: Sequence[Run],
    device: torch.device = CPU,
    bf16: bool | None = None,
) -> list[Solved]:
    """A trained head for every run.

    Args:
        shape: What all the heads have in common.
        targets: The targets of a batch, given the numbers of its examples and the rows of their words.
        bf16: As for `heads.training.train_head`.

    Raises `ValueError` for no runs or examples, and where a loss or a weight does not stay finite.
    """
    if not runs:
        raise ValueError("there is no head to train: `runs` is empty")
    if not len(inputs) or any(run.examples is not None and not len(run.examples) for run in runs):
        raise ValueError("a head needs at least one example to train on")
    exact = device.type == "cpu" and not (uses_bf16(device) if bf16 is None else bf16)
    if len(runs) > 1 and exact and all(run.dev is run.groups is run.head is None for run in runs):
        from boustro.heads.lockstep.train import takes_steps_with_others, train_together

        words = _one_vector_each(inputs, targets)
        members = [_member(shape, inputs, run) for run in runs] if words else []
        if words and all(map(takes_steps_with_others, members)):
            train_together(members, words)
            return [Solved(own.head, TrainLog([], [], own.options.epochs, own.batch)) for own in members]
    return [_solve_one(shape, inputs, targets, run, device=device, bf16=bf16) for run in runs]


def _solve_one(shape: HeadShape, inputs: Inputs, targets: Targets, run: Run, **how: Any) -> Solved:
    if run.examples is not None:
        chosen, inputs = run.examples, inputs.select(run.examples)
        of_all, targets = targets, lambda some, rows: of_all(chosen[some], rows)
    if run.head is None:
        torch.manual_seed(run.seed)
    head = run.head or shape.make(run.options)
    started = run.head is not None
    log = train_head(head, inputs, targets, run.seed, dev=run.dev, groups=run.groups, started=started, **how)
    return Solved(head, log)


def _one_vector_each(inputs: Inputs, targets: Targets) -> "TrainingWords | None":
    """The words of examples that are one sentence each and have one layer for every stream; `None` for others."""
    from boustro.heads.lockstep.batches import TrainingWords

    alone = np.array_equal(inputs.parts, np.arange(len(inputs.lengths))[:, None])
    if not alone or inputs.side_width or any(stream.shape[1] != 1 for stream in inputs.streams):
        return None
    vectors = torch.from_numpy(np.concatenate([stream[:, 0] for stream in inputs.streams], 1))
    tags = targets(np.arange(len(inputs)), torch.arange(len(vectors)))
    return TrainingWords(vectors.half(), inputs.starts, tags.numpy()) if isinstance(tags, Tensor) else None


def _member(shape: HeadShape, inputs: Inputs, run: Run) -> "Member":
    """A head as `_solve_one` makes it, and the random numbers that follow."""
    from boustro.heads.lockstep.batches import Member

    assert isinstance(run.options, TrainedOptions)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        head = shape.make(run.options)
        after = torch.get_rng_state()
    sentences = np.arange(len(inputs)) if run.examples is None else run.examples
    return Member(head, run.options, sentences, run.seed, after)
