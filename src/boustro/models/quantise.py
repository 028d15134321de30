"""Weights in fewer bits, through transformers' own configs: which exist, what each needs, and where it runs.

int8            weights of linear layers in int8, a scale per row; computed in the model's dtype     torchao
int8-dynamic    the same, with each piece's inputs rounded to int8 too: integer products             torchao
int4            weights in 4 bits (NF4, Dettmers et al. 2023)                                        bitsandbytes, CUDA

Embeddings, norms, biases and the experts of mixtures keep their dtype. The weights are quantised while they are loaded;
the files do not change.
"""

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from boustro.choose import choose


class Quantisation(NamedTuple):
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


QUANTISATIONS: dict[str, Quantisation] = {
    "int8": Quantisation("torchao", "int8", ("cpu", "cuda"), _weights_int8),
    "int8-dynamic": Quantisation("torchao", "int8", ("cpu", "cuda"), _inputs_and_weights_int8),
    "int4": Quantisation("bitsandbytes", "int4", ("cuda",), _weights_nf4),
}


def quantisation_config(name: str, device: torch.device, compute: torch.dtype) -> Any:
    """What `from_pretrained` takes as `quantization_config`.

    Raises `ValueError` for an unknown name and for a device where it does not run, `ImportError` with the install
    command for a package that is missing.
    """
    chosen = choose(name, QUANTISATIONS, "quantisation")
    if device.type not in chosen.devices:
        others = [other for other, q in QUANTISATIONS.items() if device.type in q.devices]
        instead = f"use {' or '.join(others)} there" if others else "leave out --quantise there"
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
