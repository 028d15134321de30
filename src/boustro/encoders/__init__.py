"""Encoders: words in, vectors out. One is named by a short spec, the same everywhere:

gpt2                a causal LM of the hub or a folder; reads as its config says, forward by default
gpt2@607a30d        the same at one revision: a commit, a branch or a tag of the hub
backward:PATH       a backward LM that does not say so itself (the published ones)
gpt2+./backward     several side by side, over one vocabulary
starter             the pair shipped in the package; starter-forward and starter-backward, its halves
masked:PATH         a masked LM of the BERT family
unmasked:PATH       a causal LM without its causal mask, untrained: every piece sees both sides
unmasked:3-4:PATH   the same in blocks 3 and 4 alone; `unmasked:4:PATH` in one
unmasked:DIR        a causal LM that `boustro adapt` trained to read so, in the blocks that it was trained for
repeated:PATH       a causal LM that is given the text twice and read in the second copy
repeated:3:PATH     three times, read in the third
fused:DIR           a forward and a backward LM under a fusion that `boustro fuse` trained; the folder names the two
elmo:DIR            an ELMo that `boustro elmo` trained: reads letters, so that no word is unknown; both directions

A kind comes first, then its number or range where it takes one, then a path or a name, then a revision:
`unmasked:3-4:gpt2@607a30d`.
"""

import difflib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from boustro.encoders.adapted import named_by_adaptation, read_lm, read_unmasked
from boustro.encoders.cache import CachedEncoder
from boustro.encoders.concat import ConcatEncoder, check_vocabularies
from boustro.encoders.contract import Encoder, Features, Stream
from boustro.encoders.elmo import ElmoEncoder
from boustro.encoders.fused import FusedEncoder, named_by_fusion
from boustro.encoders.lm import LMEncoder
from boustro.encoders.loading import load_config
from boustro.encoders.masked import MaskedEncoder
from boustro.encoders.pieces import PieceEncoder
from boustro.encoders.repeated import RepeatedEncoder
from boustro.encoders.weights import weights_fingerprint
from boustro.models.elmo import KIND as ELMO
from boustro.names import PAIRS, SHIPPED, expand_home, locate_model
from boustro.options import check_options
from boustro.store import kind_of

__all__ = ["Encoder", "Features", "Stream", "load_encoder", "with_cache"]

Part = PieceEncoder | FusedEncoder | ElmoEncoder
KINDS: dict[str, Callable[..., Part]] = {
    "lm": lambda path, **options: read_lm(path, locate, **options),
    "masked": MaskedEncoder,
    "backward": lambda path, **options: LMEncoder(path, **{"direction": "backward", **options}),
    "unmasked": lambda path, **options: read_unmasked(path, locate, **options),
    "repeated": RepeatedEncoder,
    "fused": lambda path, **options: FusedEncoder(path, load_encoder, **options),
    "elmo": ElmoEncoder,
}
NUMBERED = {"unmasked": "blocks", "repeated": "copies"}  # what the number after a kind is


def load_encoder(
    spec: str,
    layers: Any = "all",
    pooling: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    cache: bool | str | Path | None = None,
    **options: Any,
) -> Encoder:
    """The encoder that a spec names.

    Args:
        spec: See the module; parts are joined by `+`.
        layers: "all", "last", or numbers: 0 the embeddings, 1…n the blocks, -1 the last.
        pooling: Where a word is read: exit, before, entry, first, last, mean, or several joined by `+`; by default
            what measurement favoured for its kind: exit+before.
        device: By default the best at hand.
        dtype: "float32" for exact arrays; by default the fastest computation, stored as float16.
        cache: True or a folder keeps the features on disk, so that each text is read once.
        options: `spacing`, `context`, `sentinel` and `revision`, see `encoders.transformer` and the kind's file.

    Raises `ValueError` for an unknown kind or a pair without a common vocabulary, `FileNotFoundError`
    for a missing model.
    """
    check_options(load_encoder, locals())
    common = {"layers": layers, "pooling": pooling, "device": device, "dtype": dtype, **options}
    names = split_spec(spec)
    parts: list[Part] = []
    for name in names:
        bare, revision = split_revision(name)
        make, path = resolve(bare)
        own = {**common, "revision": revision} if revision else common
        parts.append(make(path, spec=name, tokenizer=parts[0].tokenizer if parts else None, **own))
    causal = [part for part in parts if isinstance(part, LMEncoder)]
    check_vocabularies([part.spec for part in causal], [part.vocabulary() for part in causal])
    encoder = parts[0] if len(parts) == 1 else ConcatEncoder(parts, spec)
    return with_cache(encoder, cache) if cache else encoder


