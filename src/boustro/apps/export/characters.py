"""What Python calls a letter, a digit or white space, as ranges for the regular expressions of JavaScript.

A page splits texts as `text.words` does, whatever edition of Unicode the browser has: it is given these ranges.
"""

import re
import sys
from collections.abc import Callable
from itertools import groupby

from boustro.text.words import EXTENDERS, UNSPACED

TESTS: dict[str, str | Callable[[str], bool]] = {
    "word": r"\w",
    "space": r"\s",
    "letter": r"[^\W\d_]",
    "spacedLetter": rf"[^\W\d_{UNSPACED}]",
    "letterOfWord": rf"[^\W{UNSPACED}]",
    "unspaced": f"[{UNSPACED}]",
    "extender": f"[{EXTENDERS}]",
    "upper": str.isupper,
    "digit": str.isdigit,
    "caseless": lambda c: c.isalpha() and c.lower() == c.upper(),
}
"""By name: a regular expression, or a function of a character."""


def classes() -> dict[str, str]:
    """For each of `TESTS` the inside of a character class that says the same: `"\\u{41}-\\u{5a}"`."""
    return {name: _ranges(test if callable(test) else _matcher(test)) for name, test in TESTS.items()}


def folds() -> dict[str, str]:
    """The characters whose case is not only folded to lower case, such as ß to ss."""
    every = map(chr, range(sys.maxunicode + 1))
    return {c: c.casefold() for c in every if c.casefold() != c.lower()}


def _matcher(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern).match
    return lambda c: match(c) is not None


def _ranges(test: Callable[[str], bool]) -> str:
    runs = (list(run) for wanted, run in groupby(range(sys.maxunicode + 1), lambda c: test(chr(c))) if wanted)
    return "".join(f"\\u{{{run[0]:x}}}-\\u{{{run[-1]:x}}}" for run in runs)
