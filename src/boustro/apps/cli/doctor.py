"""`boustro doctor`: what a bug report should say, as Markdown to paste; `boustro cache`: the cached features.

What is slow to import is imported when the command runs, so that its help need not wait.
"""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from boustro.options import Positional
from boustro.text.places import LM, missing
from boustro.version import __version__

if TYPE_CHECKING:
    import torch

PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "datasets", "safetensors", "numpy")


def cache(action: Positional[Literal["list", "clear"]], folder: Path | None = None) -> None:
    """List the cached features, or clear them all.

    Args:
        action: What to do.
        folder: The cache; by default $BOUSTRO_CACHE or the user's cache folder.
    """
    from boustro.encoders.cache import cache_folder, clear_features, list_features

    if folder is not None and not folder.is_dir():
        raise missing(str(folder), "folder", "a folder of features is expected here")
    act = list_features if action == "list" else clear_features
    act(folder or cache_folder())


def doctor(encoder: LM | None = None, start_piece: str = "auto", device: str | None = None) -> None:
    """Print versions, devices, bf16 and int8 support, and the cache's place and size.

    Args:
        encoder: Also print how this encoder reads (its start piece, layers, speed, bytes), and how well its LM predicts
            a paragraph of English after each start piece that may be meant.
        start_piece: What a causal LM is given before every text: auto, none, bos, eos, or a piece such as <s>.
        device: cpu, cuda, mps, or auto. By default the best one.
    """
    if encoder is None:
        _print_machine(device)
        return
    from boustro.apps.cli.described import advice, describe_encoder
    from boustro.encoders.spec import load_encoder

    opened = load_encoder(encoder, start_piece=start_piece, device=device, reads="both")
    for facts in describe_encoder(opened):
        _print_table(facts)
    for sentence in advice(opened):
        print(sentence)


def _print_machine(name: str | None) -> None:
    import torch

    from boustro.encoders.cache import cache_limit, default_cache
    from boustro.encoders.precision import told_choice
    from boustro.hardware import find_device

    device, folder = find_device(name), default_cache()
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder and folder.is_dir() else 0
    rows = {
        "boustro": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: _version(name) for name in PACKAGES},
        "device": f"{device}, {torch.get_num_threads()} threads",
        "bf16": _bf16(device),
        "packed models": told_choice(device),
        "cache": f"{folder}, {size / 2**20:,.1f} MB of at most {cache_limit() / 2**20:,.0f}" if folder else "none",
    }
    _print_table(rows)


def _print_table(rows: dict[str, str]) -> None:
    print("| what | here |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    print()


def _bf16(device: "torch.device") -> str:
    """Return whether it is used, and why."""
    from boustro.hardware import BF16, forced_bf16, has_fast_bf16, uses_bf16

    speed = "fast" if has_fast_bf16(device) else "emulated or absent"
    forced = "" if forced_bf16() is None else f", as {BF16}={int(uses_bf16(device))} says"
    return f"{speed}; {'bf16' if uses_bf16(device) else 'fp32'} is used{forced}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
