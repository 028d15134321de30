"""Adapts an LM on running text, by one of the `OBJECTIVES`.

    hidden-pieces     masked next-piece prediction (`objectives.masked_next`), through the LM's own frozen head
    second-reading    the states of the LM, as it is, when it reads the text a second time (`roads.adapt_reading`)

A hidden piece is replaced by the tokenizer's mask piece if it has one, else by "_", as in LLM2Vec: a piece that the LM
knows as a blank. A new piece would need a new embedding, which the frozen LM was never trained with.

Source: BehnamGhader et al. 2024, section 2; depending on the model they hide 0.2 of the pieces, as here, or 0.8, all
masked.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from boustro.encoders.lm import LMEncoder
from boustro.models.lora import Adaptation
from boustro.models.loss import find_finish, lm_loss
from boustro.models.masked import at
from boustro.objectives.examples import collate, keyed_generator
from boustro.objectives.masked_next import MaskedNext, masked_next
from boustro.objectives.masking import Masking, special_pieces
from boustro.pretrain.batches import Batches, HeldOut
from boustro.roads.adapt import TextObjective, open_lm, train_adapter
from boustro.roads.adapt_reading import second_reading
from boustro.roads.options import AdaptConfig, TextOptions
from boustro.roads.training import open_segments
from boustro.text.segments import Example, SegmentStream
from boustro.text.tokenizers import end_of_text_id

BLANK = "_"
DECIDING = ("tokens", "segment_length", "batch_segments", "mask_rate", "mask_piece", "learn")
"""Options that decide the weights, besides those of every adapter."""


def adapt_to_text(config: AdaptConfig) -> dict[str, Any]:
    """Train an adapter on running text; returns `training.json`. `ValueError` for what does not fit."""
    encoder, base = open_lm(config)
    options = config.text
    assert options.shards is not None
    room = encoder.max_pieces - len(encoder.start)
    if not 2 <= options.segment_length <= room:
        raise ValueError(
            f"{config.lm} reads segments of 2 to {room:,} pieces; change --segment-length {options.segment_length:,}"
        )
    whose = (encoder.tokenizer.get_vocab(), "the LM", "it")
    segments, validation, steps = open_segments(options.shards, options, config.seed, *whose)
    fingerprint, size = segments.shards.fingerprint, options.batch_segments
    stream = SegmentStream(segments, config.seed, steps * size)
    objective = OBJECTIVES[options.learn](config, encoder, base)
    more = objective.facts | {
        "shards_fingerprint": fingerprint,
        "pieces_seen": steps * size * options.segment_length,
    }
    facts = {name: getattr(options, name) for name in DECIDING} | {"shards": fingerprint}
    batches = Batches(steps, lambda step: objective.make([stream[n] for n in range(step * size, (step + 1) * size)]))
    measured = HeldOut(validation, objective.make, options, size) if validation else None
    how: dict[str, Any] = {"describe": lambda: more, "step_size": size * options.segment_length}
    how |= {"facts": facts, "perplexity": objective.perplexity}
    return train_adapter(config, base, encoder.model, None, objective.loss_of, batches, measured, **how)


def hidden_pieces(config: AdaptConfig, encoder: LMEncoder, base: Adaptation) -> TextObjective:
    """Each hidden piece is predicted from the state of the piece before it."""
    lm, tokenizer = encoder.language_model(), encoder.tokenizer
    masking = make_next_masking(tokenizer, config.text, lm.config.get_text_config().vocab_size)
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

    facts = {"objective": "masked-next", "mask_piece": tokenizer.convert_ids_to_tokens(masking.mask_id)}
    return TextObjective(make, loss_of, facts, perplexity=True)


def make_next_masking(tokenizer: Any, options: TextOptions, vocab_size: int) -> Masking:
    """BERT's 80/10/10 at the given rate; `ValueError` for a mask piece that is not in the vocabulary."""
    piece = options.mask_piece or tokenizer.mask_token or BLANK
    identifier = tokenizer.get_vocab().get(piece)
    if identifier is None:
        raise ValueError(f"the LM's vocabulary has no piece {piece!r}; name one of its pieces with --mask-piece")
    special, end = special_pieces(tokenizer, vocab_size), end_of_text_id(tokenizer)
    special[[identifier, end]] = True
    return Masking(mask_id=identifier, end_id=end, special=special, rate=options.mask_rate)


OBJECTIVES: dict[str, Callable[[AdaptConfig, LMEncoder, Adaptation], TextObjective]] = {
    "hidden-pieces": hidden_pieces,
    "second-reading": second_reading,
}
