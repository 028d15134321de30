"""Byte-level BPE by tiktoken: exactly the pieces of a Hugging Face tokenizer, several times faster.

tiktoken has a faster regex engine and computes no offsets. That the result is the same is checked:

    merges       a tokenizer merges pairs (a, b) in the order of its rules, tiktoken any pair that makes the piece a·b.
                 Both agree if every piece, given alone, is encoded as itself: two neighbours c, d with c·d = a·b and
                 another border than a|b then never meet, since c or d would have crossed the border of a|b, which the
                 merges of a·b alone respect. The whole vocabulary is checked.
    characters   the regex engines may know different versions of Unicode. Every new character is tried in both, beside
                 a letter, a digit and so on; a text with one that they split differently goes to the tokenizer itself.
    coverage     tiktoken leaves out what no branch of a pattern matches: the bytes are counted.

`ByteBPE.make` returns None for any other kind of tokenizer (SentencePiece, WordPiece, a space added before the text,
added pieces that are not special).
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tiktoken
from tokenizers import Tokenizer, models

GPT2_PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LONG_TEXT, LONG_RUNS = 100_000, tuple(500 * space for space in " \n\t")
"""Texts where tiktoken's regex might fail: it panics at some hundred thousand spaces in a row."""
UNTRIED, ALIKE, UNLIKE = 0, 1, 2
NEIGHBOURS = "a1. '\n"


class ByteBPE:
    """Encodes texts as `tokenizer` does, without special pieces; `make` makes it."""

    def __init__(self, tokenizer: Tokenizer, pattern: str, pieces: dict[bytes, int]) -> None:
        """`pieces` are the byte strings in the order of their merges, with their ids."""
        self._tokenizer, self._pattern = tokenizer, pattern
        self._ids = np.fromiter(pieces.values(), np.uint32)
        self._num_bytes = np.fromiter(map(len, pieces), np.int64)
        ranks = {piece: rank for rank, piece in enumerate(pieces)}
        self._fast = tiktoken.Encoding("byte-level", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        self._characters, self._any_unlike = np.full(0x110000, UNTRIED, np.uint8), False

    @classmethod
    def make(cls, tokenizer: Tokenizer) -> "ByteBPE | None":
        """None for a tokenizer whose pieces tiktoken would not reproduce."""
        spec = json.loads(tokenizer.to_str())
        pattern, model = _pattern(spec["pre_tokenizer"]), spec["model"]
        if pattern is None or model["type"] != "BPE" or not all(added["special"] for added in spec["added_tokens"]):
            return None
        try:
            return None if (pieces := _pieces(model)) is None else cls(tokenizer, pattern, pieces)
        except ValueError:  # a pattern that only the other engine supports
            return None

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text."""
        normalizer = self._tokenizer.normalizer
        normal = texts if normalizer is None else [normalizer.normalize_str(text) for text in texts]
        characters = [np.frombuffer(text.encode("utf-32-le"), np.uint32) for text in normal]
        untried = [own[self._characters[own] == UNTRIED] for own in characters]
        if any(map(len, untried)):
            self._try(np.unique(np.concatenate(untried)))
        return [self._encode(*each) for each in zip(normal, characters, texts, strict=True)]

    def _encode(self, text: str, characters: np.ndarray, given: str) -> np.ndarray:
        long = len(text) > LONG_TEXT and any(run in text for run in LONG_RUNS)
        if not long and not (self._any_unlike and (self._characters[characters] == UNLIKE).any()):
            places = self._fast.encode_ordinary(text)
            if self._num_bytes[places].sum() == len(text.encode()):
                return self._ids[places]
        return np.array(self._tokenizer.encode(given, add_special_tokens=False).ids, np.uint32)

    def _try(self, characters: np.ndarray) -> None:
        """Find out whether both engines split these characters from the same neighbours."""
        pairs = {c: {p for o in (chr(c), *NEIGHBOURS) for p in (o + chr(c), chr(c) + o)} for c in characters.tolist()}
        whole = {text.encode(): number for number, text in enumerate(itertools.chain(*pairs.values()), 256)}
        ranks = {bytes([byte]): byte for byte in range(256)} | whole  # a word that is a piece needs no merges
        probe = tiktoken.Encoding("probe", pat_str=self._pattern, mergeable_ranks=ranks, special_tokens={})
        split: Any = self._tokenizer.pre_tokenizer
        for character, texts in pairs.items():
            theirs = [probe.encode_ordinary(text) == [whole[text.encode()]] for text in texts]
            own = [len(split.pre_tokenize_str(text)) == 1 for text in texts]
            self._characters[character] = ALIKE if theirs == own else UNLIKE
            self._any_unlike |= theirs != own


def _pattern(pre_tokenizer: dict[str, Any] | None) -> str | None:
    """The pattern that splits words, if nothing else but byte-level encoding follows."""
    parts = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer])
    last = parts[-1] or {}
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return None
    if len(parts) == 1:
        return GPT2_PATTERN if last["use_regex"] else None
    split = parts[0]
    whole = len(parts) == 2 and not last["use_regex"] and split["type"] == "Split"
    return split["pattern"].get("Regex") if whole and split["behavior"] == "Isolated" and not split["invert"] else None


def _pieces(model: dict[str, Any]) -> dict[bytes, int] | None:
    """Bytes and merged pieces in order, with their ids; None if another order of merges would matter."""
    others = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    vocabulary, alphabet = model["vocab"], _alphabet()
    if any(model.get(name) for name in others) or not alphabet.keys() <= vocabulary.keys():
        return None
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    words = [*alphabet, *dict.fromkeys(a + b for a, b in merges)]
    merging = models.BPE(vocabulary, merges)
    if any([piece.id for piece in merging.tokenize(word)] != [vocabulary[word]] for word in words):
        return None
    if model.get("ignore_merges") and len(words) < len(vocabulary):  # whole words could be pieces that no merge makes
        return None
    return {bytes(alphabet[c] for c in word): vocabulary[word] for word in words}


def _alphabet() -> dict[str, int]:
    """GPT-2's characters for the 256 bytes: printable ones are themselves, the others follow from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}
