"""Several corpora read as one, each with its share of the segments.

    shares 2/3 and 1/3    positions 0 1 2 3 4 5 …    corpora a b a a b a …

The order is fixed: after any number of segments every corpus has had its share to within about one segment. A corpus
that is read more often than its length begins its next epoch, in another order.

`smoothed_shares` is multilingual sampling (Jurafsky & Martin, equation 11.7): shares by size to the power α, so that
with α below 1 small corpora are read more often than their sizes say. Sizes 900 and 100, α = 0.5: 30/40 and 10/40.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from boustro.lab.pretrain.segments import ExampleSource, SegmentStream
from boustro.lab.pretrain.shards import Shards
from boustro.store import fingerprint
from boustro.text.tokenizers import load_tokenizer


@dataclass(frozen=True)
class Corpora:
    """Opened shards of one or more corpora with one vocabulary, and their shares of a run."""

    shards: Sequence[Shards]
    shares: Sequence[float]

    @classmethod
    def open(cls, paths: Sequence[Path], shares: Sequence[float] = (), alpha: float = 1.0) -> "Corpora":
        """By default shares by size, smoothed by `alpha`; `ValueError` for shares or vocabularies that do not fit."""
        if not paths:
            raise ValueError("no shards given; make some with boustro lab tokenize")
        opened = [Shards.open(path) for path in paths]
        for other in opened[1:]:
            refuse_other_vocabulary(other, opened[0])
        if shares:
            _check_shares(shares, len(opened))
            return cls(opened, [share / sum(shares) for share in shares])
        return cls(opened, smoothed_shares([s.config["num_pieces"] for s in opened], alpha))

    @property
    def fingerprint(self) -> str:
        """Of the pieces and the shares; of one corpus, its own."""
        prints = [shards.fingerprint for shards in self.shards]
        # the order of a division must not change the fingerprint
        return prints[0] if len(prints) == 1 else fingerprint(prints, [round(share, 9) for share in self.shares])

    @cached_property
    def counts(self) -> np.ndarray:
        """(V,) how often each piece occurs in the beginning of the corpora."""
        return np.sum([shards.counts(self.shards[0].config["vocab_size"]) for shards in self.shards], axis=0)

    def stream(self, segments: Sequence[ExampleSource], seed: int, length: int) -> "SegmentStream | Mixture":
        """Return the stream that a run of `length` segments reads."""
        streams = [SegmentStream(source, seed, length) for source in segments]
        return streams[0] if len(streams) == 1 else Mixture(streams, self.shares)


def refuse_other_vocabulary(shards: Shards, first: Shards) -> None:
    """`ValueError` unless both were made with one tokenizer."""
    one, other = (load_tokenizer(s.tokenizer_path).get_vocab() for s in (shards, first))
    if one != other:
        raise ValueError(
            f"{shards.path} ({len(one):,} pieces) and {first.path} ({len(other):,}) have different vocabularies; "
            "tokenize both with one tokenizer"
        )


class Mixture:
    """`SegmentStream`s side by side; the second one's segments are numbered after those of the first, and so on."""

    def __init__(self, streams: Sequence[SegmentStream], shares: Sequence[float]) -> None:
        """Every stream is as long as the run. Raises `ValueError` for shares that are not one positive number each."""
        _check_shares(shares, len(streams))
        self.streams, self._length = list(streams), len(streams[0])
        self._owners = interleave(shares, self._length)
        reads = np.eye(len(streams), dtype=np.int64)[self._owners]
        self._places = (np.cumsum(reads, 0) - 1)[np.arange(self._length), self._owners]
        self._offsets = np.cumsum([0, *(len(stream.segments) for stream in streams[:-1])])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> Any:
        if not 0 <= position < self._length:
            raise IndexError(position)
        owner = int(self._owners[position])
        example = self.streams[owner][int(self._places[position])]
        return example._replace(index=int(self._offsets[owner]) + example.index)


def interleave(shares: Sequence[float], length: int) -> np.ndarray:
    """Return (length,) the corpus at each position: read j of corpus i is due at (j + ½) / share i."""
    parts = np.asarray(shares, float) / sum(shares)
    due = [(np.arange(int(np.ceil(part * length)) + 1) + 0.5) / part for part in parts]
    owners = np.repeat(np.arange(len(parts)), [len(d) for d in due])
    return owners[np.argsort(np.concatenate(due), kind="stable")[:length]]


def smoothed_shares(sizes: Sequence[int], alpha: float) -> list[float]:
    """Shares proportional to sizes to the power `alpha`: 1 is by size, 0 uniform. `ValueError` if it is negative."""
    if alpha < 0:
        raise ValueError(f"alpha must be 0 or more, not {alpha}")
    powers = (np.asarray(sizes, float) / sum(sizes)) ** alpha
    return (powers / powers.sum()).tolist()


def _check_shares(shares: Sequence[float], count: int) -> None:
    if len(shares) != count or not all(share > 0 for share in shares):
        raise ValueError(
            f"{count} corpora need as many shares, all above 0, not {', '.join(map(str, shares)) or 'none'}"
        )
