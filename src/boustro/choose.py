"""Choices by name: an unknown name is an error that lists what is known and suggests the nearest.

choose("mpl", HEADS, "head")      ValueError: unknown head 'mpl': known are linear, mlp; did you mean 'mlp'?
later("json:loads")("[1]")        [1]; json is imported by the call, so that a table of choices costs nothing
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

Value = TypeVar("Value")
BEGINS = 0.77
"""How alike a name and its beginning or one of its parts count: more than most wrong letters, less than the cutoffs of
those who ask for a name that is nearly the same."""
REORDERED = 0.95
"""How alike names count that have the same letters: two that were swapped, which `difflib` counts as one lost."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, whatever its letters' case; `None` where none is at least
    `cutoff` (0 to 1) like it.

    `"rl"` → `"lr"`, `"same"` → `"same-everywhere"`, `"column"` → `"text-column"`
    """
    by_case = {one.casefold(): one for one in known}
    asked = name.casefold()
    alike = {one: _by_rule(asked, one) for one in by_case}
    for one in difflib.get_close_matches(asked, by_case, n=1, cutoff=cutoff):
        alike[one] = max(alike[one], difflib.SequenceMatcher(None, one, asked).ratio())
    best = max(alike, key=lambda one: (alike[one], -len(one)), default="")
    return by_case[best] if alike.get(best, 0) >= cutoff else None


def _by_rule(asked: str, one: str) -> float:
    if sorted(one) == sorted(asked):
        return REORDERED
    return BEGINS * (one.startswith(asked) or (len(asked) > 1 and asked in re.split(r"[\W_]", one)))


def suggestion(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'mlp'?"`, or nothing where no known name is like this one."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def unknown(name: str, known: Iterable[str], what: str) -> str:
    """Return the message about an unknown name: what it should name, what is known, and the nearest of these."""
    known = list(known)
    return f"unknown {what} {name!r}: known are {', '.join(known)}{suggestion(name, known)}"


def choose(name: str, table: Mapping[str, Value], what: str) -> Value:
    """`table[name]`; `ValueError` for a name that is not there."""
    if name not in table:
        raise ValueError(unknown(name, table, what))
    return table[name]


def lazy(place: str, **given: Any) -> Callable[..., Any]:
    """Return the function or class `module:name`, with these arguments, which is imported when it is called."""
    return partial(_call, place, **given)


def named(place: str, package: str | None = None) -> Any:
    """Return the function or class `module:name`, imported now; the module may be relative to a package."""
    module, _, name = place.partition(":")
    return getattr(import_module(module, package), name)


def _call(place: str, /, *args: Any, **given: Any) -> Any:
    return named(place)(*args, **given)
