"""Loading a frozen model to where it is used: one device, or spread over all memory of the machine (device "auto").

Spread by accelerate, the GPUs are filled first, then the CPU's memory; what is left stays on disk and is read block by
block whenever it is used. The states are the same. Limits and folder are facts of the machine, as the device is:

$BOUSTRO_MAX_MEMORY   such as 0=20GiB,cpu=60GiB: the most for GPU 0 and for the CPU; by default what is free
$BOUSTRO_OFFLOAD      a folder for weights on disk that cannot be used as they are in the model's own files

Weights in fewer bits, through transformers' own configs: which exist, what each needs, and where it runs.

int8            weights of linear layers in int8, a scale per row; computed in the model's dtype     torchao
int8-dynamic    the same, with each piece's inputs rounded to int8 too: integer products             torchao
int4            weights in 4 bits (NF4, Dettmers et al. 2023)                                        bitsandbytes, CUDA

Embeddings, norms, biases and the experts of mixtures keep their dtype. The weights are quantised while they are loaded;
the files do not change.

The config of a transformer that has only its first blocks: what is above them is then neither loaded nor computed.

    shortened(config of 32 blocks, 16)      the same with num_hidden_layers = 16, and lists of 32 entries cut to 16

transformers reads from the files only the weights that such a model has. This is right where a block computes the
same whatever the number of blocks: so in the architectures listed here, which a test compares with the whole model.
It is wrong, for example, for ALBERT (its groups of shared weights divide the depth), Gemma 3n and 4 (upper blocks share
keys and values, counted from the top) and MiniCPM3 (residuals are scaled by the depth). What is not listed is loaded
whole; blocks above the highest layer that is read are skipped there too (`models.blocks`).
"""

import copy
import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from boustro.choose import choose
from boustro.models.packed import is_packed
from boustro.models.pretrained import load_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

MAX_MEMORY, OFFLOAD = "BOUSTRO_MAX_MEMORY", "BOUSTRO_OFFLOAD"
USED = 0.9  # of what is free on a GPU; the rest is for the states


def load_placed(
    make: Any,
    name_or_path: str,
    device: torch.device,
    *,
    dtype: torch.dtype,
    spread: bool = False,
    quantise: str | None = None,
    **options: Any,
) -> Any:
    """The frozen model as `make.from_pretrained` gives it: on `device`, or `spread` from there, quantised if asked for.

    `options` are those of `load_pretrained`. Raises as it does and as `quantisation_config` does, and `ValueError`
    where no weight could be quantised, and for quantised weights that do not fit into memory.
    """
    if quantise and (name_or_path.endswith(".gguf") or is_packed(name_or_path)):
        kind = "a .gguf file" if name_or_path.endswith(".gguf") else "a packed folder"
        raise ValueError(f"{name_or_path}: the weights of {kind} are unpacked; remove --quantise")
    if quantise:
        options["quantization_config"] = quantisation_config(quantise, device, dtype)
        options["device_map"] = {"": device}  # quantised where it is used
    if spread:
        options |= {"device_map": "auto", "max_memory": memory_limits(), "offload_folder": os.environ.get(OFFLOAD)}
    try:
        model = load_pretrained(make, name_or_path, dtype=dtype, **options)
    except ValueError as error:
        if "offload_folder" not in str(error.__cause__):
            raise
        raise ValueError(
            f"{name_or_path}: weights that stay on disk must be written anew; name a folder for them in {OFFLOAD}"
        ) from error
    if quantise and not is_quantised(model):
        raise ValueError(
            f"{name_or_path}: none of its layers ({model.config.model_type}) can have {quantise} weights; "
            "remove --quantise"
        )
    if quantise and "disk" in (getattr(model, "hf_device_map", None) or {}).values():
        raise ValueError(
            f"{name_or_path}: with {quantise} weights it does not fit into memory, and quantised weights cannot stay "
            f"on disk; read fewer layers (--layers), or remove --quantise"
        )
    if "device_map" not in options:
        model = model.to(device)
    return model.eval().requires_grad_(False)


def memory_limits() -> dict[int | str, int] | None:
    """`0=20GiB,cpu=60GiB` → bytes, over what is free on other devices; None if $BOUSTRO_MAX_MEMORY is not set."""
    text = os.environ.get(MAX_MEMORY, "").strip()
    if not text:
        return None
    from accelerate.utils import convert_file_size_to_int, get_max_memory

    free = get_max_memory()
    limits = {place: int(size * USED) if isinstance(place, int) else size for place, size in free.items()}
    for part in text.split(","):
        place, _, size = (word.strip() for word in part.partition("="))
        key = int(place) if place.isdecimal() else place
        try:
            limits[key] = convert_file_size_to_int(size) if not size.isdecimal() else int(size)
        except ValueError as error:
            raise ValueError(
                f"{MAX_MEMORY}={text!r}: {part!r} is no limit; write for example 0=20GiB,cpu=60GiB"
            ) from error
        if key not in free:
            raise ValueError(f"{MAX_MEMORY}={text!r}: no device {place!r} here, only {', '.join(map(str, free))}")
    return limits


