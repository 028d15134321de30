"""Specs: the short names of encoders, the same in Python, on the command line and in saved files.

gpt2                a causal LM of the Hub or a folder; reads as its config says, forward by default
gpt2@607a30d        the same at one revision: a commit, branch or tag of the Hub
backward:PATH       a backward LM whose config does not say so (the published ones)
gpt2+./backward     several side by side, with one vocabulary
starter             the pair in the package; starter-forward and starter-backward, its halves
starter-memory      the same with its memory of words, which is in the package too
masked:PATH         a masked LM of the BERT family
unmasked:PATH       a causal LM without its causal mask, untrained: every piece sees both sides
unmasked:3-4:PATH   the same in blocks 3 and 4 only; unmasked:4:PATH in one
unmasked:DIR        a causal LM that boustro adapt trained to read so, in the blocks that it was trained for
repeated:PATH       a causal LM that is given the text twice and read in the second copy; repeated:3:PATH three times
fused:DIR           a forward and a backward LM under a fusion that boustro fuse trained; the folder names the two
memory:DIR          an encoder and its mean vectors of words in raw text (boustro memory); the folder names the encoder
elmo:DIR            an ELMo that boustro elmo trained: reads letters, so no word is unknown; both directions

The order is kind, number or range, path or name, revision: `unmasked:3-4:gpt2@607a30d`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from boustro.choose import nearest
from boustro.encoders.adapted import load_causal, named_by_adaptation
from boustro.encoders.base import Encoder
from boustro.encoders.cache import CachedEncoder
from boustro.encoders.concat import ConcatEncoder, check_vocabularies
from boustro.encoders.elmo import ElmoEncoder
from boustro.encoders.extended import ExtendedEncoder
from boustro.encoders.fused import FusedEncoder, named_by_fusion
from boustro.encoders.identity import Identity, JoinedIdentity
from boustro.encoders.lm import LMEncoder
from boustro.encoders.loading import load_config, weights_fingerprint
from boustro.encoders.masked import MaskedEncoder
from boustro.encoders.memory import MemoryEncoder, named_by_memory
from boustro.encoders.options import Context, Precision, Quantisation, ReadingOptions, Spacing
from boustro.encoders.outside import OutsideLM
from boustro.encoders.repeated import RepeatedEncoder
from boustro.models.elmo import KIND as ELMO
from boustro.names import MEMORIES, PAIRS, SHIPPED, expand_home, locate_memory, locate_model
from boustro.options import OptionError, check_options
from boustro.store import kind_of
from boustro.text.start import AUTO


def _load_lm(*read: Any, **given: Any) -> LMEncoder:
    return load_causal(*read, locate=locate, **given)


class Kind(NamedTuple):
    """How one kind of spec becomes an encoder."""

    make: Callable[..., Encoder]
    """Called with the path, the `ReadingOptions`, `spec`, `device`, `tokenizer` and the options below."""
    options: tuple[str, ...]
    """The options of `load_encoder` that not every kind has."""
    number: str = ""
    """The keyword for the number after the kind: "blocks" for `unmasked:3-4:`."""
    given: Callable[..., Encoder] | None = None
    """The same as `make` where the states of an LM will be given, so that its weights are not loaded."""
    unread: tuple[str, ...] = ()
    """The `ReadingOptions` that change nothing."""
    elsewhere: Callable[[str], str] | None = None
    """For a kind whose models are not files: from a path, such as an address, the fingerprint of the weights behind it;
    `ValueError` where there are none."""


CAUSAL = ("start_piece", "revision", "direction", "whole")
KINDS: dict[str, Kind] = {
    "lm": Kind(_load_lm, CAUSAL, given=lambda *read, **given: _load_lm(*read, plain=OutsideLM, **given)),
    "masked": Kind(MaskedEncoder, ("revision", "whole"), unread=("start_piece",)),
    "backward": Kind(partial(LMEncoder, direction="backward"), CAUSAL),
    "unmasked": Kind(
        lambda *read, **given: load_causal(*read, locate=locate, unmasked=True, **given), CAUSAL, "blocks"
    ),
    "repeated": Kind(RepeatedEncoder, (*CAUSAL, "between"), "copies"),
    "fused": Kind(lambda *read, **given: FusedEncoder(*read, load=load_encoder, **given), ("start_piece",)),
    "memory": Kind(lambda *read, **given: MemoryEncoder(*read, load=load_encoder, **given), ("start_piece",)),
    "elmo": Kind(ElmoEncoder, (), unread=("spacing", "start_piece", "quantise")),
}


def load_encoder(
    spec: str,
    layers: str | int | Sequence[int] = "auto",
    pooling: str | None = None,
    device: str | None = None,
    dtype: Precision | None = None,
    cache: bool | str | Path | None = None,
    *,
    quantise: Quantisation | None = None,
    spacing: Spacing = "natural",
    context: Context = "sentence",
    start_piece: str = AUTO,
    revision: str | None = None,
    given_states: bool = False,
    **options: Any,
) -> Encoder:
    """Load the encoder that a spec names.

    Args:
        spec: A model of the Hub or a folder, with its kind, number and revision, or several joined by `+`: `"gpt2"`,
            `"gpt2+./backward"`, `"starter"`, `"masked:bert-base-cased"`, `"unmasked:3-4:gpt2@607a30d"`. All kinds are
            listed in `boustro.encoders.spec`.
        layers: Layers to read: "all", "last", or numbers: 0 is the embeddings, 1 to n the blocks, -1 the last; as a
            text also shares, "25%,50%,last". Blocks above the highest layer are not loaded. By
            default all of an LM of up to 8 blocks, and 25%,50%,75%,last of a deeper one.
        pooling: Where a word is read: exit, before, entry, first, last, mean, or several joined by `+`, which are
            concatenated (`boustro.encoders.reading`). By default exit+before; of an ELMo exit, of a fusion mean.
        device: Such as "cpu" or "cuda:1". By default CUDA, else MPS, else the CPU. "auto" spreads the model over the
            GPUs, the CPU's memory and the disk (`boustro.models.placing`).
        dtype: Precision of the computation, by default the fastest on this machine. With "float32" the arrays are
            float32, otherwise float16.
        cache: True or a folder keeps features on disk, so that each text is computed once.
        quantise: "int8", "int8-dynamic" or "int4" weights (`boustro.models.quantise`).
        spacing: The space before a word: as in running text, or always.
        context: What an LM reads: the sentence alone, or the document around it, up to the LM's window.
        start_piece: What a causal LM is given before every text: none, bos, eos, or a piece such as `<s>`. By default
            what its tokenizer puts there, or what an LM of ours was trained with (`boustro.text.start`).
        revision: A commit, branch or tag of the Hub, for parts of the spec that name none.
        given_states: The states of a causal LM will be given (`encoders.outside`): its weights are not loaded.
        options: Options of one kind: `between`, the text between copies (`repeated:`); `direction`, "forward" or
            "backward"; `whole`, True to load all blocks whatever layers are read.

    Returns an encoder: `encode(sentences)` yields per sentence a tuple of arrays (words, layers, width), one per
    stream, in text order; `encode_all(sentences)` concatenates them. Raises `ValueError` for an unknown kind or option,
    a damaged folder, or LMs that do not share a vocabulary, and `FileNotFoundError` for a missing model.

    Examples:
        >>> encoder = boustro.load_encoder("starter", layers="last")
        >>> forward, backward = next(encoder.encode([["Ada", "left", "."]]))
        >>> forward.shape
        (3, 1, 512)
    """
    check_options(load_encoder, locals())
    layers = layers if isinstance(layers, str) else ",".join(map(str, np.atleast_1d(layers)))
    reading = ReadingOptions(
        layers=layers,
        pooling=pooling,
        spacing=spacing,
        context=context,
        start_piece=start_piece,
        dtype=dtype,
        quantise=quantise,
    )
    refuse_unread(spec, reading)
    asked = None if start_piece == AUTO else start_piece
    parts: list[Encoder] = []
    for name in split_spec(spec):
        bare, own_revision = split_revision(name)
        kind, number, path = resolve(bare)
        own = _own_options(name, kind, {**options, "revision": own_revision or revision, "start_piece": asked})
        tokenizer = parts[0].tokenizer if parts else None
        make = kind.given if given_states and kind.given else kind.make
        parts.append(make(path, reading, spec=name, device=device, tokenizer=tokenizer, **number, **own))
    causal = [part for part in parts if isinstance(part, LMEncoder)]
    check_vocabularies([part.spec for part in causal], [part.vocabulary() for part in causal])
    encoder = parts[0] if len(parts) == 1 else ConcatEncoder(parts, spec)
    return with_cache(encoder, cache) if cache else encoder


def unread_by(spec: str, reading: ReadingOptions) -> dict[str, Any]:
    """The options that are not the default and that no part of a spec reads, with their defaults."""
    kinds = [resolve(split_revision(name)[0])[0] for name in split_spec(spec)]
    return {
        option.name: option.default
        for option in fields(ReadingOptions)
        if getattr(reading, option.name) != option.default and all(option.name in kind.unread for kind in kinds)
    }


def refuse_unread(spec: str, reading: ReadingOptions) -> None:
    """`OptionError` where there are such options."""
    if given := unread_by(spec, reading):
        raise OptionError(f"{', '.join(given)} is not read by {spec}; leave it out")


def _own_options(name: str, kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options of a part, less the start piece, which is in `ReadingOptions`; `ValueError` for others."""
    own = {option: value for option, value in given.items() if value is not None}
    if unknown := own.keys() - {*kind.options}:
        raise ValueError(f"{name}: this kind of encoder has no option {', '.join(sorted(unknown))}")
    own.pop("start_piece", None)
    return own


