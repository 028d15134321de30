"""Architectures by name: configs of transformers, fitted to a vocabulary and a window.

    tiny mini small     Llama-like causal LMs (rotary positions, RMSNorm, SwiGLU, tied embeddings) that a CPU can train
    gpt2-base           the paper's backward LM (124M with GPT-2's vocabulary)
    bert-*              post-norm, learned positions, GELU, dropout, two segments: BERT
    eurobert-*          the Llama block without a causal mask: a modern masked LM
    electra-*           BERT's block with ELECTRA's embeddings; `make_generator_config` makes its generator
    biglm-*             as eurobert-*, and the sizes of the BiGLM paper: 136m, 360m, 1.3b and 3.5b

Masked presets have the sizes tiny, mini, small and base. With its own vocabulary of 50,304 pieces the paper's table 7
gives 135M, 363M, 1.31B and, for "3.5B", 2.49B parameters. Any other architecture is a path to its `config.json`; the
head of a masked one must be in `lab.masked`. Sources: BERT, section 3; EuroBERT, 2.1; ELECTRA, appendix A; BiGLM,
table 7 and the published feed-forward widths.
"""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from transformers import (
    AutoConfig,
    BertConfig,
    ElectraConfig,
    EuroBertConfig,
    GPT2Config,
    LlamaConfig,
    PretrainedConfig,
)

from boustro.choose import suggestion
from boustro.errors import reason
from boustro.models.pretrained import POSITIONS_AFTER_PADDING, first_position
from boustro.names import locate_model
from boustro.store import reading

Make = Callable[..., PretrainedConfig]
HEAD_WIDTH = 64  # of attention, as GPT-2, BERT and Llama of these sizes have it
SIZES = {"tiny": (128, 2), "mini": (256, 4), "small": (512, 8), "base": (768, 12)}
"""Hidden width and number of layers."""


def _block(hidden_width: int, num_layers: int, gated: bool = False) -> dict[str, int]:
    """The feed-forward width is 4 times the hidden one, gated 8/3 times, to a multiple of 32."""
    return {
        "hidden_size": hidden_width,
        # gated: three matrices in the place of two, so 8/3 of the width costs what 4 does
        "intermediate_size": round(hidden_width * 8 / 3 / 32) * 32 if gated else 4 * hidden_width,
        "num_hidden_layers": num_layers,
        "num_attention_heads": hidden_width // HEAD_WIDTH,
    }


def _sized(make: Make, gated: bool = False, **fixed: Any) -> Make:
    """Return a function that makes a config of its hidden width, its number of layers, and what depends on the
    vocabulary."""
    return lambda hidden_width, num_layers, **common: make(
        **copy.deepcopy(fixed), **_block(hidden_width, num_layers, gated), **common
    )


def _shaped(width: int, layers: int, heads: int, key_value_heads: int, forward_width: int, spread: float) -> Make:
    """Return a function that makes a EuroBERT of exactly this shape, of what depends on the vocabulary."""
    shape = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    shape |= {"num_key_value_heads": key_value_heads, "intermediate_size": forward_width, "initializer_range": spread}
    # transformers changes the dicts that it is given
    return lambda **common: EuroBertConfig(**copy.deepcopy(AS_LLAMA), **shape, **common)


ROTARY = {"rope_type": "default", "rope_theta": 10_000.0}  # Llama's, so that a EuroBERT can start from a Llama
# the values of small Llamas; a small LM's output matrix would be most of it, so it is tied
AS_LLAMA: dict[str, Any] = {"tie_word_embeddings": True, "rope_parameters": ROTARY, "rms_norm_eps": 1e-6}
LLAMA = _sized(LlamaConfig, gated=True, tie_word_embeddings=True)
PRESETS: dict[str, Make] = {"gpt2-base": GPT2Config}
PRESETS |= {size: partial(LLAMA, *SIZES[size]) for size in ("tiny", "mini", "small")}
FAMILIES: dict[str, Make] = {
    "bert": _sized(BertConfig),
    "eurobert": _sized(EuroBertConfig, gated=True, tie_word_embeddings=True, rope_parameters=ROTARY),
    "electra": lambda width, *given, **common: _sized(ElectraConfig, embedding_size=width)(width, *given, **common),
    "biglm": _sized(EuroBertConfig, gated=True, **AS_LLAMA),
}
"""Masked architectures, from a hidden width and a number of layers."""
BIGLM = {
    "136m": (576, 30, 9, 3, 1536, 0.02),
    "360m": (960, 32, 15, 5, 2560, 0.02),
    "1.3b": (2048, 24, 32, 32, 5461, 0.013),
    "3.5b": (2560, 30, 20, 20, 6826, 0.013),
}
"""Hidden width, layers, heads, key-value heads, feed-forward width, spread of the initial weights."""
MASKED_PRESETS: dict[str, Make] = {
    f"{family}-{size}": partial(make, *shape) for family, make in FAMILIES.items() for size, shape in SIZES.items()
}
MASKED_PRESETS |= {f"biglm-{size}": _shaped(*shape) for size, shape in BIGLM.items()}


