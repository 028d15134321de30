"""Where a word is read, in the LM's own reading order.

A word is pieces `[start, end)` of the reading; state `i` is what the LM knows after piece `i`.

    before   state start - 1: just before the word is read, pure context (the sentinel's, at the start)
    entry    state start:     after the first piece that the LM meets
    exit     state end - 1:   after the whole word

A forward LM meets a word's first piece first, a backward LM its last. `first`, `last` and `mean` are
the same places in text order. A pooling is one of them, or several joined by `+`.
"""

from typing import NamedTuple

import numpy as np

KNOWN = ("before", "entry", "exit", "first", "last", "mean")


class Selection(NamedTuple):
    """Word `words[k]` takes `weights[k]` of state `states[k]`; state -1 is the sentinel's."""

    words: np.ndarray
    states: np.ndarray
    weights: np.ndarray


def parse_pooling(pooling: str) -> tuple[str, ...]:
    """`"exit+before"` → `("exit", "before")`; `ValueError` for an unknown part."""
    parts = tuple(part.strip() for part in pooling.split("+"))
    for part in parts:
        if part not in KNOWN:
            raise ValueError(f"unknown pooling {part!r} in {pooling!r}: known are {', '.join(KNOWN)}, joined by +")
    return parts


def select(place: str, bounds: np.ndarray, backward: bool) -> Selection:
    """The states that a word is read from; `bounds` (W + 1,) are the words' pieces in text order."""
    num_words, num_pieces = len(bounds) - 1, int(bounds[-1])
    words = np.arange(num_words)
    start, end = (num_pieces - bounds[1:], num_pieces - bounds[:-1]) if backward else (bounds[:-1], bounds[1:])
    if place in ("first", "last"):
        place = "entry" if (place == "first") != backward else "exit"
    if place == "mean":
        sizes = end - start
        offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return Selection(
            np.repeat(words, sizes), np.repeat(start, sizes) + offsets, np.repeat(1 / sizes, sizes).astype(np.float32)
        )
    states = {"before": start - 1, "entry": start, "exit": end - 1}[place]
    return Selection(words, states, np.ones(num_words, np.float32))
