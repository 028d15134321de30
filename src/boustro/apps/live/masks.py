"""Masks: which name has which, what of a region is a name, and names in the place of masks again."""

import html
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from boustro.text.languages import GENDERED, TITLES
from boustro.types import compose

MASK_DIGITS = 6
"""Longer numbers in brackets are no masks, and are not left alone as such."""
MOST_NUMBER = 10**MASK_DIGITS - 1
LONGEST_IN_MASK = 80
"""Characters of a label in its masks; a bound keeps the search for masks short in a text of many brackets."""
ANY_MASK = re.compile(rf"\[[^\[\]]{{1,{LONGEST_IN_MASK}}}_\d{{1,{MASK_DIGITS}}}\]", re.ASCII)
NAME_KINDS = {
    "PERSON": "PER PERS PERSON PEOPLE PATIENT STAFF HCW",
    "LOCATION": "LOC LOCATION PLACE GPE FAC",
    "ORGANIZATION": "ORG ORGANIZATION ORGANISATION CORPORATION COMPANY HOSP HOSPITAL PATORG",
    "NRP": "NRP NORP",
}
"""The labels of names in the usual data sets and of the package's tagger, by what Presidio calls them."""
OTHER_KINDS = {
    "DATE_TIME": "DATE TIME DATE_TIME",
    "PHONE_NUMBER": "PHONE PHONE_NUMBER TEL TELEPHONE",
    "EMAIL_ADDRESS": "EMAIL E-MAIL EMAIL_ADDRESS",
    **{name: name for name in "AGE CREDIT_CARD CRYPTO IBAN_CODE ID IP_ADDRESS MAC_ADDRESS URL".split()},
}
"""Labels of all else, as `NAME_KINDS` has them."""
PERSONS = frozenset(NAME_KINDS["PERSON"].split())
OF_NAMES = frozenset(label for labels in (*NAME_KINDS.values(), "MISC OTHER NAME") for label in labels.split())
"""Labels of what has a letter; letters' case does not count. Others may be of numbers."""
HTML_TAGS = (
    "a|abbr|article|b|big|blockquote|body|br|button|caption|center|cite|code|col|dd|del|div|dl|dt|em|figure|font|footer|"
    "form|h[1-6]|head|header|hr|html|i|img|input|ins|kbd|label|li|link|main|mark|meta|nav|ol|option|p|pre|q|s|script|"
    "section|select|small|span|strike|strong|style|sub|sup|table|tbody|td|tfoot|th|thead|title|tr|tt|u|ul|video"
)
FIELD_KEY = r"[?&](?:amp;)?(?:(?-i:[a-z_$])[\w.$-]{0,79}=|(?=[\w.$-]{1,80}=))"
"""Of a URL-encoded field the key, where it is none that may be a name, with the sign before it."""
_PLACEHOLDERS = {*OF_NAMES, *NAME_KINDS, *" ".join(OTHER_KINDS.values()).split(), "REDACTED"}
PLACEHOLDER = rf"(?-i:[<\[](?:{'|'.join(sorted(_PLACEHOLDERS))}|[A-Z]{{2}}_[A-Z_]+)(?:_\d+)?[>\]])"
"""The mark of a name that another program has left out, such as `<PERSON>` or `<US_SSN>`."""
BETWEEN_NAMES = re.compile(
    rf"<(?:/[a-z][\w:.-]*|(?:{HTML_TAGS})(?=[\s/>]))\s*/?>?|{PLACEHOLDER}|{FIELD_KEY}|"
    r"&#?\w{2,8};|%(?:0[ad]|2[\da-f]|3[a-f]|40)|"
    r"[|*`~^=<>{}\[\]]+",
    re.IGNORECASE,
)
"""Signs between names, which are in none; of URL-encoded fields the keys, and marks of punctuation as they encode
them. The attributes of a tag are text: they may have names."""
MOST_MARKUP = 20
"""Characters beside a region that may belong to markup in it."""
EQUAL_MARKS = str.maketrans("‘’ʼ´`‐‑‒–—", "'" * 5 + "-" * 5)
"""Apostrophes and hyphens that stand for one another in a name."""
ROUND = str.maketrans("[]", "()")
PERSONAL_TITLES = frozenset(word for words in TITLES.values() for word in words.split())


