"""One training run: shards in, a model folder out, over the transformers Trainer.

The Trainer brings devices, mixed precision, compilation, gradient accumulation, schedules and the state
of a run; what is ours is the batch (`objectives`), the loss (`models.loss`), the optimiser and the choice
of the checkpoint to go on from. Checkpoints lie in `OUT.checkpoints` until the model folder is written.
"""

import json
import math
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils.logging import disable_progress_bar

from boustro.models.hardware import best_device, has_fast_bf16
from boustro.models.loss import LMWithLoss
from boustro.models.presets import make_config
from boustro.objectives.causal import Batch, Direction, causal
from boustro.pretrain.optimizer import MuonAdamW
from boustro.store import open_folder, refuse_foreign, write_file, write_folder, write_manifest
from boustro.text.segments import Segments
from boustro.text.shards import Shards
from boustro.text.tokenizers import load_tokenizer

CHECKPOINT = "checkpoint"


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Everything that decides what a run computes."""

    shards: Path
    """Token shards to train on, as written by `boustro tokenize`."""
    out: Path
    """Where the model folder is written."""
    direction: Direction = "backward"
    """Which way the model reads."""
    preset: str = "mini"
    """gpt2-base, tiny, mini, small, or a path to a transformers config.json."""
    validation: Path | None = None
    """Token shards for validation loss and perplexity, made with the same tokenizer."""
    tokens: int | None = None
    """Pieces to train on; by default one pass over the shards."""
    segment_length: int = 1024
    """Pieces a segment; also the model's window."""
    batch_segments: int = 8
    """Segments an optimiser step."""
    micro_batch_segments: int | None = None
    """Segments that go through the model at once; by default what suits the device."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """Muon + AdamW, or AdamW alone (the paper's)."""
    lr: float = 5e-3
    """Peak learning rate."""
    weight_decay: float = 0.1
    schedule: Literal["wsd", "cosine"] = "wsd"
    """Warm-up, stable, decay; or warm-up and cosine (the paper's)."""
    warmup: float = 0.03
    """Share of the steps spent warming up."""
    decay: float = 0.4
    """Share of the steps spent decaying (wsd)."""
    seed: int = 1
    compile: bool = True
    """Compile the model with torch.compile (needs a C++ compiler on a CPU)."""
    bf16: bool | None = None
    """Mixed precision; by default wherever the hardware is fast at it."""
    save_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Precision of the weights in the model folder."""
    save_minutes: float = 10.0
    """Minutes between checkpoints."""
    validation_pieces: int = 400_000
    """How much of the validation shards, from their beginning, is measured."""
    evaluations: int = 8
    """How often to measure the validation loss during the run."""
    resume: bool = False
    """Go on from the newest complete checkpoint."""


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Train a forward or a backward LM on token shards; writes and returns what came of it.

    Raises `ValueError` for unusable shards or options, before anything is computed.
    """
    refuse_foreign(config.out, "model")
    shards = Shards.open(config.shards)
    validation = Shards.open(config.validation) if config.validation else None
    if validation and validation.config["vocab_size"] != shards.config["vocab_size"]:
        raise ValueError(
            f"{config.validation} has {validation.config['vocab_size']:,} pieces in its vocabulary and "
            f"{config.shards} has {shards.config['vocab_size']:,}; tokenize both with one tokenizer"
        )
    if validation and _vocabulary(validation) != _vocabulary(shards):
        raise ValueError(
            f"{config.validation} and {config.shards} have different pieces; tokenize both with one tokenizer"
        )
    set_seed(config.seed)
    sentinel = shards.config["end_of_text_id"]
    segments = Segments(shards, config.segment_length, config.seed)
    if len(segments) < config.batch_segments:
        raise ValueError(
            f"{config.shards} holds {len(segments)} segments of {config.segment_length:,} pieces, fewer than a batch "
            f"of {config.batch_segments}; lower --batch-segments or --segment-length"
        )
    held_out = Segments(validation, config.segment_length, seed=None) if validation else None
    model_config = make_config(config.preset, shards.config["vocab_size"], config.segment_length, sentinel)
    model_config.direction, model_config.sentinel = config.direction, True
    lm = AutoModelForCausalLM.from_config(model_config, dtype=torch.float32)

    device = best_device()
    micro = config.micro_batch_segments or _micro_batch(config, device)
    if config.batch_segments % micro:
        raise ValueError(f"--batch-segments {config.batch_segments} is no multiple of --micro-batch-segments {micro}")
    step_pieces = config.batch_segments * config.segment_length
    steps = max(1, round((config.tokens or len(segments) * config.segment_length) / step_pieces))
    checkpoints = config.out.with_name(config.out.name + ".checkpoints")
    run_facts = _run_facts(config, shards)
    resume_from = _newest_checkpoint(checkpoints, run_facts) if config.resume else None
    if not config.resume:
        shutil.rmtree(checkpoints, ignore_errors=True)
    _say(
        f"{config.direction} {config.preset}: {lm.num_parameters() / 1e6:.1f}M parameters, "
        f"{steps:,} steps of {step_pieces:,} pieces on {device}, {len(segments):,} segments at hand"
    )

    bf16 = has_fast_bf16(device) if config.bf16 is None else config.bf16
    trainer = _Trainer(
        LMWithLoss(lm),
        TrainingArguments(
            output_dir=str(checkpoints),
            max_steps=steps,
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=config.batch_segments // micro,
            learning_rate=config.lr,
            lr_scheduler_type="warmup_stable_decay" if config.schedule == "wsd" else "cosine",
            lr_scheduler_kwargs={"num_decay_steps": round(config.decay * steps)} if config.schedule == "wsd" else {},
            warmup_steps=round(config.warmup * steps),
            bf16=bf16,
            use_cpu=device.type == "cpu",
            torch_compile=config.compile,
            logging_steps=max(1, min(50, steps // 20)),
            eval_strategy="steps" if held_out else "no",
            eval_steps=max(1, steps // max(1, config.evaluations)),
            save_strategy="steps",
            save_steps=10**9,
            save_total_limit=2,
            seed=config.seed,
            dataloader_drop_last=True,
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
        ),
        data_collator=_Collator(config.direction, sentinel),
        train_dataset=segments,  # type: ignore[arg-type]
        eval_dataset=held_out,  # type: ignore[arg-type]
        callbacks=[_Progress(config, step_pieces)],
        run_facts=run_facts,
        num_eval_segments=max(1, config.validation_pieces // config.segment_length),
        optimizers=(_optimizer(lm, config), None),  # type: ignore[arg-type]
    )
    if not sys.stderr.isatty():
        disable_progress_bar()
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=resume_from)
    history = [row for row in trainer.state.log_history if "loss" in row or "eval_loss" in row]
    metrics = {}
    if held_out:
        measured = [row for row in history if "eval_loss" in row and row["step"] == trainer.state.global_step]
        metrics = measured[-1] if measured else trainer.evaluate()
    result = {
        "config": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()},
        "shards_fingerprint": shards.fingerprint,
        "num_parameters": lm.num_parameters(),
        "pieces_seen": steps * step_pieces,
        "seconds": round(time.monotonic() - started, 1),
        "validation_loss": metrics.get("eval_loss"),
        "validation_perplexity": metrics.get("eval_perplexity"),
        "history": history,
    }
    with write_folder(config.out, "model", {"shards": shards.fingerprint}) as folder:
        lm.to(getattr(torch, config.save_dtype)).save_pretrained(folder)
        load_tokenizer(shards.tokenizer_path).save_pretrained(folder)
        write_file(folder / "training.json", json.dumps(result, indent=1))
    shutil.rmtree(checkpoints, ignore_errors=True)
    _say(f"{config.out}: done" + (f", validation perplexity {metrics['eval_perplexity']:.2f}" if metrics else ""))
    return result


def _vocabulary(shards: Shards) -> dict[str, int]:
    return load_tokenizer(shards.tokenizer_path).get_vocab()


def _optimizer(lm: torch.nn.Module, config: PretrainConfig) -> torch.optim.Optimizer:
    if config.optimizer == "muon":
        return MuonAdamW(lm, config.lr, config.weight_decay)
    return torch.optim.AdamW(lm.parameters(), config.lr, weight_decay=config.weight_decay, fused=True)


def _micro_batch(config: PretrainConfig, device: torch.device) -> int:
    """The largest divisor of the batch that keeps a pass near 4,096 pieces (CPU) or 65,536 (GPU)."""
    most = max(1, (4096 if device.type == "cpu" else 65536) // config.segment_length)
    return max(n for n in range(1, min(most, config.batch_segments) + 1) if config.batch_segments % n == 0)


def _run_facts(config: PretrainConfig, shards: Shards) -> dict[str, Any]:
    """What decides a run's weights: a checkpoint of other facts is another run's."""
    names = "direction preset tokens segment_length batch_segments optimizer lr weight_decay schedule warmup decay seed"
    return {"shards": shards.fingerprint, **{name: getattr(config, name) for name in names.split()}}


def _newest_checkpoint(checkpoints: Path, run_facts: dict[str, Any]) -> str | None:
    """The newest checkpoint whose manifest vouches for every file; names those that were passed over."""
    found = sorted(checkpoints.glob("checkpoint-*"), key=lambda p: int(p.name.split("-")[1]), reverse=True)
    for path in found:
        try:
            made_by = open_folder(path, CHECKPOINT, verify=True)["made_by"]
        except (ValueError, OSError) as error:
            _say(f"passed over an incomplete checkpoint: {error}")
            shutil.rmtree(path, ignore_errors=True)  # or the Trainer would count it among the two that it keeps
            continue
        differing = [name for name, value in run_facts.items() if made_by.get("run", {}).get(name) != value]
        if differing:
            raise ValueError(
                f"{path} is of a run with another {', '.join(differing)}; leave out --resume to start anew"
            )
        _say(f"going on from {path}")
        return str(path)
    _say(f"{checkpoints}: no complete checkpoint, starting from the beginning")
    return None


@dataclass(frozen=True)
class _Collator:
    direction: Direction
    sentinel: int

    def __call__(self, segments: list[np.ndarray]) -> dict[str, torch.Tensor]:
        return causal(torch.from_numpy(np.stack(segments)), self.direction, self.sentinel)._asdict()


class _Trainer(Trainer):
    """The stock Trainer with our loss module saved and loaded as the language model that it wraps."""

    def __init__(self, *args: Any, num_eval_segments: int, run_facts: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.run_facts = run_facts
        self.num_eval_segments = num_eval_segments

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        assert output_dir is not None and isinstance(self.model, LMWithLoss)
        self.model.lm.save_pretrained(output_dir)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        assert isinstance(self.model, LMWithLoss)
        saved = AutoModelForCausalLM.from_pretrained(resume_from_checkpoint, dtype=torch.float32)
        self.model.lm.load_state_dict(saved.state_dict())

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        if self.args.should_save and folder.is_dir():
            write_manifest(folder, CHECKPOINT, {"run": self.run_facts})

    @torch.no_grad()
    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:  # type: ignore[override]
        """Mean loss a piece over the first validation segments, and its exponential."""
        assert isinstance(self.model, LMWithLoss)
        held_out: Any = self.eval_dataset
        module, size = self.model, self.args.per_device_train_batch_size
        module.eval()
        total = count = 0.0
        device = next(module.parameters()).device
        segments = [held_out[i] for i in range(min(len(held_out), self.num_eval_segments))]
        with torch.autocast(device.type, torch.bfloat16, enabled=self.args.bf16):
            for start in range(0, len(segments), size):
                batch = self.data_collator(segments[start : start + size])
                batch = Batch(**{name: value.to(device) for name, value in batch.items()})
                total += module(*batch)["loss"].item() * batch.targets.numel()
                count += batch.targets.numel()
        module.train()
        metrics = {"eval_loss": total / count, "eval_perplexity": math.exp(total / count)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class _Progress(TrainerCallback):
    """A bar on a terminal, a line an event elsewhere, and a checkpoint every so many minutes."""

    def __init__(self, config: PretrainConfig, step_pieces: int) -> None:
        self.config, self.step_pieces = config, step_pieces

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit=" steps", disable=None)
        self.saved = self.logged = time.monotonic()
        self.logged_step = state.global_step

    def on_step_end(self, args, state, control, **kwargs):
        self.bar.update(1)
        now = time.monotonic()
        if now - self.saved > 60 * self.config.save_minutes:
            self.saved, control.should_save = now, True
        return control

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        logs = logs or {}
        head = (
            f"step {state.global_step:,}/{state.max_steps:,} · {state.global_step * self.step_pieces / 1e6:.2f}M pieces"
        )
        if "loss" in logs:
            now = time.monotonic()
            speed = (state.global_step - self.logged_step) * self.step_pieces / max(now - self.logged, 1e-9)
            self.logged, self.logged_step = now, state.global_step
            tqdm.write(f"{head} · loss {logs['loss']:.3f} · {speed:,.0f} pieces/s", file=sys.stderr)
        elif "eval_loss" in logs:
            loss, perplexity = logs["eval_loss"], logs["eval_perplexity"]
            tqdm.write(f"{head} · validation loss {loss:.4f} · perplexity {perplexity:.2f}", file=sys.stderr)
        sys.stderr.flush()

    def on_train_end(self, args, state, control, **kwargs) -> None:
        self.bar.close()


def _say(message: str) -> None:
    if int(os.environ.get("RANK", "0")) == 0:
        print(message, file=sys.stderr, flush=True)
