"""The machine: which device to run on, whether bf16 is fast there, threads after a fork.

$BOUSTRO_BF16   not set   compute in bf16 if the hardware is fast at it, packed models as `encoders.precision` finds
                1, 0      always compute in bf16, always in fp32
"""

import os

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

BF16, BY_PROCESSOR = "BOUSTRO_BF16", "auto"


ROW_MULTIPLE = 32
"""oneDNN, which computes products in bf16 on a CPU, compiles a kernel for every number of rows, which takes longer than
the products of a batch, and keeps a thousand of half a megabyte. So a batch has a multiple of so many rows there."""


def _after_fork() -> None:
    """A forked process has one thread; waiting for the other threads of OpenMP or the tokenizers would never end."""
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)


def best_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def find_device(name: str | torch.device | None) -> torch.device:
    """Return the device of this name, the best one for None and "auto"; `ValueError` if it cannot be used on this
    machine."""
    if name is None or is_spread(name):
        return best_device()
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # the second if torch was built without CUDA
        raise ValueError(f"device {str(name)!r} cannot be used here; the best one is {best_device()}") from error
    return device


def is_spread(name: str | torch.device | None) -> bool:
    """Return whether a device is "auto": a frozen model may then be on several (`models.placing`), its inputs on the
    best."""
    return name == BY_PROCESSOR


def has_fast_bf16(device: torch.device) -> bool:
    """On a CPU without AMX or AVX512-bf16, bf16 is emulated and up to 100 times slower than fp32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        probes = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
        return any(probe() for probe in probes if probe is not None)
    return False


def forced_bf16() -> bool | None:
    """Return the value of $BOUSTRO_BF16, None if it is not set; `ValueError` for anything but 1 and 0."""
    text = os.environ.get(BF16, "").strip()
    if text not in ("", "0", "1"):
        raise ValueError(f"{BF16}={text!r} is neither 1 (compute in bf16) nor 0 (do not); unset it for the default")
    return text == "1" if text else None


def uses_bf16(device: torch.device) -> bool:
    """Return whether to compute in bf16 on this device by default. Raises as `forced_bf16` does."""
    forced = forced_bf16()
    return has_fast_bf16(device) if forced is None else forced


def mixed_precision(device: torch.device, bf16: bool | None = None) -> torch.autocast:
    """Return a block of code whose products are in bf16 if `bf16`; by default as `uses_bf16`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=uses_bf16(device) if bf16 is None else bf16)


def multiply(x: Float[Tensor, "*B K"], weight: Float[Tensor, "N K"], bias: Float[Tensor, " N"] | None = None) -> Tensor:
    """Return x · Wᵀ + b, (…, K) → (…, N), the rows of `x` filled up where that spares kernels (`ROW_MULTIPLE`)."""
    rows = x.flatten(0, -2)
    if x.dtype != torch.bfloat16 or x.device.type != "cpu" or not (lacking := -len(rows) % ROW_MULTIPLE):
        return F.linear(x, weight, bias)
    return F.linear(F.pad(rows, (0, 0, 0, lacking)), weight, bias)[: len(rows)].unflatten(0, x.shape[:-1])
