"""Parts of a training set that are left out in turn, and heads that are trained on the rest.

    documents a a b b c, two parts   →   left out: a a c, then b b

The sentences of a document stay together, since they repeat its names. The features are computed once for all heads.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from boustro.heads.base import Head
from boustro.heads.inputs import Inputs
from boustro.heads.registry import make_head
from boustro.heads.training import Dev, propose_batch, train_head
from boustro.tasks.context import training_noise

if TYPE_CHECKING:
    from boustro.tasks.base import Task

FIFTH = 5


def left_out(examples: Sequence[Any], num_folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(kept, left out) numbers of examples, for each of `num_folds` parts; 1 leaves out one fifth, once.

    Documents are parted where there are enough of them, else examples. Raises `ValueError` for fewer than two examples.
    """
    if len(examples) < 2:
        raise ValueError(f"{len(examples)} training examples cannot be parted; leave calibration out")
    names = np.array([getattr(example, "document", "") or f"\0{n}" for n, example in enumerate(examples)])
    _, groups = np.unique(names, return_inverse=True)
    parts = FIFTH if num_folds == 1 else num_folds
    if groups.max() + 1 < parts:
        groups = np.arange(len(examples))
    order = np.random.default_rng(seed).permutation(int(groups.max()) + 1)
    for own in np.array_split(order, min(parts, len(order)))[: 1 if num_folds == 1 else None]:
        outside = np.isin(groups, own)
        yield np.flatnonzero(~outside), np.flatnonzero(outside)


def train_on_part(
    task: "Task[Any, Any]",
    examples: Sequence[Any],
    inputs: Inputs,
    kept: np.ndarray,
    seed: int,
    dev: Dev | None = None,
) -> Head:
    """A head like the task's trained one, trained on the examples with the numbers `kept`; `inputs` are of all."""
    made, labelling = task.trained_head(), task.labelling
    assert labelling is not None
    targets = labelling.targets(examples)
    torch.manual_seed(seed)
    head = make_head(made.kind, made.options, made.streams, made.labels, made.side)
    train_head(
        head,
        inputs.select(kept),
        lambda numbers, rows: targets(kept[numbers], rows),
        task.config,
        seed=seed,
        batch_sentences=task.config.batch_sentences or propose_batch(len(kept)),
        dev=dev,
        device=task.device,
        noise=training_noise(task),
    )
    return head
