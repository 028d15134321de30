"""Tags of entities in any spelling, read as `B-PER`, `I-PER` and `O`, where all tags of a file agree on one.

    B_PER  B:PER  b-PER  PER-B  PER/B    B-PER
    B  I  O                              B-ENTITY  I-ENTITY  O      (no types: one type)
    W-PER                                S-PER                      (BMEWO)
    o  0  _  -X-                         O                          (if no other tag can be the one outside of entities)

A file in which one tag is in none of these spellings is left as it is, because its tags may be plain labels.
"""

import re
from collections.abc import Collection

from boustro.types import is_span_tag

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


def respell(file_tags: Collection[str]) -> dict[str, str]:
    """The tags of a file as `B-PER` is spelled; empty where they are so already, or are not in one spelling."""
    if all(is_span_tag(tag, ALL_LETTERS) for tag in file_tags):
        return {}
    outside = outside_of(file_tags)
    for spelling in SPELLINGS:
        matches = {tag: spelling.fullmatch(tag.strip()) for tag in file_tags if tag not in outside}
        parts = {tag: (m["letter"].upper(), m.groupdict().get("type")) for tag, m in matches.items() if m}
        letters = {letter for letter, _ in parts.values()}
        untyped = any(label is None for _, label in parts.values())
        if len(parts) < len(matches) or not _of_a_scheme(letters) or (untyped and not outside and len(letters) < 2):
            continue
        tags = {tag: f"{'S' if letter == 'W' else letter}-{label or UNTYPED}" for tag, (letter, label) in parts.items()}
        return tags | dict.fromkeys(outside, "O")
    return {}


def outside_of(tags: Collection[str]) -> set[str]:
    """The tags outside of entities: `O` (and what has none, `-X-`), or else the only one that can be."""
    named = {tag for tag in tags if tag.strip().lower() in ("o", "-x-")}
    likely = {tag for tag in tags if tag.strip().lower() in OUTSIDE}
    return named or (likely if len(likely) == 1 else set())


def _of_a_scheme(letters: set[str]) -> bool:
    return bool(letters & {"B", "I"}) and any(letters <= set(scheme) for scheme in LETTERS_OF_SCHEMES)
