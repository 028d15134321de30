"""Loading a frozen model to where it is used: one device, or spread over all memory of the machine (device "auto").

Spread by accelerate, the GPUs are filled first, then the CPU's memory; what is left stays on disk and is read block by
block whenever it is used. The states are the same. Limits and folder are facts of the machine, as the device is:

$BOUSTRO_MAX_MEMORY   such as 0=20GiB,cpu=60GiB: the most for GPU 0 and for the CPU; by default what is free
$BOUSTRO_OFFLOAD      a folder for weights on disk that cannot be used as they are in the model's own files

The config of a transformer that has only its first blocks: what is above them is then neither loaded nor computed.

    shortened(config of 32 blocks, 16)      the same with num_hidden_layers = 16, and lists of 32 entries cut to 16

transformers reads from the files only the weights that such a model has. This is right where a block computes the
same whatever the number of blocks: so in the architectures listed here, which a test compares with the whole model.
It is wrong, for example, for ALBERT (its groups of shared weights divide the depth), Gemma 3n and 4 (upper blocks share
keys and values, counted from the top) and MiniCPM3 (residuals are scaled by the depth). What is not listed is loaded
whole; blocks above the highest layer that is read are skipped there too (`models.blocks`).
"""

import copy
import os
from typing import TYPE_CHECKING, Any

import torch

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
    **options: Any,
) -> Any:
    """Return the frozen model as `make.from_pretrained` gives it: on `device`, or `spread` from there.

    `options` are those of `load_pretrained`. Raises as it does.
    """
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


CAUSAL = (
    "apertus biogpt bloom codegen cohere cohere2 exaone4 falcon gemma gemma2 gemma3 gemma3_text glm gpt2 gpt_bigcode "
    "gpt_neo gpt_neox gpt_oss gptj granite llama mistral mixtral modernbert-decoder mpt nemotron olmo olmo2 olmo3 opt "
    "persimmon phi phi3 qwen2 qwen3 qwen3_moe seed_oss smollm3 starcoder2 xglm"
)
MASKED = "bert camembert deberta-v2 distilbert electra eurobert modernbert roberta xlm-roberta"
VERIFIED = frozenset(f"{CAUSAL} {MASKED}".split())


def shortened(config: "PreTrainedConfig", num_blocks: int) -> "PreTrainedConfig | None":
    """Return a copy for the first `num_blocks` blocks, at least one; None for a config that is as short, or not to be
    cut.

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