def with_cache(encoder: Encoder, cache: bool | str | Path = True) -> Encoder:
    """A loaded encoder behind the feature cache, in the folder `cache` if it is one; each LM of a pair on its own."""
    if isinstance(encoder, ExtendedEncoder):
        return encoder.over(with_cache(encoder.base, cache))
    if isinstance(encoder, ConcatEncoder):
        return encoder.over([with_cache(part, cache) for part in encoder.parts])
    return CachedEncoder(encoder, Path(cache) if isinstance(cache, (str, Path)) else None)


def split_spec(spec: str) -> list[str]:
    """`"a+b"` → `["a", "b"]`, names of the package written out; a path that exists is never split."""
    if spec not in {*PAIRS, *MEMORIES} and Path(spec).exists():
        return [spec]
    written = PAIRS | {name: f"memory:{name}" for name in MEMORIES}
    names = [name for part in spec.split("+") for name in written.get(part, part).split("+")]
    if not all(name.strip() for name in names):
        raise ValueError(f"{spec!r} has an empty part; write for example gpt2+./backward")
    return names


def split_revision(name: str) -> tuple[str, str | None]:
    """`"backward:some/lm@abc123"` → `("backward:some/lm", "abc123")`; a path that exists is never split."""
    bare, at, revision = name.rpartition("@")
    if not at or _exists(split_kind(name)[1]):
        return name, None
    path = split_kind(bare)[1]
    if path in {*SHIPPED, *PAIRS, *MEMORIES} or _exists(path):
        raise ValueError(f"{name!r}: {path} is a folder here, which has no revision; leave out @{revision}")
    return bare, revision


