"""Inputs of a head: the features of sentences, and which sentences each example consists of.

    sentences 0 1 2, examples (0, 1) and (2, 1)    the words of a batch: sentence 0, sentence 1, sentence 2, sentence 1

The features are end to end, (words, L, D) per stream, each sentence once, however many examples it is part of.

Side features of words are the last columns of a head's input, as many as its kind has them. One of them is how far a
word is from where the reading of its right side began (`fit --live`):

    words behind it   0   1   2   3–4   5–8   9–16   more, or all that there are
    column            0   1   2   3     4     5      6

`Kinship` says which examples belong together, and may not stand on both sides where parts are left out.

torch is not imported here: an exported head reads its rows with the same functions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


Streams = Sequence[np.ndarray]
Targets = Callable[[np.ndarray, Any], Any]
"""The targets of a batch, from the numbers of its examples (S,) and the rows of their words, a tensor (N,)."""


class Batch(NamedTuple):
    """Some examples, their words end to end, part after part.

    Attributes:
        rows: (N,) where the features have each word.
        lengths: (examples · parts,) the words of each part.
        side: (N, F) side features of each word, or `None`.
    """

    rows: "Tensor"
    lengths: "Tensor"
    side: "Tensor | None"

    def to_words(self, mixed: "Tensor") -> "Tensor":
        """Return (N, d + F): the vectors of the words, side features behind them; `mixed` has those of all
        sentences."""
        return self.beside(mixed.index_select(0, self.rows.to(mixed.device)).float())

    def beside(self, vectors: "Tensor") -> "Tensor":
        """Return (N, d) → (N, d + F)."""
        import torch

        return vectors if self.side is None else torch.cat([vectors, self.side.to(vectors.device)], dim=1)


class NamedLabels(NamedTuple):
    """The names of labels, read as texts: an example for each of the labels with these numbers; and texts without a
    label, if there are any."""

    inputs: "HeadInputs"
    labels: np.ndarray
    unlabelled: "HeadInputs | None" = None


class HeadInputs:
    """Features of sentences as the examples of a head.

    Attributes:
        streams: Per stream (words, L, D).
        lengths: (sentences,) words in each.
        parts: (examples, parts) numbers of sentences; by default each sentence is an example.
        side: (words of all examples, F) float32, or `None`.
        sizes: (examples,) words in each.
        starts: (sentences + 1,) the first word of each sentence, and the number of all words.
    """

    def __init__(
        self, streams: Streams, lengths: np.ndarray, parts: np.ndarray | None = None, side: np.ndarray | None = None
    ) -> None:
        self.streams, self.lengths, self.side = streams, lengths, side
        self.parts = np.arange(len(lengths))[:, None] if parts is None else parts
        self.sizes = lengths[self.parts].sum(1)
        self.starts, self._own_starts = sentence_starts(lengths), sentence_starts(self.sizes)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def side_width(self) -> int:
        """F, 0 without side features."""
        return 0 if self.side is None else self.side.shape[1]

    def select(self, examples: np.ndarray) -> "HeadInputs":
        """Return the examples with these numbers, as examples 0, 1, … over the same features."""
        return HeadInputs(self.streams, self.lengths, self.parts[examples], self.arrays(examples)[2])

    def keep(self, examples: np.ndarray) -> "HeadInputs":
        """Return the inputs of some examples, with a copy of the features of their sentences alone."""
        kept, parts = np.unique(self.parts[examples], return_inverse=True)
        rows = sentence_rows(self.starts, kept)[0]
        streams = [stream[rows] for stream in self.streams]
        return HeadInputs(streams, self.lengths[kept], parts.reshape(len(examples), -1), self.select(examples).side)

    @property
    def rows(self) -> np.ndarray | None:
        """Those of the words of its examples, ascending; `None` where the features have no others."""
        own = np.unique(self.parts)
        return None if len(own) == len(self.lengths) else sentence_rows(self.starts, own)[0]

    def batch(self, examples: np.ndarray) -> Batch:
        """Return the examples with these numbers, in this order."""
        import torch

        rows, lengths, side = self.arrays(examples)
        given = None if side is None else torch.from_numpy(side)
        return Batch(torch.from_numpy(rows), torch.from_numpy(lengths), given)

    def arrays(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the rows, lengths and side features of a `Batch`, as arrays."""
        sentences = self.parts[examples].ravel()
        rows = sentence_rows(self.starts, sentences)[0]
        side = None if self.side is None else self.side[sentence_rows(self._own_starts, examples)[0]]
        return rows, self.lengths[sentences], side


