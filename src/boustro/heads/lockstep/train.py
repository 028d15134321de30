"""Train many heads at once on one matrix of frozen vectors: the same heads that `train_head` gives one by one.

Most operations of a small head's step are tiny, and their cost is the call. So the backward pass and the optimiser's
step are written out, and heads share operations:

    once per step    gather the rows; softmax or CRF; gradients of the biases; derivative of ReLU
    once per group   dropout masks; x · [W₁ … W_k]ᵀ and its gradient, for the k heads of a batch group (`batches`)
    once per head    AdamW, by PyTorch's fused kernel

Groups are trained in lockstep, several per thread, those with most steps first, so that those that have not finished
are always the first ones. The numbers are those of `heads.training.train_head` with mixes that are not learned. On a
CPU only; on a GPU use `train_head`.

M heads, N words, d width of a vector, C tags.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, groupby, pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.bodies import PerWord
from boustro.heads.lockstep.batches import BatchGroup, Member, TrainingWords, join
from boustro.heads.lockstep.passes import PASSES, CRFGradient, SoftmaxGradient
from boustro.heads.options import TrainedOptions
from boustro.heads.tagging import TaggingHead
from boustro.heads.training import WEIGHT_DECAY
from boustro.progress import Progress

CACHE_BYTES = 16 << 20
"""Parameters, gradients and moments of the heads trained in lockstep should fit a core's share of the last cache."""
Item = TypeVar("Item")
Result = TypeVar("Result")
FIXED = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}


def takes_steps_with_others(head: Head, options: TrainedOptions) -> bool:
    """Whether it is a head whose passes are written out (`passes`), and whose mixes of layers are fixed."""
    fixed = options.mix_epochs == 0 or not any(mix.learned for mix in head.mixes)
    written = type(head) is TaggingHead and isinstance(head.body, PerWord) and len(head.body.maps()) in PASSES
    return written and fixed


def train_together(members: Sequence[Member], words: TrainingWords) -> None:
    """Train heads in place, all with as many maps and the same labels, with a CRF or without.

    Raises `ValueError` for weights that do not stay finite.
    """
    num_parameters = sum(p.numel() for p in members[0].head.parameters())
    parts = _partition(members, num_parameters, torch.get_num_threads())
    with Progress("training heads", "steps", total=sum(member.steps for member in members)) as bar:
        _in_parallel(lambda groups: _train_in_lockstep(groups, words, bar.update), parts)
    if not all(bool(torch.isfinite(p).all()) for member in members for p in member.head.parameters()):
        raise ValueError("the weights of a head are not finite after its training; try a lower --lr")


def _partition(members: Sequence[Member], num_parameters: int, threads: int) -> list[list[BatchGroup]]:
    """Parts of about the same work that fit the cache, each a list of groups, those with most steps first."""
    groups: dict[tuple, list[Member]] = {}
    for member in members:
        groups.setdefault(member.group, []).append(member)
    line = [member for group in sorted(groups.values(), key=lambda own: -own[0].steps) for member in group]
    work = np.array([len(member.sentences) * member.options.epochs for member in line])
    count = threads * math.ceil(len(line) * 16 * num_parameters / (threads * CACHE_BYTES))
    numbers = ((np.cumsum(work) - work / 2) * count / work.sum()).astype(np.int64)
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(line)]
    parts = (line[first:last] for first, last in pairwise(cuts))
    return [[BatchGroup([*group]) for _, group in groupby(part, key=lambda member: member.group)] for part in parts]


def _train_in_lockstep(groups: Sequence[BatchGroup], words: TrainingWords, advance: Callable[[int], object]) -> None:
    """Train the heads of groups, those with most steps first; `advance` gets the number of heads after each step."""
    optimizer = _AdamW(groups)
    head = groups[0].members[0].head
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord)
    maps, labels = head.body.maps(), head.labels
    (of_body, of_chain), (by_body, by_chain) = (
        (stacks[: 2 * len(maps)], stacks[2 * len(maps) :]) for stacks in (optimizer.parameters, optimizer.gradients)
    )
    score_gradient = CRFGradient(labels, of_chain, by_chain) if head.crf else SoftmaxGradient(labels)
    write_gradients = PASSES[len(maps)](groups, words, of_body, by_body, score_gradient)
    feeds = [group.batches(words.starts) for group in groups]
    num_heads = [*map(len, groups)]
    for step in range(groups[0].steps):
        active = sum(group.steps > step for group in groups)
        write_gradients(join([next(feed) for feed in feeds[:active]], num_heads[:active], words.tags))
        optimizer.step(active)
        advance(sum(num_heads[:active]))
    optimizer.write_back()


def _parameters(head: Head) -> list[Tensor]:
    """Weight and bias of each affine map in turn, then starts, transitions and ends of the CRF, if there is one."""
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord)
    found = [p for layer in head.body.maps() for p in (layer.weight, layer.bias)]
    return found + ([head.crf.starts, head.crf.transitions, head.crf.ends] if head.crf else [])


class _AdamW:
    """Parameters (heads, ...), and AdamW with linear decay and each head's own learning rate."""

    def __init__(self, groups: Sequence[BatchGroup]) -> None:
        self._heads = [_parameters(member.head) for group in groups for member in group.members]
        self.parameters = [torch.stack(own).detach() for own in zip(*self._heads, strict=True)]
        self.gradients, *moments = ([*map(torch.zeros_like, self.parameters)] for _ in range(3))
        kept = (self.parameters, self.gradients, *moments)
        heads = ([[stack[m] for stack in stacks] for stacks in kept] for m in range(len(self._heads)))
        self._groups = [[(member, next(heads)) for member in group.members] for group in groups]
        self._done = torch.zeros(())
        self._counts = [self._done] * len(self.parameters)

    def step(self, num_groups: int) -> None:
        """PyTorch's fused kernel without the bookkeeping of `torch.optim`, which takes several times as long."""
        done = self._done.item()
        self._done += 1
        adamw: Callable[..., None] = torch._fused_adamw_  # pyright: ignore[reportPrivateImportUsage]
        for member, tensors in chain.from_iterable(self._groups[:num_groups]):
            rate = member.options.lr * (1 - done / member.steps)
            adamw(*tensors, [], self._counts, lr=rate, weight_decay=WEIGHT_DECAY, **FIXED)

    def write_back(self) -> None:
        """Give every head its parameters."""
        for m, own in enumerate(self._heads):
            for parameter, stack in zip(own, self.parameters, strict=True):
                parameter.copy_(stack[m])


def _in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The work on each item, in threads: two cores gain more from two small items than from halves of one."""
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    each = torch.inference_mode()(work)
    if workers <= 1:
        return [each(item) for item in items]
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            return list(pool.map(each, items))
    finally:
        torch.set_num_threads(threads)
