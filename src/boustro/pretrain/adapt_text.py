"""Adapting an LM to its missing mask by running text: hidden pieces are predicted, shards in, a folder out.

The objective is LLM2Vec's masked next-piece prediction (`objectives.masked_next`), through the LM's own head, frozen.
What stands for a hidden piece: the tokenizer's mask piece where it has one, else "_", as in LLM2Vec; a piece that the
LM knows as a blank. A new piece would need an embedding of its own, and the frozen LM has never met one.

Source: BehnamGhader et al. 2024, section 2; by the model, they hide 0.2 of the pieces as here, or 0.8, all masked.
"""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from boustro.models.adaptation import Adaptation
from boustro.models.loss import find_finish, lm_loss
from boustro.models.masked import at
from boustro.objectives.examples import collate, keyed_generator
from boustro.objectives.masked_next import MaskedNext, masked_next
from boustro.objectives.masking import Masking, special_pieces
from boustro.pretrain.adapt import Adapting
from boustro.pretrain.config import AdaptConfig, TextOptions
from boustro.pretrain.loop import mean_loss, num_steps
from boustro.pretrain.processes import say
from boustro.text.segments import Example, Segments, SegmentStream
from boustro.text.shards import open_shards_of
from boustro.text.tokenizers import end_of_text_id

BLANK = "_"


DECIDING = ("tokens", "segment_length", "batch_segments", "mask_rate", "mask_piece")


@dataclass(frozen=True, kw_only=True)
class TextLM:
    """A causal LM whose mask is removed where it is to be, and how it reads."""

    lm: PreTrainedModel
    tokenizer: Any
    sentinel: int | None
    """The piece that starts every reading, where it was pretrained with one."""
    window: int
    """Pieces that it reads together, a sentinel among them."""
    base: Adaptation


def adapt_to_text(reader: TextLM, config: AdaptConfig, options: TextOptions) -> dict[str, Any]:
    """Train an adapter by masked next-piece prediction; returns what is written to `training.json`.

    Raises `ValueError` for shards or options that do not fit, before anything is computed.
    """
    assert options.shards is not None
    room = reader.window - (reader.sentinel is not None)
    if not 2 <= options.segment_length <= room:
        raise ValueError(
            f"{config.lm} reads 2 to {room:,} pieces of a segment together; change --segment-length "
            f"{options.segment_length:,}"
        )
    tokenizer = reader.tokenizer
    shards = open_shards_of(options.shards, tokenizer.get_vocab(), "the LM", "it")
    held_out = options.validation and Segments(
        open_shards_of(options.validation, tokenizer.get_vocab(), "the LM", "it"), options.segment_length, seed=None
    )
    masking = make_next_masking(tokenizer, options, reader.lm.config.get_text_config().vocab_size)
    segments = Segments(shards, options.segment_length, config.seed)
    step_pieces = options.batch_segments * options.segment_length
    steps = num_steps(options.tokens, len(segments) * options.segment_length, step_pieces)
    stream = SegmentStream(segments, config.seed, steps * options.batch_segments)

    finish = find_finish(reader.lm)
    head: Any = reader.lm.get_output_embeddings()
    adapting = Adapting(reader.lm.base_model, reader.base, config)
    adapting.weights.to(reader.lm.device)

    def hide(example: Example) -> MaskedNext:
        generator = keyed_generator(config.seed, example.epoch, example.index)
        return masked_next(example.pieces, generator, masking, reader.base.direction, reader.sentinel)

    def loss_of(batch: list[Example]) -> Tensor:
        given = {name: x.to(reader.lm.device) for name, x in collate([hide(e) for e in batch]).items()}
        states = reader.lm.base_model(input_ids=given["input_ids"], use_cache=False).last_hidden_state
        return lm_loss(at(states, given["positions"]), head, given["targets"], finish=finish)

    def loss_at(step: int) -> Tensor:
        numbers = range(step * options.batch_segments, (step + 1) * options.batch_segments)
        return loss_of([stream[n] for n in numbers])

    def describe(loss: float | None) -> dict[str, Any]:
        say(f"{config.out}: done" + (f", validation loss {loss:.4f}" if loss is not None else ""))
        return {
            "objective": "masked-next",
            "options": asdict(options),
            "mask_piece": tokenizer.convert_ids_to_tokens(masking.mask_id),
            "shards_fingerprint": shards.fingerprint,
            "pieces_seen": steps * step_pieces,
            "validation_loss": loss,
        }

    return adapting.train(
        loss_at,
        (lambda: mean_loss(held_out, options.validation_pieces, options.batch_segments, loss_of)) if held_out else None,
        steps,
        {name: getattr(options, name) for name in DECIDING} | {"shards": shards.fingerprint},
        describe,
    )


def make_next_masking(tokenizer: Any, options: TextOptions, vocab_size: int) -> Masking:
    """BERT's 80/10/10 at the rate that is wanted; `ValueError` for a mask piece that the vocabulary does not have."""
    piece = options.mask_piece or tokenizer.mask_token or BLANK
    identifier = tokenizer.get_vocab().get(piece)
    if identifier is None:
        raise ValueError(f"the LM's vocabulary has no piece {piece!r}; name one of its pieces with --mask-piece")
    special, end = special_pieces(tokenizer, vocab_size), end_of_text_id(tokenizer)
    special[[identifier, end]] = True
    return Masking(mask_id=identifier, end_id=end, special=special, rate=options.mask_rate)