def length_blocks(lengths: np.ndarray, max_words: int) -> list[np.ndarray]:
    """Sentence numbers sorted by length and split into blocks of about `max_words` words."""
    order = np.argsort(lengths, kind="stable")
    blocks = np.cumsum(lengths[order]) // max_words
    return np.split(order, np.flatnonzero(np.diff(blocks)) + 1) if len(order) else []


def sentence_starts(lengths: np.ndarray) -> np.ndarray:
    """Return (sentences + 1,) where each sentence begins."""
    return np.concatenate([[0], np.cumsum(lengths)])


def sentence_rows(starts: np.ndarray, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the words of these sentences, end to end, and where each sentence begins among them (sentences + 1,).

    `starts` (all sentences + 1,) is where each sentence begins among all words.
    """
    first = starts[sentences]
    row_starts = sentence_starts(starts[sentences + 1] - first)
    return np.arange(row_starts[-1]) + np.repeat(first - row_starts[:-1], np.diff(row_starts)), row_starts


def each_step(lengths: np.ndarray, backwards: bool = False) -> Iterator[np.ndarray]:
    """For t = 0, 1, … the rows of the words t of the sentences that have one, the longest sentences first.

    `backwards` counts words from the end of their sentence. `[2, 0, 1]` → `[0, 2]`, `[1]`; backwards `[1, 2]`, `[0]`.
    """
    order = np.argsort(-lengths, kind="stable")
    sizes, starts = lengths[order], sentence_starts(lengths)[order]
    for step in range(int(lengths.max(initial=0))):
        going = int(np.searchsorted(-sizes, -step))  # sizes > step
        yield starts[:going] + (sizes[:going] - 1 - step if backwards else step)


PAIR_FEATURES = 4
"""In the other text; not in it; not in it, with a capital or a digit; marked (`tasks.pairs`)."""
SENSE_FEATURES = 2
"""Where the candidates of a word begin and end among the labels; 0 and 0 for a word without candidates."""
WEIGHT_FEATURES = 1
"""The weight of a word."""
BOUNDS = np.array([0, 1, 2, 4, 8, 16])
DISTANCE_COLUMNS = len(BOUNDS) + 1
TO_THE_END = 1 << 30
"""The distance of a word whose right side was read to the end of the text."""


def encode_distances(distances: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return (W, 7) float32, a one in the column of each distance."""
    return np.eye(DISTANCE_COLUMNS, dtype=np.float32)[np.searchsorted(BOUNDS, np.asarray(distances, np.int64))]


def join(groups: np.ndarray, owners: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return (N,) groups joined where `owners[i]`, numbers of examples, have one of `texts`; numbered as they come."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    count = int(groups.max(initial=-1)) + 1
    size = count + int(texts.max(initial=-1)) + 1
    links = coo_matrix((np.ones(len(owners)), (groups[owners], count + texts)), (size, size))
    found = connected_components(links, directed=False)[1][groups]
    _, first, numbers = np.unique(found, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def _none() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Kinship:
    """Groups of examples that belong together.

    Attributes:
        groups: (N,) the number of the group of each.
        owners, texts: (M,) numbers of examples and of texts that they have.
        divided: What stands on both sides all the same; else "".
    """

    groups: np.ndarray
    owners: np.ndarray = field(default_factory=_none)
    texts: np.ndarray = field(default_factory=_none)
    divided: str = ""

    @cached_property
    def strayed(self) -> np.ndarray:
        """(N,) whether each has a text that stands in several groups."""
        found = np.zeros(len(self.groups), bool)
        pairs = np.unique(np.stack([self.texts, self.groups[self.owners]]), axis=1)
        several = np.bincount(pairs[0], minlength=1) > 1
        found[self.owners[several[self.texts]]] = True
        return found

    @property
    def copies(self) -> np.ndarray:
        """(N,) equal numbers for examples with one text, where each has one."""
        return self.texts if len(self.texts) == len(self.groups) else np.arange(len(self.groups))

    def rest(self, outside: np.ndarray) -> np.ndarray:
        """Return (N,) whether each is learned where those of the mask `outside` are left out: it is none, and has no
        text of theirs."""
        learned = ~outside
        learned[self.owners[np.isin(self.texts, self.texts[outside[self.owners]])]] = False
        return learned

    def each(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each group the numbers of its examples, and of all that are not learned where it is left out."""
        order = np.argsort(self.groups, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(self.groups[order])) + 1):
            unlearned = own
            if self.strayed[own].any():
                outside = np.zeros(len(self.groups), bool)
                outside[own] = True
                unlearned = np.flatnonzero(~self.rest(outside))
            yield own, unlearned
