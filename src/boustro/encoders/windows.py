"""Which pieces an LM reads together: documents or sentences, windows of long ones, batches of similar length.

A text longer than the model's window is read in windows that overlap by half. Each state is taken from the window that
contains most of its context: for a causal LM most of what precedes, for a model that sees both sides the window whose
middle is nearest. With a window of 4 pieces:

    reading  p0 p1 p2 p3 p4 p5 p6     causal    centred
             window [0, 4)            p0 … p3   p0 … p2     the pieces whose states are taken from it
             window [2, 6)            p4, p5    p3, p4
             window [4, 7)            p6        p5, p6
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from boustro.text.alignment import guess_spaces
from boustro.types import Sentence

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Window:
    """Pieces `[start, stop)` of the reading of text number `text`, from which states `[first, last)` are taken."""

    text: int
    start: int
    stop: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.stop - self.start


def plan_windows(text: int, num_pieces: int, size: int, first: int, centred: bool = False) -> list[Window]:
    """The windows of one text; `first` is -1 if there is a state before that of the first piece, else 0."""
    if num_pieces <= size:
        return [Window(text, 0, num_pieces, first, num_pieces)]
    overlap = size // 2
    starts = range(0, num_pieces - overlap, size - overlap)
    stops = [min(start + size, num_pieces) for start in starts]
    margin = (size - size // 2) // 2 if centred else 0
    lasts = [*(stop - margin for stop in stops[:-1]), num_pieces]
    return [Window(text, *ends) for ends in zip(starts, stops, [first, *lasts[:-1]], lasts, strict=True)]


def batch_by_length(items: Iterable[Item], length: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Items of similar length together, shortest first; a padded batch is at most `most` long in all."""
    batch: list[Item] = []
    for item in sorted(items, key=length):
        if batch and (len(batch) + 1) * length(item) > most:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def group_sentences(sentences: Iterable[Sentence], context: str) -> Iterator[list[Sentence]]:
    """The sentences that are read as one text: each alone, or (context "document") runs that name the same document."""
    if context == "sentence":
        yield from ([s] for s in sentences)
        return
    for name, run in itertools.groupby(sentences, key=lambda s: s.document):
        group = list(run)
        yield from [group] if name else ([s] for s in group)


def group_numbers(sentences: Iterable[Sentence], context: str) -> list[list[int]]:
    """The same, as the numbers of the sentences."""
    numbers = itertools.count()
    return [[next(numbers) for _ in group] for group in group_sentences(sentences, context)]


def join_sentences(group: list[Sentence]) -> Sentence:
    """A document's sentences as one, in running text."""
    if len(group) == 1:
        return group[0]
    spaces = [space for s in group for space in (s.spaces or guess_spaces(s.words))]
    return Sentence(tuple(word for s in group for word in s.words), spaces=tuple(spaces))
