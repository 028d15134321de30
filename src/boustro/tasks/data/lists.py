"""Labelled sentences as Python lists: a text and its entities, given by their words or by their places.

    labelled_text("Ada left Vellmar.", [("Ada", "PER"), ("Vellmar", "PLACE")])     the text of each, and its label
    labelled_text("Ada left Vellmar.", [("PER", 0, 3), Entity("PLACE", 9, 16)])    label, start and end, in characters
    labelled_text(["Ada", "left"], ["B-PER", "O"])                                 words and their tags

Entities that are given by their words stand in the order of the text: of a text that is there twice, the first one is
meant, the next time the second.
"""

from collections.abc import Iterator
from typing import Any

from boustro.errors import shorten
from boustro.given import as_list
from boustro.types import Entity

EXPECTED = "an entity is its text and its label, or its label, start and end"


def labelled_text(given: Any, label: Any, place: str) -> Any:
    """What `read_data` takes: a record of a text, or a pair of words and tags.

    Raises `ValueError`, with the place, for an entity that is none, and for one whose text is not there.
    """
    if not isinstance(given, str):
        return given, label
    entities = [{"start": s, "end": e, "label": name} for name, s, e in _places(given, label, place)]
    return {"text": given, "entities": entities}


def _places(text: str, labels: Any, place: str) -> Iterator[tuple[str, int, int]]:
    begin: dict[str, int] = {}  # where to look for the next one of a text
    for item in as_list(labels, f"the entities of {place}, as a list"):
        own = (item.label, item.start, item.end) if isinstance(item, Entity) else item
        parts: tuple[Any, ...] = tuple(own) if isinstance(own, (list, tuple)) else ()
        kinds = [type(part) for part in parts]
        if kinds == [str, int, int]:
            yield parts[0], parts[1], parts[2]
        elif kinds == [str, str]:
            words, label = parts
            start = text.find(words, begin.get(words, 0)) if words else -1
            if start < 0:
                more = " once more" if words in begin else ""
                raise ValueError(f"{place}: {shorten(words)} does not stand in {shorten(text)}{more}")
            begin[words] = start + len(words)
            yield label, start, start + len(words)
        else:
            raise ValueError(f"{place}: {EXPECTED}, got {shorten(item)}")
