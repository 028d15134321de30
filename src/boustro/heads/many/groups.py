"""Which words a step of many heads takes: runs, the batches that runs share, and the joint batch of several groups.

Runs with the same sentences, seed, dropout, epochs and batch size have the same batches and the same dropout masks:
they form a *batch group*. A step takes one batch of each of several groups, without padding:

    group 0, two heads: words a b c      rows   a b c d e                      (words, each once)
    group 1, one head:  words d e        pairs  a0 b0 c0  a1 b1 c1  d2 e2      (a word and a head)

k heads in a group; N words and P pairs of a step, ordered by group, then head, then sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.heads.rows import sentence_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadRun:
    """One head: the indices of its training sentences, and how it is trained."""

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
    def group(self) -> tuple:
        """Runs with the same value form a batch group."""
        return self.sentences, self.seed, self.dropout, self.epochs, self.batch_sentences


@dataclass(frozen=True, slots=True)
class BatchGroup:
    """Runs that share their batches, the initial parameters of their heads, and the random generator for dropout."""

    runs: Sequence[HeadRun]
    initial: dict[str, Tensor]
    generator: torch.Generator

    def max_batch_words(self, starts: np.ndarray) -> int:
        """An upper bound on the words of a batch: the longest sentences together."""
        run = self.runs[0]
        lengths = np.diff(starts)[list(run.sentences)]
        return int(np.sort(lengths)[-run.batch_sentences :].sum())


class TrainingWords(NamedTuple):
    """Vectors (words, d) float16, where sentences start (sentences + 1,), tag ids (words,), names of tags."""

    vectors: Tensor
    starts: np.ndarray
    tags: np.ndarray
    labels: Sequence[str]


class GroupBatch(NamedTuple):
    """A group's batch: rows (n,) of its words, and the lengths of its sentences."""

    rows: np.ndarray
    lengths: np.ndarray


def batches(run: HeadRun, starts: np.ndarray) -> Iterator[GroupBatch]:
    """The batches of a group, epoch by epoch, in the order of `train_head`."""
    sentences, order, size = np.array(run.sentences), np.random.default_rng(run.seed), run.batch_sentences
    for _ in range(run.epochs):
        rows, own = sentence_rows(starts, sentences[order.permutation(len(sentences))])
        lengths = np.diff(own)
        for first in range(0, len(sentences), size):
            last = min(first + size, len(sentences))
            yield GroupBatch(rows[own[first] : own[last]], lengths[first:last])


class JointBatch(NamedTuple):
    """One step of several groups."""

    rows: Tensor  # (N,) of the words
    tags: Tensor  # (P,)
    heads: Tensor  # (P,) the head of each pair
    weights: Tensor  # (heads,) one over the number of words of a head's batch: its loss is their mean
    num_words: list[int]  # of each group
    num_pairs: list[int]  # of each group
    lengths: list[np.ndarray]  # of the sentences of each head


def join(parts: Sequence[GroupBatch], num_heads: Sequence[int], tags: np.ndarray) -> JointBatch:
    """The batches of groups with so many heads each; `tags` are those of all words."""
    num_words = [len(rows) for rows, _ in parts]
    per_head = np.repeat(num_words, num_heads)
    by_head = [tags[rows] for (rows, _), count in zip(parts, num_heads, strict=True) for _ in range(count)]
    return JointBatch(
        torch.from_numpy(np.concatenate([rows for rows, _ in parts])),
        torch.from_numpy(np.concatenate(by_head)),
        torch.from_numpy(np.repeat(np.arange(len(per_head)), per_head)),
        torch.from_numpy((1 / np.maximum(per_head, 1)).astype(np.float32)),
        num_words,
        [words * count for words, count in zip(num_words, num_heads, strict=True)],
        [lengths for (_, lengths), count in zip(parts, num_heads, strict=True) for _ in range(count)],
    )
