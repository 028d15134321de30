"""Encoders: words in, vectors out. `spec` lists the kinds; `reading` is where a word becomes a vector."""

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
