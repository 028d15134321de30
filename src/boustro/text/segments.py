"""Fixed-length segments for pretraining, cut from shards whose documents have been shuffled.

The documents of all shards are put in a random order (one seed, one order) and read as one stream, in
which the end-of-text piece follows each document; segment `i` is pieces `[i·T, (i+1)·T)` of it. Nothing
is copied beforehand: a segment is gathered from the memory maps when it is asked for. Documents stay in
order within a segment, and the incomplete last one is left out (`num_left_out` pieces).

A run reads them epoch after epoch, each in an order of its own. With 3 segments, position 4 of the run is
the second segment of epoch 1: `SegmentStream(segments, seed, 6)[4]` → `Example(epoch=1, index=2, pieces)`.
So what a step reads follows from its number alone, whoever reads it: any number of processes, of workers
that read ahead, of interruptions.

Source: backward-LM paper, section 3.1.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from boustro.text.shards import Shards


class Segments:
    """A sequence of int64 arrays of shape (T,), in text order; picklable, so workers may share it."""

    def __init__(self, shards: Shards, length: int, seed: int | None = 0) -> None:
        """`length` is T; `seed` shuffles the documents (None leaves them in the corpus's order)."""
        self.shards, self.length = shards, length
        start, stop, owner = document_places(shards)
        order = np.arange(len(start)) if seed is None else np.random.default_rng(seed).permutation(len(start))
        self._start, self._owner = start[order], owner[order]
        self._end_in_stream = np.cumsum((stop - start)[order])
        total = int(self._end_in_stream[-1])
        self.num_left_out = total % length
        self._len = total // length
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

    def example(self, epoch: int, index: int) -> "Example":
        """Segment `index`, the same in every epoch."""
        return Example(epoch, index, self[index])


def document_places(shards: Shards) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each document (D,): where it starts and stops, with its end-of-text piece, and in which shard.

    Raises `ValueError` for documents that are not in order.
    """
    starts, stops, owners = [], [], []
    for owner, ends in enumerate(shards.ends):
        ends = ends.astype(np.int64)
        if (np.diff(ends, prepend=0) < 0).any():
            raise ValueError(
                f"{shards.path / f'documents-{owner:05d}.bin'}: a document ends before it begins: damaged; write the "
                "shards folder again"
            )
        starts.append(np.concatenate([[0], ends[:-1]]))
        stops.append(ends)
        owners.append(np.full(len(ends), owner))
    start, stop, owner = (np.concatenate(parts) for parts in (starts, stops, owners))
    return start, stop, owner


class Example(NamedTuple):
    """Segment `index`, read in `epoch`; the two are the key of whatever an objective draws for it."""

    epoch: int
    index: int
    pieces: np.ndarray


class Source(Protocol):
    """What a run can read: examples by number, which follow from the epoch and the number alone."""

    def __len__(self) -> int: ...

    def example(self, epoch: int, index: int) -> Any:
        """A named tuple that begins with `epoch` and `index`, the key of whatever an objective draws for it."""


class SegmentStream:
    """What a run reads, position by position: every epoch holds each segment once, in an order of its own."""

    def __init__(self, segments: Source, seed: int, length: int) -> None:
        """`length` is how many segments the run reads; the last epoch may be a part of one."""
        self.segments, self.seed, self.length = segments, seed, length
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> Any:
        if not 0 <= position < self.length:
            raise IndexError(position)
        epoch, place = divmod(position, len(self.segments))
        if epoch != self._epoch:
            self._epoch, self._order = epoch, epoch_order(len(self.segments), self.seed, epoch)
        return self.segments.example(epoch, int(self._order[place]))


def epoch_order(num_segments: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation of the segments, the same for the same seed and epoch on every machine."""
    return np.random.default_rng([seed, epoch]).permutation(num_segments)
