"""Architectures by name. Each entry makes a transformers config for a vocabulary size.

`gpt2-base` is the paper's backward LM (124M at GPT-2's vocabulary). `tiny`, `mini` and `small` are
Llama-like models (rotary positions, RMSNorm, SwiGLU, tied embeddings) that a CPU can train. Any other
architecture of transformers is given as a path to its `config.json`.
"""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import AutoConfig, GPT2Config, LlamaConfig, PretrainedConfig

from boustro.errors import reason
from boustro.names import locate_model

HEAD_WIDTH = 64


def llama(hidden_width: int, num_layers: int) -> Callable[..., PretrainedConfig]:
    """A Llama-like config maker; the feed-forward width is 8/3 of the hidden one, to a multiple of 32."""

    def make(**common: Any) -> PretrainedConfig:
        return LlamaConfig(
            hidden_size=hidden_width,
            intermediate_size=round(hidden_width * 8 / 3 / 32) * 32,
            num_hidden_layers=num_layers,
            num_attention_heads=hidden_width // HEAD_WIDTH,
            tie_word_embeddings=True,
            **common,
        )

    return make


PRESETS: dict[str, Callable[..., PretrainedConfig]] = {
    "gpt2-base": GPT2Config,
    "tiny": llama(128, 2),
    "mini": llama(256, 4),
    "small": llama(512, 8),
}


def config_like(model: str, vocab_size: int, max_pieces: int, end_of_text_id: int) -> PretrainedConfig:
    """The config of a model, of a folder or of the hub, or a `config.json`, fitted to a vocabulary and a window.

    Raises `FileNotFoundError` where there is none.
    """
    try:
        return AutoConfig.from_pretrained(locate_model(model), **_fitted(vocab_size, max_pieces, end_of_text_id))
    except ImportError:
        raise
    except Exception as error:  # a damaged config makes transformers raise whatever it meets
        raise FileNotFoundError(
            f"{model}: no config could be loaded from this path or name ({reason(error)})"
        ) from error


def make_config(preset: str, vocab_size: int, max_pieces: int, end_of_text_id: int) -> PretrainedConfig:
    """The config of a preset, or of a `config.json`, fitted to a vocabulary and a window of `max_pieces`.

    Raises `ValueError` for an unknown name, with the nearest known one.
    """
    if preset in PRESETS:
        return PRESETS[preset](**_fitted(vocab_size, max_pieces, end_of_text_id))
    if Path(preset).exists():
        return config_like(preset, vocab_size, max_pieces, end_of_text_id)
    near = difflib.get_close_matches(preset, PRESETS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown preset {preset!r}: known are {', '.join(PRESETS)}, or a path to a config.json{hint}")


def _fitted(vocab_size: int, max_pieces: int, end_of_text_id: int) -> dict[str, Any]:
    return {
        "vocab_size": vocab_size,
        "max_position_embeddings": max_pieces,
        "bos_token_id": end_of_text_id,
        "eos_token_id": end_of_text_id,
    }
