"""Models of transformers: what kind an architecture is, and loading weights quietly, completely, with clear errors.

Weights of a model's files that the loaded model does not have, and which of them must not be passed over.

transformers passes them over without a word. Most are meant for something else; some change the numbers:

    passed over   an LM head, where the states are read        lm_head.weight, language_model.lm_head.weight
                  another head                                  classifier.weight, cls.seq_relationship.bias
                  blocks above the highest that is read         model.layers.9.mlp.up_proj.weight
                  masks and positions that are computed now     h.0.attn.bias, rotary_emb.inv_freq
                  what reads pictures, sound or later pieces    visual.blocks.0.mlp.fc1.weight
    refused       scales of quantised weights                   model.layers.0.mlp.up_proj.weight_scale
                  parts that the config does not speak of       model.layers.0.self_attn.q_norm.weight
                  blocks above those of the config              model.layers.12.mlp.up_proj.weight

The final norm of a causal LM: transformers' last layer comes after it, the last of other engines before it.
"""

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from safetensors import safe_open
from torch import nn

from boustro.errors import lacks_memory, reason
from boustro.models.packed import StoredWeights, packed_weights
from boustro.names import source
from boustro.store import refuse_pointers

if TYPE_CHECKING:
    from transformers import PretrainedConfig

UNUSED = "pooler"  # above the states of a masked LM's body; many files of weights lack it, and nothing here reads it
POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")  # architectures whose first position is not 0
ModelKind = Literal["causal", "masked"]


def architecture_kind(config: "PretrainedConfig") -> ModelKind | None:
    """Return whether an architecture is a masked or a causal LM; None for neither.

    A BERT made a decoder is causal, and so is an LM that also reads pictures; an encoder-decoder is neither, whatever
    lists transformers has it in.
    """
    from transformers.models.auto import modeling_auto as known

    decoder = getattr(config, "is_decoder", False)  # not every config has it
    if getattr(config, "is_encoder_decoder", False):
        return None
    if config.model_type in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not decoder:
        return "masked"
    is_causal = config.model_type in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or _reads_pictures(config)
    return "causal" if is_causal else None


def causal_class(config: "PretrainedConfig") -> Any:
    """Return the auto class of a causal LM with its head."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    return AutoModelForImageTextToText if _reads_pictures(config) else AutoModelForCausalLM


def _reads_pictures(config: "PretrainedConfig") -> bool:
    """Return whether transformers knows a causal LM only as part of a model that also reads pictures."""
    from transformers.models.auto import modeling_auto as known

    text = config.get_text_config()
    lists, causal = known.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return (
        config.model_type in lists
        and config.model_type not in causal
        and text is not config
        and hasattr(text, "num_hidden_layers")
    )


def describe_architecture(config: "PretrainedConfig") -> str:
    """Name an architecture for messages: "a causal LM (llama)", "an encoder-decoder (t5)", "a vit"."""
    kind, name = architecture_kind(config), config.model_type
    if kind is None:
        return f"an encoder-decoder ({name})" if getattr(config, "is_encoder_decoder", False) else f"a {name}"
    return f"a {kind} LM ({name})"


def refuse_no_causal_lm(name: str, config: "PretrainedConfig") -> None:
    """`ValueError` for an architecture of another kind; `name` is the model's, for the message."""
    if architecture_kind(config) != "causal":
        raise ValueError(f"{name} is {describe_architecture(config)}, not a causal LM; name a causal LM such as gpt2")


def first_position(config: Any) -> int:
    """Return the position of the first piece: 0, but in RoBERTa and similar models the padding piece's id + 1."""
    return config.pad_token_id + 1 if config.model_type in POSITIONS_AFTER_PADDING else 0


# transformers loads by functions that it replaces for all threads meanwhile, such as the one that ties a head: two
# loads at once put them back in the wrong order, and no later model has its head.
ONE_AT_A_TIME = threading.RLock()


@contextmanager
def quiet() -> Iterator[None]:
    """Within it transformers logs errors only, and shows no progress bars."""
    from transformers.utils import logging

    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def load_pretrained(make: Any, name_or_path: str, *, num_blocks: int | None = None, **options: Any) -> Any:
    """`make.from_pretrained`, `make` being a class of transformers, which would fill missing weights at random, leave
    out those that it does not know, and tie or not tie a head against the config.

    `num_blocks` are in the files, where the `config` has fewer. Raises `ValueError` for weights that cannot be read, do
    not fit the config, are incomplete, or would be read in part.
    """
    _refuse_unknown_quantisation(name_or_path, options.get("config"))
    folder, file = source(name_or_path)
    packed = packed_weights(folder)
    try:
        with ONE_AT_A_TIME, quiet():
            if packed is None:
                model, told = make.from_pretrained(folder, output_loading_info=True, **options, **file)
            else:
                model, told = _from_packed(make, folder, packed, **options)
    except Exception as error:  # a damaged file makes the libraries raise anything
        if isinstance(error, ImportError) or lacks_memory(error):
            raise
        refuse_pointers(name_or_path)
        raise ValueError(f"{name_or_path}: the weights could not be loaded: {reason(error)}") from error
    missing = sorted(name for name in told["missing_keys"] if UNUSED not in name)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{name_or_path}: the weights could not be loaded: {missing[0]}{more} are missing")
    _refuse_unread(name_or_path, model, told["unexpected_keys"], num_blocks)
    _refuse_untied(name_or_path, model)
    return model


