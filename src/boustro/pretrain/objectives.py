"""What can be trained, by name: the kind of model, its loss, and how segments become a batch.

A further objective is a function in `boustro.objectives` and one line here. What it draws at random it
draws from a generator keyed by (seed, epoch, index) of each example, so that a batch does not depend on
who makes it.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from boustro.models.loss import LMWithLoss
from boustro.objectives.causal import causal
from boustro.pretrain.config import PretrainConfig
from boustro.pretrain.signals import wait_for_parent
from boustro.text.segments import Example


@dataclass(frozen=True)
class Objective:
    """`with_loss(lm)` is a module with the wrapped model as `.lm`; called with a batch, it returns {"loss": mean}."""

    model: Any
    """The transformers auto class that makes the model from its config."""
    with_loss: Callable[[PreTrainedModel], nn.Module]
    make_batch: Callable[[Sequence[Example], PretrainConfig, int], dict[str, Tensor]]
    """Examples, the run's options and the sentinel → the arguments of the module; `targets` are among them."""
    describe: Callable[[PretrainConfig], dict[str, Any]]
    """What the model's config.json says of how it reads."""


def causal_batch(examples: Sequence[Example], config: PretrainConfig, sentinel: int) -> dict[str, Tensor]:
    """Next-piece prediction in the run's direction."""
    pieces = torch.from_numpy(np.stack([example.pieces for example in examples]))
    return causal(pieces, config.direction, sentinel)._asdict()


OBJECTIVES: dict[str, Objective] = {
    "causal": Objective(
        AutoModelForCausalLM, LMWithLoss, causal_batch, lambda config: {"direction": config.direction, "sentinel": True}
    ),
}


def find_objective(name: str) -> Objective:
    """The objective of this name; `ValueError` with the nearest known one."""
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    near = difflib.get_close_matches(name, OBJECTIVES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown objective {name!r}: known are {', '.join(OBJECTIVES)}{hint}")


@dataclass(frozen=True)
class Collator:
    """Examples → a batch; picklable, so that workers may make batches."""

    config: PretrainConfig
    sentinel: int

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        if torch.utils.data.get_worker_info() is not None:
            wait_for_parent()
        return find_objective(self.config.objective).make_batch(examples, self.config, self.sentinel)
