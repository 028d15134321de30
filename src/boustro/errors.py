"""What another library's error says, fitted into a sentence of ours."""

from typing import Any


def reason(error: Exception) -> str:
    """The first line of its message without the mark at its end, or its class's name where it has no message."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    return f"no {lines[0]}" if isinstance(error, KeyError) else lines[0].rstrip(":. ")


def lacks_memory(error: BaseException) -> bool:
    """Whether memory, of the machine or of a GPU, was too small."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said)
    )


def shorten(value: Any) -> str:
    """A value as messages show it."""
    shown = ascii(value) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
