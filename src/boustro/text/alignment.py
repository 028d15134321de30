"""Words to pieces, exactly: each word is tokenized on its own, as in running text.

A tokenizer that splits at white space gives a word the same pieces everywhere, so word i has pieces
`[bounds[i], bounds[i + 1])` without the tokenizer's offsets. Only the space before a word matters:

    ["Reuters", ",", "Friday"]  →  " Reuters" + "," + " Friday"     GPT-2   ĠReuters , ĠFriday
                                                                    Llama   ▁Re ut ers , ▁Friday

Tokenizers like Llama's mark the start of every text, so a word without a space before it needs a copy of the tokenizer
that does not (`without_mark`). WordPiece does not encode spaces. Pieces that would cross the border of two words
("did|n't" is "didn|'t" for GPT-2) are split there.

A word of more than `LONGEST` letters, such as a long address or encoded data, has the pieces of its first and its last
`ENDS` letters, so that no word is more work than a few lines of text, however often it is read.

If the spaces are not known (`Sentence.spaces` is None), `guess_spaces` puts them as in English, and none between words
of a script without spaces.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer

from boustro.store import fingerprint
from boustro.text.words import LONGEST, apart

CLOSERS = frozenset(
    "، ؛ ؟ ۔ । . , ; : ! ? ) ] } % ' '' ’ ” ... … n't 's 'S 'm 'd 'll 're 've 't ’s ’t ’re ’ve ’ll ’d ’m".split()
)
OPENERS = frozenset("( [ { $ £ € # ` `` “ ‘".split())
MEMORY_WORDS = 1 << 15  # about 12 MB, for a file of any size
ENDS = LONGEST // 2  # the two halves of what is read of a longer word
UNKNOWN_WORDS = "words without any piece, read as unknown"
LONG_WORDS = f"words of more than {LONGEST} letters, read by their first and last {ENDS}"
MARKED = "words read as if preceded by a space, which their tokenizer always adds"


def guess_spaces(words: Sequence[str]) -> list[bool]:
    """Return whether a space precedes each word: no closing mark, nothing after an opening one; straight quotes
    alternate."""
    spaces, glue, open_quote = [], False, False
    for word, is_apart in zip(words, apart(words), strict=True):
        closes_quote = word == '"' and open_quote
        spaces.append(is_apart and not (glue or word in CLOSERS or closes_quote))
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
    """Tokenizes words with any transformers tokenizer and remembers them."""

    def __init__(self, tokenizer, spacing: Literal["natural", "always"] = "natural") -> None:
        """`spacing="always"` puts a space before every word, as the paper's implementation does."""
        self.tokenizer, self.spacing = tokenizer, spacing
        self.counts: Counter[str] = Counter()
        self._memory: dict[tuple[str, bool], tuple[int, ...]] = {}
        # SentencePiece and WordPiece mark a word's start themselves: a space would come twice.
        mark = (tokenizer.tokenize("a") or [""])[0].startswith("▁")
        self._marks_words = mark or self._encode(["a"])[0] == self._encode([" a"])[0]
        self._unmarked = without_mark(tokenizer) if self._marks_words else None
        self._always_marks = mark and self._unmarked is None
        special = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        special.pop(tokenizer.unk_token, None)
        self._special_ids = frozenset(special.values())
        self._special = re.compile("|".join(map(re.escape, special)))
        fallback = [tokenizer.unk_token_id, tokenizer.eos_token_id, tokenizer.sep_token_id]
        self._fallback = next((identifier for identifier in fallback if identifier is not None), 0)

    def align(self, sentences: Sequence[tuple[Sequence[str], Sequence[bool] | None]]) -> list[Pieces]:
        """Pieces of (words, spaces) pairs, the unknown one for a word without any; `ValueError` for half a letter."""
        keyed = [self._keys(words, spaces) for words, spaces in sentences]
        if len(self._memory) > MEMORY_WORDS:
            self._memory.clear()
        unknown = dict.fromkeys(key for keys in keyed for key in keys if key not in self._memory)
        for spaced in (True, False):
            words = [word for word, space in unknown if space is spaced]
            for word, ids in zip(words, self._pieces(words, spaced), strict=True):
                plain = self._special_ids.isdisjoint(ids)
                self._memory[word, spaced] = tuple(ids) if plain else self._spell(word, spaced)
        return [self._join(keys) for keys in keyed]

    def fingerprint(self) -> str:
        """Of how the tokenizer splits; with the vocabulary it decides the pieces of any text."""
        examples = self._encode([" a b", "A.B", "ab  c\n"])
        return fingerprint(examples + ([] if self._unmarked is None else self._pieces(["a b", "A.B"], spaced=False)))

    def _keys(self, words: Sequence[str], spaces: Sequence[bool] | None) -> list[tuple[str, bool]]:
        if self.spacing == "always":
            spaces = [True] * len(words)
        elif spaces is None:
            spaces = guess_spaces(words)
        if lengthy := sum(len(word) > LONGEST for word in words):
            self.counts[LONG_WORDS] += lengthy
            words = [word if len(word) <= LONGEST else word[:ENDS] + word[-ENDS:] for word in words]
        return list(zip(words, map(bool, spaces), strict=True))

    def _join(self, keys: list[tuple[str, bool]]) -> Pieces:
        parts = [self._memory[key] or (self._fallback,) for key in keys]
        if lost := sum(not self._memory[key] for key in keys):
            self.counts[UNKNOWN_WORDS] += lost
        if self._always_marks:
            self.counts[MARKED] += sum(not space for _, space in keys)
        bounds = np.concatenate([[0], np.cumsum([len(ids) for ids in parts])]).astype(np.int64)
        return Pieces(np.array([i for ids in parts for i in ids], dtype=np.int64), bounds)

    def _pieces(self, words: list[str], spaced: bool) -> list[list[int]]:
        """Piece ids of each word, with or without a space before it."""
        try:
            if spaced and not self._marks_words:
                return self._encode([" " + word for word in words])
            if spaced or self._unmarked is None:
                return self._encode(words)
            return [e.ids for e in self._unmarked.encode_batch_fast(words, add_special_tokens=False)]
        except (TypeError, UnicodeEncodeError) as error:
            broken = next((w for w in words if any("\ud800" <= c <= "\udfff" for c in w)), None)
            if broken is None:
                raise
            raise ValueError(f"the word {broken!r} holds half a character (a lone surrogate)") from error

    def _spell(self, word: str, spaced: bool) -> tuple[int, ...]:
        """Pieces of a word that contains special pieces, as plain text: a unigram model would find them otherwise."""
        cuts = [0, *(match.start() + 1 for match in self._special.finditer(word)), len(word)]
        first, *rest = [word[start:stop] for start, stop in pairwise(cuts)]
        return tuple(i for ids in (*self._pieces([first], spaced), *self._pieces(rest, False)) for i in ids)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        options = {"add_special_tokens": False, "split_special_tokens": True}  # "<s>" in a text is three characters
        return self.tokenizer(texts, **options)["input_ids"] if texts else []


