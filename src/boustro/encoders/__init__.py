"""Encoders: words in, vectors out. `spec` lists the kinds; `reading` is where a word becomes a vector.

Names are imported when they are first used, so that `encoders.options` can be read without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boustro.encoders.base import Encoder, Features, Stream
    from boustro.encoders.spec import (
        check_spec,
        exact_spec,
        load_encoder,
        locate,
        resolve,
        spec_fingerprint,
        split_kind,
        split_revision,
        split_spec,
        with_cache,
    )

__all__ = [
    "Encoder",
    "Features",
    "Stream",
    "check_spec",
    "exact_spec",
    "load_encoder",
    "locate",
    "resolve",
    "spec_fingerprint",
    "split_kind",
    "split_revision",
    "split_spec",
    "with_cache",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'boustro.encoders' has no attribute {name!r}")
    home = "base" if name in ("Encoder", "Features", "Stream") else "spec"
    return getattr(import_module(f"boustro.encoders.{home}"), name)
