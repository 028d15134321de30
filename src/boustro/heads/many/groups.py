"""Which words a step of many heads reads: runs, the lanes they share, and the batches of several lanes, joined.

Runs with the same sentences, seed, dropout, epochs and size of batch see the same batches and drop out the same
numbers: they form a *lane*. Lanes that take their steps together form a *convoy* (`convoy`). Nothing is padded:

    lane 0, two heads: words a b c      rows   a b c d e                      (words, each once)
    lane 1, one head:  words d e        pairs  a0 b0 c0  a1 b1 c1  d2 e2      (a word and a head)

k heads in a lane; N words and P pairs of a step, lane by lane, head by head, sentence by sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.heads.layout import sentence_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One head: what it is trained on (indices of sentences) and how; the fields are `TrainConfig`'s."""

    sentences: tuple[int, ...]
    seed: int = 1
    lr: float = 1e-3
    weight_decay: float = 0.01
    dropout: float = 0.1
    epochs: int = 20
    batch_sentences: int = 32

    @property
    def steps(self) -> int:
        return self.epochs * -(-len(self.sentences) // self.batch_sentences)

    @property
    def lane(self) -> tuple:
        """Runs that are alike in this form a lane."""
        return self.sentences, self.seed, self.dropout, self.epochs, self.batch_sentences


@dataclass(frozen=True, slots=True)
class Lane:
    """Runs that share their batches; the first parameters of their heads; the random numbers for dropout."""

    runs: Sequence[Run]
    first: dict[str, Tensor]
    generator: torch.Generator

    def most_words(self, starts: np.ndarray) -> int:
        """No batch has more words: the longest sentences together."""
        run = self.runs[0]
        lengths = np.diff(starts)[list(run.sentences)]
        return int(np.sort(lengths)[-run.batch_sentences :].sum())


class Taught(NamedTuple):
    """The words to learn from: vectors (words, d) float16, where sentences start, tags (words,), names of tags."""

    vectors: Tensor
    starts: np.ndarray
    tags: np.ndarray
    labels: Sequence[str]


class Words(NamedTuple):
    """A lane's batch: rows (n,) of its words, and the lengths of its sentences."""

    rows: np.ndarray
    lengths: np.ndarray


def batches(run: Run, starts: np.ndarray) -> Iterator[Words]:
    """The batches of a lane, epoch by epoch, in the order of `train_head`."""
    sentences, order, size = np.array(run.sentences), np.random.default_rng(run.seed), run.batch_sentences
    for _ in range(run.epochs):
        rows, own = sentence_rows(starts, sentences[order.permutation(len(sentences))])
        lengths = np.diff(own)
        for first in range(0, len(sentences), size):
            last = min(first + size, len(sentences))
            yield Words(rows[own[first] : own[last]], lengths[first:last])


class Batch(NamedTuple):
    """One step of several lanes."""

    rows: Tensor
    """(N,) of the words."""
    tags: Tensor
    """(P,)"""
    heads: Tensor
    """(P,), which head is a pair's."""
    shares: Tensor
    """(heads,), one over the words of a head's batch: its loss is their mean."""
    num_words: list[int]
    """Of each lane."""
    num_pairs: list[int]
    """Of each lane."""
    lengths: list[np.ndarray]
    """Per head, of its sentences."""


def join(lanes: Sequence[Words], widths: Sequence[int], tags: np.ndarray) -> Batch:
    """The batches of lanes of so many heads each; `tags` are those of all words."""
    num_words = [len(rows) for rows, _ in lanes]
    per_head = np.repeat(num_words, widths)
    by_head = [tags[rows] for (rows, _), width in zip(lanes, widths, strict=True) for _ in range(width)]
    return Batch(
        torch.from_numpy(np.concatenate([rows for rows, _ in lanes])),
        torch.from_numpy(np.concatenate(by_head)),
        torch.from_numpy(np.repeat(np.arange(len(per_head)), per_head)),
        torch.from_numpy((1 / np.maximum(per_head, 1)).astype(np.float32)),
        num_words,
        [words * width for words, width in zip(num_words, widths, strict=True)],
        [lengths for (_, lengths), width in zip(lanes, widths, strict=True) for _ in range(width)],
    )