def make_config(preset: str, vocab_size: int, max_pieces: int, end_of_text_id: int) -> PretrainedConfig:
    """The config of a causal preset or a `config.json`, for a window; `ValueError` for an unknown name."""
    if preset in PRESETS:
        return PRESETS[preset](**_fitted(vocab_size, max_pieces, end_of_text_id))
    if Path(preset).exists():
        return config_like(preset, vocab_size, max_pieces, end_of_text_id)
    raise ValueError(_unknown("preset", preset, list(PRESETS)))


def config_like(model: str, vocab_size: int, max_pieces: int, end_of_text_id: int) -> PretrainedConfig:
    """The config of a model or of a `config.json`, for a window; `FileNotFoundError` if there is none."""
    try:
        return AutoConfig.from_pretrained(str(locate_model(model)), **_fitted(vocab_size, max_pieces, end_of_text_id))
    except ImportError:
        raise
    except Exception as error:  # a damaged config makes transformers raise anything
        raise FileNotFoundError(
            f"{model}: no config could be loaded from this path or name ({reason(error)})"
        ) from error


def _fitted(vocab_size: int, max_pieces: int, end_of_text_id: int) -> dict[str, Any]:
    ends = {"bos_token_id": end_of_text_id, "eos_token_id": end_of_text_id}
    return {"vocab_size": vocab_size, "max_position_embeddings": max_pieces, **ends}


def _unknown(what: str, name: str, known: list[str]) -> str:
    listed = f"known are {', '.join(known)}, or a path to a config.json"
    return f"unknown {what} {name!r}: {listed}{suggestion(name, known)}"


def is_masked_preset(name: str) -> bool:
    """Whether `make_masked_config` knows this name."""
    return name in MASKED_PRESETS


def make_masked_config(preset: str, tokenizer: Any, vocab_size: int, max_pieces: int) -> PretrainedConfig:
    """The config of a preset such as `bert-mini`, or of a `config.json`, for a tokenizer and a window of `max_pieces`.

    `vocab_size` is the tokenizer's largest id + 1.
    Raises `ValueError` for an unknown name, with the nearest known one, and for a tokenizer without a mask piece, or
    without the padding piece from which RoBERTa counts its positions.
    """
    if not is_masked_preset(preset) and not Path(preset).exists():
        raise ValueError(_unknown("masked preset", preset, list(MASKED_PRESETS)))
    if tokenizer.mask_token_id is None:
        raise ValueError(
            f"preset {preset!r} needs a tokenizer with a mask piece; add one with "
            "tokenizer.add_special_tokens({'mask_token': '<|mask|>'})"
        )
    separators = (tokenizer.eos_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.cls_token_id)
    fitted = {
        "vocab_size": vocab_size,
        "max_position_embeddings": max_pieces,
        # transformers never trains the padding piece's embedding, so it must not be a piece that is read.
        "pad_token_id": None if tokenizer.pad_token_id in separators else tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "mask_token_id": tokenizer.mask_token_id,
    }
    if is_masked_preset(preset):
        return MASKED_PRESETS[preset](**fitted)
    with reading(preset, "name another config"):
        made = AutoConfig.from_pretrained(preset)
    made.update(fitted)
    if made.model_type in POSITIONS_AFTER_PADDING and made.pad_token_id is None:
        raise ValueError(
            f"{preset}: {made.model_type} counts positions from its padding piece, and this tokenizer has no separate "
            "one; add it with tokenizer.add_special_tokens({'pad_token': '<|pad|>'}), save the tokenizer and tokenize "
            "the corpus with it"
        )
    made.update({"max_position_embeddings": first_position(made) + max_pieces})
    return made


# a stronger generator leaves the discriminator nothing to learn (Clark et al. 2020, section 3.2)
def make_generator_config(discriminator: PretrainedConfig, share: float = 0.25) -> PretrainedConfig:
    """The config of the generator of an ELECTRA pair: `share` of the width, the same depth and embeddings."""
    hidden_width = max(HEAD_WIDTH, round(discriminator.hidden_size * share / HEAD_WIDTH) * HEAD_WIDTH)
    block = _block(hidden_width, discriminator.num_hidden_layers)
    return type(discriminator).from_dict({**discriminator.to_dict(), **block})
