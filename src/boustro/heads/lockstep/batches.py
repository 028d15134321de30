"""Which words a step of many heads takes: the batches that heads share, and the joint batch of several groups.

Heads with the same sentences, seed, dropout, epochs and batch size have the same batches and the same dropout masks:
they form a *batch group*. A step takes one batch of each of several groups, without padding:

    group 0, two heads: words a b c      rows   a b c d e                      (words, each once)
    group 1, one head:  words d e        pairs  a0 b0 c0  a1 b1 c1  d2 e2      (a word and a head)

k heads in a group; N words and P pairs of a step, ordered by group, then head, then sentence.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.inputs import sentence_rows
from boustro.heads.options import TrainedOptions


class Member(NamedTuple):
    """An untrained head, how it is trained on which sentences, and the state of the generator for its dropout."""

    head: Head
    options: TrainedOptions
    sentences: np.ndarray
    seed: int
    generator: Tensor

    @property
    def batch(self) -> int:
        """Sentences per step."""
        return self.options.batch(len(self.sentences))

    @property
    def epochs(self) -> int:
        return self.options.passes(len(self.sentences))

    @property
    def steps(self) -> int:
        return self.epochs * -(-len(self.sentences) // self.batch)

    @property
    def group(self) -> tuple:
        """Members with the same value form a batch group."""
        return self.sentences.tobytes(), self.seed, self.options.dropout, self.epochs, self.batch


class BatchGroup:
    """Members that share their batches and the random generator for dropout."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members, self.steps, self.dropout = members, members[0].steps, members[0].options.dropout
        self.generator = torch.Generator()
        self.generator.set_state(members[0].generator)

    def __len__(self) -> int:
        return len(self.members)

    def max_batch_words(self, starts: np.ndarray) -> int:
        """Return an upper bound on the words of a batch: the longest sentences together."""
        member = self.members[0]
        lengths = np.diff(starts)[member.sentences]
        return int(np.sort(lengths)[-member.batch :].sum())

    def batches(self, starts: np.ndarray) -> Iterator["GroupBatch"]:
        """Epoch by epoch, in the order of `heads.training.train_head`."""
        member = self.members[0]
        order, size = np.random.default_rng(member.seed), member.batch
        for _ in range(member.epochs):
            rows, bounds = sentence_rows(starts, member.sentences[order.permutation(len(member.sentences))])
            lengths = np.diff(bounds)
            for first in range(0, len(lengths), size):
                last = min(first + size, len(lengths))
                yield GroupBatch(rows[bounds[first] : bounds[last]], lengths[first:last])


class TrainingWords(NamedTuple):
    """Vectors (words, d) float16, where sentences start (sentences + 1,), tag ids (words,)."""

    vectors: Tensor
    starts: np.ndarray
    tags: np.ndarray


class GroupBatch(NamedTuple):
    """A group's batch: rows (n,) of its words, and the lengths of its sentences."""

    rows: np.ndarray
    lengths: np.ndarray


class JointBatch(NamedTuple):
    """One step of several groups."""

    rows: Tensor  # (N,) of the words
    tags: Tensor  # (P,)
    heads: Tensor  # (P,) the head of each pair
    weights: Tensor  # (heads,) one over the number of words of a head's batch: its loss is their mean
    num_words: list[int]  # of each group
    num_pairs: list[int]  # of each group
    lengths: list[np.ndarray]  # of the sentences of each head


def join_batches(parts: Sequence[GroupBatch], num_heads: Sequence[int], tags: np.ndarray) -> JointBatch:
    """Return the batches of groups with so many heads each; `tags` are those of all words."""
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
