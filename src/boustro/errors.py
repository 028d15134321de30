"""Errors of other libraries, and values, in the form that messages show."""

from typing import Any


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


def shorten(value: Any) -> str:
    """A value for a message, at most 60 characters long."""
    shown = ascii(value) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
