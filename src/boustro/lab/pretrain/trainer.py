"""The training loop of every run: the transformers Trainer with our data order, dropout, validation and checkpoints.

The Trainer provides devices, mixed precision, compilation, gradient accumulation, schedules, DDP and FSDP2. The
additions here make a run a function of its options alone: micro-batch m of step s, in process r of P with A
micro-batches per process, is number (s·A + m)·P + r of the run; it reads that position of the data and seeds its
dropout with that number. So any step can be repeated, by any process, with the same result, and a run that is stopped
and resumed ends with the same weights as one that was not.

Muon for the matrices of the blocks, AdamW for all other parameters, as one optimiser.

Muon replaces a matrix's momentum by the nearest orthogonal matrix, found by five Newton-Schulz steps
(Jordan et al. 2024); scaled to AdamW's update size (Liu et al. 2025), one learning rate serves both.
`torch.optim.Muon` does the same in bf16, one matrix at a time; here matrices of one shape are batched, in fp32
where bf16 is not used, and the steps of a wide matrix are then computed on its small Gram matrix.
An orthogonal direction needs the whole matrix: where FSDP2 shards it over processes, the rows are gathered first
and sharded again afterwards.
"""

import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset, Sampler, SequentialSampler
from transformers import PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils.logging import disable_progress_bar

from boustro.hardware import best_device, mixed_precision, uses_bf16
from boustro.lab.pretrain.checkpoints import load_steps, load_weights, remove_checkpoints, step_of, write_checkpoint
from boustro.lab.pretrain.config import RunConfig
from boustro.lab.pretrain.distributed import (
    Signals,
    Stopped,
    all_reduce_max,
    all_reduce_sum,
    is_rank0,
    num_processes,
    process_index,
    say,
    sharded_like,
    whole,
)
from boustro.lab.pretrain.output import START_AGAIN, refuse_not_finite
from boustro.lab.pretrain.progress import PROBE_STEPS, Probe, TrainingProgress
from boustro.models.pretrained import quiet
from boustro.progress import Progress
from boustro.store import reading


