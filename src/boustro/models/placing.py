"""Loading a frozen model to where it is used: one device, or spread over all memory of the machine (device "auto").

Spread by accelerate, the GPUs are filled first, then the CPU's memory; what is left stays on disk and is read block by
block whenever it is used. The states are the same. Limits and folder are facts of the machine, as the device is:

$BOUSTRO_MAX_MEMORY   such as 0=20GiB,cpu=60GiB: the most for GPU 0 and for the CPU; by default what is free
$BOUSTRO_OFFLOAD      a folder for weights on disk that cannot be used as they are in the model's own files
"""

import os
from typing import Any

import torch
from accelerate.utils import convert_file_size_to_int, get_max_memory

from boustro.models.pretrained import load_pretrained
from boustro.models.quantise import is_quantised, quantisation_config

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
    if quantise and name_or_path.endswith(".gguf"):
        raise ValueError(f"{name_or_path}: the weights of a .gguf file are unpacked; leave out --quantise")
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
            f"{name_or_path}: none of its layers ({model.config.model_type}) can have {quantise} weights; leave out "
            "--quantise"
        )
    if quantise and "disk" in (getattr(model, "hf_device_map", None) or {}).values():
        raise ValueError(
            f"{name_or_path}: with {quantise} weights it does not fit into memory, and quantised weights cannot stay "
            f"on disk; read fewer layers (--layers), or leave out --quantise"
        )
    if "device_map" not in options:
        model = model.to(device)
    return model.eval().requires_grad_(False)


def memory_limits() -> dict[int | str, int] | None:
    """`0=20GiB,cpu=60GiB` → bytes, over what is free on other devices; None if $BOUSTRO_MAX_MEMORY is not set."""
    text = os.environ.get(MAX_MEMORY, "").strip()
    if not text:
        return None
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
