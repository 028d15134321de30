"""`boustro lab pretrain`: shards in, a model folder out. `recipes` says what is trained, `trainer` trains it.

Warm start: the weights of another LM over the same vocabulary in place of random ones.

A backward LM may start from all weights of a forward one (`start_from`), or, if the architecture differs, from its
embeddings and the head tied to them, reduced to its own width if they are wider (`start_embeddings_from`). A masked
LM with the blocks of a causal one may start from that: EuroBERT from Llama.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, TrainingArguments, set_seed

from boustro.hardware import best_device, uses_bf16
from boustro.lab.presets import PRESETS
from boustro.lab.pretrain.batches import HeldOut
from boustro.lab.pretrain.checkpoints import find_checkpoint, finished_run, remove_checkpoints
from boustro.lab.pretrain.config import PretrainConfig, run_facts
from boustro.lab.pretrain.distributed import destroy_process_group, is_rank0, num_processes, say, whole_state
from boustro.lab.pretrain.mixture import Corpora, Mixture, refuse_other_vocabulary
from boustro.lab.pretrain.output import refuse_not_finite, run_output
from boustro.lab.pretrain.projected import fold, project_embeddings
from boustro.lab.pretrain.recipes import Recipe, find_recipe
from boustro.lab.pretrain.segments import ExampleSource, SegmentStream
from boustro.lab.pretrain.shards import Shards
from boustro.lab.pretrain.trainer import PretrainTrainer, training_arguments
from boustro.models.loss import inclusion
from boustro.models.packed import packed_weights
from boustro.models.pretrained import architecture_kind, load_pretrained
from boustro.names import locate_model
from boustro.store import fingerprint, read_json, reading, write_file, write_folder
from boustro.text.tokenizers import load_tokenizer, num_ids

MODEL_KIND = "model"
Card = Callable[[dict[str, Any]], str]
PRETRAIN_FACTS = ("objective", "mask_rate", "hide", "direction", "init_from", "init_embeddings_from", "tokens")
PRETRAIN_FACTS += ("segment_length", "batch_segments", "schedule", "split", "embeddings_of", "sampled_pieces")
"""Options that decide the weights, besides those of every run."""


def run_pretraining(
    config: PretrainConfig, card: Card | None = None, made_by: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Train a model on token shards; returns its `training.json`. Every process calls it. `ValueError` if unfit.

    `card` makes the folder's README.md of `training.json`; the manifest says `made_by`.
    """
    try:
        with run_output(config, MODEL_KIND):
            return _pretrain(config, find_recipe(config.objective), card, made_by or {})
    finally:
        destroy_process_group()


def _pretrain(config: PretrainConfig, recipe: Recipe, card: Card | None, made_by: dict[str, Any]) -> dict[str, Any]:
    corpora = Corpora.open(config.shards, config.shares, config.alpha)
    shards, validation = corpora.shards[0], Shards.open(config.validation) if config.validation else None
    if validation:
        refuse_other_vocabulary(validation, shards)
    facts = run_facts(config, PRETRAIN_FACTS, shards=corpora.fingerprint, preset=_architecture(config.architecture))
    if finished := finished_run(config, MODEL_KIND, facts):
        return finished
    segments = [recipe.read(corpus, config, config.seed) for corpus in corpora.shards]
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
        with write_folder(config.out, MODEL_KIND, {"shards": corpora.fingerprint, **made_by}) as folder:
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
    """Return the model to save; `weights` are those of the trained module."""
    config: Any = trainer.config
    trained: Any = trainer.module.lm
    lm = recipe.model.from_config(trained.config, dtype=getattr(torch, config.save_dtype))
    lm_weights = {name.removeprefix("lm."): w for name, w in weights.items() if name.startswith("lm.")}
    lm.load_state_dict(fold(trained, lm_weights))
    refuse_not_finite(lm.state_dict().values(), f"the weights after step {trainer.args.max_steps:,}")
    return lm


