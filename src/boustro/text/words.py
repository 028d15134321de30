"""Raw text to sentences of words with their positions, tokenized as news corpora are.

    "Dr. Ana Ruiz's U.S. tour (1996-97) didn't end."
    Dr. | Ana | Ruiz | 's | U.S. | tour | ( | 1996-97 | ) | did | n't | end | .

A comma, a colon and a slash join digits alone (1,000; 10:30; 1/2), but a slash also joins one capital letter to others,
and one or two to digits, as names of things have it (F/A-18, N/A, OS/2; neither Tom/Ada nor HP/IBM). A full stop joins
no small letter to a capital one, nor a digit to a word with a capital. Web addresses are one word, and so is an e-mail
address. What was trained by another rule keeps it (`RULE`).

    "Tom,he met Cc:Maria.She/they saw https://example.org/a,b (10:30)"
    Tom | , | he | met | Cc | : | Maria | . | She | / | they | saw | https://example.org/a,b | ( | 10:30 | )

By rules: a line break ends a sentence, and so does `.`, `!` or `?` before a capital, a digit or a letter of a script
without capitals, unless the word before it is an abbreviation or an initial; `。` always does. A letter and its
combining marks stay together, and so does an emoji sequence. Of scripts without spaces, such as Chinese, every
character is a word. Encoded data (base64) of more than `LONGEST` letters is one word, its `+` and `=` included.

Scripts that are written without spaces between words, and the space between two words of any script.

    中国 the characters of Chinese (and hiragana, Thai, Lao, Khmer, Burmese)   no space between them
    東京 タワー   katakana and hangul words are not split, but katakana has no space beside it either

Such text is split into characters, the unit of most labelled data in these languages: there is no dictionary here.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import chain

from boustro.types import Sentence, compose

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u309f"
UNSPACED += "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Ranges of a regular expression's character class: letters that are words by themselves."""
# Thai and Lao, Myanmar, Khmer, kana, Chinese characters: scripts without spaces between words
_RANGES = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3000, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF))
_RANGES += ((0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF))


def is_unspaced(character: str) -> bool:
    """Return whether a character is of a script without spaces, its punctuation and katakana among them."""
    return any(low <= ord(character) <= high for low, high in _RANGES)


def gap(before: str, after: str) -> str:
    """Return the gap between two neighbouring words where nobody says it: a space, or nothing in unspaced scripts."""
    return "" if before and after and is_unspaced(before[-1]) and is_unspaced(after[0]) else " "


def apart(words: Sequence[str]) -> list[bool]:
    """Return whether a space stands before each word, where nobody says it: `("中", "国")` → `[True, False]`."""
    return [i == 0 or bool(gap(words[i - 1], word)) for i, word in enumerate(words)]


def join_words(words: Sequence[str], spaces: Sequence[bool] | None = None) -> str:
    """`("中", "国")` → `"中国"`, `("Ada", "left")` → `"Ada left"`; `spaces`, before each word, where they are known."""
    given = spaces or apart(words)
    return "".join(f" {word}" if i and given[i] else word for i, word in enumerate(words))


def plain_words(text: str) -> list[str]:
    """`"रे, re\u0301sume\u0301!"` → `["रे", "résumé"]`; a letter and its accent are one character where there is one."""
    return PLAIN_WORD.findall(compose(text))


ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof rev hon gen col maj capt lt sgt cmdr adm gov sen rep pres st ste mt ft jr sr inc corp co ltd "
    "bros dept univ assn no nos vs etc approx est fig vol pp jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
