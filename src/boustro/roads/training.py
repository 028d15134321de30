"""The training of what is built on frozen LMs (a fusion, an ELMo, an adapter), by `pretrain.trainer`.

A run is a module, a loss, and a batch for each step, all a function of the step's number; so it resumes exactly.
Runs use one process.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from boustro.pretrain.batches import Batches
from boustro.pretrain.checkpoints import find_checkpoint, remove_checkpoints
from boustro.pretrain.config import RunConfig
from boustro.pretrain.distributed import num_processes, say
from boustro.pretrain.output import refuse_not_finite
from boustro.pretrain.trainer import PretrainTrainer, training_arguments
from boustro.roads.options import SegmentOptions
from boustro.text.segments import Example, Segments
from boustro.text.shards import Shards


class WithLoss(nn.Module):
    """`trained`, and the function that computes its loss.

    What else the function uses is frozen: it is no part of this module, so its mode, its device and its weights are
    not touched.
    """

    accepts_loss_kwargs = False  # for the Trainer

    def __init__(self, trained: nn.Module, loss_of: Callable[..., Tensor]) -> None:
        super().__init__()
        self.trained, self.loss_of = trained, loss_of

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        return {"loss": self.loss_of(**batch)}


def train(
    config: RunConfig,
    facts: dict[str, Any],
    trained: nn.Module,
    loss_of: Callable[..., Tensor],
    batches: Batches,
    held_out: Batches | None,
    *,
    step_size: int,
    unit: str = "pieces",
    bf16: bool = False,
) -> dict[str, Any]:
    """Train `trained`, one step per item of `batches`; returns what `training.json` says of every run.

    `loss_of` maps a batch's tensors to a mean loss; `held_out` has validation batches and their weights. A step reads
    about `step_size` units; `bf16` is mixed precision. Raises `SystemExit` as `PretrainTrainer.run`.
    """
    if num_processes() > 1:
        raise ValueError("this command runs in one process; start it without torchrun or accelerate launch")
    steps = len(batches)
    trainer = PretrainTrainer(
        config,
        facts,
        training_arguments(config, steps, held_out is not None, per_device_train_batch_size=1, bf16=bf16),
        WithLoss(trained, loss_of),
        batches,
        lambda items: items[0],
        held_out,
        step_size=step_size,
        unit=unit,
        schedule=lambda optimizer: linear_schedule(optimizer, steps, config.warmup, config.decay),
    )
    result = trainer.run(find_checkpoint(config, facts))
    refuse_not_finite(trained, f"the weights after step {steps:,}")
    return result


def finish(config: RunConfig, result: dict[str, Any]) -> dict[str, Any]:
    """Remove the checkpoints of a run whose folder is written; returns its result."""
    remove_checkpoints(config.checkpoints)
    loss = result["validation_loss"]
    say(f"{config.out}: done" + (f", validation loss {loss:.4f}" if loss is not None else ""))
    return result


def linear_schedule(optimizer: Optimizer, steps: int, warmup: float, decay: float) -> LambdaLR:
    """The learning rate rises to its peak, stays, and falls to 0, linearly."""
    return LambdaLR(optimizer, partial(lr_share, steps=steps, warmup=warmup, decay=decay))


def lr_share(step: int, steps: int, warmup: float, decay: float) -> float:
    """The share of the peak learning rate at a step (0, 1, …)."""
    up, down = round(warmup * steps), round(decay * steps)
    return min(1.0, (step + 1) / max(1, up), (steps - step) / max(1, down))


def num_steps(tokens: int | None, available: int, step_pieces: int) -> int:
    """How many steps read `tokens` pieces, by default those available: at least one, but none for 0."""
    wanted = available if tokens is None else tokens
    return max(1, wanted // step_pieces) if wanted else 0


def stack(examples: list[Example]) -> Tensor:
    """The pieces of segments (B, T)."""
    return torch.from_numpy(np.stack([example.pieces for example in examples]))


def held_out_batches(
    shards: Shards | None, options: SegmentOptions, make: Callable[[list[Example]], dict[str, Tensor]]
) -> Batches | None:
    """The first segments of validation shards, about `validation_pieces` pieces, weighted by segments."""
    if shards is None:
        return None
    segments, size = Segments(shards, options.segment_length, seed=None), options.batch_segments
    count = max(1, min(len(segments), options.validation_pieces // options.segment_length))

    def batch(number: int) -> tuple[dict[str, Tensor], int]:
        examples = [segments.example(0, n) for n in range(number * size, min((number + 1) * size, count))]
        return make(examples), len(examples)

    return Batches(math.ceil(count / size), batch)
