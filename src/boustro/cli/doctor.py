"""`boustro doctor`: what a bug report should say, as Markdown to paste.

What is slow to import is imported when the command runs, so that its help need not wait.
"""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from boustro import __version__

if TYPE_CHECKING:
    import torch

PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "datasets", "safetensors", "numpy")


def doctor() -> None:
    """Print versions, devices, bf16 support, and the cache's place and size."""
    import torch

    from boustro.encoders.cache import cache_folder, cache_limit
    from boustro.hardware import best_device

    device, folder = best_device(), cache_folder()
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.is_dir() else 0
    rows = {
        "boustro": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: _version(name) for name in PACKAGES},
        "device": f"{device}, {torch.get_num_threads()} threads",
        "bf16": _bf16(device),
        "cache": f"{folder}, {size / 2**20:,.1f} MB of at most {cache_limit() / 2**20:,.0f}",
    }
    print("| what | here |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


def _bf16(device: "torch.device") -> str:
    """Whether it is used, and why."""
    from boustro.hardware import BF16, forced_bf16, has_fast_bf16, uses_bf16

    speed = "fast" if has_fast_bf16(device) else "emulated or absent"
    forced = "" if forced_bf16() is None else f", as {BF16}={int(uses_bf16(device))} says"
    return f"{speed}; {'bf16' if uses_bf16(device) else 'fp32'} is used{forced}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
