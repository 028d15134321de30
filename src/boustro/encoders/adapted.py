"""An LM that `boustro lab adapt` trained: the LM that the folder names, with the adapter merged into its matrices.

    unmasked:DIR    without the mask in the blocks that it was adapted for
    DIR             adapted with its mask kept, or an adapter that others trained with peft
    masked:DIR      a masked LM, which was adapted to what things are

The folder does not contain the LM (`models.lora`), which must not have changed since the adapter was trained.
"""

from dataclasses import replace
from typing import Any, TypeVar

from boustro.encoders.lm import LMEncoder, MaskedEncoder, UnmaskedEncoder
from boustro.encoders.loading import load_config, naming, weights_fingerprint
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import locate
from boustro.encoders.transformer import TransformerEncoder
from boustro.hardware import is_spread
from boustro.models.lora import (
    ADAPTER_CONFIG,
    MASK_KEPT,
    Adaptation,
    adapter_fingerprint,
    find_adaptation,
    is_of_whole_lm,
    merge_lora,
    num_rows,
)
from boustro.store import Artefact, fingerprint
from boustro.text.start import AUTO

Adapted = TypeVar("Adapted", bound=TransformerEncoder)
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
"""Files of which a folder with a tokenizer has one."""


def load_causal(
    path: Artefact,
    reading: ReadingOptions,
    *,
    unmasked: bool = False,
    blocks: str | None = None,
    plain: type[LMEncoder] = LMEncoder,
    **common: Any,
) -> LMEncoder:
    """Return a causal LM, with or without its mask, or one adapted so; `ValueError` for one that was adapted otherwise.

    `plain` is the class of one that is neither unmasked nor adapted, and reads forward.
    """
    adaptation = find_adaptation(path)
    kind = UnmaskedEncoder if unmasked else LMEncoder
    options: dict[str, Any] = {"blocks": blocks} if unmasked else {}
    if base := adapter_base(path):
        return _load_adapter(path, base, reading, kind=kind, **options, **common)
    if adaptation is None:
        if plain is not LMEncoder and common.get("direction") != "backward":
            config = load_config(path, common.get("revision"))
            kind = kind if unmasked or getattr(config, "direction", "forward") == "backward" else plain
        return kind(path, reading, **options, **common)
    if adaptation.direction == "both":
        raise ValueError(f"{path} was adapted from a masked LM; name it masked:{path}")
    if adaptation.blocks == MASK_KEPT and unmasked:
        raise ValueError(f"{path} was adapted with its mask kept; name it without unmasked: {path}")
    if adaptation.blocks != MASK_KEPT and (not unmasked or blocks not in (None, adaptation.blocks)):
        raise ValueError(f"{path} was adapted without its mask in blocks {adaptation.blocks}; name it unmasked:{path}")
    if reading.start_piece == AUTO:
        reading = replace(reading, start_piece=adaptation.start_piece)
    common |= {"direction": adaptation.direction, **({"blocks": adaptation.blocks} if unmasked else {})}
    return _load_adaptation(path, adaptation, reading, kind=kind, **common)


def load_masked(path: Artefact, reading: ReadingOptions, **common: Any) -> MaskedEncoder:
    """Return a masked LM with the adapter of a folder; `ValueError` for one of a causal LM."""
    adaptation = find_adaptation(path)
    if adaptation is None or adaptation.direction != "both":
        raise ValueError(f"{path} is an adapter that boustro lab adapt did not train for a masked LM")
    return _load_adaptation(path, adaptation, reading, kind=MaskedEncoder, **common)


def _load_adaptation(
    path: Artefact, adaptation: Adaptation, reading: ReadingOptions, *, kind: type[Adapted], **common: Any
) -> Adapted:
    """Return an LM with the adapter merged into it; `ValueError` for one that has changed since."""
    _refuse_unmergeable(path, common)
    base, revision = locate(adaptation.base)
    with naming(f"{path} adapts {adaptation.base}"):
        encoder = kind(base, reading, revision=revision, whole=True, **common)
    now = adaptation_facts(encoder, adaptation.base)
    if (now.weights, now.vocabulary) != (adaptation.weights, adaptation.vocabulary):
        raise ValueError(
            f"{path}: its LM, {adaptation.base}, has changed since it was adapted; adapt it anew with boustro lab adapt"
        )
    merge_lora(encoder.model, path.path)
    encoder.adapter = adapter_fingerprint(path)
    return encoder


def _load_adapter(
    path: Artefact, base: str, reading: ReadingOptions, *, kind: type[LMEncoder], **common: Any
) -> LMEncoder:
    """Return an LM with an adapter of peft merged into it, and with the tokenizer of its folder, if there is one."""
    _refuse_unmergeable(path, common)
    name, revision = locate(base)
    if any((path / file).is_file() for file in TOKENIZER):
        common["tokenizer_of"] = path
    with naming(f"{path} is an adapter of {base}"):
        rows, size = num_rows(path.path), load_config(name, revision).get_text_config().vocab_size
        if rows not in (None, size):
            raise ValueError(
                f"the vocabulary has {rows:,} rows, and that of the LM {size:,}: it was resized when the adapter was "
                "trained; merge the adapter into the LM with peft's merge_and_unload, and name the folder of the result"
            )
        encoder = kind(name, reading, revision=revision, **{**common, "whole": True})
    merge_lora(encoder.language_model() if is_of_whole_lm(path.path) else encoder.model, path.path)
    encoder.adapter = weights_fingerprint(path, None)
    return encoder


def _refuse_unmergeable(path: Artefact, common: dict[str, Any]) -> None:
    """`ValueError` for options under which no adapter can be merged; takes the revision out of the others."""
    if is_spread(common.get("device")):
        raise ValueError(
            f"{path}: its adapter is merged into the LM's matrices, which must therefore be whole and on one device; "
            "leave out --device auto"
        )
    if common.pop("revision", None):
        raise ValueError(f"{path}: an adapted LM is a folder here, which has no revision")


def adapter_base(path: Artefact) -> str | None:
    """Return the LM that a folder of peft names, with its revision; None for any other folder. `ValueError` without
    one."""
    if find_adaptation(path) or not (path / ADAPTER_CONFIG).is_file() or (path / "config.json").is_file():
        return None
    facts = path.json(ADAPTER_CONFIG)
    if facts.get("peft_type") != "LORA" or not facts.get("base_model_name_or_path"):
        raise ValueError(
            f"{path} is an adapter that is not LoRA, or does not name its LM; merge it into the LM with peft's "
            "merge_and_unload, and name the folder of the result"
        )
    revision = facts.get("revision")
    return facts["base_model_name_or_path"] + (f"@{revision}" if revision else "")


def named_by_adaptation(path: Artefact) -> list[str]:
    """Return the spec of the LM that an adaptation or an adapter belongs to; empty for any other folder."""
    adaptation = find_adaptation(path)
    named = adapter_base(path) if adaptation is None else adaptation.base
    return [named] if named else []


def adaptation_facts(encoder: TransformerEncoder, exact_base: str) -> Adaptation:
    """Return the record of the LM for the folder of its adaptation; `exact_base` is the LM's exact spec."""
    one_way = "backward" if encoder.backward else "forward"
    return Adaptation(
        base=exact_base,
        direction="both" if isinstance(encoder, MaskedEncoder) else one_way,
        weights=encoder.weights(),
        vocabulary=fingerprint(encoder.vocabulary()),
        blocks="{}-{}".format(*encoder.blocks) if isinstance(encoder, UnmaskedEncoder) else MASK_KEPT,
        start_piece=AUTO,
    )
