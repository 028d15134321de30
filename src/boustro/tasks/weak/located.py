"""Where in a text the entities are that were listed without offsets, as language models list them.

    {"text": "Ada met Ada.", "entities": [{"text": "Ada", "label": "PER"}]}   →   PER [0, 3), PER [8, 11)

What was listed once is labelled wherever it stands; what was listed several times is labelled so often, from left to
right. It must begin and end where words do, in the same case. What does not stand in the text is counted, not guessed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from boustro.errors import shorten
from boustro.text.words import split_text
from boustro.types import Entity

ABSENT = "listed entities that do not stand in their text, left out"
TAKEN = "listed entities that overlap a longer one, left out"


def locate(text: str, listed: Sequence[Any], where: str) -> tuple[list[Entity], Counter[str]]:
    """The entities over the characters of the text, in order, and what was left out, counted.

    Raises `ValueError`, with the place, for an item without `text` and `label`.
    """
    mentions = [_mention(item, where) for item in listed]
    starts, ends = _edges(text)
    places = {name: [p for p in _find(text, name) if p in starts and p + len(name) in ends] for name, _ in mentions}
    found: list[Entity] = []
    counts: Counter[str] = Counter()
    for name, labels in sorted(_by_name(mentions).items(), key=lambda item: -len(item[0])):
        own = places[name]
        counts[ABSENT] += len(labels) if not own else max(0, len(labels) - len(own))
        for start, label in zip(own, labels * len(own) if len(labels) == 1 else labels, strict=False):
            end = start + len(name)
            if any(start < e.end and e.start < end for e in found):
                counts[TAKEN] += 1
            else:
                found.append(Entity(label, start, end, text[start:end]))
    return sorted(found), +counts


def _mention(item: Any, where: str) -> tuple[str, str]:
    name, label = (item.get("text"), item.get("label")) if isinstance(item, Mapping) else (None, None)
    if not (isinstance(name, str) and isinstance(label, str) and name.strip() and label.strip()):
        raise ValueError(f'{where}: a listed entity is {{"text": …, "label": …}}, got {shorten(item)}')
    return name.strip(), label.strip()


def _by_name(mentions: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """The labels of each name, as often as it was listed."""
    found: dict[str, list[str]] = {}
    for name, label in mentions:
        found.setdefault(name, []).append(label)
    return found


def _edges(text: str) -> tuple[set[int], set[int]]:
    """Where words begin, and where they end."""
    places = [place for placed in split_text(text) for place in placed.places]
    return {start for start, _ in places}, {end for _, end in places}


def _find(text: str, name: str) -> list[int]:
    """Every place of a name, from left to right, without overlaps."""
    found, start = [], text.find(name)
    while start >= 0:
        found.append(start)
        start = text.find(name, start + len(name))
    return found
