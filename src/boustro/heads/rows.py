"""Sentences end to end as arrays, without torch: where each begins, the rows of some, blocks of similar length."""

from collections.abc import Iterator

import numpy as np


def length_blocks(lengths: np.ndarray, max_words: int) -> list[np.ndarray]:
    """Sentence numbers sorted by length and split into blocks of about `max_words` words."""
    order = np.argsort(lengths, kind="stable")
    blocks = np.cumsum(lengths[order]) // max_words
    return np.split(order, np.flatnonzero(np.diff(blocks)) + 1) if len(order) else []


def sentence_starts(lengths: np.ndarray) -> np.ndarray:
    """(sentences + 1,) where each sentence begins."""
    return np.concatenate([[0], np.cumsum(lengths)])


def sentence_rows(starts: np.ndarray, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the words of these sentences, end to end, and where each sentence begins among them (sentences + 1,).

    `starts` (all sentences + 1,) is where each sentence begins among all words.
    """
    first = starts[sentences]
    own = sentence_starts(starts[sentences + 1] - first)
    return np.arange(own[-1]) + np.repeat(first - own[:-1], np.diff(own)), own


def each_step(lengths: np.ndarray, backwards: bool = False) -> Iterator[np.ndarray]:
    """For t = 0, 1, … the rows of the words t of the sentences that have one, the longest sentences first.

    `backwards` counts words from the end of their sentence. `[2, 0, 1]` → `[0, 2]`, `[1]`; backwards `[1, 2]`, `[0]`.
    """
    order = np.argsort(-lengths, kind="stable")
    sizes, starts = lengths[order], sentence_starts(lengths)[order]
    for step in range(int(lengths.max(initial=0))):
        going = int(np.searchsorted(-sizes, -step))  # sizes > step
        yield starts[:going] + (sizes[:going] - 1 - step if backwards else step)
