"""An LM that `boustro adapt` trained: the LM that the folder names, with the adapter merged into its matrices.

    unmasked:DIR    without the mask in the blocks that it was adapted for
    DIR             the control, adapted with its mask kept

The folder does not contain the LM (`models.adaptation`), which must not have changed since the adapter was trained.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from boustro.encoders.lm import LMEncoder
from boustro.encoders.loading import naming
from boustro.encoders.options import ReadingOptions
from boustro.encoders.unmasked import UnmaskedEncoder
from boustro.hardware import is_spread
from boustro.models.adaptation import MASK_KEPT, Adaptation, adapter_fingerprint, find_adaptation
from boustro.models.lora import merge_lora
from boustro.store import fingerprint
from boustro.text.start import AUTO

Locate = Callable[[str], tuple[str, str | None]]  # spec of one LM → its path or name, and its revision


def load_causal(
    path: str,
    reading: ReadingOptions,
    *,
    locate: Locate,
    unmasked: bool = False,
    blocks: str | None = None,
    **common: Any,
) -> LMEncoder:
    """A causal LM, with or without its mask, or one adapted so; `ValueError` for one that was adapted otherwise."""
    adaptation = find_adaptation(path)
    kind = UnmaskedEncoder if unmasked else LMEncoder
    own = {"blocks": blocks} if unmasked else {}
    if adaptation is None:
        return kind(path, reading, **own, **common)
    if adaptation.blocks == MASK_KEPT and unmasked:
        raise ValueError(f"{path} was adapted with its mask kept; name it without unmasked: {path}")
    if adaptation.blocks != MASK_KEPT and (not unmasked or blocks not in (None, adaptation.blocks)):
        raise ValueError(f"{path} was adapted without its mask in blocks {adaptation.blocks}; name it unmasked:{path}")
    if reading.quantise or is_spread(common.get("device")):
        raise ValueError(
            f"{path}: its adapter is merged into the LM's matrices, which must therefore be whole and on one device; "
            "leave out --quantise and --device auto"
        )
    if common.pop("revision", None):
        raise ValueError(f"{path}: an adapted LM is a folder here, which has no revision")
    if reading.start_piece == AUTO:
        reading = replace(reading, start_piece=adaptation.start_piece)
    base, revision = locate(adaptation.base)
    common |= {"direction": adaptation.direction, **({"blocks": adaptation.blocks} if unmasked else {})}
    with naming(f"{path} adapts {adaptation.base}"):
        encoder = kind(base, reading, revision=revision, whole=True, **common)
    now = facts_of(encoder, adaptation.base)
    if (now.weights, now.vocabulary) != (adaptation.weights, adaptation.vocabulary):
        raise ValueError(
            f"{path}: its LM, {adaptation.base}, has changed since it was adapted; adapt it anew with boustro adapt"
        )
    merge_lora(encoder.model, Path(path))
    encoder.adapter = adapter_fingerprint(path)
    return encoder


def named_by_adaptation(path: str) -> list[str]:
    """The spec of the LM that an adaptation belongs to; empty for any other folder."""
    adaptation = find_adaptation(path)
    return [] if adaptation is None else [adaptation.base]


def facts_of(encoder: LMEncoder, exact_base: str) -> Adaptation:
    """The record of the LM for the folder of its adaptation; `exact_base` is the LM's exact spec."""
    return Adaptation(
        base=exact_base,
        direction="backward" if encoder.backward else "forward",
        weights=encoder.weights(),
        vocabulary=fingerprint(encoder.vocabulary()),
        blocks="{}-{}".format(*encoder.blocks) if isinstance(encoder, UnmaskedEncoder) else MASK_KEPT,
        start_piece=AUTO,
    )
