"""Which pieces begin a word, as a table over a tokenizer's vocabulary, and word ids of a segment from it.

    WordPiece       un ##believ ##able !    → begins: un, !          (## continues)
    byte-level BPE  Ġun believ able !       → begins: Ġun, !         (Ġ or white space begins; a letter continues)
    SentencePiece   ▁un believ able !       → begins: ▁un, !

A piece without the tokenizer's mark continues the word before it if it starts with a letter, a combining mark or a
digit; any other character (a comma, a newline) begins a word, and so does every character of a script that is written
without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese). Pieces that are parts of a character continue a word.
A word begins after a special piece and at the start of a segment. `text.alignment` has exact bounds, but needs the
text; this table needs the pieces only.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from tokenizers import decoders

from boustro.text.tokenizers import num_ids

UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
SENTENCE_ENDS = frozenset(". ! ? … 。 ！ ？ । ؟".split())


def word_starts(tokenizer: Any, vocab_size: int | None = None) -> Bool[np.ndarray, " V"]:
    """Return whether each piece begins a word; special pieces do. Raises as `piece_texts`."""
    texts = piece_texts(tokenizer)
    starts = np.zeros(max(vocab_size or 0, num_ids(tokenizer)), bool)
    for identifier, text in texts.items():
        starts[identifier] = _begins(text)
    starts[list(tokenizer.all_special_ids)] = True
    return starts


def sentence_ends(tokenizer: Any) -> Bool[np.ndarray, " V"]:
    """Return whether each piece ends a sentence, judged by its last character. Raises as `word_starts`."""
    texts, ends = piece_texts(tokenizer), np.zeros(num_ids(tokenizer), bool)
    for identifier, text in texts.items():
        ends[identifier] = text.strip()[-1:] in SENTENCE_ENDS
    ends[list(tokenizer.all_special_ids)] = False
    return ends


def word_ids(
    pieces: Int[np.ndarray, " T"], starts: Bool[np.ndarray, " V"], special: Bool[np.ndarray, " V"]
) -> Int[np.ndarray, " T"]:
    """Return the number of the word that each piece belongs to, from 0; a special piece is a word of its own."""
    begins = starts[pieces] | special[pieces]
    begins[1:] |= special[pieces[:-1]]
    begins[:1] = True
    return np.cumsum(begins) - 1


def word_bounds(words: Int[np.ndarray, " T"]) -> Int[np.ndarray, " N"]:
    """Where each word's pieces begin; one entry more than words: [4, 4, 7] → [0, 2, 3]."""
    return np.concatenate([[0], np.flatnonzero(words[1:] != words[:-1]) + 1, [len(words)]])


def piece_texts(tokenizer: Any) -> dict[int, str]:
    """Return the text of each piece, with " " before a word's first piece; a part of a character is "\\ufffd".

    Raises `ValueError` for a tokenizer whose pieces do not show where words begin.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = "" if backend is None or backend.decoder is None else backend.decoder.__getstate__().decode()
    for mark, read in _READERS.items():
        if mark in decoder:
            return {identifier: read(piece) for piece, identifier in tokenizer.get_vocab().items()}
    raise ValueError(
        f"the pieces of {type(tokenizer).__name__} do not show where words begin (it is not a fast WordPiece, "
        "byte-level or SentencePiece tokenizer), so words cannot be hidden whole; hide single pieces, or tokenize with "
        "another tokenizer"
    )


def _begins(text: str) -> bool:
    first = text[:1]
    if first == "\ufffd" or not first:
        return False
    return unicodedata.category(first)[0] not in "LMN" or unicodedata.name(first, "").startswith(UNSPACED_SCRIPTS)


_BYTE_LEVEL = decoders.ByteLevel()
_READERS: dict[str, Callable[[str], str]] = {
    '"WordPiece"': lambda piece: piece[2:] if piece.startswith("##") and len(piece) > 2 else " " + piece,
    '"ByteLevel"': lambda piece: _BYTE_LEVEL.decode([piece]),
    "▁": lambda piece: "\ufffd" if re.fullmatch(r"<0x[0-9A-F]{2}>", piece) else piece.replace("▁", " "),
}
"""By what the decoder in tokenizer.json contains."""
