"""One training run: shards in, a model folder out.

The parts: `objectives` makes batches, `trainer` computes, `checkpoints` keeps, `signals` and `processes`
say when to stop and with whom. Checkpoints lie in `OUT.checkpoints` until the model folder is written.
"""

import json
import math
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import PreTrainedModel, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from boustro.pretrain.arguments import training_arguments
from boustro.pretrain.checkpoints import newest_checkpoint, remove_checkpoints
from boustro.pretrain.config import PretrainConfig, options_as_json, run_facts
from boustro.pretrain.cost import PROBE_STEPS, Probe
from boustro.pretrain.objectives import Collator, find_recipe
from boustro.pretrain.optimizer import make_optimizer
from boustro.pretrain.output import finished_run, refuse_not_finite, run_output
from boustro.pretrain.processes import first_decides, is_first, num_processes, part, say
from boustro.pretrain.progress import Progress
from boustro.pretrain.sharding import whole_weights
from boustro.pretrain.signals import Signals, Stopped
from boustro.pretrain.trainer import PretrainTrainer
from boustro.pretrain.warm_start import refuse_other_pieces, start_embeddings_from, start_from
from boustro.store import write_file, write_folder
from boustro.text.mixture import Corpora, Mixture, refuse_other_vocabulary
from boustro.text.segments import SegmentStream, Source
from boustro.text.shards import Shards