@dataclass(frozen=True, slots=True)
class Region:
    """Characters `[start, end)` that must not be seen: one entity, or several that overlap."""

    start: int
    end: int
    label: str
    score: float | None


class Masks:
    """The masks of one conversation: the same name always has the same one.

        masks = Masks(["PER", "LOC"])
        masks.mask("PER", "Ada Brandt")      # "[PER_1]"
        masks.mask("PER", "ada  brandt")     # "[PER_1]", see `name_key`
        masks.mask("PER", "Okonkwo")         # "[PER_2]"

    A mask gets the lowest number that is free, in the order in which names come. Masks that a text holds already are
    reserved, so that no other name gets their number. Whoever sends the whole conversation again therefore meets the
    same masks again, and nothing need be kept between requests. Of a label that has brackets itself its masks have
    round ones, since nothing else shows where a mask ends: `party [GB]` → `[party (GB)_1]`

    Args:
        labels: Labels that entities may have.
    """

    def __init__(self, labels: Collection[str]) -> None:
        shown = {label: label.translate(ROUND)[:LONGEST_IN_MASK] for label in labels}
        longest_first = sorted({*shown.values()}, key=len, reverse=True)
        number = rf"_(\d{{1,{MASK_DIGITS}}})"
        self.pattern = re.compile(rf"\[({'|'.join(map(re.escape, longest_first))}){number}\]", re.ASCII)
        self.names: dict[str, str] = {}
        """What each mask stands for, as it was first written."""
        self._shown = shown
        self._openings = tuple(f"[{label}_" for label in longest_first)
        self._longest = max((len(opening) for opening in self._openings), default=0) + MASK_DIGITS
        self._taken: dict[str, set[int]] = {label: set() for label in longest_first}
        self._next = dict.fromkeys(longest_first, 1)
        self._masks: dict[tuple[str, str], str] = {}

    def mask(self, label: str, text: str) -> str:
        """Return the mask of a name; raises `TooManyNames`."""
        key = label, name_key(text, label)
        if key not in self._masks:
            shown = self._shown[label]
            number, taken = self._next[shown], self._taken[shown]
            while number in taken:
                number += 1
            if number > MOST_NUMBER:
                raise TooManyNames(f"there are more than {MOST_NUMBER:,} names with the label {label}")
            self._next[shown] = number + 1
            self._masks[key] = f"[{shown}_{number}]"
            self.names[self._masks[key]] = text
        return self._masks[key]

    @property
    def longest(self) -> int:
        """Characters of the longest mask."""
        return self._longest + 1

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
            if opening.startswith(tail) or (number != tail and number.isdecimal() and len(number) <= MASK_DIGITS):
                return start
        return len(text)


def name_key(text: str, label: str = "") -> str:
    """Return one form of a name for all its spellings: of Unicode, of letters' case, of white space, of apostrophes and
    hyphens, and with or without quotes and other marks around it; of a person also without titles.

    `"‘ADA\u00a0 Brandt’"` → `"ada brandt"`, `"Dr. Ada Brandt"`, a person → `"ada brandt"`, `"Mrs Brandt"` → itself: it
    may not be the Brandt who is Mr
    """
    start, end = _inside(text, 0, len(text))
    plain = unicodedata.normalize("NFKC", text[start:end].translate(EQUAL_MARKS))
    words = "".join(letter for letter in plain if unicodedata.category(letter) != "Cf").casefold().split()
    first = 0
    if label.upper() in PERSONS:
        while first < len(words) - 1 and (title := words[first].rstrip(".")) in PERSONAL_TITLES:
            if title in GENDERED and len(words) - first < 3:
                break
            first += 1
    return compose(" ".join(words[first:])) or text