def pretrain_arguments(config: PretrainConfig, steps: int, validate: bool) -> TrainingArguments:
    """Return the Trainer's arguments. The batch is global, so any number of processes computes the same run.

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
    """Return the model with random weights, the same for the same seed; with the embeddings that it is to have."""
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
    held_out: ExampleSource | None,
    facts: dict[str, Any],
) -> PretrainTrainer:
    """Make the trainer that trains `lm` for `arguments.max_steps` steps."""
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
    """Return the module that is trained; `ValueError` for an objective without the loss that is asked for."""
    if not config.sampled_pieces:
        return recipe.with_loss(lm)
    if recipe.with_sampled_loss is None:
        raise ValueError(f"--sampled-pieces is for --objective causal, not {config.objective}; remove it")
    return recipe.with_sampled_loss(lm, inclusion(corpora.counts, config.sampled_pieces))


def _architecture(preset: str) -> str:
    """Return a preset by its name, a config.json by its content."""
    path = Path(preset)
    if preset in PRESETS or not path.exists():
        return preset
    return fingerprint(read_json(path / "config.json" if path.is_dir() else path))


OTHER_MODEL = "name another model"


def refuse_other_pieces(model: str, tokenizer: Path) -> None:
    """`ValueError` unless both tokenizers have the same pieces; special ones may come after all others."""
    theirs, ours = load_tokenizer(model), load_tokenizer(tokenizer)
    all_theirs, all_ours, most = theirs.get_vocab(), ours.get_vocab(), num_ids(ours)
    real_pieces = {piece: number for piece, number in all_theirs.items() if number < most}
    if real_pieces != all_ours or len(all_theirs) - len(real_pieces) > len(theirs.all_special_ids):
        raise ValueError(
            f"{model} and the shards have different pieces; tokenize the corpus again with `boustro lab tokenize "
            f"--tokenizer {model}`"
        )


@torch.no_grad()
def start_from(lm: PreTrainedModel, folder: str) -> None:
    """Copy all weights of the LM in `folder` (or of this name on the Hub) into `lm`.

    If `lm` has additional special pieces, which come last, their rows are unchanged. Rows of padding beyond its pieces,
    and learned positions beyond its window, are not copied.
    Raises `ValueError` if the two differ in architecture, naming the first few tensors that do.
    """
    other = _load(folder, lm)
    theirs, ours = other.state_dict(), lm.state_dict()
    more_pieces = lm.config.vocab_size - other.get_input_embeddings().weight.shape[0]
    more_positions = min(0, _window(lm) - _window(other))
    for more in filter(None, (more_pieces, more_positions)):
        theirs = {name: _with_rows(more, tensor, ours.get(name)) for name, tensor in theirs.items()}
    differing = [
        f"{name} {_shape(ours.get(name))} here, {_shape(theirs.get(name))} there"
        for name in sorted(ours.keys() | theirs.keys())
        if _shape(ours.get(name)) != _shape(theirs.get(name))
    ]
    positions = [getattr(model.config, "rope_parameters", None) for model in (lm, other)]
    if not differing and positions[0] != positions[1]:
        differing = [f"rotary positions {positions[0]} here, {positions[1]} there"]
    if differing:
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(
            f"{folder} has another architecture: {'; '.join(differing[:3])}{more}. Leave out --preset, give at "
            f"most its window as --segment-length, or use its embeddings only, with --init-embeddings-from"
        )
    lm.load_state_dict(theirs)


@torch.no_grad()
def start_embeddings_from(lm: PreTrainedModel, folder: str) -> None:
    """Copy the embeddings of the LM in `folder` into `lm`, and with them a tied head; all else is unchanged.

    Wider ones are reduced to their principal components, which preserve the inner products of the pieces best. Rows
    beyond our vocabulary are padding and are not copied. Raises `ValueError` for narrower ones.
    """
    ours: Any = lm.get_input_embeddings().weight
    with reading(folder, OTHER_MODEL):
        width = AutoConfig.from_pretrained(str(locate_model(folder))).get_text_config().hidden_size
    if width >= ours.shape[1]:  # otherwise nothing more is read
        theirs = read_embeddings(folder, lm).float()
        width = theirs.shape[1]
    if width < ours.shape[1]:
        raise ValueError(
            f"the embeddings of {folder} are {width:,} wide, those of the model to train {ours.shape[1]:,}; "
            "choose a --preset that is not wider"
        )
    rows = min(len(theirs), len(ours))
    copied = theirs[:rows]
    if width > ours.shape[1]:
        _, axes = torch.linalg.eigh(copied.T @ copied)  # the largest last
        copied = copied @ axes[:, -ours.shape[1] :]
    ours[:rows] = copied


def read_embeddings(model: str, like: PreTrainedModel | None = None) -> Tensor:
    """Return (V, D) the input embeddings of an LM, in the precision of its files; of safetensors nothing else is read.

    The LM is causal, or of the architecture of `like`.
    """
    folder = str(locate_model(model))
    config, make = _architecture_of(folder, like)
    with reading(model, OTHER_MODEL):
        with torch.device("meta"):
            bare = getattr(make, "from_config", make)(config)
        (name,) = (n for n, p in bare.named_parameters() if p is bare.get_input_embeddings().weight)
        suffix = name.split(".", 1)[1]  # a file of the body alone has no prefix, that of a wrapper has another one
        if packed := packed_weights(folder):
            return packed.read(next(name for name in packed.shapes if f".{name}".endswith(f".{suffix}")))
        for file in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(file, "pt") as tensors:
                if keys := [key for key in tensors.keys() if f".{key}".endswith(f".{suffix}")]:  # noqa: SIM118
                    return tensors.get_tensor(keys[0])
    return load_pretrained(make, folder, dtype="auto").get_input_embeddings().weight.detach()


def _load(folder: str, lm: PreTrainedModel) -> Any:
    """Return the LM in `folder`, in float32: a causal one, or one of the architecture of `lm`."""
    folder = str(locate_model(folder))
    config, make = _architecture_of(folder, lm)
    return load_pretrained(make, folder, config=config, dtype=torch.float32)


def _architecture_of(folder: str, like: PreTrainedModel | None) -> tuple[Any, Any]:
    """Return the config of an LM, and the class of transformers for it with its head; see `read_embeddings`."""
    with reading(folder, OTHER_MODEL):
        config = AutoConfig.from_pretrained(folder)
    if like is None or architecture_kind(config) == "causal":
        return config, AutoModelForCausalLM
    if config.model_type != like.config.model_type:
        raise ValueError(
            f"{folder} is a {config.model_type} and the model to train a {like.config.model_type}; start from a causal "
            f"LM or from a {like.config.model_type}"
        )
    return config, type(like)


def _with_rows(more: int, theirs: Tensor, ours: Tensor | None) -> Tensor:
    """`theirs` with `more` rows appended from `ours`, or with fewer, if the two differ only in that."""
    if ours is None or ours.shape[1:] != theirs.shape[1:] or len(ours) - len(theirs) != more:
        return theirs
    return torch.cat([theirs[: len(ours)], ours[len(theirs) :]])


def _window(lm: Any) -> int:
    """Return the number of positions; 0 if the config does not say."""
    return getattr(lm.config.get_text_config(), "max_position_embeddings", 0) or 0


def _shape(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else "x".join(str(size) for size in tensor.shape)
