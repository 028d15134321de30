"""Words to pieces, exactly: each word is tokenized by itself, as it would stand in running text.

A tokenizer that splits at white space gives a word the same pieces wherever it stands, so nothing has
to be aligned afterwards: word i owns pieces `[bounds[i], bounds[i + 1])`, whatever the tokenizer thinks
of offsets. What differs is the space before a word:

    ["Reuters", ",", "Friday"]  →  " Reuters" + "," + " Friday"

Where the text is not known (`Sentence.spaces` is None), `guess_spaces` puts spaces as English does.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from boustro.store import fingerprint

Spacing = Literal["natural", "always"]

CLOSERS = frozenset(". , ; : ! ? ) ] } % ' '' ’ ” ... … n't 's 'S 'm 'd 'll 're 've 't ’s ’t ’re ’ve ’ll ’d ’m".split())
OPENERS = frozenset("( [ { $ £ € # ` `` “ ‘".split())


def guess_spaces(words: Sequence[str]) -> list[bool]:
    """Whether a space stands before each word: none before a closing mark or after an opening one.

    A straight double quote opens and closes by turns.
    """
    spaces, glue, open_quote = [], False, False
    for word in words:
        closes_quote = word == '"' and open_quote
        spaces.append(not (glue or word in CLOSERS or closes_quote))
        glue = word in OPENERS or (word == '"' and not open_quote)
        if word == '"':
            open_quote = not open_quote
    return spaces


@dataclass(frozen=True, slots=True)
class Pieces:
    """Piece ids of a sentence in text order, and where each word's begin; `bounds` has one entry more."""

    ids: np.ndarray  # (P,) int64
    bounds: np.ndarray  # (W + 1,) int64


class Aligner:
    """Tokenizes words with any transformers tokenizer, remembering every word that it has met."""

    def __init__(self, tokenizer, spacing: Spacing = "natural") -> None:
        """`spacing="always"` puts a space before every word, as the paper's implementation does."""
        if spacing not in ("natural", "always"):
            raise ValueError(f"unknown spacing {spacing!r}: known are natural, always")
        self.tokenizer, self.spacing = tokenizer, spacing
        self.counts: Counter[str] = Counter()
        self._memory: dict[tuple[str, bool], tuple[int, ...]] = {}
        # SentencePiece and WordPiece mark a word's start by themselves: a space would come twice.
        self._marks_words = self._encode(["a"])[0] == self._encode([" a"])[0] or self._piece("a").startswith("▁")
        fallback = [tokenizer.unk_token_id, tokenizer.eos_token_id, tokenizer.sep_token_id]
        self._fallback = next((identifier for identifier in fallback if identifier is not None), 0)

    def align(self, sentences: Sequence[tuple[Sequence[str], Sequence[bool] | None]]) -> list[Pieces]:
        """Pieces of (words, spaces) pairs. A word without any piece gets the unknown piece, and is counted."""
        keyed = [self._keys(words, spaces) for words, spaces in sentences]
        unknown = list(dict.fromkeys(key for keys in keyed for key in keys if key not in self._memory))
        texts = [" " + word if space and not self._marks_words else word for word, space in unknown]
        for key, ids in zip(unknown, self._encode(texts), strict=True):
            self._memory[key] = tuple(ids)
        return [self._join(keys) for keys in keyed]

    def fingerprint(self) -> str:
        """A name for how the tokenizer splits; with the vocabulary it decides the pieces of any text."""
        return fingerprint(self._encode([" a b", "A.B", "ab  c\n"]))

    def _keys(self, words: Sequence[str], spaces: Sequence[bool] | None) -> list[tuple[str, bool]]:
        if self.spacing == "always":
            spaces = [True] * len(words)
        elif spaces is None:
            spaces = guess_spaces(words)
        return list(zip(words, spaces, strict=True))

    def _join(self, keys: list[tuple[str, bool]]) -> Pieces:
        parts = []
        for key in keys:
            ids = self._memory[key]
            if not ids:
                self.counts["words without any piece, read as unknown"] += 1
                ids = (self._fallback,)
            parts.append(ids)
        bounds = np.concatenate([[0], np.cumsum([len(ids) for ids in parts])]).astype(np.int64)
        return Pieces(np.array([i for ids in parts for i in ids], dtype=np.int64), bounds)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        options = {"add_special_tokens": False, "split_special_tokens": True}  # "<s>" in a text is three letters
        return self.tokenizer(texts, **options)["input_ids"] if texts else []

    def _piece(self, text: str) -> str:
        return (self.tokenizer.tokenize(text) or [""])[0]