# without blocks of characters that are neither marks nor capitals, such as the Chinese ones
_BLOCKS = (range(0x3100), range(0xA640, 0xAC00), range(0xFB00, 0x12000), range(0x13400, 0x13500))
_BLOCKS += (range(0x16A00, 0x17000), range(0x1BC00, 0x1F200))
_LETTERS = "".join(map(chr, chain.from_iterable(_BLOCKS)))
_KINDS = "".join(map(unicodedata.category, _LETTERS))  # two letters each, such as Mn
# Combining marks (which `\w` leaves out), then soft hyphen, joiners, skin tones and the tags of flags. They stand in
# many classes, so runs of them are ranges: patterns of single characters take three times as long to compile.
MARKS = "".join(
    f"{_LETTERS[run.start() // 2]}-{_LETTERS[run.end() // 2 - 1]}" for run in re.finditer(r"(?:M\w)+", _KINDS)
)
EXTENDERS = MARKS + "\u00ad\u200c\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
LETTER = rf"(?:[^\W{UNSPACED}]|[{EXTENDERS}])"  # of a word of several
PLAIN_WORD = re.compile(rf"\w[\w{EXTENDERS}]*")
"""Letters with their combining marks, digits and underscores, where punctuation is left out."""
CODE = "[A-Za-z0-9+/=_-]"  # what base64 is written with
LONGEST = 128
"""Letters of a word that is read whole (`alignment`), and of a run of `CODE` that is not yet one word."""
MARKS_INSIDE = "-/.,:&@_’'"
"""The marks that may join letters, by one rule or another."""
UPPER, LOWER = ("".join(filter(of_case, _LETTERS)) for of_case in (str.isupper, str.islower))
ADDRESS = r"(?:[Hh][Tt]{2}[Pp][Ss]?://|[Ff][Tt][Pp]://|[Ww]{3}\.)"  # how an address of the web begins
IN_ADDRESS = rf"(?:{LETTER}|[-./?#@$&+,=%:~])"
HOST = r"(?:[A-Za-z0-9][A-Za-z0-9-]*\.){1,8}[a-z]{2,24}(?=/|:[0-9])"
BEFORE_AT = rf"(?=[-\w.&’']{{1,64}}@){LETTER}+(?:[-.&’']{LETTER}+)*@(?={LETTER})"  # at most 64, by RFC 5321
JOINING = (  # what joins letters and digits, by rule
    f"[{MARKS_INSIDE}]",
    rf"""(?:[-&@_’']|(?<=\d)[,:/](?=\d)|(?<=\b[A-Z])/(?=\d|[A-Z](?![^\W\dA-Z]))|(?<=\b[A-Z]{{2}})/(?=\d)
          |\.(?!(?<=[{LOWER}{EXTENDERS}]\.)(?:[IA]\b|[{UPPER}]{LETTER}))(?!(?<=\d\.)[{UPPER}][{LOWER}]))""",
)
JOINING_CODE = ("[-/.,:&@’'+=]", "[-/+=]")
ADDRESSES = (
    "",
    rf"""
    | {ADDRESS}{IN_ADDRESS}*(?:{LETTER}|/)        # https://example.org/a?b=1
    | {HOST}(?:[{MARKS_INSIDE}]{LETTER}+)*        # example.org/a, example.org:80
    | {BEFORE_AT}{LETTER}+(?:{JOINING[1]}{LETTER}+)*  # Ada.Brandt@example.org
    """,
)
WORDS = tuple(
    rf"""
      [{UNSPACED}][{EXTENDERS}]*                  # 中 | 国
    | (?={CODE}{{{LONGEST + 1}}}){LETTER}+(?:{in_code}+{LETTER}+(?<!['’]s)(?<!['’]S))*=*  # encoded data
    {addresses}
    | (?:[^\W\d_][{EXTENDERS}]*\.){{2,}}          # U.S.
    | [^\W\d_{UNSPACED}]+(?=n['’]t\b)            # did | n't
    | n['’]t\b
    | ['’](?:s|S|m|d|ll|re|ve)\b                 # 's
    | {LETTER}+(?:{joining}{LETTER}+(?<!['’]s)(?<!['’]S))*  # 1996-97, O'Neill, 1,000, example.org
    | [\U0001f1e6-\U0001f1ff]{{2}}                # two letters are a flag
    | \.{{2,}} | -{{2,}}
    | [^\w\s](?:[{EXTENDERS}]|(?<=\u200d)[^\w\s])*  # an emoji, or a mark of punctuation
    """
    for joining, in_code, addresses in zip(JOINING, JOINING_CODE, ADDRESSES, strict=True)
)
IN_ASCII = {UPPER: "A-Z", LOWER: "a-z", EXTENDERS: "\u0301", UNSPACED: "中"}
"""What stands for classes of characters in a pattern for texts of ASCII, which have none of the last two."""
RULE = len(WORDS)
"""The rule of words by which texts are split: 1, that of folders that name none, joins letters at every mark."""
_rule: ContextVar[int] = ContextVar("rule of words", default=RULE)
LINE_BREAKS = "\r\n\v\f\x85\u2028\u2029"
FULL_WIDTH = frozenset("。！？")
ENDERS = frozenset({".", "!", "?", "...", "…", "؟", "۔", "।"}) | FULL_WIDTH
CLOSERS = frozenset("\"'”’)]」』）")


