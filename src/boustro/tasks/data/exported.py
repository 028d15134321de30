"""What a record of a labelling tool's export says, and what the readers of these exports share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from boustro.errors import shorten
from boustro.tasks.data.reading import Note

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
ADDRESSES = "texts that are only an address (URL), which is read and not what stands there"


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands among the entities of a text for one whose place in it cannot be told."""

    why: str


@dataclass(frozen=True, slots=True)
class Exported:
    """A text, and what annotators say of it.

    Attributes:
        text: The text.
        answers: By question, one answer per annotation: a label, a list of labels, or a list of entities, which are
            `Unread` or dicts with start, end and label, perhaps with their own text.
        left: What it says besides that is no answer to any task here, such as relations of regions.
        annotated: Whether somebody has annotated the text, so that no answer to a question is one with nothing.
    """

    text: str
    answers: dict[str, list[Any]] = field(default_factory=dict)
    annotated: bool = False
    left: tuple[str, ...] = ()


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


def note_address(text: str, where: str, notes: list[Note]) -> None:
    """A note where a text is only the address of one, as in exports of files."""
    if ADDRESS.fullmatch(text.strip()):
        notes.append(Note(ADDRESSES, where, f"the text is {shorten(text.strip())}"))
