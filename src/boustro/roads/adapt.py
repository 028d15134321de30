"""Adapts an LM on running text, and what both ways of adapting share: the LM without its mask, the adapter's training.

The LM is frozen, without dropout of its own; only the adapter is trained, saved in checkpoints and written. With no
steps the folder has the adapter's initial weights, which change nothing: the LM with its mask removed, `unmasked:OUT`.

On running text the objective is LLM2Vec's masked next-piece prediction (`objectives.masked_next`), through the LM's
own frozen head. A hidden piece is replaced by the tokenizer's mask piece if it has one, else by "_", as in LLM2Vec: a
piece that the LM knows as a blank. A new piece would need a new embedding, which the frozen LM was never trained with.
`adapt_labels` trains on labelled sentences.

Source: BehnamGhader et al. 2024, section 2; depending on the model they hide 0.2 of the pieces, as here, or 0.8, all
masked.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from boustro.encoders.adapted import facts_of
from boustro.encoders.lm import LMEncoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import exact_spec, locate, split_kind, split_spec
from boustro.encoders.unmasked import UnmaskedEncoder
from boustro.models.adaptation import KIND, MASK_KEPT, Adaptation, save_adaptation
from boustro.models.lora import LoraShape, LoraWeights, add_lora
from boustro.models.loss import find_finish, lm_loss
from boustro.models.masked import at
from boustro.objectives.examples import collate, keyed_generator
from boustro.objectives.masked_next import MaskedNext, masked_next
from boustro.objectives.masking import Masking, special_pieces
from boustro.pretrain.batches import Batches, HeldOut
from boustro.pretrain.checkpoints import finished_run
from boustro.pretrain.config import run_facts
from boustro.pretrain.distributed import say
from boustro.roads.options import AdaptConfig, TextOptions
from boustro.roads.training import finish, open_segments, train
from boustro.text.segments import Example, SegmentStream
from boustro.text.tokenizers import end_of_text_id

BLANK = "_"
DECIDING = ("tokens", "segment_length", "batch_segments", "mask_rate", "mask_piece")
"""Options that decide the weights, besides those of every adapter."""


def open_lm(config: AdaptConfig, **options: Any) -> tuple[LMEncoder, Adaptation]:
    """The LM of `config`, without its mask in the chosen blocks, and what the folder says; `ValueError` if unfit."""
    names = split_spec(config.lm)
    kind, path = split_kind(names[0])
    if len(names) > 1 or kind not in ("", "backward:"):
        raise ValueError(f"{config.lm}: only a single causal LM can be adapted; choose its blocks with --blocks")
    name, revision = locate(path)
    reading = ReadingOptions(**{"layers": "last", "pooling": "exit", "context": "sentence", **options})
    reading = replace(reading, start_piece=config.start_piece)
    given = {"spec": config.lm, "revision": revision, "direction": "backward" if kind else None}
    if config.blocks == MASK_KEPT:
        encoder = LMEncoder(name, reading, **given)
    else:
        encoder = UnmaskedEncoder(name, reading, blocks=None if config.blocks == "all" else config.blocks, **given)
    facts = facts_of(encoder, split_kind(exact_spec(path, encoder.identity()))[1])
    return encoder, replace(facts, start_piece=config.start_piece)


def train_adapter(
    config: AdaptConfig,
    base: Adaptation,
    model: nn.Module,
    head: nn.Module | None,
    loss_of: Callable[..., Tensor],
    batches: Batches,
    held_out: Iterable[tuple[dict[str, Any], float]] | None,
    *,
    facts: dict[str, Any],
    describe: Callable[[], dict[str, Any]],
    step_size: int,
) -> dict[str, Any]:
    """Train an adapter, and `head`, on a transformer without its own head, which is changed in place; write the folder.

    Returns what `training.json` says; `describe`, called after the training, adds to it. `facts` decide the weights,
    besides the options that both ways share; the rest is as in `roads.training.train`. Raises `ValueError` for an
    adapter that does not fit and `ImportError` without peft, before anything is computed.
    """
    torch.manual_seed(config.seed)
    shape = LoraShape(rank=config.rank, alpha=config.alpha, dropout=config.dropout, targets=config.targets)
    adapted = add_lora(model, shape)
    weights = LoraWeights(adapted, head).to(next(model.parameters()).device)
    facts = run_facts(config, (), **asdict(base), **asdict(shape), **facts)
    if finished := finished_run(config, KIND, facts):
        return finished
    num_parameters = sum(p.numel() for p in weights.parameters())
    what = f"{base.base}, mask removed in blocks {base.blocks}: {num_parameters / 1e6:.2f}M parameters"
    say(f"{what} trained in {len(batches):,} steps")
    result = train(config, facts, weights, loss_of, batches, held_out, step_size=step_size)
    result |= {"num_parameters": num_parameters, **describe()}
    return finish(config, KIND, result, lambda folder: save_adaptation(folder, adapted, base))


def adapt_to_text(config: AdaptConfig) -> dict[str, Any]:
    """Train an adapter by masked next-piece prediction; returns `training.json`. `ValueError` for what does not fit."""
    encoder, base = open_lm(config)
    lm, tokenizer, options = encoder.language_model(), encoder.tokenizer, config.text
    assert options.shards is not None
    room = encoder.max_pieces - len(encoder.start)
    if not 2 <= options.segment_length <= room:
        raise ValueError(
            f"{config.lm} reads segments of 2 to {room:,} pieces; change --segment-length {options.segment_length:,}"
        )
    whose = (tokenizer.get_vocab(), "the LM", "it")
    segments, validation, steps = open_segments(options.shards, options, config.seed, *whose)
    fingerprint, size = segments.shards.fingerprint, options.batch_segments
    masking = make_next_masking(tokenizer, options, lm.config.get_text_config().vocab_size)
    stream = SegmentStream(segments, config.seed, steps * size)
    head: Any = lm.get_output_embeddings()
    logit_finish = find_finish(lm)

    def hide(example: Example) -> MaskedNext:
        generator = keyed_generator(config.seed, example.epoch, example.index)
        return masked_next(example.pieces, generator, masking, base.direction, encoder.start)

    def make(examples: list[Example]) -> dict[str, Tensor]:
        return collate([hide(example) for example in examples])

    def loss_of(input_ids: Tensor, positions: Tensor, targets: Tensor) -> Tensor:
        states = lm.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        return lm_loss(at(states, positions), head, targets, finish=logit_finish)

    more = {
        "objective": "masked-next",
        "mask_piece": tokenizer.convert_ids_to_tokens(masking.mask_id),
        "shards_fingerprint": fingerprint,
        "pieces_seen": steps * size * options.segment_length,
    }
    facts = {name: getattr(options, name) for name in DECIDING} | {"shards": fingerprint}
    batches = Batches(steps, lambda step: make([stream[n] for n in range(step * size, (step + 1) * size)]))
    measured = HeldOut(validation, make, options, size) if validation else None
    how = {"facts": facts, "describe": lambda: more, "step_size": size * options.segment_length}
    return train_adapter(config, base, lm.base_model, None, loss_of, batches, measured, **how)


def make_next_masking(tokenizer: Any, options: TextOptions, vocab_size: int) -> Masking:
    """BERT's 80/10/10 at the given rate; `ValueError` for a mask piece that is not in the vocabulary."""
    piece = options.mask_piece or tokenizer.mask_token or BLANK
    identifier = tokenizer.get_vocab().get(piece)
    if identifier is None:
        raise ValueError(f"the LM's vocabulary has no piece {piece!r}; name one of its pieces with --mask-piece")
    special, end = special_pieces(tokenizer, vocab_size), end_of_text_id(tokenizer)
    special[[identifier, end]] = True
    return Masking(mask_id=identifier, end_id=end, special=special, rate=options.mask_rate)