def name_parts(text: str, regions: Iterable[Region], begin: int = 0) -> list[Region]:
    """Regions of a text as names: cut where markup stands, without what is no letter, digit or mark at their ends.

    `"| Ada | Port Lisse |"` → `"Ada"`, `"Port Lisse"`. A part without a letter is no name, and one without a digit
    neither is of another kind (a phone number). `begin` is the place of the text in a longer one, of which regions
    count the characters.
    """
    found = []
    for region in regions:
        first, last = region.start - begin, region.end - begin
        around = BETWEEN_NAMES.finditer(text, max(0, first - MOST_MARKUP), last + MOST_MARKUP)
        spans = (m.span() for m in around if m[0][-1] != ";" or not _is_letter(m[0]))
        edges = [first, *(min(max(place, first), last) for span in spans for place in span), last]
        letter = str.isalpha if region.label.upper() in OF_NAMES else str.isalnum
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            start, end = _inside(text, start, end)
            if any(map(letter, text[start:end])):
                found.append(Region(begin + start, begin + end, region.label, region.score))
    return found


def _is_letter(reference: str) -> bool:
    """Return whether HTML's name of a character is that of a letter, or of none: `&eacute;`."""
    meant = html.unescape(reference)
    return meant == reference or meant.isalnum()


def _inside(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the part from the first letter or digit to the last, with its marks; a raised one is of a footnote."""
    stop = end
    while start < stop and not _is_of_name(text[start]):
        start += 1
    while start < stop and not _is_of_name(text[stop - 1]):
        stop -= 1
    while stop < end and unicodedata.category(text[stop])[0] == "M":
        stop += 1
    return start, stop


def _is_of_name(letter: str) -> bool:
    """Return whether a name may begin or end with it: no mark of punctuation, and none of a footnote, such as `¹` or
    `ᵃ`."""
    if letter.isascii() or not letter.isalnum():
        return letter.isalnum()
    kind = unicodedata.category(letter)
    return kind != "No" and not (kind == "Lm" and unicodedata.decomposition(letter).startswith("<super>"))


class TooManyNames(ValueError):
    """A conversation has more names of one label than there are masks."""


def merged(regions: Iterable[Region]) -> list[Region]:
    """Regions in order; those that overlap are one, with the label of the longest.

    `[2, 9) PER, [5, 12) LOC` → `[2, 12) PER`, for both have seven characters and PER comes first
    """
    together: list[tuple[Region, int]] = []
    for region in sorted(regions, key=lambda r: (r.start, -r.end, r.label)):
        size = region.end - region.start
        if not together or region.start >= together[-1][0].end:
            together.append((region, size))
            continue
        before, longest = together[-1]
        label, score = (region.label, region.score) if size > longest else (before.label, before.score)
        together[-1] = Region(before.start, max(before.end, region.end), label, score), max(longest, size)
    return [region for region, _ in together]


class Restorer:
    """Puts names back into text that arrives in chunks; a mask may be split anywhere.

    Args:
        names: What each mask stands for, as `Masks.names`.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names, self._held = names, ""
        self._starts = frozenset(mask[:length] for mask in names for length in range(1, len(mask)))

    def feed(self, chunk: str) -> str:
        """Return the text that can be said now."""
        text = self._held + chunk
        start = text.rfind("[")
        cut = start if start >= 0 and text[start:] in self._starts else len(text)
        self._held = text[cut:]
        return restore(text[:cut], self._names)

    def end(self) -> str:
        """Return the rest."""
        rest, self._held = self._held, ""
        return rest


def restore(text: str, names: Mapping[str, str], in_json: bool = False) -> str:
    """Return the text with the names of its masks; `in_json` writes them as they stand inside a string of JSON."""

    def name(match: re.Match[str]) -> str:
        original = names.get(match[0], match[0])
        return json.dumps(original, ensure_ascii=False)[1:-1] if in_json else original

    return ANY_MASK.sub(name, text)
