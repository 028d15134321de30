"""Train heads: one entry for one head and for thirty.

    train_heads(HeadShape("mlp", streams, labels), inputs, targets, [HeadRun(options, seed=1), …])
    train_many(TrainingJob(shape, inputs, targets, run) for …)      the same, where runs have inputs of their own

Every run gives the head that it gives alone. Where runs ask for nothing but steps over mixed vectors of words, and the
body consists of affine maps, their heads take the steps together (`heads.lockstep`), which is many times as fast and
changes no more than the order of summation. All others are trained one after the other (`heads.training`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from boustro.heads.base import Head
from boustro.heads.inputs import HeadInputs, Kinship, NamedLabels, Targets
from boustro.heads.options import HeadOptions
from boustro.heads.registry import HeadShape
from boustro.heads.training import Dev, Groups, TrainLog, learns_in_bf16, train_head

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class HeadRun:
    """One head.

    Attributes:
        options: Of the head and its training.
        seed: Of its weights, of the order of examples and of dropout.
        examples: Numbers of those that it learns from; by default all.
        dev: The epoch with the best score there is kept; without it, the last one.
        kin: As for `heads.training.train_head`, of those that it learns from.
        groups: Places among `examples`, and how much their loss counts; a batch is of one group. By default one.
        head: A head that is trained further, in place; by default a new one is made.
        named: What the labels are called, for a head that `takes_names`.
        different: How many of the examples are no copies, counted up to `options.FEW_EXAMPLES`; by default all.
    """

    options: HeadOptions
    seed: int = 1
    examples: np.ndarray | None = None
    dev: Dev | None = None
    kin: Callable[[], Kinship] | None = None
    groups: Groups | None = None
    head: Head | None = None
    named: NamedLabels | None = None
    different: int | None = None


class TrainingJob(NamedTuple):
    """A run and what it learns from, see `train_heads`."""

    shape: HeadShape
    inputs: HeadInputs
    targets: Targets
    run: HeadRun

    @property
    def num_examples(self) -> int:
        """How many it learns from."""
        return len(self.inputs) if self.run.examples is None else len(self.run.examples)

    @property
    def num_different(self) -> int:
        """How many of these are no copies; see `HeadRun`."""
        return self.num_examples if self.run.different is None else self.run.different


class Solved(NamedTuple):
    """A trained head, and how that went; of heads that are trained together no losses are known."""

    head: Head
    log: TrainLog


def train_heads(
    shape: HeadShape,
    inputs: HeadInputs,
    targets: Targets,
    runs: Sequence[HeadRun],
    device: torch.device = CPU,
    bf16: bool | None = None,
) -> list[Solved]:
    """Return a trained head for every run.

    Args:
        shape: What all the heads have in common.
        targets: The targets of a batch, given the numbers of its examples and the rows of their words.
        bf16: As for `heads.training.train_head`.

    Raises `ValueError` for no runs or examples, and where a loss or a weight does not stay finite.
    """
    if not runs:
        raise ValueError("there is no head to train: `runs` is empty")
    jobs = [TrainingJob(shape, inputs, targets, run) for run in runs]
    return train_many(jobs, device, bf16) if len(jobs) > 1 else [_solve_one(jobs[0], device, bf16)]


def train_many(jobs: Iterable[TrainingJob], device: torch.device = CPU, bf16: bool | None = None) -> list[Solved]:
    """Return a trained head for every job. The inputs of each are read when it comes, and forgotten."""
    from boustro.heads.lockstep.pool import HeadPool, begin

    solved: dict[int, Solved] = {}
    pools: dict[tuple, HeadPool] = {}
    for number, job in enumerate(jobs):
        exact = device.type == "cpu" and not learns_in_bf16(device, job.num_different, bf16)
        begun = begin(job) if exact else None
        if begun is None:
            solved[number] = _solve_one(job, device, bf16)
        else:
            alike = (job.shape.labels, *(parameter.shape for parameter in begun.head.parameters()))
            pools.setdefault(alike, HeadPool()).add(number, job, begun)
    for pool in pools.values():
        for n, member in zip(pool.numbers, pool.train(), strict=True):
            solved[n] = Solved(member.head, TrainLog([], [], member.epochs, member.batch))
    return [solved[number] for number in range(len(solved))]


def _solve_one(job: TrainingJob, device: torch.device, bf16: bool | None) -> Solved:
    shape, inputs, targets, run = job
    if not len(inputs) or not job.num_examples:
        raise ValueError("a head needs at least one example to train on")
    if run.examples is not None:
        chosen, inputs = run.examples, inputs.select(run.examples)
        of_all, targets = targets, lambda some, rows: of_all(chosen[some], rows)
    if run.head is None:
        torch.manual_seed(run.seed)
    head = run.head or shape.make(run.options)
    how: dict[str, Any] = {"dev": run.dev, "groups": run.groups, "started": run.head is not None, "kin": run.kin}
    how |= {"named": run.named, "different": job.num_different}
    return Solved(head, train_head(head, inputs, targets, run.seed, device=device, bf16=bf16, **how))
