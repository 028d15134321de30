"""An LM that `boustro adapt` trained: the LM that the folder names, with what was learned merged into its matrices.

    unmasked:DIR    with the mask removed in the blocks that it was adapted for
    DIR             the control, adapted with its mask kept

The folder does not hold the LM (`models.adaptation`), which must be what it was when the adapter was trained.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from boustro.encoders.lm import LMEncoder
from boustro.encoders.unmasked import UnmaskedEncoder
from boustro.models.adaptation import MASK_KEPT, Adaptation, adapter_fingerprint, find_adaptation
from boustro.models.lora import merge_lora
from boustro.store import fingerprint

Locate = Callable[[str], tuple[str, str | None]]
"""The path or name, and the revision, of an LM that is named by its spec."""


def read_lm(path: str, locate: Locate, **options: Any) -> LMEncoder:
    """A causal LM as it is, or one that was adapted with its mask kept; `ValueError` where it was removed."""
    adaptation = find_adaptation(path)
    if adaptation is None:
        return LMEncoder(path, **options)
    if adaptation.blocks != MASK_KEPT:
        raise ValueError(f"{path} was adapted without its mask in blocks {adaptation.blocks}; name it unmasked:{path}")
    return _merged(LMEncoder, path, adaptation, locate, **options)


def read_unmasked(path: str, locate: Locate, blocks: str | None = None, **options: Any) -> LMEncoder:
    """A causal LM without its mask, or one that was adapted so, which knows its blocks."""
    adaptation = find_adaptation(path)
    if adaptation is None:
        return UnmaskedEncoder(path, blocks=blocks, **options)
    if adaptation.blocks == MASK_KEPT:
        raise ValueError(f"{path} was adapted with its mask kept; name it without unmasked: {path}")
    if blocks not in (None, adaptation.blocks):
        raise ValueError(f"{path} was adapted without its mask in blocks {adaptation.blocks}; name it unmasked:{path}")
    return _merged(UnmaskedEncoder, path, adaptation, locate, blocks=adaptation.blocks, **options)


def named_by_adaptation(path: str) -> list[str]:
    """The spec of the LM that an adaptation belongs to; nothing for what is none."""
    adaptation = find_adaptation(path)
    return [] if adaptation is None else [adaptation.base]


def _merged(
    kind: type[LMEncoder],
    path: str,
    adaptation: Adaptation,
    locate: Locate,
    revision: str | None = None,
    **options: Any,
) -> LMEncoder:
    if revision:
        raise ValueError(f"{path}: an adapted LM is a folder here, which has no revision")
    base, base_revision = locate(adaptation.base)
    try:
        encoder = kind(base, revision=base_revision, direction=adaptation.direction, **options)
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"{path} adapts {adaptation.base}: {error}") from error
    if (encoder.identity()["weights"], fingerprint(encoder.vocabulary())) != (
        adaptation.weights,
        adaptation.vocabulary,
    ):
        raise ValueError(
            f"{path}: its LM, {adaptation.base}, has changed since it was adapted; adapt it anew with boustro adapt"
        )
    merge_lora(encoder.model, Path(path))
    encoder.adapter = adapter_fingerprint(path)
    return encoder


def facts_of(encoder: LMEncoder, exact_base: str) -> Adaptation:
    """What the folder of an adaptation must say of the LM that it belongs to; `exact_base` is its exact spec."""
    return Adaptation(
        base=exact_base,
        direction="backward" if encoder.backward else "forward",
        weights=encoder.identity()["weights"],
        vocabulary=fingerprint(encoder.vocabulary()),
        blocks="{}-{}".format(*encoder.blocks) if isinstance(encoder, UnmaskedEncoder) else MASK_KEPT,
    )
