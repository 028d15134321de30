"""Models of transformers: what kind an architecture is, and loading weights quietly, completely, with clear errors."""

from typing import Any, Literal

from transformers import PretrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)
from transformers.utils import logging

from boustro.errors import lacks_memory, reason

UNUSED = "pooler"  # above the states of a masked LM's body; many files of weights lack it, and nothing here reads it
POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")  # architectures whose first position is not 0
Kind = Literal["causal", "masked"]


def architecture_kind(config: PretrainedConfig) -> Kind | None:
    """Whether an architecture is a masked or a causal LM; None for neither.

    A BERT made a decoder is causal; an encoder-decoder is neither, whatever lists transformers has it in.
    """
    decoder = getattr(config, "is_decoder", False)  # not every config has it
    if getattr(config, "is_encoder_decoder", False):
        return None
    if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not decoder:
        return "masked"
    return "causal" if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else None


def describe(config: PretrainedConfig) -> str:
    """What an architecture is, for messages: "a causal LM (llama)", "an encoder-decoder (t5)", "a vit"."""
    kind, name = architecture_kind(config), config.model_type
    if kind is None:
        return f"an encoder-decoder ({name})" if getattr(config, "is_encoder_decoder", False) else f"a {name}"
    return f"a {kind} LM ({name})"


def first_position(config: PretrainedConfig) -> int:
    """The position of the first piece: 0, but in RoBERTa and similar models the padding piece's id + 1."""
    return config.pad_token_id + 1 if config.model_type in POSITIONS_AFTER_PADDING else 0


def load_pretrained(make: Any, name_or_path: str, **options: Any) -> Any:
    """`make.from_pretrained`, `make` being a class of transformers, which would fill missing weights at random.

    Raises `ValueError` for weights that cannot be read, do not fit the config, or are incomplete.
    """
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        model, told = make.from_pretrained(name_or_path, output_loading_info=True, **options)
    except Exception as error:  # a damaged file makes the libraries raise anything
        if isinstance(error, ImportError) or lacks_memory(error):
            raise
        raise ValueError(f"{name_or_path}: the weights could not be loaded: {reason(error)}") from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
    missing = sorted(name for name in told["missing_keys"] if UNUSED not in name)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{name_or_path}: the weights could not be loaded: {missing[0]}{more} are missing")
    return model
