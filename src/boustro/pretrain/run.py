"""One training run: shards in, a model folder out.

The parts: `objectives` makes batches, `trainer` computes, `checkpoints` keeps, `signals` and `processes`
say when to stop and with whom. Checkpoints lie in `OUT.checkpoints` until the model folder is written.
"""

import json
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils.logging import disable_progress_bar

from boustro.models.hardware import best_device, has_fast_bf16
from boustro.models.presets import make_config
from boustro.pretrain.checkpoints import newest_checkpoint
from boustro.pretrain.config import PretrainConfig, differing_facts, run_facts
from boustro.pretrain.objectives import Collator, find_objective
from boustro.pretrain.optimizer import MuonAdamW
from boustro.pretrain.processes import first_decides, is_first, num_processes, part, say
from boustro.pretrain.progress import Progress
from boustro.pretrain.sharding import whole_state
from boustro.pretrain.signals import Signals, Stopped
from boustro.pretrain.trainer import PretrainTrainer
from boustro.store import open_folder, refuse_foreign, write_file, write_folder
from boustro.text.segments import Segments, SegmentStream
from boustro.text.shards import Shards
from boustro.text.tokenizers import load_tokenizer


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Train a model on token shards; writes and returns what came of it.

    Under torchrun or accelerate launch every process calls it. Raises `ValueError` for unusable shards or
    options before anything is computed, and `SystemExit` (143, 130) when SIGTERM or SIGINT stopped the run.
    """
    try:
        return _pretrain(config)
    finally:
        part()


def _pretrain(config: PretrainConfig) -> dict[str, Any]:
    refuse_foreign(config.out, "model")
    shards = Shards.open(config.shards)
    validation = _open_validation(config, shards)
    facts = run_facts(config, shards)
    if config.resume and (finished := _finished(config, facts)):
        return finished
    segments = Segments(shards, config.segment_length, config.seed)
    if len(segments) < config.batch_segments:
        raise ValueError(
            f"{config.shards} holds {len(segments)} segments of {config.segment_length:,} pieces, fewer than a batch "
            f"of {config.batch_segments}; lower --batch-segments or --segment-length"
        )
    held_out = Segments(validation, config.segment_length, seed=None) if validation else None
    step_pieces = config.batch_segments * config.segment_length
    steps = max(1, round((config.tokens or len(segments) * config.segment_length) / step_pieces))

    set_seed(config.seed)
    objective, sentinel = find_objective(config.objective), shards.config["end_of_text_id"]
    model_config = make_config(config.preset, shards.config["vocab_size"], config.segment_length, sentinel)
    model_config.update(objective.describe(config))
    lm = objective.model.from_config(model_config, dtype=torch.float32)
    arguments = _arguments(config, steps, validate=held_out is not None)
    resume_from = first_decides(lambda: _starting_point(config, facts))
    say(
        f"{config.direction} {config.preset}: {lm.num_parameters() / 1e6:.1f}M parameters, "
        f"{steps:,} steps of {step_pieces:,} pieces on {num_processes()} x {arguments.device.type}, "
        f"{len(segments):,} segments at hand"
    )
    with Signals() as signals:
        trainer = PretrainTrainer(
            objective.with_loss(lm),
            arguments,
            data_collator=Collator(config, sentinel),
            train_dataset=SegmentStream(segments, config.seed, steps * config.batch_segments),
            eval_dataset=held_out,
            callbacks=[Progress(step_pieces)],
            optimizers=(_optimizer(lm, config), None),
            lm=lm,
            seed=config.seed,
            facts=facts,
            signals=signals,
            save_minutes=config.save_minutes,
            num_eval_segments=max(1, config.validation_pieces // config.segment_length),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        started = time.monotonic()
        try:
            trainer.train(resume_from_checkpoint=resume_from)
            metrics = _last_metrics(trainer) if held_out else {}
        except Stopped as stop:
            kept = trainer.save_now()
            say(f"stopped by {stop} after step {trainer.state.global_step:,} of {steps:,}; {kept} is complete. "
                "To go on, give the same command with --resume")  # fmt: skip
            raise SystemExit(128 + stop.number) from None
    result = {
        "config": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()},
        "run": facts,
        "shards_fingerprint": shards.fingerprint,
        "num_parameters": lm.num_parameters(),
        "pieces_seen": steps * step_pieces,
        "seconds": round(time.monotonic() - started, 1),
        "validation_loss": metrics.get("eval_loss"),
        "validation_perplexity": metrics.get("eval_perplexity"),
        "history": [row for row in trainer.state.log_history if "loss" in row or "eval_loss" in row],
    }
    weights = whole_state(lm.to(getattr(torch, config.save_dtype)))
    if is_first():
        with write_folder(config.out, "model", {"shards": shards.fingerprint}) as folder:
            lm.save_pretrained(folder, state_dict=weights)
            load_tokenizer(shards.tokenizer_path).save_pretrained(folder)
            write_file(folder / "training.json", json.dumps(result, indent=1))
        shutil.rmtree(config.checkpoints, ignore_errors=True)
    say(f"{config.out}: done" + (f", validation perplexity {metrics['eval_perplexity']:.2f}" if metrics else ""))
    return result


def _open_validation(config: PretrainConfig, shards: Shards) -> Shards | None:
    if config.validation is None:
        return None
    validation = Shards.open(config.validation)
    if validation.config["vocab_size"] != shards.config["vocab_size"]:
        raise ValueError(
            f"{config.validation} has {validation.config['vocab_size']:,} pieces in its vocabulary and "
            f"{config.shards} has {shards.config['vocab_size']:,}; tokenize both with one tokenizer"
        )
    if load_tokenizer(validation.tokenizer_path).get_vocab() != load_tokenizer(shards.tokenizer_path).get_vocab():
        raise ValueError(
            f"{config.validation} and {config.shards} have different pieces; tokenize both with one tokenizer"
        )
    return validation


def _finished(config: PretrainConfig, facts: dict[str, Any]) -> dict[str, Any] | None:
    """What came of the run if its model stands already; `ValueError` if another run's stands there."""
    if not (config.out / "manifest.json").is_file():
        return None
    open_folder(config.out, "model", verify=True)
    result = json.loads((config.out / "training.json").read_text("utf-8"))
    differing = differing_facts(result.get("run", {}), facts)
    if differing:
        raise ValueError(
            f"{config.out} is the model of a run with another {', '.join(differing)}; "
            "leave out --resume to replace it, or choose another --out"
        )
    say(f"{config.out}: this run is finished, {result['pieces_seen']:,} pieces; nothing to do")
    if is_first():
        shutil.rmtree(config.checkpoints, ignore_errors=True)  # left where a run was killed at its very end
    return result


