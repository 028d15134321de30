"""Choices by name: an unknown name is an error that lists what is known and suggests the nearest.

choose("mpl", HEADS, "head")      ValueError: unknown head 'mpl': known are linear, mlp; did you mean 'mlp'?
later("json:loads")("[1]")        [1]; json is imported by the call, so that a table of choices costs nothing
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

Value = TypeVar("Value")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, whatever its letters' case; `None` where none is at least
    `cutoff` (0 to 1) like it."""
    by_case = {one.casefold(): one for one in known}
    return by_case.get(next(iter(difflib.get_close_matches(name.casefold(), by_case, n=1, cutoff=cutoff)), ""))


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