def split_kind(bare: str) -> tuple[str, str]:
    """`"unmasked:3-4:./lm"` → `("unmasked:3-4:", "./lm")`; a path that exists is never split."""
    kind, colon, path = bare.partition(":")
    if not colon or _exists(bare) or len(kind) == 1:
        return "", bare
    takes_number = kind in KINDS and KINDS[kind].number and not _exists(path)
    number = re.match(r"[\d-]+:", path) if takes_number else None
    cut = len(kind) + 1 + (number.end() if number else 0)
    return bare[:cut], bare[cut:]


def resolve(bare: str) -> tuple[Kind, dict[str, str], str]:
    """The kind of one part of a spec (without its revision), its number as a keyword, and the model's path or name.

    `"unmasked:3-4:./lm"` → `(KINDS["unmasked"], {"blocks": "3-4"}, "./lm")`. Raises `ValueError` for an unknown kind.
    """
    prefix, path = split_kind(bare)
    name, _, number = prefix.rstrip(":").partition(":")
    if name and name not in KINDS:
        near = nearest(name, KINDS)
        hint = f"; did you mean {near}:{path}?" if near else ""
        raise ValueError(f"unknown kind {name!r} in {bare!r}: known are {', '.join(KINDS)}, or none at all{hint}")
    if path in PAIRS:
        halves = " or ".join(f"{prefix}{half}" for half in PAIRS[path].split("+"))
        raise ValueError(f"{bare!r}: {path} is a pair; name one of its LMs: {halves}")
    kind = KINDS[name or "lm"]
    place = path if kind.elsewhere else locate_memory(path) if name == "memory" else locate_model(path)
    return kind, {kind.number: number} if number else {}, place


