"""What a record of a labelling tool's export says, and what the readers of these exports share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from boustro.errors import shorten

CONVERTED = "entities with offsets in UTF-16 units, converted to code points"


@dataclass(frozen=True, slots=True)
class Exported:
    """A text, and what annotators say of it.

    Attributes:
        text: The text.
        answers: By question, one answer per annotation: a label, a list of labels, or a list of dicts with start, end
            (code points) and label.
        annotated: Whether anybody has annotated the text, perhaps with nothing.
    """

    text: str
    answers: dict[str, list[Any]] = field(default_factory=dict)
    annotated: bool = False


def text_of(fields: Any, key: str | None, where: str) -> str:
    """The text among a record's fields: under `key`, under "text", or the only text there is.

    Raises `ValueError`, with the place, where there is none or where it is not clear which.
    """
    if not isinstance(fields, Mapping):
        raise ValueError(f"{where}: expected an object with the text, got {shorten(fields)}")
    texts = [name for name, value in fields.items() if isinstance(value, str)]
    name = key or ("text" if "text" in texts else texts[0] if len(texts) == 1 else None)
    if name not in texts:
        found = ", ".join(map(str, fields)) or "nothing"
        raise ValueError(f"{where}: no text under {name or 'text'!r} (found: {found}); choose with --word-column")
    return fields[name]


def utf16_length(text: str) -> int:
    """The number of UTF-16 units, in which JavaScript counts: two for an emoji."""
    return len(text) + sum(character > "\uffff" for character in text)


def from_utf16(text: str, offset: int) -> int | None:
    """A position in UTF-16 units as one in code points; `None` inside a character and outside the text.

    `from_utf16("🚀 up", 3)` is 2.
    """
    ends = accumulate((1 + (character > "\uffff") for character in text), initial=0)
    return next((number for number, end in enumerate(ends) if end == offset), None)