class QuantisedWeights(NamedTuple):
    """One way to store weights."""

    package: str
    extra: str
    """That of the install command."""
    devices: tuple[str, ...]
    config: Callable[[torch.dtype], Any]
    """The config for `from_pretrained`, given the dtype that is computed in."""


def _weights_int8(_: torch.dtype) -> Any:
    from torchao.quantization import Int8WeightOnlyConfig  # pyright: ignore[reportMissingImports]
    from transformers import TorchAoConfig

    return TorchAoConfig(Int8WeightOnlyConfig())


def _inputs_and_weights_int8(_: torch.dtype) -> Any:
    from torchao.quantization import (  # pyright: ignore[reportMissingImports]
        Int8DynamicActivationInt8WeightConfig,
    )
    from transformers import TorchAoConfig

    return TorchAoConfig(Int8DynamicActivationInt8WeightConfig())


def _weights_nf4(compute: torch.dtype) -> Any:
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute)


QUANTISATIONS: dict[str, QuantisedWeights] = {
    "int8": QuantisedWeights("torchao", "int8", ("cpu", "cuda"), _weights_int8),
    "int8-dynamic": QuantisedWeights("torchao", "int8", ("cpu", "cuda"), _inputs_and_weights_int8),
    "int4": QuantisedWeights("bitsandbytes", "int4", ("cuda",), _weights_nf4),
}


def quantisation_config(name: str, device: torch.device, compute: torch.dtype) -> Any:
    """Return the `quantization_config` of `from_pretrained`.

    Raises `ValueError` for an unknown name and for a device where it does not run, `ImportError` with the install
    command for a package that is missing.
    """
    chosen = choose(name, QUANTISATIONS, "quantisation")
    if device.type not in chosen.devices:
        others = [other for other, q in QUANTISATIONS.items() if device.type in q.devices]
        instead = f"use {' or '.join(others)} there" if others else "remove --quantise there"
        where = " or ".join(chosen.devices)
        raise ValueError(
            f"{name} weights ({chosen.package}) are computed with on {where}, not on {device.type}; {instead}"
        )
    if importlib.util.find_spec(chosen.package) is None:
        raise ImportError(
            f"{name} weights need {chosen.package}; install it with: pip install 'boustro[{chosen.extra}]'"
        )
    return chosen.config(compute)


def is_quantised(model: torch.nn.Module) -> bool:
    """Whether any weight is: those of layers that are no `nn.Linear`, as GPT-2's are not, stay as they were."""
    return any(type(parameter) is not torch.nn.Parameter for parameter in model.parameters())


CAUSAL = (
    "apertus biogpt bloom codegen cohere cohere2 exaone4 falcon gemma gemma2 gemma3 gemma3_text glm gpt2 gpt_bigcode "
    "gpt_neo gpt_neox gpt_oss gptj granite llama mistral mixtral modernbert-decoder mpt nemotron olmo olmo2 olmo3 opt "
    "persimmon phi phi3 qwen2 qwen3 qwen3_moe seed_oss smollm3 starcoder2 xglm"
)
MASKED = "bert camembert deberta-v2 distilbert electra eurobert modernbert roberta xlm-roberta"
VERIFIED = frozenset(f"{CAUSAL} {MASKED}".split())


def shortened(config: "PreTrainedConfig", num_blocks: int) -> "PreTrainedConfig | None":
    """A copy for the first `num_blocks` blocks, at least one; None for a config that is as short, or not to be cut.

    Of a model that also reads pictures, the blocks of the text are meant.
    """
    depth, num_blocks = getattr(config.get_text_config(), "num_hidden_layers", 0), max(num_blocks, 1)
    if num_blocks >= depth or config.model_type not in VERIFIED:
        return None
    short = copy.deepcopy(config)  # the caller's config keeps all its layers
    text = short.get_text_config()
    for name, value in vars(config.get_text_config()).items():
        if "layer" in name and isinstance(value, (list, tuple)) and len(value) == depth:
            setattr(text, name, value[:num_blocks])
    text.num_hidden_layers = num_blocks
    return short
