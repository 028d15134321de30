"""Masked architectures by name, of the widths and depths of the causal presets.

    bert-*       post-norm, learned positions, GELU, dropout, two segments: BERT
    eurobert-*   Llama's block looking both ways: rotary positions, RMSNorm, SwiGLU: the modern encoder
    electra-*    BERT's block with ELECTRA's embeddings; `make_generator_config` gives the generator beside it

Any other masked architecture of transformers is given as a path to its `config.json`, if `models.masked` knows its
head. `base` is the published size of BERT and ELECTRA. Sources: BERT, section 3; EuroBERT, section 2.1; ELECTRA,
appendix A.
"""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import AutoConfig, BertConfig, ElectraConfig, EuroBertConfig, PretrainedConfig

from boustro.store import reading

HEAD_WIDTH = 64
SIZES = {"tiny": (128, 2), "mini": (256, 4), "small": (512, 8), "base": (768, 12)}
"""Hidden width and number of layers."""
POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")
"""Architectures whose first position is not 0."""


def bert(hidden_width: int, num_layers: int, **common: Any) -> PretrainedConfig:
    """BERT: the feed-forward layer is four times as wide as the hidden one."""
    return BertConfig(**_block(hidden_width, num_layers), **common)


def eurobert(hidden_width: int, num_layers: int, **common: Any) -> PretrainedConfig:
    """EuroBERT with tied embeddings; the feed-forward width is 8/3 of the hidden one, to a multiple of 32.

    Positions turn as in a Llama of our presets, from which it may then start.
    """
    common["rope_parameters"] = {"rope_type": "default", "rope_theta": 10_000.0}
    block = _block(hidden_width, num_layers) | {"intermediate_size": round(hidden_width * 8 / 3 / 32) * 32}
    return EuroBertConfig(tie_word_embeddings=True, **block, **common)


def electra(hidden_width: int, num_layers: int, **common: Any) -> PretrainedConfig:
    """ELECTRA's discriminator; its embeddings are as wide as its states, and the generator's too."""
    return ElectraConfig(embedding_size=hidden_width, **_block(hidden_width, num_layers), **common)


MASKED_PRESETS: dict[str, Callable[..., PretrainedConfig]] = {"bert": bert, "eurobert": eurobert, "electra": electra}


def is_masked_preset(name: str) -> bool:
    """Whether `make_masked_config` knows this name."""
    kind, _, size = name.partition("-")
    return kind in MASKED_PRESETS and size in SIZES


def make_masked_config(preset: str, tokenizer: Any, max_pieces: int, vocab_size: int | None = None) -> PretrainedConfig:
    """The config of a preset such as `bert-mini`, or of a `config.json`, fitted to a tokenizer and a window.

    `max_pieces` is what the model reads at once. Raises `ValueError` for an unknown name, with the nearest known one,
    and for a tokenizer without a mask piece, or without the padding piece from which RoBERTa counts its positions.
    """
    if not is_masked_preset(preset) and not Path(preset).exists():
        known = [f"{kind}-{size}" for kind in MASKED_PRESETS for size in SIZES]
        near = difflib.get_close_matches(preset, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"unknown masked preset {preset!r}: known are {', '.join(known)}, or a path to a config.json{hint}"
        )
    if tokenizer.mask_token_id is None:
        raise ValueError(
            f"preset {preset!r} needs a tokenizer with a mask piece; give it one with "
            "tokenizer.add_special_tokens({'mask_token': '<|mask|>'})"
        )
    parting = (tokenizer.eos_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.cls_token_id)
    fitted = {
        "vocab_size": vocab_size or len(tokenizer),
        "max_position_embeddings": max_pieces,
        # transformers never trains the padding piece's embedding, so it must be no piece that is read.
        "pad_token_id": None if tokenizer.pad_token_id in parting else tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "mask_token_id": tokenizer.mask_token_id,
    }
    if is_masked_preset(preset):
        kind, size = preset.split("-")
        return MASKED_PRESETS[kind](*SIZES[size], **fitted)
    with reading(preset, "name another config"):
        made = AutoConfig.from_pretrained(preset)
    made.update(fitted)
    if made.model_type in POSITIONS_AFTER_PADDING and made.pad_token_id is None:
        raise ValueError(
            f"{preset}: {made.model_type} counts positions from its padding piece, and this tokenizer has none of its "
            "own; add it with tokenizer.add_special_tokens({'pad_token': '<|pad|>'}), save the tokenizer and tokenize "
            "the corpus with it"
        )
    made.update({"max_position_embeddings": first_position(made) + max_pieces})
    return made


def first_position(config: PretrainedConfig) -> int:
    """The number of the first piece's position: 0, but in RoBERTa and its kin the one after the padding piece's id."""
    return config.pad_token_id + 1 if config.model_type in POSITIONS_AFTER_PADDING else 0


def make_generator_config(discriminator: PretrainedConfig, share: float = 0.25) -> PretrainedConfig:
    """The config of the generator of an ELECTRA pair: `share` of the width, the same depth and embeddings."""
    hidden_width = max(HEAD_WIDTH, round(discriminator.hidden_size * share / HEAD_WIDTH) * HEAD_WIDTH)
    depth = discriminator.num_hidden_layers
    return type(discriminator).from_dict({**discriminator.to_dict(), **_block(hidden_width, depth)})


def _block(hidden_width: int, num_layers: int) -> dict[str, int]:
    return {
        "hidden_size": hidden_width,
        "intermediate_size": 4 * hidden_width,
        "num_hidden_layers": num_layers,
        "num_attention_heads": hidden_width // HEAD_WIDTH,
    }