KIND = "model"


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Train a model on token shards; writes and returns what came of it.

    Under torchrun or accelerate launch every process calls it. Raises `ValueError` for unusable shards or
    options before anything is computed, and `SystemExit` when SIGTERM or SIGINT stopped the run (143, 130) and after
    a dry run (0).
    """
    try:
        with run_output(config, KIND, config.checkpoints):
            return _pretrain(config)
    finally:
        part()


def _pretrain(config: PretrainConfig) -> dict[str, Any]:
    corpora = Corpora.open(config.shards, config.shares, config.alpha)
    shards, validation = corpora.first, Shards.open(config.validation) if config.validation else None
    if validation:
        refuse_other_vocabulary(validation, shards)
    facts = run_facts(config, corpora)
    if finished := finished_run(config, KIND, facts):
        if is_first():
            remove_checkpoints(config.checkpoints)  # left where a run was killed at its very end
        return finished
    recipe = find_recipe(config.objective)
    segments = corpora.sources(lambda own: recipe.read(own, config, config.seed))
    num_segments = sum(map(len, segments))
    if num_segments < config.batch_segments:
        raise ValueError(
            f"{', '.join(map(str, config.shards))}: {num_segments} segments of {config.segment_length:,} pieces, fewer "
            f"than a batch of {config.batch_segments}; lower --batch-segments or --segment-length"
        )
    held_out = recipe.read(validation, config, None) if validation else None
    step_pieces = config.batch_segments * config.segment_length
    wanted = num_segments * config.segment_length if config.tokens is None else config.tokens
    steps = max(1, round(wanted / step_pieces)) if wanted else 0

    lm = build_lm(config, shards)
    arguments = training_arguments(config, steps, validate=held_out is not None)
    resume_from = first_decides(lambda: newest_checkpoint(config.checkpoints, facts)) if config.resume else None
    if resume_from is None:
        _warm_start(lm, config, shards)
    what = config.direction if config.objective == "causal" else config.objective
    say(
        f"{what} {config.architecture}: {lm.num_parameters() / 1e6:.1f}M parameters, "
        f"{steps:,} steps of {step_pieces:,} pieces on {num_processes()} x {arguments.device.type}, "
        f"{num_segments:,} segments at hand"
    )
    if config.dry_run:
        stream = corpora.stream(segments, config.seed, PROBE_STEPS * config.batch_segments)
        _dry_run(config, lm, stream, shards, steps, facts)
    if is_first() and not config.resume:
        remove_checkpoints(config.checkpoints)
    with Signals() as signals:
        stream = corpora.stream(segments, config.seed, steps * config.batch_segments)
        trainer = build_trainer(config, lm, arguments, stream, shards, held_out, signals, facts)
        try:
            if steps:
                trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
            metrics = _last_metrics(trainer) if held_out else {}
        except Stopped as stop:
            kept, step = trainer.save_now(), trainer.state.global_step
            left = f"{kept} is complete" if kept else "there was nothing to save"
            say(f"stopped by {stop} after step {step:,} of {steps:,}; {left}. "
                "To go on, give the same command with --resume")  # fmt: skip
            raise SystemExit(128 + stop.number) from None
    result = {
        "config": options_as_json(config),
        "run": facts,
        "shards_fingerprint": corpora.fingerprint,
        "num_parameters": lm.num_parameters(),
        "pieces_seen": steps * step_pieces,
        "seconds": round(trainer.seconds, 1),
        "validation_loss": metrics.get("eval_loss"),
        "validation_perplexity": metrics.get("eval_perplexity"),
        "history": [row for row in trainer.state.log_history if "loss" in row or "eval_loss" in row],
    }
    weights, _ = whole_weights(trainer.module)
    if is_first():
        lm = recipe.model.from_config(lm.config, dtype=getattr(torch, config.save_dtype))
        lm.load_state_dict(weights)
        refuse_not_finite(lm, f"the weights after step {steps:,}")
        _write_model(config, lm, corpora, result)
    say(f"{config.out}: done" + (f", validation perplexity {metrics['eval_perplexity']:.2f}" if metrics else ""))
    return result


def _write_model(config: PretrainConfig, lm: PreTrainedModel, corpora: Corpora, result: dict[str, Any]) -> None:
    """The model folder, complete; the checkpoints are not needed any more."""
    with write_folder(config.out, KIND, {"shards": corpora.fingerprint}) as folder:
        lm.save_pretrained(folder)
        find_recipe(config.objective).load_tokenizer(corpora.first).save_pretrained(folder)
        write_file(folder / "training.json", json.dumps(result, indent=1))
    remove_checkpoints(config.checkpoints)


def build_lm(config: PretrainConfig, shards: Shards) -> PreTrainedModel:
    """The model with random weights, the same for the same seed."""
    set_seed(config.seed)
    recipe = find_recipe(config.objective)
    return recipe.model.from_config(recipe.config(config, shards), dtype=torch.float32)


def build_trainer(
    config: PretrainConfig,
    lm: PreTrainedModel,
    arguments: TrainingArguments,
    stream: SegmentStream | Mixture,
    shards: Shards,
    held_out: Source | None,
    signals: Signals,
    facts: dict[str, Any],
) -> PretrainTrainer:
    """What trains `lm` for `arguments.max_steps` steps."""
    torch.manual_seed(config.seed + 1)  # what stands beside the LM is drawn by itself, however the LM came about
    module: Any = find_recipe(config.objective).with_loss(lm)
    module._no_split_modules = lm._no_split_modules  # what FSDP is to keep together
    trainer = PretrainTrainer(
        module,
        arguments,
        data_collator=Collator(config, shards.config["end_of_text_id"]),
        train_dataset=stream,
        eval_dataset=held_out,
        callbacks=[Progress(config.batch_segments * config.segment_length)],
        optimizers=(make_optimizer(module, config.optimizer, config.lr, config.weight_decay, arguments.bf16), None),
        seed=config.seed,
        facts=facts,
        signals=signals,
        save_minutes=config.save_minutes,
        num_eval_segments=max(1, config.validation_pieces // config.segment_length),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    return trainer


def _dry_run(
    config: PretrainConfig,
    lm: PreTrainedModel,
    stream: SegmentStream | Mixture,
    shards: Shards,
    steps: int,
    facts: dict[str, Any],
) -> NoReturn:
    """The first few of `steps` steps, in a folder that is thrown away, and what all would cost.

    Signals are not waited for, as in a run: there is nothing to save.
    """
    with tempfile.TemporaryDirectory() as scratch:
        arguments = training_arguments(config, min(steps, PROBE_STEPS), validate=False, folder=Path(scratch))
        trainer = build_trainer(config, lm, arguments, stream, shards, None, Signals(), facts)
        trainer.save_minutes = math.inf
        trainer.add_callback(probe := Probe())
        trainer.train()
    assert trainer.optimizer is not None
    probe.finish(steps, trainer.module, trainer.optimizer)


def _warm_start(lm: PreTrainedModel, config: PretrainConfig, shards: Shards) -> None:
    if config.init_from and config.init_embeddings_from:
        raise ValueError("give --init-from or --init-embeddings-from, not both: the former brings the embeddings too")
    for folder, start in ((config.init_from, start_from), (config.init_embeddings_from, start_embeddings_from)):
        if folder:
            refuse_other_pieces(folder, shards.tokenizer_path)
            start(lm, folder)


def _last_metrics(trainer: PretrainTrainer) -> dict[str, float]:
    """The validation loss of the finished model, measured now unless the last step was followed by one."""
    rows = [row for row in trainer.state.log_history if "eval_loss" in row]
    return rows[-1] if rows and rows[-1]["step"] == trainer.state.global_step else trainer.evaluate()