def locate(name: str) -> tuple[str, str | None]:
    """The path or name of the one LM that a spec names, and its revision: `"gpt2@607a30d"` → `("gpt2", "607a30d")`."""
    bare, revision = split_revision(name)
    return resolve(bare)[2], revision


def exact_spec(spec: str, identity: Identity | JoinedIdentity) -> str:
    """The spec with nothing left open: `"gpt2+./backward"` → `"gpt2@607a30d…+/home/me/backward"`.

    A model of the Hub gets the commit that was loaded (from the encoder's `identity`), a local folder its absolute
    path.
    """
    if spec in PAIRS:
        return spec
    exact = []
    for name, part in zip(split_spec(spec), identity.lms, strict=True):
        kind, path = split_kind(name)
        if KINDS[kind.partition(":")[0] or "lm"].elsewhere:
            exact.append(name)
            continue
        bare, commit = split_revision(name)[0], part.weights.rpartition("@")[2]
        shipped = split_kind(bare)[1]
        if shipped in MEMORIES:
            exact.append(shipped)
        elif shipped in SHIPPED:
            exact.append(name)
        elif _exists(path):
            exact.append(kind + str(Path(expand_home(path)).resolve()))
        else:
            exact.append(name if commit == "None" else f"{bare}@{commit}")
    return "+".join(exact)


def spec_fingerprint(spec: str) -> list[Any]:
    """For every part of a spec its kind and the fingerprints of its weights and of the LMs that its folder names."""
    found = []
    for name in split_spec(spec):
        bare, revision = split_revision(name)
        kind, _, path = resolve(bare)
        named = [] if kind.elsewhere else [spec_fingerprint(other) for other in _named_by(path)]
        weights = kind.elsewhere(path) if kind.elsewhere else weights_fingerprint(path, revision)
        found.append([split_kind(bare)[0].rstrip(":"), weights, named])
    return found


def check_spec(spec: str, reading: ReadingOptions | None = None) -> None:
    """Raise what `load_encoder` would raise for a part that is misspelt or missing, without loading any weights.

    `OptionError` for an option of `reading` that would change nothing.
    """
    if reading:
        refuse_unread(spec, reading)
    for name in split_spec(spec):
        bare, revision = split_revision(name)
        kind, _, path = resolve(bare)
        if kind.elsewhere:
            kind.elsewhere(path)
        elif not _named_by(path) and kind_of(path) != ELMO:
            load_config(path, revision)


def _named_by(path: str) -> list[str]:
    """The specs that a folder of an adaptation, a fusion or a memory names."""
    return [*named_by_adaptation(path), *named_by_fusion(path), *named_by_memory(path)]


def _exists(path: str) -> bool:
    return Path(expand_home(path)).exists()
