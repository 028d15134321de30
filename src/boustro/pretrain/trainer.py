"""The transformers Trainer, with our data order, dropout, validation and checkpoints.

From it come devices, mixed precision, compilation, gradient accumulation, schedules, DDP and FSDP2. Ours
is whatever makes a run a function of its options alone: micro-batch m of step s, in process r of P with A
micro-batches a process, is number (s·A + m)·P + r of the run; it reads that place of the stream and seeds
its dropout with that number. So a step can be done again, by anyone, and comes out the same.
"""

import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Sampler, SequentialSampler
from transformers import Trainer

from boustro.models.hardware import mixed_precision
from boustro.pretrain.checkpoints import load_steps, load_weights, step_of, write_checkpoint
from boustro.pretrain.output import BEGIN_ANEW, refuse_not_finite
from boustro.pretrain.processes import add_up, agree, is_first, num_processes, process_index
from boustro.pretrain.randomness import seed_step
from boustro.pretrain.signals import Signals, Stopped
from boustro.store import reading
from boustro.text.segments import Source


class PretrainTrainer(Trainer):
    """Its model wraps the LM as `.lm`; its train dataset is a `SegmentStream`, its eval dataset a `Source`."""

    def __init__(
        self,
        module: nn.Module,
        *args: Any,
        seed: int,
        facts: dict[str, Any],
        signals: Signals,
        save_minutes: float,
        num_eval_segments: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, **kwargs)
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if self.is_deepspeed_enabled or (plugin is not None and plugin.fsdp_version != 2):
            raise ValueError("several processes share a model by DDP or by FSDP 2 here: give --fsdp_version 2")
        self.module = module  # `self.model` is at times a wrapper of it
        self.seed, self.facts, self.signals = seed, facts, signals
        self.save_minutes, self.num_eval_segments = save_minutes, num_eval_segments
        self._saved_at = self._began = time.monotonic()
        self._saved_step = self._first_step = 0
        self._step = self._micro = -1
        self._unlogged: tuple[float, int] | None = None
        """The sum of the losses that the history does not yet show, and the step after which they came."""
        signals.worth_saving = lambda: self.state.global_step > self._first_step

    # Data and dropout

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler:
        """The stream is in the order in which it is read."""
        return SequentialSampler(train_dataset if train_dataset is not None else self.train_dataset)  # type: ignore[arg-type]

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        step, steps = self.state.global_step, self.args.gradient_accumulation_steps
        self._micro = self._micro + 1 if step == self._step else 0
        self._step = step
        number = (step * steps + self._micro) * num_processes() + process_index()
        seed_step(self.seed, number)
        if self._unlogged is not None:  # the first line of the history after an interruption covers what came before
            self._tr_loss += self._unlogged[0]
            self._globalstep_last_logged, self._unlogged = self._unlogged[1], None
        loss = super().training_step(*args, **kwargs)
        self._stop_if_asked()
        return loss

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], None]:  # type: ignore[override]
        """The micro-batches of a step; where they differ in targets, each learns how many all have on average."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        if batches and "num_targets" in batches[0]:
            targets, count = add_up(sum(batch["num_targets"] for batch in batches), len(batches))
            for batch in batches:
                batch["num_targets"] = self._on_device(targets / count)
        return batches, None

    def _on_device(self, num_targets: float) -> Tensor:
        return torch.full((), num_targets or 1.0, device=self.args.device)

    def _stop_if_asked(self) -> None:
        """Between micro-batches weights and optimiser are those of the last whole step."""
        number = agree(self.signals.received)
        if number:
            raise Stopped(number)

    # Checkpoints

    @property
    def seconds(self) -> float:
        """Since the run began, without the time between an interruption and what was done after it."""
        return time.monotonic() - self._began

    def save_now(self) -> Path | None:
        """The newest checkpoint, written now unless it stands already; None before the first step."""
        step = self.state.global_step
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{step}"
        if step > self._saved_step:
            refuse_not_finite(float(self._tr_loss), f"the loss at step {step:,}")
            loss = add_up(float(self._tr_loss))[0] / num_processes()
            so_far = {"unlogged": (loss, self._globalstep_last_logged), "seconds": self.seconds}
            whole = (self.module, self.optimizer, self.lr_scheduler, self.state)
            write_checkpoint(folder, *whole, {"run": self.facts}, **so_far)
            self._saved_at, self._saved_step = time.monotonic(), step
        return folder if step else None

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        self.save_now()

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        late = time.monotonic() - self._saved_at >= 60 * self.save_minutes
        due = agree(int(late and is_first()))  # the first process has the clock
        self.control.should_save = self.control.should_save or bool(due)
        super()._maybe_log_save_evaluate(*args, **kwargs)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with reading(resume_from_checkpoint, BEGIN_ANEW):
            load_weights(resume_from_checkpoint, self.module)
        self._saved_step = self._first_step = step_of(Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with reading(checkpoint, BEGIN_ANEW):
                so_far = load_steps(checkpoint, self.optimizer, self.lr_scheduler)
                loss, step = so_far["unlogged"]
                self._unlogged = float(loss), int(step)
                self._began -= float(so_far["seconds"])
            due = self.args.eval_strategy == "steps" and self.state.global_step % int(self.args.eval_steps or 1) == 0
            self.args.eval_on_start = due and not self._is_evaluated()  # the run was stopped while it measured

    def _is_evaluated(self) -> bool:
        """Whether the history has the validation loss of this step."""
        return any("eval_loss" in row and row["step"] == self.state.global_step for row in self.state.log_history)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """There is none: see the head of this file."""

    # Validation

    @torch.no_grad()
    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:  # type: ignore[override]
        """Mean losses over the first validation segments, shared out over the processes; and the perplexity.

        Where a loss is the sum of several, the perplexity is that of the hidden pieces alone.
        """
        source: Any = self.eval_dataset
        module: Any = self.model
        module.eval()
        num_examples = min(len(source), self.num_eval_segments)
        shares = _shares(num_examples, self.args.per_device_train_batch_size)
        density, device = self._targets_an_example(source, shares), self.args.device
        totals: dict[str, float] = defaultdict(float)
        for mine in shares:
            batch: Any = self.data_collator(examples(source, mine or [0]))  # type: ignore[arg-type]
            batch = {name: value.to(device) for name, value in batch.items() if name != "num_targets"}
            if density:
                batch["num_targets"] = self._on_device(density * len(mine))
            with mixed_precision(device, self.args.bf16):
                losses = module(**batch)
            for name, loss in losses.items():
                totals[name] += loss.item() * len(mine)
            self._stop_if_asked()
        module.train()
        means = dict(zip(totals, (total / num_examples for total in add_up(*totals.values())), strict=True))
        metrics = {f"eval_{name}": mean for name, mean in means.items()}
        metrics["eval_perplexity"] = math.exp(min(means.get("masked_loss", means["loss"]), 700))
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _targets_an_example(self, source: Source, shares: list[list[int]]) -> float:
        """How many targets a validation example has on average; 0 where all have the same."""
        collate: Any = self.data_collator
        if "num_targets" not in collate(examples(source, [0])):
            return 0.0
        counts = [collate(examples(source, mine))["num_targets"] for mine in shares if mine]
        targets, num_examples = add_up(sum(counts), sum(map(len, shares)))
        return targets / num_examples


def examples(source: Source, indices: list[int]) -> list[Any]:
    """Examples by number, of the first epoch."""
    return [source.example(0, index) for index in indices]


def _shares(num_segments: int, size: int) -> list[list[int]]:
    """This process's batches: as many as every other's, the last ones perhaps empty."""
    starts = range(process_index() * size, num_segments + process_index() * size, size * num_processes())
    return [list(range(start, min(start + size, num_segments))) for start in starts]
