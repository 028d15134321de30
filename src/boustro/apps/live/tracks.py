"""The sentences of a stream that have words whose answer may still change, and what of them is final.

A word is final when `delay` words stand behind it (of its sentence, if sentences are read alone, or else of the text),
or when nothing can follow. An entity is final when its words are, and the word behind it, which could continue it.
`hold` is the first word that may be part of an entity that is not final: it never goes back, and no entity that is
found later begins before it.

    delay 2, Ada Brandt left Vellmar   Ada and Brandt are final, left is not: Ada Brandt may be longer, hold is Ada
    … left Vellmar in                  left is final: Ada Brandt is final, hold is Vellmar

An entity that goes on for more than `MOST_WORDS` words is final in parts, so that memory and `hold` have a bound.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from boustro.apps.live.decoding import Decoder

MOST_WORDS = 512
"""Words of a sentence that are kept: a longer one is read by its head in what is left of it. No final part of an entity
is longer."""


class Found(NamedTuple):
    """An entity over the words of the stream, `[start, stop)`."""

    label: str
    start: int
    stop: int
    score: float


class Track:
    """One sentence; words are numbered in the stream."""

    def __init__(self, first: int, decoder: Decoder, nested: bool) -> None:
        self.first = first  # of the words that are kept
        self.final = self.hold = first
        self.complete = False
        self.vectors: list[Tensor] = []
        self.pending: list[Found] = []
        self._decoder, self._nested = decoder, nested
        self._done: list[Found] = []

    @property
    def stop(self) -> int:
        """The number behind the last word."""
        return self.first + len(self.vectors)

    @property
    def is_done(self) -> bool:
        """Whether nothing can change any more."""
        return self.complete and self.final == self.stop

    def give(self, first: int, vectors: Tensor) -> None:
        """The vectors (W, d) of words, the last ones of the sentence so far; those of final words stay."""
        for number, vector in enumerate(vectors, first):
            if number >= self.stop:
                self.vectors.append(vector)
            elif number >= self.final:
                self.vectors[number - self.first] = vector

    def update(self, final: int) -> list[Found]:
        """Answer again; the words before `final` are final now. Returns the entities that have become final."""
        self.final = max(self.final, min(final, self.stop))
        if not self.vectors:  # all was cut off
            return []
        entities = self._decoder.update(torch.stack(self.vectors), self.final - self.first, self.complete)
        found = [Found(e.label, self.first + e.start, self.first + e.end, e.score or 0.0) for e in entities]
        found = [f for f in found if f.start >= self.hold and not self._in_the_way(f)]
        done = [f for f in found if f.stop < self.final or self.is_done]
        self.pending = [f for f in found if f not in done]
        self._done = [f for f in [*self._done, *done] if f.stop > self.hold]
        self.hold = min([self.final, *(f.start for f in self.pending)]) if not self.is_done else self.stop
        if self.final - self.hold >= MOST_WORDS:
            done += self._cut()
        self._forget(MOST_WORDS)
        return done

    def _cut(self) -> list[Found]:
        """The final words of the entities that go on; what is behind them will be read as entities of its own."""
        parts = [f._replace(stop=self.final) for f in self.pending if f.start < self.final]
        self.pending = [f._replace(start=max(f.start, self.final)) for f in self.pending if f.stop > self.final]
        self.hold = self.final
        self._forget(0)
        return parts

    def _in_the_way(self, found: Found) -> bool:
        """Whether it is final already, or shares words with what is."""
        for other in self._done:
            if found.start < other.stop and other.start < found.stop:
                inside = other.start <= found.start and found.stop <= other.stop
                around = found.start <= other.start and other.stop <= found.stop
                same = (found.start, found.stop) == (other.start, other.stop)
                if same or not (self._nested and (inside or around)):
                    return True
        return False

    def _forget(self, kept: int) -> None:
        """Drop words that no later entity can have, as far as more than `kept` are there."""
        count = min(len(self.vectors) - kept, self.hold - self.first)
        if count > 0:
            del self.vectors[:count]
            self.first += count
            self._decoder.drop(count)
