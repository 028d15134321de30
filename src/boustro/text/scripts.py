"""Scripts that are written without spaces between words, and the space between two words of any script.

    中国 the characters of Chinese (and hiragana, Thai, Lao, Khmer, Burmese)   no space between them
    東京 タワー   katakana and hangul words are not split, but katakana has no space beside it either

Such text is split into characters, the unit of most labelled data in these languages: there is no dictionary here.
"""

from collections.abc import Sequence

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u309f"
UNSPACED += "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Ranges of a regular expression's character class: letters that are words by themselves."""
_RANGES = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3000, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF))
_RANGES += ((0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF))


def is_unspaced(character: str) -> bool:
    """Whether a character is of a script without spaces, its punctuation and katakana among them."""
    return any(low <= ord(character) <= high for low, high in _RANGES)


def gap(before: str, after: str) -> str:
    """What stands between two neighbouring words where nobody says it: a space, or nothing in unspaced scripts."""
    return "" if before and after and is_unspaced(before[-1]) and is_unspaced(after[0]) else " "


def apart(words: Sequence[str]) -> list[bool]:
    """Whether a space stands before each word, where nobody says it: `("中", "国")` → `[True, False]`."""
    return [i == 0 or bool(gap(words[i - 1], word)) for i, word in enumerate(words)]


def join_words(words: Sequence[str], spaces: Sequence[bool] | None = None) -> str:
    """`("中", "国")` → `"中国"`, `("Ada", "left")` → `"Ada left"`; `spaces`, before each word, where they are known."""
    given = spaces or apart(words)
    return "".join(f" {word}" if i and given[i] else word for i, word in enumerate(words))
