"""Errors of other libraries, and values, in the form that messages show."""

from collections.abc import Iterable
from typing import Any

ALWAYS_NEEDED = ("torch", "transformers", "safetensors", "filelock", "accelerate", "datasets", "sklearn", "tqdm")
"""Packages that an installation without dependencies, which runs exported folders alone, lacks."""
GET_ALL = "`pip install boustro` brings it, and only exported folders run without it"


def reason(error: Exception) -> str:
    """The first line of its message without its final colon or full stop, or its class name if it has no message."""
    line = str(error).strip().partition("\n")[0]
    if not line:
        return type(error).__name__
    return f"no {line}" if isinstance(error, KeyError) else line.rstrip(":. \r")


def lacks_memory(error: BaseException) -> bool:
    """Whether the machine or a GPU ran out of memory."""
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
    """A value for a message, at most 60 characters long."""
    shown = ascii(value) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
