"""What every random objective shares: its generator, and how examples become a batch.

An objective draws from a generator keyed by (seed, epoch, index), so that a segment is hidden in the same way
whichever worker reads it, in whatever order and after any resumption, and in another way in the next epoch:

    rng = keyed_generator(seed=1, epoch=0, index=17)
    collate([masked(segment, rng, masking), ...])  →  {"input_ids": (B, T), "positions": (B, K), …}
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

IGNORED = -100
"""The target that asks for nothing, as `torch.nn.functional.cross_entropy` has it."""


def keyed_generator(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The generator of one example. Raises `ValueError` for a negative number."""
    if min(seed, epoch, index) < 0:
        raise ValueError(f"seed, epoch and index count from 0, not {(seed, epoch, index)}")
    return np.random.default_rng((seed, epoch, index))


def collate(examples: Sequence[Any]) -> dict[str, Tensor]:
    """Examples of one kind (named tuples of arrays of equal shapes) as tensors with a batch axis before."""
    columns = zip(*examples, strict=True)
    return {name: torch.from_numpy(np.stack(column)) for name, column in zip(examples[0]._fields, columns, strict=True)}
