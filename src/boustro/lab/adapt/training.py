"""The training of what is built on frozen LMs (a fusion, an ELMo, an adapter), by `lab.pretrain.trainer`.

A run is a module, a loss, and a batch for each step, all a function of the step's number; so it resumes exactly.
Runs use one process.

Some of them train on words: texts in batches of similar length, and a transformer that is read at words.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from boustro.encoders.reading import InputRow
from boustro.lab.adapt.options import SegmentOptions
from boustro.lab.pretrain.batches import Batches
from boustro.lab.pretrain.checkpoints import find_checkpoint, remove_checkpoints
from boustro.lab.pretrain.config import RunConfig
from boustro.lab.pretrain.distributed import num_processes, say
from boustro.lab.pretrain.output import refuse_not_finite
from boustro.lab.pretrain.segments import Segments
from boustro.lab.pretrain.shards import open_shards_of
from boustro.lab.pretrain.trainer import PretrainTrainer, training_arguments
from boustro.store import write_file, write_folder


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


def write_run(
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
    """Return the share of the peak learning rate at a step (0, 1, …): it rises to 1, stays, and falls to 0,
    linearly."""
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


POOL_BATCHES = 50  # texts are sorted by length within this many batches, not within the corpus


class WordReader(nn.Module):
    """A linear layer, initialised at random, over the top states of a transformer at the ends of words."""

    def __init__(self, model: PreTrainedModel, outputs: int) -> None:
        super().__init__()
        self.model, self.head = model, nn.Linear(model.config.get_text_config().hidden_size, outputs)

    def forward(self, input_ids: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """Return (W, outputs) of the words of all rows, row by row; `places` are positions in the flattened batch."""
        is_piece = torch.arange(input_ids.shape[1], device=input_ids.device) < lengths[:, None]
        states = self.model(input_ids=input_ids, attention_mask=is_piece.long(), use_cache=False).last_hidden_state
        return self.head(states.flatten(0, 1)[places].float())


def row_tensors(rows: Sequence[InputRow]) -> dict[str, Tensor]:
    """Return the tensors of `WordReader`; rows are padded with their first piece."""
    lengths = [len(row.ids) for row in rows]
    ids = torch.tensor([row.ids + [row.ids[0]] * (max(lengths) - len(row.ids)) for row in rows])
    places = np.concatenate([number * ids.shape[1] + row.columns for number, row in enumerate(rows)])
    return {"input_ids": ids, "lengths": torch.tensor(lengths), "places": torch.from_numpy(places)}


def make_batches(lengths: Sequence[int], batch_words: int, seed: int) -> list[list[int]]:
    """Numbers of texts, batch by batch, in an order that the seed decides; each text is in one batch.

    A batch has at most `batch_words` words, including padding; a longer text is a batch of its own.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(lengths)).tolist()
    batches: list[list[int]] = []
    pool: list[int] = []
    words = 0
    for place, number in enumerate(order, 1):
        pool.append(number)
        words += lengths[number]
        if place == len(order) or words >= POOL_BATCHES * batch_words:
            batches.append([])
            for i in sorted(pool, key=lambda i: lengths[i]):
                if batches[-1] and (len(batches[-1]) + 1) * lengths[i] > batch_words:
                    batches.append([])
                batches[-1].append(i)
            pool, words = [], 0
    return [batches[i] for i in generator.permutation(len(batches))]


def steps_for(num_batches: int, total: int, words: int | None) -> int:
    """Return how many batches of a pass over `total` words have `words` of them, at least one; by default a whole
    pass."""
    wanted = total if words is None else words
    return max(1, round(num_batches * wanted / total)) if wanted else 0
