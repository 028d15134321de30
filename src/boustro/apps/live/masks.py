"""Masks of a conversation: the same name always has the same one.

    masks = Masks(["PER", "LOC"])
    masks.mask("PER", "Ada Brandt")      # "[PER_1]"
    masks.mask("PER", "ada  brandt")     # "[PER_1]": letters' case and white space do not count
    masks.mask("PER", "Okonkwo")         # "[PER_2]"
    restore("[PER_1] left.", masks.names)  # "Ada Brandt left."

A mask gets the lowest number that is free, in the order in which names come. Masks that a text holds already, because
an earlier answer did, are reserved, so that no other name gets their number. Whoever sends the whole conversation
again therefore meets the same masks again, and nothing need be kept between requests.
"""

import json
import re
from collections.abc import Collection, Mapping

MOST_NUMBER = 9999
"""Masks have at most four digits: longer numbers in brackets are no masks, and are not left alone as such."""
ANY_MASK = re.compile(r"\[[^\[\]]{1,80}_\d{1,4}\]", re.ASCII)


class TooManyNames(ValueError):
    """A conversation has more names of one label than there are masks."""


class Masks:
    """The masks of one conversation.

    Args:
        labels: Labels that entities may have.
    """

    def __init__(self, labels: Collection[str]) -> None:
        longest_first = sorted(labels, key=len, reverse=True)
        self.pattern = re.compile(rf"\[({'|'.join(map(re.escape, longest_first))})_(\d{{1,4}})\]", re.ASCII)
        self.names: dict[str, str] = {}
        """What each mask stands for, as it was first written."""
        self._openings = tuple(f"[{label}_" for label in labels)
        self._longest = max((len(opening) for opening in self._openings), default=0) + len(str(MOST_NUMBER))
        self._taken: dict[str, set[int]] = {label: set() for label in labels}
        self._next = dict.fromkeys(labels, 1)
        self._masks: dict[tuple[str, str], str] = {}

    def mask(self, label: str, text: str) -> str:
        """The mask of a name; raises `TooManyNames`."""
        key = label, " ".join(text.split()).casefold()
        if key not in self._masks:
            number, taken = self._next[label], self._taken[label]
            while number in taken:
                number += 1
            if number > MOST_NUMBER:
                raise TooManyNames(f"there are more than {MOST_NUMBER:,} names with the label {label}")
            self._next[label] = number + 1
            self._masks[key] = f"[{label}_{number}]"
            self.names[self._masks[key]] = text
        return self._masks[key]

    def reserve(self, text: str) -> None:
        """Give none of the masks in a text to another name."""
        for match in self.pattern.finditer(text):
            self._taken[match[1]].add(int(match[2]))

    def unfinished(self, text: str) -> int:
        """Where a mask starts that the end of a text may be the beginning of; the text's length where there is none.

        `"see [PER_1"` → 4, `"see [1"` → 6
        """
        start = text.rfind("[", max(0, len(text) - self._longest))
        tail = text[start:] if start >= 0 else ""
        for opening in self._openings if tail else ():
            number = tail.removeprefix(opening)
            if opening.startswith(tail) or (number != tail and number.isdecimal() and len(number) <= 4):
                return start
        return len(text)


def restore(text: str, names: Mapping[str, str], in_json: bool = False) -> str:
    """The text with the names of its masks; `in_json` writes them as they stand inside a string of JSON."""

    def name(match: re.Match[str]) -> str:
        found = names.get(match[0], match[0])
        return json.dumps(found, ensure_ascii=False)[1:-1] if in_json else found

    return ANY_MASK.sub(name, text)


class Restorer:
    """Puts names back into text that arrives in chunks; a mask may be split anywhere.

    Args:
        names: What each mask stands for, as `Masks.names`.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names, self._held = names, ""
        self._starts = frozenset(mask[:length] for mask in names for length in range(1, len(mask)))

    def feed(self, chunk: str) -> str:
        """The text that can be said now."""
        text = self._held + chunk
        start = text.rfind("[")
        cut = start if start >= 0 and text[start:] in self._starts else len(text)
        self._held = text[cut:]
        return restore(text[:cut], self._names)

    def end(self) -> str:
        """The rest."""
        rest, self._held = self._held, ""
        return rest
