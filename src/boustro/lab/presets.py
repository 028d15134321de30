"""Architectures by name: configs of transformers in presets.json, fitted to a vocabulary and a window.

    tiny mini small     Llama-like causal LMs (rotary positions, RMSNorm, SwiGLU, tied embeddings) that a CPU can train
    gpt2-base           the paper's backward LM (124M with GPT-2's vocabulary)
    bert-*              post-norm, learned positions, GELU, dropout, two segments: BERT
    eurobert-*          the Llama block without a causal mask: a modern masked LM
    electra-*           BERT's block with ELECTRA's embeddings; `make_generator_config` makes its generator
    biglm-*             as eurobert-*, and the sizes of the BiGLM paper: 136m, 360m, 1.3b and 3.5b

Masked presets have the sizes tiny, mini, small and base. Heads of attention are 64 wide, as GPT-2, BERT and Llama of
these sizes have them; feed-forward layers 4 times the hidden width, gated ones, which have three matrices in place of
two, 8/3 times, to a multiple of 32. Small LMs have tied embeddings, since the output matrix would be most of them, and
a EuroBERT has the rotary positions of a Llama, from which it can start.

With its own vocabulary of 50,304 pieces the BiGLM paper's table 7 gives 135M, 363M, 1.31B and, for "3.5B", 2.49B
parameters. Any other architecture is a path to its `config.json`; the head of a masked one must be in `lab.masked`.
Sources: BERT, section 3; EuroBERT, 2.1; ELECTRA, appendix A; BiGLM, table 7 and the published feed-forward widths.
"""

import copy
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PretrainedConfig

from boustro.choose import suggestion
from boustro.errors import reason
from boustro.models.pretrained import POSITIONS_AFTER_PADDING, first_position
from boustro.names import locate_model
from boustro.store import read_json, reading

HEAD_WIDTH = 64  # of attention
PRESETS, MASKED_PRESETS = read_json(Path(__file__).with_name("presets.json")).values()


def _config(preset: dict[str, Any], fitted: dict[str, Any]) -> PretrainedConfig:
    return AutoConfig.for_model(**copy.deepcopy(preset), **fitted)  # transformers changes the dicts that it is given


def make_config(preset: str, vocab_size: int, max_pieces: int, end_of_text_id: int) -> PretrainedConfig:
    """Return the config of a causal preset or a `config.json`, for a window; `ValueError` for an unknown name."""
    if preset in PRESETS:
        return _config(PRESETS[preset], _fitted(vocab_size, max_pieces, end_of_text_id))
    if Path(preset).exists():
        return config_like(preset, vocab_size, max_pieces, end_of_text_id)
    raise ValueError(_unknown("preset", preset, list(PRESETS)))


def config_like(model: str, vocab_size: int, max_pieces: int, end_of_text_id: int) -> PretrainedConfig:
    """Return the config of a model or of a `config.json`, for a window; `FileNotFoundError` if there is none."""
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


def make_masked_config(preset: str, tokenizer: Any, vocab_size: int, max_pieces: int) -> PretrainedConfig:
    """Return the config of a preset such as `bert-mini`, or of a `config.json`, for a tokenizer and a window of
    `max_pieces`.

    `vocab_size` is the tokenizer's largest id + 1.
    Raises `ValueError` for an unknown name, with the nearest known one, and for a tokenizer without a mask piece, or
    without the padding piece from which RoBERTa counts its positions.
    """
    if preset not in MASKED_PRESETS and not Path(preset).exists():
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
    if preset in MASKED_PRESETS:
        return _config(MASKED_PRESETS[preset], fitted)
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
    """Return the config of the generator of an ELECTRA pair: `share` of the width, the same depth and embeddings."""
    hidden_width = max(HEAD_WIDTH, round(discriminator.hidden_size * share / HEAD_WIDTH) * HEAD_WIDTH)
    block = {"hidden_size": hidden_width, "intermediate_size": 4 * hidden_width}
    block["num_attention_heads"] = hidden_width // HEAD_WIDTH
    return type(discriminator).from_dict({**discriminator.to_dict(), **block})
