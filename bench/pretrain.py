"""Pretraining: pieces per second and loss over time, for one model on the same shards by five systems.

    trainer     the stock recipe: transformers Trainer, its own loss over all logits, AdamW, cosine
    loop        a plain PyTorch loop as in nanoGPT: all logits, cross_entropy, fused AdamW, cosine
    compiled    the same loop through torch.compile
    boustro     what `boustro lab pretrain` runs: chunked loss, Muon + AdamW, warm-up-stable-decay, compiled
    same-steps  the same with the others' AdamW, to compare only the speed of a step

    boustro lab tokenize corpus.txt --out shards --train-tokenizer 8192
    python bench/pretrain.py --shards shards --preset mini --segment-length 256 --batch-segments 16 --seconds 60

Same architecture and initial weights, same segments in the same order, same batch, context and precision; AdamW's
learning rate is an option, so the other systems can have a good one. Every system first runs a few steps, which compile
and show its speed, then starts again: with `--seconds` for as many steps as fit, with a schedule of that length; with
`--steps` for the same number. `--profile-steps` adds the time of each part of a Boustro step. The output ends with a
Markdown table.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import tyro
from torch import Tensor
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments, get_cosine_schedule_with_warmup
from transformers.trainer_callback import PrinterCallback

from boustro.hardware import best_device, uses_bf16
from boustro.lab.objectives.causal import causal
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.mixture import Corpora
from boustro.lab.pretrain.run import build_lm, build_trainer, pretrain_arguments
from boustro.lab.pretrain.segments import Segments, SegmentStream
from boustro.lab.pretrain.shards import Shards
from boustro.lab.pretrain.trainer import make_optimizer
from boustro.models.loss import LMWithLoss, lm_loss

PROBE_STEPS, WARMUP = 4, 0.03


@dataclass
class Setting:
    """The settings that all systems share."""

    config: PretrainConfig
    corpora: Corpora
    segments: Segments
    held_out: Segments | None
    device: torch.device
    bf16: bool
    micro: int
    adamw_lr: float

    def batches(self, steps: int, direction: str = "forward") -> Iterator[tuple[Tensor, Tensor]]:
        """Micro-batches of inputs and targets, in the order of the run."""
        stream = SegmentStream(self.segments, self.config.seed, steps * self.config.batch_segments)
        for start in range(0, len(stream), self.micro):
            pieces = torch.stack([torch.from_numpy(stream[start + i].pieces) for i in range(self.micro)])
            batch = causal(pieces, direction, self.facts["end_of_text_id"])  # type: ignore[arg-type]
            yield batch.input_ids.to(self.device), batch.targets.to(self.device)

    @property
    def facts(self) -> dict[str, Any]:
        """What the shards say of themselves."""
        return self.corpora.shards[0].config

    @property
    def step_pieces(self) -> int:
        return self.config.batch_segments * self.config.segment_length


@dataclass
class Curve:
    """The end time and the training loss of each step."""

    begun: float = field(default_factory=time.monotonic)
    times: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def note(self, loss: float) -> None:
        self.times.append(time.monotonic() - self.begun)
        self.losses.append(loss)

    @property
    def start_up(self) -> float:
        """The extra seconds of the first step, which compiles."""
        return max(0.0, self.times[0] - self.step_seconds)

    @property
    def step_seconds(self) -> float:
        return (self.times[-1] - self.times[0]) / max(1, len(self.times) - 1)

    def final_loss(self) -> float:
        """The mean of the last tenth of the steps."""
        last = self.losses[-max(1, len(self.losses) // 10) :]
        return sum(last) / len(last)

    def seconds_to(self, loss: float) -> float:
        """The seconds until the mean over a tenth of the steps reached `loss`; infinite if it never did."""
        size = max(1, len(self.losses) // 10)
        for end in range(size, len(self.losses) + 1):
            if sum(self.losses[end - size : end]) / size <= loss:
                return self.times[end - 1] - self.start_up
        return math.inf


class Clock(TrainerCallback):
    """The curve of a Trainer that logs every step."""

    def __init__(self) -> None:
        self.curve = Curve()

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self.curve = Curve()

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        if logs and "loss" in logs:
            self.curve.note(logs["loss"])


class StockTrainer(Trainer):
    """The Trainer on a stream of batches; nothing else is changed."""

    def __init__(self, *args, batches: Callable[[], Iterator[tuple[Tensor, Tensor]]], **kwargs) -> None:
        super().__init__(*args, train_dataset=[0], **kwargs)
        self.batches = batches

    def get_train_dataloader(self):
        return [{"input_ids": x, "labels": y, "shift_labels": y} for x, y in self.batches()]


def by_trainer(setting: Setting, lm: PreTrainedModel, steps: int) -> Curve:
    """The stock recipe."""
    clock, config = Clock(), setting.config
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=steps,
        per_device_train_batch_size=setting.micro,
        gradient_accumulation_steps=config.batch_segments // setting.micro,
        learning_rate=setting.adamw_lr,
        weight_decay=config.steps.weight_decay,
        lr_scheduler_type="cosine",
        warmup_steps=round(WARMUP * steps),
        bf16=setting.bf16,
        use_cpu=setting.device.type == "cpu",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = StockTrainer(lm, arguments, callbacks=[clock], batches=lambda: setting.batches(steps))
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return clock.curve


def by_loop(setting: Setting, lm: PreTrainedModel, steps: int, compiled: bool = False) -> Curve:
    """nanoGPT's loop."""
    lm = lm.to(setting.device).train()  # type: ignore[arg-type]
    groups = [[p for p in lm.parameters() if (p.ndim > 1) == decayed] for decayed in (True, False)]
    decays = [setting.config.steps.weight_decay, 0.0]
    optimizer = torch.optim.AdamW(
        [{"params": group, "weight_decay": decay} for group, decay in zip(groups, decays, strict=True)],
        setting.adamw_lr,
        betas=(0.9, 0.95),
        fused=True,
    )
    scheduler = get_cosine_schedule_with_warmup(optimizer, round(WARMUP * steps), steps)

    def logits_loss(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(lm(input_ids=x, use_cache=False).logits.flatten(0, 1).float(), y.flatten())

    forward = torch.compile(logits_loss) if compiled else logits_loss
    accumulated = setting.config.batch_segments // setting.micro
    curve, batches = Curve(), setting.batches(steps)
    for _ in range(steps):
        total = 0.0
        for _ in range(accumulated):
            x, y = next(batches)
            with torch.autocast(setting.device.type, torch.bfloat16, enabled=setting.bf16):
                loss = forward(x, y) / accumulated
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        curve.note(float(total))
    return curve


def by_boustro(setting: Setting, lm: PreTrainedModel, steps: int, **changes: Any) -> Curve:
    """What `boustro lab pretrain` runs."""
    clock, config = Clock(), replace(setting.config, **changes)
    arguments = pretrain_arguments(config, steps, validate=False)
    arguments.logging_steps, arguments.save_strategy = 1, "no"  # type: ignore[assignment]
    stream = SegmentStream(setting.segments, config.seed, steps * config.batch_segments)
    trainer = build_trainer(config, lm, arguments, stream, setting.corpora, None, {})
    trainer.add_callback(clock)
    trainer.train()
    return clock.curve


ROADS: dict[str, Callable[[Setting, PreTrainedModel, int], Curve]] = {
    "trainer": by_trainer,
    "loop": by_loop,
    "compiled": lambda setting, lm, steps: by_loop(setting, lm, steps, compiled=True),
    "boustro": by_boustro,
    "same-steps": lambda setting, lm, steps: by_boustro(
        setting, lm, steps, optimizer="adamw", lr=setting.adamw_lr, schedule="cosine"
    ),
}


@torch.no_grad()
def validation_loss(setting: Setting, lm: PreTrainedModel, num_segments: int = 64) -> float:
    """Mean loss per piece over held-out segments, computed in one way for all systems; NaN without segments."""
    if setting.held_out is None:
        return math.nan
    module, losses = LMWithLoss(lm).eval(), []
    for i in range(min(num_segments, len(setting.held_out))):
        pieces = torch.from_numpy(setting.held_out[i])[None].to(setting.device)
        losses.append(module(*causal(pieces, "forward", setting.facts["end_of_text_id"]))["loss"].item())
    return sum(losses) / len(losses)


def profile(setting: Setting, num_steps: int = 5) -> dict[str, float]:
    """Seconds per Boustro step, uncompiled: data, the blocks, head and loss, the optimiser, each measured alone."""
    lm = build_lm(setting.config, setting.corpora).to(setting.device).train()  # type: ignore[arg-type]
    config = setting.config
    optimizer = make_optimizer(lm, config.optimizer, config.lr, config.steps.weight_decay, setting.bf16)
    head = lm.get_output_embeddings()
    spent = dict.fromkeys(["data", "blocks", "head and loss", "optimiser"], 0.0)
    batches, accumulated = setting.batches(num_steps + 1), setting.config.batch_segments // setting.micro

    def timed(name: str, act: Callable[[], object], counted: bool):
        begun, result = time.monotonic(), act()
        if setting.device.type == "cuda":
            torch.cuda.synchronize()
        spent[name] += (time.monotonic() - begun) * counted
        return result

    for step in range(num_steps + 1):  # the first warms up
        for _ in range(accumulated):
            x, y = timed("data", lambda: next(batches), step > 0)
            with torch.autocast(setting.device.type, torch.bfloat16, enabled=setting.bf16):
                read = lambda x=x: lm.base_model(input_ids=x, use_cache=False).last_hidden_state  # noqa: E731
                states = timed("blocks", read, step > 0)
                leaf = states.detach().requires_grad_()
                act = lambda leaf=leaf, y=y: lm_loss(leaf, head, y).backward()  # noqa: E731
                timed("head and loss", act, step > 0)
            timed("blocks", lambda states=states, leaf=leaf: states.backward(leaf.grad), step > 0)
        timed("optimiser", lambda: (optimizer.step(), optimizer.zero_grad()), step > 0)
    return {name: seconds / num_steps for name, seconds in spent.items()}


def main(
    shards: Path,
    preset: str = "mini",
    validation: Path | None = None,
    segment_length: int = 256,
    batch_segments: int = 16,
    micro_batch_segments: Annotated[int | None, "by default what suits the device"] = None,
    seconds: float | None = None,
    steps: int | None = None,
    roads: tuple[str, ...] = tuple(ROADS),
    lr: float = 5e-3,
    adamw_lr: float = 3e-3,
    bf16: Annotated[bool | None, "by default where the hardware is fast at it"] = None,
    no_compile: bool = False,
    seed: int = 1,
    profile_steps: Annotated[int, "steps to profile; 0 for none"] = 0,
) -> None:
    """Measure the named systems, one after the other."""
    if (seconds is None) == (steps is None) and not (profile_steps and not roads):
        raise SystemExit("give either --seconds (per system) or --steps")
    unknown = [road for road in roads if road not in ROADS]
    if unknown:
        raise SystemExit(f"unknown road {unknown[0]!r}: known are {', '.join(ROADS)}")
    device = best_device()
    config = PretrainConfig(
        shards=(shards,), out=Path(tempfile.mkdtemp()) / "lm", direction="forward", preset=preset, seed=seed, lr=lr,
        segment_length=segment_length, batch_segments=batch_segments, micro_batch_segments=micro_batch_segments,
        bf16=bf16, compile=not no_compile,
    )  # fmt: skip
    opened = Corpora.open(config.shards)
    held_out = Segments(Shards.open(validation), segment_length, seed=None) if validation else None
    setting = Setting(
        config, opened, Segments(opened.shards[0], segment_length, seed), held_out, device,
        uses_bf16(device) if bf16 is None else bf16,
        pretrain_arguments(config, 1, validate=False).per_device_train_batch_size, adamw_lr,
    )  # fmt: skip
    rows: dict[str, tuple[float, Curve, float]] = {}
    for road in roads:
        probe = ROADS[road](setting, build_lm(config, opened), PROBE_STEPS)  # compiles, and shows the speed
        lm = build_lm(config, opened)
        curve = ROADS[road](setting, lm, steps or max(10, int((seconds or 0) / probe.step_seconds)))
        rows[road] = (probe.start_up, curve, validation_loss(setting, lm))
    if profile_steps:
        spent = profile(setting, profile_steps)
        print("\n| part of a step (uncompiled) | seconds | share |\n|---|---|---|")
        for name, value in spent.items():
            print(f"| {name} | {value:.4f} | {value / sum(spent.values()):.0%} |")
    if rows:
        print_table(setting, rows)


def print_table(setting: Setting, rows: dict[str, tuple[float, Curve, float]]) -> None:
    """One line per system, start-up (such as compiling) in its own column; ratios are to the first."""
    first = next(iter(rows.values()))[1]
    precision = "bf16 autocast" if setting.bf16 else "fp32"
    print(
        f"\n{setting.config.preset}, {setting.facts['vocab_size']:,} pieces, {setting.step_pieces:,} a step, "
        f"segments of {setting.config.segment_length:,}, {precision}, {setting.device.type}, "
        f"{torch.get_num_threads()} threads\n"
    )
    titles = "road | start-up s | tokens/s | ratio | steps | training s | loss | validation | s to first's loss | ratio"
    print(f"| {titles} |")
    print("|" + "---|" * (titles.count("|") + 1))
    wanted = first.final_loss()
    for road, (start_up, curve, held_out) in rows.items():
        cells = [
            road,
            f"{start_up:.1f}",
            f"{setting.step_pieces / curve.step_seconds:,.0f}",
            f"{first.step_seconds / curve.step_seconds:.2f}",
            f"{len(curve.times):,}",
            f"{curve.times[-1] - curve.start_up:.1f}",
            f"{curve.final_loss():.3f}",
            f"{held_out:.3f}",
            f"{curve.seconds_to(wanted):.1f}",
            f"{first.seconds_to(wanted) / curve.seconds_to(wanted):.2f}",
        ]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    tyro.cli(main)
