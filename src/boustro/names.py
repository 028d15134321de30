"""What a name of a model means: one that the package brings, a folder, or a model of the hub.

    starter-forward      the forward half of the shipped pair, from the package's own folder
    ~/lm, ./lm, /lm      a folder
    gpt2, owner/name     a model of the Hugging Face hub, or of its cache where the hub cannot be reached

The same names work wherever a model or a tokenizer is named. A shipped name is no path: a folder `starter-forward` is
named `./starter-forward`.
"""

import difflib
import functools
import os
import socket
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import getproxies

SHIPPED = {"starter-forward": "starter/forward", "starter-backward": "starter/backward"}
PAIRS = {"starter": "starter-forward+starter-backward"}
SECONDS = 5.0


def locate_model(name: str) -> str:
    """The path of a model or tokenizer, or its name on the hub.

    Raises `FileNotFoundError` for what is nearly a shipped name, and `ValueError` for the name of a pair of models.
    """
    if name in SHIPPED:
        return str(files("boustro") / "data" / SHIPPED[name])
    if name in PAIRS:
        raise ValueError(f"{name} is a pair of models; name one of them: {' or '.join(PAIRS[name].split('+'))}")
    path = Path(expand_home(name))
    if path.exists() or is_path(name):
        return str(path) if name.startswith("~") else name
    near = difflib.get_close_matches(name, [*SHIPPED, *PAIRS], n=1, cutoff=0.8)
    if near:
        raise FileNotFoundError(f"{name}: no such folder, and no model of this name; did you mean {near[0]}?")
    prepare_hub()
    return name


def is_path(name: str) -> bool:
    """Whether a name can only mean a folder."""
    return name.startswith((".", "/", "~"))


def expand_home(path: str) -> str:
    """`~/lm` with the home folder; a `~name` of nobody here stays as it is, the name of a file."""
    return os.path.expanduser(path)  # noqa: PTH111 (pathlib's raises RuntimeError for nobody)


@functools.cache
def prepare_hub() -> None:
    """Before the hub is asked for the first time: where it cannot be reached, its cache alone is looked into.

    The hub's client would try for half a minute, for each file anew.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or getproxies():
        return
    address = urlparse(constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), SECONDS).close()
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"  # for libraries that are loaded later
        constants.HF_HUB_OFFLINE = True
