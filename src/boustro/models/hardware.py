"""What the machine at hand can do: the device to run on, and whether bf16 is fast or emulated there."""

import torch


def best_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def has_fast_bf16(device: torch.device) -> bool:
    """On a CPU without AMX or AVX512-bf16 a bf16 product is emulated, up to 100 times slower than fp32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        probes = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
        return any(probe() for probe in probes if probe is not None)
    return False
