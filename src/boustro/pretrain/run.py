"""`boustro pretrain`: shards in, a model folder out. `recipes` says what is trained, `trainer` trains it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, TrainingArguments, set_seed

from boustro.hardware import best_device, uses_bf16
from boustro.models.loss import inclusion
from boustro.models.presets import PRESETS
from boustro.models.projected import fold, project_embeddings
from boustro.pretrain.batches import HeldOut
from boustro.pretrain.checkpoints import find_checkpoint, finished_run, remove_checkpoints
from boustro.pretrain.config import PretrainConfig, run_facts
from boustro.pretrain.distributed import destroy_process_group, is_rank0, num_processes, say, whole_state
from boustro.pretrain.output import refuse_not_finite, run_output
from boustro.pretrain.recipes import Recipe, find_recipe
from boustro.pretrain.trainer import PretrainTrainer, training_arguments
from boustro.pretrain.warm_start import read_embeddings, refuse_other_pieces, start_embeddings_from, start_from
from boustro.store import fingerprint, read_json, write_file, write_folder
from boustro.text.mixture import Corpora, Mixture, refuse_other_vocabulary
from boustro.text.segments import SegmentStream, Source
from boustro.text.shards import Shards

KIND = "model"
Card = Callable[[dict[str, Any]], str]
FACTS = ("objective", "mask_rate", "hide", "direction", "init_from", "init_embeddings_from", "tokens")
FACTS += ("segment_length", "batch_segments", "schedule", "split", "embeddings_of", "sampled_pieces")
"""Options that decide the weights, besides those of every run."""


def pretrain(config: PretrainConfig, card: Card | None = None, made_by: dict[str, Any] | None = None) -> dict[str, Any]:
    """Train a model on token shards; returns its `training.json`. Every process calls it. `ValueError` if unfit.

    `card` makes the folder's README.md of `training.json`; the manifest says `made_by`.
    """
    try:
        with run_output(config, KIND):
            return _pretrain(config, find_recipe(config.objective), card, made_by or {})
    finally:
        destroy_process_group()


def _pretrain(config: PretrainConfig, recipe: Recipe, card: Card | None, made_by: dict[str, Any]) -> dict[str, Any]:
    corpora = Corpora.open(config.shards, config.shares, config.alpha)
    shards, validation = corpora.shards[0], Shards.open(config.validation) if config.validation else None
    if validation:
        refuse_other_vocabulary(validation, shards)
    facts = run_facts(config, FACTS, shards=corpora.fingerprint, preset=_architecture(config.architecture))
    if finished := finished_run(config, KIND, facts):
        return finished
    segments = [recipe.read(own, config, config.seed) for own in corpora.shards]
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

    lm = build_lm(config, corpora)
    arguments = pretrain_arguments(config, steps, validate=held_out is not None)
    resume_from = find_checkpoint(config, facts)
    if config.init_from and config.init_embeddings_from:
        raise ValueError("give --init-from or --init-embeddings-from, not both: the former includes the embeddings")
    for folder, start in ((config.init_from, start_from), (config.init_embeddings_from, start_embeddings_from)):
        if folder and resume_from is None:
            refuse_other_pieces(folder, shards.tokenizer_path)
            start(lm, folder)
    say(
        f"{config.direction if config.objective == 'causal' else config.objective} {config.architecture}: "
        f"{lm.num_parameters() / 1e6:.1f}M parameters, {steps:,} steps of {step_pieces:,} pieces on "
        f"{num_processes()} x {arguments.device.type}, {num_segments:,} segments available"
    )
    stream = corpora.stream(segments, config.seed, steps * config.batch_segments)
    trainer = build_trainer(config, lm, arguments, stream, corpora, held_out, facts)
    result = trainer.run(resume_from) | {
        "shards_fingerprint": corpora.fingerprint,
        "num_parameters": lm.num_parameters(),
        "pieces_seen": steps * step_pieces,
    }
    weights = whole_state(trainer.module)
    if is_rank0():
        lm = _trained(trainer, recipe, weights)
        with write_folder(config.out, KIND, {"shards": corpora.fingerprint, **made_by}) as folder:
            lm.save_pretrained(folder)
            recipe.collator(config, shards).tokenizer().save_pretrained(folder)
            write_file(folder / "training.json", json.dumps(result, indent=1))
            if card:
                write_file(folder / "README.md", card(result))
        remove_checkpoints(config.checkpoints)
    perplexity = result["validation_perplexity"]
    say(f"{config.out}: done" + (f", validation perplexity {perplexity:.2f}" if perplexity is not None else ""))
    return result


def _trained(trainer: PretrainTrainer, recipe: Recipe, weights: dict[str, Tensor]) -> PreTrainedModel:
    """The model to save; `weights` are those of the trained module."""
    config: Any = trainer.config
    trained: Any = trainer.module.lm
    lm = recipe.model.from_config(trained.config, dtype=getattr(torch, config.save_dtype))
    own = {name.removeprefix("lm."): w for name, w in weights.items() if name.startswith("lm.")}
    lm.load_state_dict(fold(trained, own))
    refuse_not_finite(lm.state_dict().values(), f"the weights after step {trainer.args.max_steps:,}")
    return lm


def pretrain_arguments(config: PretrainConfig, steps: int, validate: bool) -> TrainingArguments:
    """The Trainer's arguments. The batch is global, so any number of processes computes the same run.

    512 segments over 8 processes with micro-batches of 16 are 4 micro-batches per process. By default a micro-batch has
    at most 4,096 pieces (CPU) or 65,536 (GPU). Raises `ValueError` for a batch that cannot be divided evenly.
    """
    device, processes = best_device(), num_processes()
    most = max(1, (4096 if device.type == "cpu" else 65536) // config.segment_length)
    share = config.batch_segments // processes
    divisors = (n for n in range(1, min(most, share) + 1) if share % n == 0)
    micro = config.micro_batch_segments or max(divisors, default=1)
    if config.batch_segments % (processes * micro):
        raise ValueError(
            f"--batch-segments {config.batch_segments} is not a multiple of --micro-batch-segments {micro}"
            + (f" in each of {processes} processes" if processes > 1 else "")
        )
    wsd = config.schedule == "wsd"
    return training_arguments(
        config,
        steps,
        validate,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=share // micro,
        lr_scheduler_type="warmup_stable_decay" if wsd else "cosine",
        lr_scheduler_kwargs={"num_decay_steps": round(config.decay * steps)} if wsd else {},
        bf16=uses_bf16(device) if config.bf16 is None else config.bf16,
        torch_compile=config.compile,
    )


def build_lm(config: PretrainConfig, corpora: Corpora) -> PreTrainedModel:
    """The model with random weights, the same for the same seed; with the embeddings that it is to have."""
    set_seed(config.seed)
    recipe, shards = find_recipe(config.objective), corpora.shards[0]
    lm = recipe.model.from_config(recipe.config(config, shards), dtype=torch.float32)
    if config.embeddings_of:
        refuse_other_pieces(config.embeddings_of, shards.tokenizer_path)
        table = read_embeddings(config.embeddings_of)[: shards.config["vocab_size"]]
        project_embeddings(lm, table, torch.from_numpy(corpora.counts))
    return lm


def build_trainer(
    config: PretrainConfig,
    lm: PreTrainedModel,
    arguments: TrainingArguments,
    stream: SegmentStream | Mixture,
    corpora: Corpora,
    held_out: Source | None,
    facts: dict[str, Any],
) -> PretrainTrainer:
    """What trains `lm` for `arguments.max_steps` steps."""
    recipe = find_recipe(config.objective)
    torch.manual_seed(config.seed + 1)  # what is trained beside the LM is drawn alike, wherever the LM came from
    module = _with_loss(config, recipe, lm, corpora)
    module._no_split_modules = lm._no_split_modules  # for FSDP's wrapping
    collate = recipe.collator(config, corpora.shards[0])
    size = arguments.per_device_train_batch_size
    measured = None if held_out is None else HeldOut(held_out, collate, config, size)
    step_size = config.batch_segments * config.segment_length
    data: Any = stream
    return PretrainTrainer(config, facts, arguments, module, data, collate, measured, step_size=step_size)


def _with_loss(config: PretrainConfig, recipe: Recipe, lm: PreTrainedModel, corpora: Corpora) -> Any:
    """The module that is trained; `ValueError` for an objective without the loss that is asked for."""
    if not config.sampled_pieces:
        return recipe.with_loss(lm)
    if recipe.with_sampled_loss is None:
        raise ValueError(f"--sampled-pieces is for --objective causal, not {config.objective}; leave it out")
    return recipe.with_sampled_loss(lm, inclusion(corpora.counts, config.sampled_pieces))


def _architecture(preset: str) -> str:
    """A preset by its name, a config.json by its content."""
    path = Path(preset)
    if preset in PRESETS or not path.exists():
        return preset
    return fingerprint(read_json(path / "config.json" if path.is_dir() else path))
