"""The training of what is built on frozen LMs (a fusion, an ELMo, an adapter), by `pretrain.trainer`.

A run is a module, a loss, and a batch for each step, all a function of the step's number; so it resumes exactly.
Runs use one process.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from boustro.pretrain.batches import Batches
from boustro.pretrain.checkpoints import find_checkpoint, remove_checkpoints
from boustro.pretrain.config import RunConfig
from boustro.pretrain.distributed import num_processes, say
from boustro.pretrain.output import refuse_not_finite
from boustro.pretrain.trainer import PretrainTrainer, training_arguments
from boustro.roads.options import SegmentOptions
from boustro.store import write_file, write_folder
from boustro.text.segments import Segments
from boustro.text.shards import open_shards_of


class WithLoss(nn.Module):
    """`trained`, and the function of its loss; what else that uses is frozen, and so no part of this module."""

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
    held_out: Iterable[tuple[dict[str, Any], float]] | None,
    *,
    step_size: int,
    unit: str = "pieces",
    bf16: bool = False,
    perplexity: bool = True,
) -> dict[str, Any]:
    """Train `trained`, one step per item of `batches`; returns what `training.json` says of every run.

    `loss_of` maps a batch's tensors to a mean loss; `held_out` has validation batches and their weights. A step reads
    about `step_size` units; `bf16` is mixed precision; `perplexity` says whether the loss has one. Raises `SystemExit`
    as `PretrainTrainer.run`.
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
        perplexity=perplexity,
        schedule=lambda optimizer: LambdaLR(
            optimizer, partial(lr_share, steps=steps, warmup=config.steps.warmup, decay=config.steps.decay)
        ),
    )
    result = trainer.run(find_checkpoint(config, facts))
    refuse_not_finite(trained.state_dict().values(), f"the weights after step {steps:,}")
    return result


def finish(
    config: RunConfig, kind: str, result: dict[str, Any], save: Callable[[Path], None], **made_by: Any
) -> dict[str, Any]:
    """Write a run's folder, with what `save` writes into it, and remove the checkpoints; returns the result."""
    with write_folder(config.out, kind, made_by) as folder:
        save(folder)
        write_file(folder / "training.json", json.dumps(result, indent=1))
    remove_checkpoints(config.checkpoints)
    loss = result["validation_loss"]
    say(f"{config.out}: done" + (f", validation loss {loss:.4f}" if loss is not None else ""))
    return result


def lr_share(step: int, steps: int, warmup: float, decay: float) -> float:
    """The share of the peak learning rate at a step (0, 1, …): it rises to 1, stays, and falls to 0, linearly."""
    up, down = round(warmup * steps), round(decay * steps)
    return min(1.0, (step + 1) / max(1, up), (steps - step) / max(1, down))


def open_segments(
    shards: Path, options: SegmentOptions, seed: int, *whose: Any
) -> tuple[Segments, Segments | None, int]:
    """Segments to train on, shuffled by `seed`, and to validate on, and the steps; `whose` as in `open_shards_of`."""
    length = options.segment_length
    segments = Segments(open_shards_of(shards, *whose), length, seed)
    validation = Segments(open_shards_of(options.validation, *whose), length, None) if options.validation else None
    wanted = len(segments) * length if options.tokens is None else options.tokens
    return segments, validation, max(1, wanted // (options.batch_segments * length)) if wanted else 0
