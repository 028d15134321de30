"""Several corpora read as one, each by its share of the segments.

    shares 2/3 and 1/3    positions 0 1 2 3 4 5 …    corpora a b a a b a …

The order is a fixed one in which, after any number of segments, every corpus has had its share to within one or
so: no random numbers, so a run that stops early, or is evaluated early, has read the mixture that was asked for. A
corpus that is read more often than it is long begins its next epoch, in another order, on its own.

`smoothed_shares` is the multilingual sampling of the chapter on masked LMs (equation 11.7): corpora by their sizes to
the power α, so that with α below 1 the small ones are read more often than their sizes say.

    sizes 900 and 100, α = 0.5    shares 30/40 and 10/40
"""

from collections.abc import Sequence

import numpy as np

from boustro.text.segments import Example, SegmentStream


class Mixture:
    """`SegmentStream`s side by side; the numbers of the second one's segments follow those of the first, and so on."""

    def __init__(self, streams: Sequence[SegmentStream], shares: Sequence[float]) -> None:
        """Every stream must be long enough for its share, which it is if all are as long as the run.

        Raises `ValueError` for shares that are not one positive number a stream.
        """
        if len(shares) != len(streams) or not all(share > 0 for share in shares):
            raise ValueError(
                f"{len(streams)} corpora need as many shares, all above 0, not {', '.join(map(str, shares)) or 'none'}"
            )
        self.streams, self._length = list(streams), len(streams[0])
        self._owners = interleave(shares, self._length)
        reads = np.eye(len(streams), dtype=np.int64)[self._owners]
        self._places = (np.cumsum(reads, 0) - 1)[np.arange(self._length), self._owners]
        sizes = [len(stream.segments) for stream in streams]
        self._offsets = np.cumsum([0, *sizes[:-1]])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> Example:
        if not 0 <= position < self._length:
            raise IndexError(position)
        owner = int(self._owners[position])
        example = self.streams[owner][int(self._places[position])]
        return example._replace(index=int(self._offsets[owner]) + example.index)


def interleave(shares: Sequence[float], length: int) -> np.ndarray:
    """(length,) which corpus is read at each position: the j-th read of corpus i is due at (j + ½) / share i."""
    parts = np.asarray(shares, float) / sum(shares)
    due = [(np.arange(int(np.ceil(part * length)) + 1) + 0.5) / part for part in parts]
    owners = np.repeat(np.arange(len(parts)), [len(d) for d in due])
    return owners[np.argsort(np.concatenate(due), kind="stable")[:length]]


def smoothed_shares(sizes: Sequence[int], alpha: float) -> list[float]:
    """Shares ∝ sizes to the power `alpha`: 1 is by size, 0 gives all the same. `ValueError` for one below 0."""
    if alpha < 0:
        raise ValueError(f"alpha must be 0 or more, not {alpha}")
    powers = (np.asarray(sizes, float) / sum(sizes)) ** alpha
    return (powers / powers.sum()).tolist()