def with_cache(encoder: Encoder, cache: bool | str | Path = True) -> Encoder:
    """A loaded encoder behind the feature cache (a folder says where), each LM by itself."""
    if isinstance(encoder, ConcatEncoder):
        return encoder.over([with_cache(part, cache) for part in encoder.parts])
    return CachedEncoder(encoder, Path(cache) if isinstance(cache, (str, Path)) else None)


def split_spec(spec: str) -> list[str]:
    """`"a+b"` → `["a", "b"]`, shipped names written out; a path that exists is never split.

    A shipped name is no path: a folder `starter` is named `./starter`.
    """
    if spec not in PAIRS and Path(spec).exists():
        return [spec]
    names = [name for part in spec.split("+") for name in PAIRS.get(part, part).split("+")]
    if not all(name.strip() for name in names):
        raise ValueError(f"{spec!r} has an empty part; write for example gpt2+./backward")
    return names


def split_revision(name: str) -> tuple[str, str | None]:
    """`"backward:some/lm@abc123"` → `("backward:some/lm", "abc123")`; a path that exists is never split."""
    bare, at, revision = name.rpartition("@")
    if not at or _exists(split_kind(name)[1]):
        return name, None
    path = split_kind(bare)[1]
    if path in SHIPPED or path in PAIRS or _exists(path):
        raise ValueError(f"{name!r}: {path} is a folder here, which has no revision; leave out @{revision}")
    return bare, revision


def split_kind(bare: str) -> tuple[str, str]:
    """`"unmasked:3-4:./lm"` → `("unmasked:3-4:", "./lm")`; a path that exists is never split."""
    kind, colon, path = bare.partition(":")
    if not colon or _exists(bare) or len(kind) == 1:
        return "", bare
    numbered = re.match(r"[\d-]+:", path) if kind in NUMBERED and not _exists(path) else None
    cut = len(kind) + 1 + (numbered.end() if numbered else 0)
    return bare[:cut], bare[cut:]


def exact_spec(spec: str, identity: dict[str, Any]) -> str:
    """The spec with nothing left open: `"gpt2+./backward"` → `"gpt2@607a30d…+/home/me/backward"`.

    A model of the hub stands with the commit that was loaded (as the encoder's `identity` has it), a local
    folder with its absolute path.
    """
    if spec in PAIRS:
        return spec
    exact = []
    for name, part in zip(split_spec(spec), identity.get("parts", [identity]), strict=True):
        kind, path = split_kind(name)
        bare, commit = split_revision(name)[0], part["weights"].rpartition("@")[2]
        if split_kind(bare)[1] in SHIPPED:
            exact.append(name)
        elif _exists(path):
            exact.append(kind + str(Path(expand_home(path)).resolve()))
        else:
            exact.append(name if commit == "None" else f"{bare}@{commit}")
    return "+".join(exact)


def spec_fingerprint(spec: str) -> list[Any]:
    """For every part of a spec its kind and what its weights are, wherever they lie, without loading a model.

    A folder that names other LMs (a fusion, an adaptation) goes with what these are now.
    """
    found = []
    for name in split_spec(spec):
        bare, revision = split_revision(name)
        place = resolve(bare)[1]
        named = [spec_fingerprint(other) for other in (*named_by_adaptation(place), *named_by_fusion(place))]
        found.append([split_kind(bare)[0].rstrip(":"), weights_fingerprint(place, revision), named])
    return found


def check_spec(spec: str) -> None:
    """Raise what `load_encoder` would raise for a part that is misspelt or missing, without loading any weights."""
    for name in split_spec(spec):
        bare, revision = split_revision(name)
        place = resolve(bare)[1]
        if not named_by_adaptation(place) and not named_by_fusion(place) and kind_of(place) != ELMO:
            load_config(place, revision)


def resolve(name: str) -> tuple[Callable[..., Part], str]:
    """What makes the encoder that one part of a spec names (its revision aside), and the model's path or name."""
    prefix, path = split_kind(name)
    kind, _, number = prefix.rstrip(":").partition(":")
    if kind and kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"; did you mean {near[0]}:{path}?" if near else ""
        raise ValueError(f"unknown kind {kind!r} in {name!r}: known are {', '.join(KINDS)}, or none at all{hint}")
    if path in PAIRS:
        halves = " or ".join(f"{prefix}{half}" for half in PAIRS[path].split("+"))
        raise ValueError(f"{name!r}: {path} is a pair; name one of its LMs: {halves}")
    make = partial(KINDS[kind or "lm"], **({NUMBERED[kind]: number} if number else {}))
    return make, locate_model(path)


def _exists(path: str) -> bool:
    return Path(expand_home(path)).exists()


def locate(name: str) -> tuple[str, str | None]:
    """The path or name of the one LM that a spec names, and its revision: `"gpt2@607a30d"` → `("gpt2", "607a30d")`."""
    bare, revision = split_revision(name)
    return resolve(bare)[1], revision
