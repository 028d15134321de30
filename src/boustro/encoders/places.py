"""Where a word is read: the names of places, and the states that they are.

A word is pieces `[start, end)` in reading order, and state `i` is the LM's state after piece `i`. `pooling` names the
states that a word is read from, one place or several joined by `+`:

    before   state start - 1   just before the word: pure context (the start piece's state at the start of a text)
    entry    state start       after the word's first piece in reading order
    exit     state end - 1     after the whole word

A forward LM reads a word's first piece first, a backward LM its last. `first`, `last` and `mean` (of all pieces) are
named in text order.
"""

from typing import NamedTuple

import numpy as np

PLACES = ("before", "entry", "exit", "first", "last", "mean")


class Selection(NamedTuple):
    """Word `words[k]` takes `weights[k]` of state `states[k]`; state -1 is the start piece's."""

    words: np.ndarray
    states: np.ndarray
    weights: np.ndarray


def parse_pooling(pooling: str) -> tuple[str, ...]:
    """`"exit+before"` → `("exit", "before")`; `ValueError` for an unknown place."""
    parts = tuple(part.strip() for part in pooling.split("+"))
    for part in parts:
        if part not in PLACES:
            raise ValueError(f"unknown pooling {part!r} in {pooling!r}: known are {', '.join(PLACES)}, joined by +")
    return parts


def select(place: str, bounds: np.ndarray, backward: bool) -> Selection:
    """The states that words are read from; `bounds` (W + 1,) are the words' pieces in text order."""
    num_pieces = int(bounds[-1])
    start, end = (num_pieces - bounds[1:], num_pieces - bounds[:-1]) if backward else (bounds[:-1], bounds[1:])
    return select_at(place, start, end, backward)


def select_at(place: str, start: np.ndarray, end: np.ndarray, backward: bool) -> Selection:
    """The same of words with the pieces `[start, end)` in reading order, (W,) each."""
    words = np.arange(len(start))
    if place in ("first", "last"):
        place = "entry" if (place == "first") != backward else "exit"
    if place == "mean":
        sizes = end - start
        offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        states, weights = np.repeat(start, sizes) + offsets, np.repeat(1 / sizes, sizes).astype(np.float32)
        return Selection(np.repeat(words, sizes), states, weights)
    states = {"before": start - 1, "entry": start, "exit": end - 1}[place]
    return Selection(words, states, np.ones(len(words), np.float32))
