"""Pieces to text, piece by piece, and which characters each piece spells.

    spelled = SpelledPieces(tokenizer)
    spelled.add([2, 7001, 4092])        "Ada left", for <bos> and two pieces
    spelled.starts, spelled.ends        [0, 0, 3], [0, 3, 8]

A character whose bytes are in several pieces comes with the last of them, and belongs to each. What was given out never
changes. Special pieces, such as the start piece and those of a chat template, spell nothing.
"""

from collections.abc import Sequence
from typing import Any

BROKEN = "\ufffd"
CHARACTER_BYTES = 4
"""Of a character, so the most pieces that it may need."""


class SpelledPieces:
    """The text of pieces that follow each other, and the half-open range of characters of each.

    Attributes:
        starts, ends: Of the pieces whose characters are known, counted over the whole text.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        # Some tokenizers leave out the space of the first piece that they decode: all but the first follow this one.
        self._anchor = tokenizer("a", add_special_tokens=False)["input_ids"]
        self._anchor_text = self._decode(self._anchor)
        self._waiting: list[int] = []
        self._begun = False
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.length = 0

    def add(self, ids: Sequence[int]) -> str:
        """Return the characters that the next pieces complete."""
        return "".join(self._add(int(identifier)) for identifier in ids)

    def end(self) -> str:
        """Return the rest: bytes that are no whole character are read as `BROKEN`."""
        return self._give(len(self._waiting))

    def skip(self) -> None:
        """A piece that spells nothing."""
        self.starts.append(self.length)
        self.ends.append(self.length)

    def _add(self, identifier: int) -> str:
        if identifier in self._special:
            text = self.end()
            self.skip()
            return text
        self._waiting.append(identifier)
        if not self._spell(self._waiting).endswith(BROKEN):
            return self._give(len(self._waiting))
        return self._give(self._whole()) if len(self._waiting) >= CHARACTER_BYTES else ""

    def _whole(self) -> int:
        """Return how many of the pieces that wait spell the same without the later ones, which may begin a
        character."""
        whole = self._spell(self._waiting)
        cuts = range(len(self._waiting) - 1, 0, -1)
        return next((n for n in cuts if self._spell(self._waiting[:n]) + self._spell(self._waiting[n:]) == whole), 1)

    def _give(self, count: int) -> str:
        """Return the text of the first pieces that wait."""
        if not count:
            return ""
        text = self._spell(self._waiting[:count])
        self.starts += [self.length] * count
        self.length += len(text)
        self.ends += [self.length] * count
        del self._waiting[:count]
        self._begun = True
        return text

    def _spell(self, ids: list[int]) -> str:
        if not self._begun:
            return self._decode(ids)
        return self._decode([*self._anchor, *ids])[len(self._anchor_text) :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