def training_arguments(config: RunConfig, steps: int, validate: bool, **more: Any) -> TrainingArguments:
    """Return the Trainer's arguments that all runs share, and `more`; creating them also joins the process group."""
    if not sys.stderr.isatty():
        disable_progress_bar()
    with quiet():  # it says of a CPU that compiling is for GPUs
        arguments = TrainingArguments(
            output_dir=tempfile.gettempdir() if config.dry_run else str(config.checkpoints),
            max_steps=steps,
            learning_rate=config.lr,
            warmup_steps=round(config.steps.warmup * steps),
            use_cpu=best_device().type == "cpu",
            logging_steps=max(1, min(50, steps // 20)),  # twenty lines a run, and at least one in fifty steps
            logging_nan_inf_filter=False,  # it would wait for the GPU in every micro-batch, and hide what it finds
            eval_strategy="steps" if validate and not config.dry_run else "no",
            eval_steps=max(1, steps // max(1, config.evaluations)),
            save_strategy="steps",
            save_steps=10**9,  # by the clock instead, see PretrainTrainer
            seed=config.seed,
            dataloader_drop_last=True,
            ddp_find_unused_parameters=False,
            ddp_broadcast_buffers=False,
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
            **more,
        )
    if arguments.n_gpu > 1:  # one process and several GPUs: nn.DataParallel would multiply the batch
        say(f"using 1 of {arguments.n_gpu} GPUs; to use all, start with torchrun --nproc-per-node")
        arguments._n_gpu = 1
    return arguments


class PretrainTrainer(Trainer):
    """Trains `module`, which maps a batch (as keyword arguments) to {"loss": mean, …}.

    `facts` decide the weights: a checkpoint with other facts belongs to another run. `data` is in the order in which
    the run reads it; `collate` makes a batch of its items. The validation loss is the weighted mean over the (batch,
    weight) pairs of `held_out`. A step reads about `step_size` `unit`s. `schedule` is by default the arguments'.
    `perplexity` says whether the loss is a cross-entropy, which has one.
    """

    def __init__(
        self,
        config: RunConfig,
        facts: dict[str, Any],
        arguments: TrainingArguments,
        module: nn.Module,
        data: Dataset,
        collate: Callable[[list[Any]], dict[str, Any]],
        held_out: Iterable[tuple[dict[str, Any], float]] | None,
        *,
        step_size: int,
        unit: str = "pieces",
        schedule: Callable[[Optimizer], LambdaLR] | None = None,
        perplexity: bool = True,
    ) -> None:
        if is_rank0() and not (config.resume or config.dry_run):
            remove_checkpoints(config.checkpoints)
        optimizer = make_optimizer(module, config.steps.optimizer, config.lr, config.steps.weight_decay, arguments.bf16)
        super().__init__(
            module,
            arguments,
            data_collator=collate,
            train_dataset=data,
            eval_dataset=held_out,  # type: ignore[arg-type]
            callbacks=[TrainingProgress(step_size, unit)],
            optimizers=(optimizer, schedule(optimizer) if schedule else None),
        )
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if self.is_deepspeed_enabled or (plugin is not None and plugin.fsdp_version != 2):
            raise ValueError("several processes train one model with DDP or FSDP 2 only: give --fsdp_version 2")
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        self.module = module  # `self.model` is at times a wrapper of it
        self.config, self.facts, self.signals, self.perplexity = config, facts, Signals(), perplexity
        self.signals.worth_saving = lambda: self.state.global_step > self._first_step
        self._saved_at = self._began = time.monotonic()
        self._saved_step = self._first_step = 0
        self._step = self._micro = -1
        self._unlogged: tuple[float, int] | None = None
        """The sum of the losses not yet in the history of a resumed run, and the step after which they were added."""

    def run(self, resume_from: Path | None) -> dict[str, Any]:
        """Train from a checkpoint, or from the start, to the end; returns what `training.json` says of every run.

        Raises `SystemExit` when SIGTERM or SIGINT stopped the run (143, 130) and after a dry run (0).
        """
        steps = self.args.max_steps
        if self.config.dry_run:  # a few steps; nothing is written, and a signal ends it at once
            self.add_callback(probe := Probe())
            self.args.max_steps = min(steps, PROBE_STEPS)
            if steps:
                self.train()
            probe.finish(steps, self.module, self.optimizer)
        with self.signals:
            try:
                if steps:
                    self.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
                metrics = (self._measured() or self.evaluate()) if self.eval_dataset else {}
            except Stopped as stop:
                kept, step = self.save_now(), self.state.global_step
                left = f"{kept} is complete" if kept else "there was nothing to save"
                say(
                    f"stopped by {stop} after step {step:,} of {steps:,}; {left}. To continue, give {self.config.again}"
                )
                raise SystemExit(128 + stop.number) from None
        return {
            "config": json.loads(json.dumps(asdict(self.config), default=str)),  # paths as text
            "run": self.facts,
            "seconds": round(time.monotonic() - self._began, 1),
            "validation_loss": metrics.get("eval_loss"),
            "validation_perplexity": metrics.get("eval_perplexity"),
            "history": [row for row in self.state.log_history if "loss" in row or "eval_loss" in row],
        }

    # Data and dropout

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler:
        return SequentialSampler(train_dataset if train_dataset is not None else self.train_dataset)  # type: ignore[arg-type]

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        step, steps = self.state.global_step, self.args.gradient_accumulation_steps
        self._micro = self._micro + 1 if step == self._step else 0
        self._step = step
        number = (step * steps + self._micro) * num_processes() + process_index()
        torch.manual_seed(int(np.random.SeedSequence([self.config.seed, number]).generate_state(1, np.uint64)[0]))
        if self._unlogged is not None:  # the first line of a resumed history covers the steps before the interruption
            self._tr_loss += self._unlogged[0]
            self._globalstep_last_logged, self._unlogged = self._unlogged[1], None
        loss = super().training_step(*args, **kwargs)
        self._stop_if_asked()
        return loss

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], None]:
        """Return the micro-batches of a step; `num_targets`, where there is one, becomes the mean over all of them."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        if batches and "num_targets" in batches[0]:
            targets, count = all_reduce_sum(sum(batch["num_targets"] for batch in batches), len(batches))
            for batch in batches:
                batch["num_targets"] = torch.full((), targets / count or 1.0, device=self.args.device)
        return batches, None

    def _stop_if_asked(self) -> None:
        """Between micro-batches weights and optimiser are those of the last whole step."""
        number = all_reduce_max(self.signals.received)
        if number:
            raise Stopped(number)

    # Checkpoints

    def save_now(self) -> Path | None:
        """Return the newest checkpoint, written now unless it exists already; None before the first step."""
        step = self.state.global_step
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{step}"
        if step > self._saved_step:
            refuse_not_finite(float(self._tr_loss), f"the loss at step {step:,}")
            loss = all_reduce_sum(float(self._tr_loss))[0] / num_processes()
            seconds = time.monotonic() - self._began
            so_far = {"unlogged": (loss, self._globalstep_last_logged), "seconds": seconds}
            whole = (self.module, self.optimizer, self.lr_scheduler, self.state)
            write_checkpoint(folder, *whole, {"run": self.facts}, **so_far)
            self._saved_at, self._saved_step = time.monotonic(), step
        return folder if step else None

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if not self.config.dry_run:
            self.save_now()

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        late = time.monotonic() - self._saved_at >= 60 * self.config.save_minutes
        due = all_reduce_max(int(late and is_rank0()))  # the clock of rank 0 decides
        self.control.should_save = self.control.should_save or bool(due)
        super()._maybe_log_save_evaluate(*args, **kwargs)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with reading(resume_from_checkpoint, START_AGAIN):
            load_weights(resume_from_checkpoint, self.module)
        self._saved_step = self._first_step = step_of(Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with reading(checkpoint, START_AGAIN):
                so_far = load_steps(checkpoint, self.optimizer, self.lr_scheduler)
                loss, step = so_far["unlogged"]
                self._unlogged = float(loss), int(step)
                self._began -= float(so_far["seconds"])
            due = self.args.eval_strategy == "steps" and self.state.global_step % int(self.args.eval_steps or 1) == 0
            self.args.eval_on_start = due and not self._measured()  # the run was stopped during validation

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Nothing to load: random numbers follow from the number of the micro-batch."""

    # Validation

    @torch.no_grad()
    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Mean validation losses, and the perplexity: of the hidden pieces only, if the loss is the sum of several."""
        module: Any = self.model
        held_out: Any = self.eval_dataset
        module.eval()
        totals: dict[str, float] = defaultdict(float)
        total_weight = 0.0
        for batch, weight in Progress("measuring", "batches", shown=None if is_rank0() else False).over(held_out):
            batch = {name: value.to(self.args.device) for name, value in batch.items()}
            with mixed_precision(self.args.device, self.args.bf16):
                losses = module(**batch)
            for name, loss in losses.items():
                totals[name] += loss.item() * weight
            total_weight += weight
            self._stop_if_asked()
        module.train()
        *sums, total_weight = all_reduce_sum(*totals.values(), total_weight)
        means = {name: total / (total_weight or 1) for name, total in zip(totals, sums, strict=True)}
        metrics = {f"eval_{name}": mean for name, mean in means.items()}
        if self.perplexity:
            # e^710 is above the range of floats
            metrics["eval_perplexity"] = math.exp(min(means.get("masked_loss", means["loss"]), 700))
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _measured(self) -> dict[str, float] | None:
        """Return the validation metrics of the newest step, if they are in the history."""
        rows = [row for row in self.state.log_history if "eval_loss" in row and row["step"] == self.state.global_step]
        return rows[-1] if rows else None


MAX_OUTPUTS = 2  # a matrix of one or two rows is a classifier: there is hardly anything to make orthogonal
A, B, C = 3.4445, -4.7750, 2.0315  # Jordan et al. 2024 (Muon): the quintic that is steepest at 0
STEPS = (2, 3)  # of a wide matrix: restarted after two, since small singular values are lost in the Gram matrix


def orthogonalise(matrices: Tensor, bf16: bool | None = None) -> Tensor:
    """Return (n, rows, columns) → the same shape, with singular values near 1; `bf16` by default as `uses_bf16`
    says."""
    dtype = torch.bfloat16 if (uses_bf16(matrices.device) if bf16 is None else bf16) else torch.float32
    x = matrices.to(dtype)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)  # no gradient, no division by 0
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    if dtype == torch.float32 and x.size(-1) >= 2 * x.size(-2):
        for num_steps in STEPS:
            x = _steps_on_the_gram(x @ x.mT, num_steps) @ x
    else:
        for _ in range(sum(STEPS)):
            x = _factor(x @ x.mT) @ x
    return (x.mT if tall else x).to(matrices.dtype)


def _factor(gram: Tensor) -> Tensor:
    """a + b·G + c·G², by which a Newton-Schulz step multiplies a matrix with the Gram matrix G."""
    factor = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
    factor.diagonal(dim1=-2, dim2=-1).add_(A)
    return factor


def _steps_on_the_gram(gram: Tensor, num_steps: int) -> Tensor:
    """Return the product of the factors of several steps; a step maps G to factor · G · factor, all square."""
    product = factor = _factor(gram)
    for _ in range(num_steps - 1):
        gram = factor @ gram @ factor
        factor = _factor(gram)
        product = factor @ product
    return product


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay, for 2-D parameters only; `bf16` as in `orthogonalise`."""

    def __init__(
        self, parameters, lr: float, momentum: float = 0.95, weight_decay: float = 0.1, bf16: bool | None = None
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.bf16 = bf16

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                wanted = [whole(self._nesterov(parameter, group["momentum"])) for parameter in parameters]
                directions = orthogonalise(torch.stack(wanted), self.bf16)
                # updates have the root mean square of AdamW's, so its learning rates serve (Liu et
                # al. 2025)
                step_size = group["lr"] * 0.2 * max(shape) ** 0.5
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(sharded_like(direction, parameter), alpha=-step_size)

    def _nesterov(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        buffer = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
        buffer.lerp_(gradient, 1 - momentum)
        return gradient.lerp(buffer, momentum)


class MuonAdamW(torch.optim.Optimizer):
    """Both as one optimiser with one list of groups and one state, in torch's format.

    `model` may contain several models: the head of each is trained by AdamW. Both optimisers share groups and state
    with this one, so that what a scheduler, a checkpoint or FSDP2 changes here reaches them.
    """

    def __init__(
        self, model: nn.Module, lr: float, weight_decay: float = 0.1, betas=(0.9, 0.95), bf16: bool | None = None
    ) -> None:
        embeddings = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        heads = [m.get_output_embeddings() for m in model.modules() if isinstance(m, PreTrainedModel)]
        embeddings |= {id(p) for head in heads if head is not None for p in head.parameters()}
        trained = [p for p in model.parameters() if p.requires_grad]
        matrices = [p for p in trained if p.ndim == 2 and min(p.shape) > MAX_OUTPUTS and id(p) not in embeddings]
        inside = {id(p) for p in matrices}
        others = [p for p in trained if id(p) not in inside]
        self.optimizers = [
            Muon(matrices, lr, weight_decay=weight_decay, bf16=bf16),
            torch.optim.AdamW(others, lr, betas=betas, weight_decay=0.0, fused=True),
        ]
        super().__init__([group for optimizer in self.optimizers for group in optimizer.param_groups], {})
        self._share()

    def _share(self) -> None:
        for optimizer, group in zip(self.optimizers, self.param_groups, strict=True):
            optimizer.param_groups, optimizer.state = [group], self.state

    def step(self, closure: Any = None) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()


def make_optimizer(
    module: nn.Module, name: str, lr: float, weight_decay: float, bf16: bool | None = None
) -> torch.optim.Optimizer:
    """`muon` (with AdamW for what is not a matrix of a block) or `adamw`; `bf16` is Muon's precision."""
    if name == "muon":
        return MuonAdamW(module, lr, weight_decay, bf16=bf16)
    return torch.optim.AdamW(module.parameters(), lr, weight_decay=weight_decay, fused=True)
