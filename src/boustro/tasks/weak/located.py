"""Where in a text the entities are that were listed without offsets, as language models list them.

    {"text": "Ada met Ada.", "entities": [{"text": "Ada", "label": "PER"}]}   →   PER [0, 3), PER [8, 11)

What was listed once is labelled wherever it stands; what was listed several times is labelled so often, from left to
right. It must begin and end where words do, in the same case; a full stop of its last word is added. What does not
stand in the text, or not so often, is counted, not guessed.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from boustro.errors import shorten
from boustro.text.words import split_text
from boustro.types import Entity

ABSENT = "listed entities that do not stand in their text, left out"
INSIDE = "listed entities that stand only inside words of their text, left out"
SURPLUS = "entities listed more often than they stand in their text, left out"
TAKEN = "places of listed entities that overlap another one, left out"

Place = tuple[int, int]


def locate(text: str, listed: Sequence[Any], where: str) -> tuple[list[Entity], Counter[str]]:
    """The entities over the characters of the text, in order, and what was left out, counted.

    Raises `ValueError`, with the place, for an item without `text` and `label`.
    """
    mentions = [_mention(item, where) for item in listed]
    starts, ends = _edges(text)
    found: list[Entity] = []
    counts: Counter[str] = Counter()
    for name, labels in sorted(_by_name(mentions).items(), key=lambda item: -len(item[0])):
        places = _find(text, name)
        whole = _apart(_whole(text, place, ends) for place in places if place[0] in starts)
        free = [(start, end) for start, end in whole if not any(start < e.end and e.start < end for e in found)]
        if not whole:
            counts[INSIDE if places else ABSENT] += len(labels)
        elif len(labels) == 1:
            counts[TAKEN] += len(whole) - len(free)
            labels *= len(free)
        else:
            surplus = max(0, len(labels) - len(free))
            counts[TAKEN] += (taken := min(surplus, len(whole) - len(free)))
            counts[SURPLUS] += surplus - taken
        for (start, end), label in zip(free, labels, strict=False):
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


def _find(text: str, name: str) -> list[Place]:
    """Every place of a name, whatever white space is between its words, from left to right; places may overlap."""
    pattern = r"\s+".join(map(re.escape, name.split()))
    return [match.span(1) for match in re.finditer(f"(?=({pattern}))", text)]


def _whole(text: str, place: Place, ends: set[int]) -> Place | None:
    """The same place if it ends where a word does, or with the full stop that is of its last word there."""
    start, end = place
    end += end not in ends and text[end : end + 1] == "."
    return (start, end) if end in ends else None


def _apart(places: Iterable[Place | None]) -> list[Place]:
    """Those of the places, from left to right, that do not overlap the one before."""
    kept: list[Place] = []
    for place in places:
        if place and (not kept or place[0] >= kept[-1][1]):
            kept.append(place)
    return kept