def _starting_point(config: PretrainConfig, facts: dict[str, Any]) -> str | None:
    """The checkpoint to go on from; without --resume, older ones are removed."""
    if not config.resume:
        shutil.rmtree(config.checkpoints, ignore_errors=True)
        return None
    found = newest_checkpoint(config.checkpoints, facts)
    return str(found) if found else None


def _arguments(config: PretrainConfig, steps: int, validate: bool) -> TrainingArguments:
    device = best_device()
    together = num_processes() * (micro := config.micro_batch_segments or _micro_batch(config, device))
    if config.batch_segments % together:
        processes = f" in each of {num_processes()} processes" if num_processes() > 1 else ""
        raise ValueError(
            f"--batch-segments {config.batch_segments} is no multiple of --micro-batch-segments {micro}{processes}"
        )
    wsd = config.schedule == "wsd"
    if not sys.stderr.isatty():
        disable_progress_bar()
    arguments = TrainingArguments(
        output_dir=str(config.checkpoints),
        max_steps=steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=config.batch_segments // together,
        learning_rate=config.lr,
        lr_scheduler_type="warmup_stable_decay" if wsd else "cosine",
        lr_scheduler_kwargs={"num_decay_steps": round(config.decay * steps)} if wsd else {},
        warmup_steps=round(config.warmup * steps),
        bf16=has_fast_bf16(device) if config.bf16 is None else config.bf16,
        use_cpu=device.type == "cpu",
        torch_compile=config.compile,
        logging_steps=max(1, min(50, steps // 20)),
        logging_nan_inf_filter=False,  # it would wait for the GPU in every micro-batch, and hide what it finds
        eval_strategy="steps" if validate else "no",
        eval_steps=max(1, steps // max(1, config.evaluations)),
        save_strategy="steps",
        save_steps=10**9,  # by the clock instead, see PretrainTrainer
        seed=config.seed,
        dataloader_num_workers=config.data_workers,
        dataloader_drop_last=True,
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
    )
    if arguments.n_gpu > 1:  # one process and several GPUs: nn.DataParallel would multiply the batch
        say(f"{arguments.n_gpu} GPUs are here and one is used; for all, start with torchrun --nproc-per-node")
        arguments._n_gpu = 1
    return arguments


def _micro_batch(config: PretrainConfig, device: torch.device) -> int:
    """The largest divisor of a process's batch that keeps a pass near 4,096 pieces (CPU) or 65,536 (GPU)."""
    share, left = divmod(config.batch_segments, num_processes())
    if left:
        raise ValueError(
            f"--batch-segments {config.batch_segments} cannot be shared out over {num_processes()} processes; "
            "choose a multiple"
        )
    most = max(1, (4096 if device.type == "cpu" else 65536) // config.segment_length)
    return max(n for n in range(1, min(most, share) + 1) if share % n == 0)


def _optimizer(lm: torch.nn.Module, config: PretrainConfig) -> torch.optim.Optimizer:
    if config.optimizer == "muon":
        return MuonAdamW(lm, config.lr, config.weight_decay)
    return torch.optim.AdamW(lm.parameters(), config.lr, weight_decay=config.weight_decay, fused=True)


def _last_metrics(trainer: PretrainTrainer) -> dict[str, float]:
    """The validation loss of the finished model, measured now unless the last step was followed by one."""
    rows = [row for row in trainer.state.log_history if "eval_loss" in row]
    return rows[-1] if rows and rows[-1]["step"] == trainer.state.global_step else trainer.evaluate()
