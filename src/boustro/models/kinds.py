"""Whether an architecture is a masked or a causal LM, as transformers knows it."""

from typing import Literal

from transformers import PretrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

Kind = Literal["causal", "masked"]


def architecture_kind(config: PretrainedConfig) -> Kind | None:
    """None for neither. A BERT that was made a decoder reads one way."""
    decoder = getattr(config, "is_decoder", False)  # not every config has it
    if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not decoder:
        return "masked"
    return "causal" if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else None
