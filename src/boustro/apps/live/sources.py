"""Where the vectors of a stream's words come from: one source for each LM.

    ForwardSource    a causal LM that reads forward: each word once, when it comes; its vector never changes
    RowSource        a backward LM: the words of a row, as the text ends behind it
    WindowSource     what reads both ways anew: a row and the words before it, read once more for every row

A stream's `states` may stand in the place of the first: anything with its `append`.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from boustro.apps.live.rows import Row, Words, as_text
from boustro.apps.live.segment import Word
from boustro.encoders.base import Encoder
from boustro.encoders.incremental import IncrementalReader, reads_incrementally
from boustro.encoders.lm import LMEncoder

LEFT_WORDS = 64
"""Words before a row that are read with it, by what must read both ways anew."""


class States(Protocol):
    """The vectors of words that never change once they have come, such as those of the LM that writes the text."""

    def append(self, words: Sequence[Word]) -> np.ndarray:
        """(W, L, width): the vectors of the next words, as the first stream of the encoder gives them."""
        ...


class Source(Protocol):
    """The vectors of words by an encoder."""

    def append(self, words: Sequence[Word]) -> None:
        """The next words of the text, which rows will name."""

    def read(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """For each stream the vectors (W, L, width) of the words of rows, end to end."""
        ...

    def drop(self, before: int) -> None:
        """Forget the words before this number."""


class IncrementalStates:
    """`States` of a causal LM, which begins anew with every sentence unless it reads documents."""

    def __init__(self, encoder: LMEncoder, by_sentence: bool) -> None:
        self._reader, self._by_sentence = IncrementalReader(encoder), by_sentence
        self._reader.begin()

    def append(self, words: Sequence[Word]) -> np.ndarray:
        found, start = [], 0
        cuts = [n for n, word in enumerate(words) if word.begins] if self._by_sentence else []
        for stop in [*cuts, len(words)]:
            if stop > start:
                some = words[start:stop]
                found.append(self._reader.append([w.text for w in some], [w.space for w in some]))
            if stop < len(words):
                self._reader.begin()
            start = stop
        return np.concatenate(found)


class ForwardSource:
    """Vectors of `states`, kept for the rows that will name them."""

    def __init__(self, states: States, width: tuple[int, int]) -> None:
        self._states, self._shape, self._base = states, width, 0
        self._kept: list[np.ndarray] = []

    def append(self, words: Sequence[Word]) -> None:
        given = self._states.append(words)
        if given.shape != (len(words), *self._shape):
            wanted = " x ".join(map(str, (len(words), *self._shape)))
            found = " x ".join(map(str, given.shape))
            raise ValueError(f"the states given are {found}, and the tagger reads {wanted} (words x layers x width)")
        self._kept.extend(given)

    def read(self, rows: Sequence[Row]) -> list[np.ndarray]:
        return [np.stack([self._kept[n - self._base] for row in rows for n in range(row.first, row.stop)])]

    def drop(self, before: int) -> None:
        count = before - self._base
        if count > 0:
            del self._kept[:count]
            self._base = before


class RowSource:
    """A row is read by itself, as a text."""

    def __init__(self, encoder: Encoder, words: Words) -> None:
        self._encoder, self._words = encoder, words

    def append(self, words: Sequence[Word]) -> None:
        return None

    def read(self, rows: Sequence[Row]) -> list[np.ndarray]:
        texts = [as_text(self._words.between(row.first, row.stop)) for row in rows]
        return list(self._encoder.read_all(texts).streams)

    def drop(self, before: int) -> None:
        return None


class WindowSource(RowSource):
    """A row is read with words before it, of its sentence or of the whole text."""

    def __init__(self, encoder: Encoder, words: Words, by_sentence: bool) -> None:
        super().__init__(encoder, words)
        self._by_sentence = by_sentence

    def read(self, rows: Sequence[Row]) -> list[np.ndarray]:
        texts, kept, end = [], [], 0
        for row in rows:
            first = max(row.first - LEFT_WORDS, self._words.base)
            if self._by_sentence:
                while self._words.sentence(first) != self._words.sentence(row.first):
                    first += 1
            texts.append(as_text(self._words.between(first, row.stop)))
            end += row.stop - first
            kept.append(np.arange(end - len(row), end))
        chosen = np.concatenate(kept)
        return [stream[chosen] for stream in self._encoder.read_all(texts).streams]


def make_source(encoder: Encoder, words: Words, by_sentence: bool, states: States | None = None) -> Source:
    """The source of an encoder that has no further encoders inside."""
    shape = encoder.streams[0].num_layers, encoder.streams[0].width
    if states is not None:
        return ForwardSource(states, shape)
    if type(encoder) is LMEncoder:
        if encoder.backward:
            return RowSource(encoder, words)
        if reads_incrementally(encoder):
            return ForwardSource(IncrementalStates(encoder, by_sentence), shape)
    return WindowSource(encoder, words, by_sentence)
