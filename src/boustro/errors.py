"""Errors of other libraries, and values, in the form that messages show."""

import re
from collections.abc import Iterable
from typing import Any

ALWAYS_NEEDED = ("torch", "transformers", "safetensors", "filelock", "accelerate", "datasets", "sklearn", "tqdm")
"""Packages that an installation without dependencies, which runs exported folders alone, lacks."""
GET_ALL = "`pip install boustro` brings it, and only exported folders run without it"


def reason(error: Exception) -> str:
    """Return the first line of its message without its final colon or full stop, or its class name if it has no
    message."""
    line = str(error).strip().partition("\n")[0]
    if not line:
        return type(error).__name__
    return f"no {line}" if isinstance(error, KeyError) else line.rstrip(":. \r")


def lacks_memory(error: BaseException) -> bool:
    """Return whether the machine or a GPU ran out of memory."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said)
    )


def lacks_package(error: ImportError) -> str | None:
    """Return how to get a package that all but exported folders need, where it is the one that is missing."""
    package = (error.name or "").partition(".")[0]
    return f"{package} is not installed; {GET_ALL}" if package in ALWAYS_NEEDED else None


def require_torch() -> None:
    """Raise `ImportError`, with how to get it, where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(lacks_package(error) or str(error), name=error.name) from error


def say_found(names: Iterable[Any]) -> str:
    """Say which names there are: `found: text, label`, or `found: nothing`."""
    return f"found: {', '.join(map(str, names)) or 'nothing'}"


def shorten(value: Any) -> str:
    """Return a value for a message, at most 60 characters long."""
    shown = ascii(value) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def of_system(error: BaseException) -> str:
    """Return what the system says of a file, as one sentence; empty for all other errors."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return ""


PLURAL = re.compile(r"[a-z]{2,}[^\W\dsui]s")
VERBS = {"are": "is", "were": "was", "have": "has", "do": "does", "their": "its"}
VERBS |= {verb: f"{verb}s" for verb in "occur look begin end share stand overlap differ fit hold name say stay".split()}
VERBS |= {"cross": "crosses"}


def count_of(number: int, things: str) -> str:
    """Return a number with what it counts: (1, "rows that are empty") → "1 row that is empty"."""
    words = things.split(" ")
    places = [n for n, word in enumerate(words) if PLURAL.fullmatch(word.rstrip(",:;"))]
    if number == 1 and places and words[0] != "of":
        first, stop = places[0], places[1] if len(places) > 1 else len(words)
        words[first] = re.sub(r"s(?=\W*$)", "", re.sub(r"ies(?=\W*$)", "ys", re.sub(r"(?<=[xh])es", "s", words[first])))
        for n in range(first + 1, stop):
            if n == first + 1 or words[n] == "their" or words[n - 1] in ("that", "which", "and"):
                words[n] = VERBS.get(words[n], words[n])
    return f"{number:,} {' '.join(words)}"