@dataclass(frozen=True, slots=True)
class Placed:
    """A sentence and the half-open range of each of its words in the text."""

    sentence: Sentence
    places: tuple[tuple[int, int], ...]


@contextmanager
def word_rule(rule: int) -> Iterator[None]:
    """Split texts by this rule within the block, for what was trained by it; `ValueError` for an unknown one."""
    if type(rule) is not int or not 1 <= rule <= RULE:
        raise ValueError(f"the rule of words is {rule!r}, and this version knows 1 to {RULE}; update boustro")
    token = _rule.set(rule)
    try:
        yield
    finally:
        _rule.reset(token)


@cache
def word_pattern(rule: int, in_ascii: bool) -> re.Pattern[str]:
    """Return what a word is by a rule, in any text or in one of ASCII, whose pattern is compiled ten times as fast."""
    pattern = WORDS[rule - 1]
    for letters, few in IN_ASCII.items() if in_ascii else ():
        pattern = pattern.replace(letters, few)
    return re.compile(pattern, re.VERBOSE)


def current_rule() -> int:
    """Return the rule by which texts are split here."""
    return _rule.get()


def split_text(text: str, document: str = "") -> Iterator[Placed]:
    """Return the sentences of a text, all of `document`; only white space is outside their words."""
    return _sentences(text, document, _rule.get())  # the rule of the caller, however late the sentences are asked for


def _sentences(text: str, document: str, rule: int) -> Iterator[Placed]:
    for line in re.finditer(f"[^{LINE_BREAKS}]+", text):
        words = list(_words(text, line.start(), line.end(), rule))
        begin = 0
        for i in range(len(words)):
            if i + 1 == len(words) or ends_sentence(text, words, i):
                yield _placed(text, words[begin : i + 1], document)
                begin = i + 1


def _words(text: str, start: int, end: int, rule: int) -> Iterator[tuple[int, int]]:
    position = start
    while position < end:
        if text[position].isspace():
            position += 1
            continue
        stop = word_end(text, position, end, rule)
        yield position, stop
        position = stop


def word_end(text: str, position: int, end: int, rule: int = RULE) -> int:
    """Where the word ends that begins at a position, in a text that goes on to `end`.

    What stands before the position has no effect, nor what stands behind the next white space.
    """
    match = word_pattern(rule, text.isascii()).match(text, position, end)
    stop = match.end() if match and match.end() > position else position + 1
    word = text[position:stop]
    if text[stop : stop + 1] == "." and stop < end:  # of an abbreviation, or of an initial?
        known = word.lower() in ABBREVIATIONS and word[0].isupper()
        stop += known or (len(word) == 1 and word.isupper() and word != "I")
    return stop


def ends_sentence(text: str, words: Sequence[tuple[int, int]], index: int) -> bool:
    """Return whether a sentence ends with the word `words[index]` of a line; only the words beside it have an
    effect."""
    word = text[slice(*words[index])]
    if word in CLOSERS and index and text[slice(*words[index - 1])] in ENDERS:
        word = text[slice(*words[index - 1])]
    following = text[slice(*words[index + 1])]
    if word in FULL_WIDTH:
        return following not in CLOSERS and following not in ENDERS
    spaced = words[index + 1][0] > words[index][1]
    caseless = following[0].isalpha() and following[0].lower() == following[0].upper()
    opens = following[0].isupper() or following[0].isdigit() or caseless or following[0] in "\"'“‘(["
    return word in ENDERS and spaced and opens


def _placed(text: str, places: list[tuple[int, int]], document: str) -> Placed:
    words = tuple(text[start:end] for start, end in places)
    spaces = tuple(i == 0 or places[i - 1][1] < start for i, (start, _) in enumerate(places))
    return Placed(Sentence(words, spaces=spaces, document=document), tuple(places))