def without_mark(tokenizer) -> Tokenizer | None:
    """Return a copy of the tokenizer that adds no space before a text; None if it is not known how."""
    if not tokenizer.is_fast:
        return None
    backend = tokenizer.backend_tokenizer
    stages = {"normalizer": backend.normalizer, "pre_tokenizer": backend.pre_tokenizer}
    specs = {name: part and json.loads(part.__getstate__()) for name, part in stages.items()}
    changed = {name: spec and _unmark(spec) for name, spec in specs.items()}
    if changed == specs:
        return None
    rest = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {}, "unk_token": ""}}
    parts = Tokenizer.from_str(json.dumps({**rest, **changed}))
    copy = Tokenizer(backend.model)  # shared, not copied
    copy.normalizer, copy.pre_tokenizer = parts.normalizer, parts.pre_tokenizer
    for identifier, token in sorted(backend.get_added_tokens_decoder().items()):
        (copy.add_special_tokens if token.special else copy.add_tokens)([token])
        if copy.token_to_id(token.content) != identifier:
            return None
    copy.encode_special_tokens = True
    return copy


def _unmark(part: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a normalizer or pre-tokenizer of tokenizer.json without what adds a space or a mark for it."""
    match part:
        case {"type": "Prepend"}:
            return None
        case {"type": "Metaspace"}:
            return {**part, "prepend_scheme": "never"}
        case {"type": "ByteLevel"}:
            return {**part, "add_prefix_space": False}
        case {"type": "Sequence"}:
            key = "normalizers" if "normalizers" in part else "pretokenizers"
            return {**part, key: [kept for kept in map(_unmark, part[key]) if kept is not None]}
    return part
