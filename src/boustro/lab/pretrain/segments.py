"""Fixed-length segments for pretraining, cut from shards whose documents have been shuffled.

The documents of all shards are put in a random order and read as one stream, each followed by the end-of-text piece;
segment `i` is pieces `[i·T, (i+1)·T)` of it, gathered from the memory maps when it is read. The incomplete last one is
left out (`num_left_out` pieces).

A run reads the segments epoch after epoch, each epoch in its own order. So a step's input depends only on its number,
not on the number of processes, prefetching or interruptions.

Source: backward-LM paper, section 3.1.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from boustro.lab.pretrain.shards import Shards


class SegmentExample(NamedTuple):
    """Segment `index`, read in `epoch`; the two are the key of the random numbers that an objective draws for it."""

    epoch: int
    index: int
    pieces: np.ndarray


class ExampleSource(Protocol):
    """Data that a run can read: examples by number, which depend on the epoch and the number only."""

    def __len__(self) -> int: ...

    def example(self, epoch: int, index: int) -> Any:
        """Return a named tuple that begins with `epoch` and `index`, as `SegmentExample`."""


class Segments:
    """A sequence of int64 arrays of shape (T,), in text order; picklable, so workers may share it."""

    def __init__(self, shards: Shards, length: int, seed: int | None = 0) -> None:
        """`length` is T; `seed` shuffles the documents (None keeps the order of the corpus)."""
        self.shards, self.length = shards, length
        start, stop, owner = document_places(shards)
        order = np.arange(len(start)) if seed is None else np.random.default_rng(seed).permutation(len(start))
        self._start, self._owner = start[order], owner[order]
        self._end_in_stream = np.cumsum((stop - start)[order])
        total = int(self._end_in_stream[-1])
        self._len, self.num_left_out = divmod(total, length)
        if self._len == 0:
            raise ValueError(f"{shards.path} holds {total:,} pieces, fewer than one segment of {length:,}")

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < self._len:
            raise IndexError(index)
        position, stop = index * self.length, (index + 1) * self.length
        document = int(np.searchsorted(self._end_in_stream, position, side="right"))
        parts = []
        while position < stop:
            begin = int(self._end_in_stream[document - 1]) if document else 0
            take = min(stop, int(self._end_in_stream[document])) - position
            offset = int(self._start[document]) + position - begin
            parts.append(self.shards.read(int(self._owner[document]), offset, offset + take))
            position += take
            document += 1
        return np.concatenate(parts)

    def example(self, epoch: int, index: int) -> SegmentExample:
        """Segment `index`, the same in every epoch."""
        return SegmentExample(epoch, index, self[index])


def document_places(shards: Shards) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (D,) of each document: start, stop with its end-of-text piece, shard; `ValueError` if they are not in
    order."""
    places = []
    for owner, ends in enumerate(shards.ends):
        bounds = np.concatenate([[0], ends.astype(np.int64)])
        if (np.diff(bounds) < 0).any():
            raise ValueError(
                f"{shards.path / f'documents-{owner:05d}.bin'}: a document ends before it begins: damaged; write the "
                "shards folder again"
            )
        places.append((bounds[:-1], bounds[1:], np.full(len(ends), owner)))
    start, stop, owner = (np.concatenate(parts) for parts in zip(*places, strict=True))
    return start, stop, owner


class SegmentStream:
    """Segments that a run reads, position by position: every epoch contains each once, in its own order."""

    def __init__(self, segments: ExampleSource, seed: int, length: int) -> None:
        """`length` is how many segments the run reads; the last epoch may be incomplete."""
        self.segments, self.seed, self.length = segments, seed, length
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> Any:
        if not 0 <= position < self.length:
            raise IndexError(position)
        epoch, place = divmod(position, len(self.segments))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.segments))
        return self.segments.example(epoch, int(self._order[place]))
