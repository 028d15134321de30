"""Texts with gaps, `The ___ sat on the ___.`: from characters to pieces and back, exactly.

A gap is a run of three or more underscores. The text on either side is tokenized on its own:

    "The capital is ___ , here"     left "The capital is"     the gap begins with a space     right " , here"
    "an un___able man"              left "an un"              it begins without one           right "able man"

A space before a gap belongs to the first piece that is written there, because tokenizers keep a word and the space
before it together; without one, what is written continues the word before it. A gap ends where the text on its right
begins: `able` above continues what was written.
"""

import re
from collections.abc import Sequence
from typing import Any

from boustro.text.alignment import without_mark
from boustro.text.tokenizers import num_ids

GAP = re.compile("_{3,}")
MARKS = ("Ġ", "▁", " ")
"""How a piece that begins with a space begins: GPT-2's bytes, SentencePiece, and plain."""


def split_gaps(text: str) -> list[str]:
    """The parts of a text between its gaps: `"a ___ b"` → `["a ", " b"]`."""
    return GAP.split(text)


def begin_with_space(tokenizer: Any) -> list[bool]:
    """For every piece of the vocabulary whether it begins with a space."""
    return [piece.startswith(MARKS) for piece in _pieces(tokenizer)]


def _pieces(tokenizer: Any) -> list[str]:
    """By id; an id that no piece has is ""."""
    pieces = {identifier: piece for piece, identifier in tokenizer.get_vocab().items()}
    return [pieces.get(identifier, "") for identifier in range(num_ids(tokenizer))]


class TextPieces:
    """Pieces of texts that begin or continue, and texts of pieces; `ValueError` where pieces do not know of spaces."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._marks_start = (tokenizer.tokenize("a") or [""])[0].startswith(MARKS)  # as if a space came before a text
        self._unmarked = without_mark(tokenizer) if self._marks_start else None
        if self._ids("a") == self._ids(" a") and self._unmarked is None:
            raise ValueError(
                "the tokenizer does not keep spaces apart (as WordPiece does not), so a gap cannot be written exactly; "
                "use LMs over another vocabulary"
            )
        spaced = (piece for piece in _pieces(tokenizer) if piece and piece.startswith(MARKS))
        self._has_spaced = any(piece.strip("".join(MARKS)) for piece in spaced)
        self._anchor = self._ids("a")[-1]

    def left(self, text: str) -> tuple[list[int], bool]:
        """The pieces of the text on the left of a gap, and whether the gap's first piece begins with a space."""
        if not text:
            return [], self._marks_start
        spaced = text.endswith(" ") and self._has_spaced
        text = text[:-1] if spaced else text
        return (self._ids(text) if text else []), spaced

    def right(self, text: str) -> list[int]:
        """The pieces of the text on the right of a gap."""
        if not self._marks_start:
            return self._ids(text)
        if text.startswith(" "):  # the mark is this space
            return self._ids(text[1:])
        word, space, rest = text.partition(" ")
        own = self._unmarked.encode(word, add_special_tokens=False).ids if self._unmarked else self._ids(word)
        return own + (self._ids(rest) if space else [])

    def text(self, pieces: Sequence[int], spaced: bool) -> str:
        """What pieces say in a gap, without the space that the first one begins with."""
        options = {"clean_up_tokenization_spaces": False}
        before = self.tokenizer.decode([self._anchor], **options)  # decoding drops a space at the start of a text
        text = self.tokenizer.decode([self._anchor, *pieces], **options)[len(before) :]
        return text[1:] if spaced and text.startswith(" ") else text

    def _ids(self, text: str) -> list[int]:
        try:
            return self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        except (TypeError, UnicodeEncodeError) as error:
            raise ValueError("the text holds half a character (a lone surrogate)") from error