def _from_packed(make: Any, folder: str, packed: StoredWeights, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Load a packed folder; its weights become those of the class that an auto class chooses."""
    config, dtype = options.pop("config", None), options.pop("dtype")
    if config is None:
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        chosen: Any = type(getattr(make, "from_config", make)(config))
    weights = packed.read_all(dtype if isinstance(dtype, torch.dtype) else None)
    options.pop("revision", None)
    return chosen.from_pretrained(
        None, config=config, state_dict=weights, dtype=dtype, output_loading_info=True, **options
    )


def _refuse_unknown_quantisation(name: str, config: "PretrainedConfig | None") -> None:
    """`ValueError` for quantised weights that transformers would read as if they were not."""
    quantisation = getattr(config, "quantization_config", None)
    if not isinstance(quantisation, dict) or quantisation.get("load_in_8bit") or quantisation.get("load_in_4bit"):
        return
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    method = quantisation.get("quant_method")
    if method not in AUTO_QUANTIZATION_CONFIG_MAPPING:
        raise ValueError(
            f"{name}: its config.json says that the weights are quantised by {method!r}, which transformers cannot "
            f"read (it reads {', '.join(sorted(AUTO_QUANTIZATION_CONFIG_MAPPING))}); use the model's weights that are "
            "not quantised"
        )


def _refuse_unread(name: str, model: Any, unexpected: Iterable[str], num_blocks: int | None) -> None:
    if getattr(getattr(model, "hf_quantizer", None), "pre_quantized", False):
        return  # transformers reads them in its own way
    depth = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
    if unread := wrongly_unread(model, unexpected, num_blocks or depth):
        more = f" and {len(unread) - 1} more weights" if len(unread) > 1 else ""
        raise ValueError(
            f"{name}: the config does not fit the weights: {unread[0]}{more} would be left out; get config.json and "
            "the weights from one source, and quantised weights in a format that the config names"
        )


def _refuse_untied(name: str, model: Any) -> None:
    """`ValueError` for weights that the config ties and that differ in the files: either could be meant."""
    differing = model.get_expanded_tied_weights_keys(all_submodels=True).items() - model.all_tied_weights_keys.items()
    if differing:
        head, source = min(differing)
        raise ValueError(
            f"{name}: config.json ties {head} to {source} (tie_word_embeddings), but the files have another {head}; "
            "write false for tie_word_embeddings to use it, or remove it from the files"
        )


COMPUTED = re.compile(r"(inv_freq|position_ids|token_type_ids|_float_tensor|causal_mask|_extra_state)$")
MASKS = re.compile(r"\b(attn|attention)\.(masked_)?bias$")
APART = re.compile(r"(^|\.)(pooler|seq_relationship|mtp|\w*(vision|visual|audio)\w*|multi_modal_projector)\.")
TEXT_HEAD = re.compile(r"^language_model\.lm_head\.weight$")


def wrongly_unread(model: Any, names: Iterable[str], num_blocks: int) -> list[str]:
    """Those of the `names` that must not be passed over; by its config, the files have `num_blocks` blocks."""
    return sorted(name for name in names if _matters(model, name, num_blocks))


def _matters(model: Any, name: str, num_blocks: int) -> bool:
    if any(pattern.search(name) for pattern in (COMPUTED, MASKS, APART, TEXT_HEAD)):
        return False
    parts, module = name.split("."), model
    in_body, in_block = parts[0] == model.base_model_prefix, False
    if in_body and parts[0] not in model._modules:  # of a model with a head, in one without
        parts = parts[1:]
    elif parts[0] not in model._modules:  # the other way round
        module = model.base_model
    start = module
    while len(parts) > 1 and (child := module._modules.get(parts[0])) is not None:
        module, parts = child, parts[1:]
        if isinstance(module, nn.ModuleList) and not in_block:
            in_block = True
            if parts[0].isdecimal() and parts[0] not in module._modules:
                return int(parts[0]) >= num_blocks
    if (module._parameters | module._buffers).get(parts[0]) is not None:
        return len(parts) > 1  # as weight.absmax; otherwise a buffer that is computed
    return in_body or module is not start


NORM_NAMES = ("norm", "ln_f", "final_layer_norm", "final_layernorm")


def final_norm(model: nn.Module, folder: str) -> nn.Module:
    """Return the final norm of a body of transformers; if the body has no weights, those of the norm are read from
    `folder`.

    Raises `ValueError` where it is not found.
    """
    name = next((name for name in NORM_NAMES if isinstance(getattr(model, name, None), nn.Module)), None)
    if name is None:
        raise ValueError(f"{folder}: the final norm of its LM ({type(model).__name__}) was not found")
    norm = getattr(model, name)
    if not any(parameter.is_meta for parameter in norm.parameters()):
        return norm
    weights = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 (it is no mapping)
                owner, _, parameter = key.rpartition(".")
                if owner == name or owner.endswith(f"model.{name}") or owner == f"transformer.{name}":
                    weights[parameter] = tensors.get_tensor(key)
    if weights.keys() != dict(norm.named_parameters()).keys():
        raise ValueError(f"{folder}: the weights of its final norm were not found; write states that have passed it")
    norm.load_state_dict(weights, assign=True)
    return norm
