"""Tags in another spelling, read as `B-PER`, `I-PER` and `O`, where all tags of a file agree on it.

    B_PER  B:PER  b-PER  PER-B  PER/B    B-PER
    B  I  O                              B-ENTITY  I-ENTITY  O      (no types: one type)
    W-PER                                S-PER                      (BMEWO)
    o  0  _  -X-                         O                          (if no other tag can be the one outside of entities)

A file in which one tag is in none of these spellings is left as it is, because its tags may be plain labels.
"""

import re
from collections.abc import Collection

from boustro.metrics.spans import is_span_tag

LETTERS_OF_SCHEMES = ("BI", "BIES", "BILU", "BMES", "BMEW")
ALL_LETTERS = frozenset("BIESULM")
UNTYPED = "ENTITY"
OUTSIDE = frozenset({"o", "0", "_", "-", "*", "-x-", "out", "outside", "other", "none", "null", "nil"})
MARK = r"[-_:./|+=\u2013\u2014]"
SPELLINGS = [
    re.compile(pattern)
    for pattern in (
        rf"(?P<letter>[A-Za-z])\s*{MARK}\s*(?P<type>\S.*)",
        rf"(?P<type>.*\S)\s*{MARK}\s*(?P<letter>[A-Za-z])",
        rf"(?P<letter>[A-Za-z]){MARK}?",
    )
]
BRACKETED = re.compile(r"(?:\([^()*]+)+\*?\)*|\*\)*")


def respell(found: Collection[str]) -> dict[str, str]:
    """The tags of a file as `B-PER` is spelled; empty where they are so already, or are not in one spelling."""
    if all(is_span_tag(tag, ALL_LETTERS) for tag in found):
        return {}
    outside = outside_of(found)
    for spelling in SPELLINGS:
        matches = {tag: spelling.fullmatch(tag.strip()) for tag in found if tag not in outside}
        parts = {tag: (m["letter"].upper(), m.groupdict().get("type")) for tag, m in matches.items() if m}
        letters = {letter for letter, _ in parts.values()}
        untyped = any(label is None for _, label in parts.values())
        if len(parts) < len(matches) or not _of_a_scheme(letters) or (untyped and not outside and len(letters) < 2):
            continue
        tags = {tag: f"{'S' if letter == 'W' else letter}-{label or UNTYPED}" for tag, (letter, label) in parts.items()}
        return tags | dict.fromkeys(outside, "O")
    return {}


def with_letters(found: Collection[str]) -> set[str]:
    """The tags that look as if they had a letter of a scheme, in any spelling; also where others have none."""
    prefixed = set()
    for spelling in SPELLINGS:
        matches = {tag: m["letter"].upper() for tag in found if (m := spelling.fullmatch(tag.strip()))}
        own = {tag for tag, letter in matches.items() if letter in ALL_LETTERS}
        letters = {matches[tag] for tag in own}
        is_first = spelling is SPELLINGS[0] and letters & {"B", "I"}
        prefixed |= own if is_first or ("B" in letters and letters & set("IMEL")) else set()
    return prefixed


def are_bracketed(found: Collection[str]) -> bool:
    """Whether the tags of a file are those of CoNLL-2012: `(PER*`, `*`, `*)`."""
    return any(tag.startswith("(") for tag in found) and all(BRACKETED.fullmatch(tag) for tag in found)


def outside_of(found: Collection[str]) -> set[str]:
    """The tags outside of entities: `O` (and what has none, `-X-`), or else the only one that can be."""
    named = {tag for tag in found if tag.strip().lower() in ("o", "-x-")}
    likely = {tag for tag in found if tag.strip().lower() in OUTSIDE}
    return named or (likely if len(likely) == 1 else set())


def _of_a_scheme(letters: set[str]) -> bool:
    return bool(letters & {"B", "I"}) and any(letters <= set(scheme) for scheme in LETTERS_OF_SCHEMES)
