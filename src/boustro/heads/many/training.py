"""Train many heads at once on one matrix of frozen vectors: the same heads that `train_head` gives one by one.

Most operations of a small head's step are tiny, and their cost is the call. So the backward pass and the optimiser's
step are written out, and heads share operations:

    once per step    gather the rows; softmax or CRF; gradients of the biases; derivative of ReLU
    once per group   dropout masks; x · [W₁ … W_k]ᵀ and its gradient, for the k heads of a batch group (`many.groups`)
    once per head    AdamW, by PyTorch's fused kernel

Groups are trained in lockstep, several per thread, those with most steps first, so that those that have not finished
are always the first ones. The numbers are those of `heads.training.train_head` on one stream without a mix. On a CPU
only; on a GPU use `train_head`.

M heads, N words, d width of a vector, C tags.
"""

import math
from collections.abc import Callable, Sequence
from itertools import chain, groupby, pairwise

import numpy as np
import torch
from torch import Tensor

from boustro.heads.many.groups import BatchGroup, HeadRun, TrainingWords, batches, join
from boustro.heads.many.losses import CRF_NAMES, CRFGradient, SoftmaxGradient
from boustro.heads.many.passes import PASSES
from boustro.heads.many.stack import SPELLED_OUT, StackedHeads, in_parallel
from boustro.heads.options import HiddenOptions
from boustro.progress import Progress

CACHE_BYTES = 16 << 20
"""Parameters, gradients and moments of the heads trained in lockstep should fit a core's share of the last cache."""
FIXED = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}


def train_stacked(
    kind: str,
    vectors: np.ndarray | Tensor,
    starts: np.ndarray,
    tags: np.ndarray,
    labels: Sequence[str],
    runs: Sequence[HeadRun],
    hidden: int | None = None,
    crf: bool = False,
) -> StackedHeads:
    """Train a head, linear or mlp, for each run.

    `vectors` (N, d) are read as float16, as in `train_head`; `starts` (sentences + 1,) is where each sentence begins;
    `tags` (N,) are ids of `labels`; `hidden` is the width inside the mlp, by default d; `crf` needs valid sequences.
    Raises `ValueError` for an unknown kind, for no runs or sentences, and for weights that do not stay finite.
    """
    if kind not in PASSES:
        raise ValueError(f"cannot train heads of kind {kind!r} at once: known are {', '.join(PASSES)}")
    if not runs:
        raise ValueError("there is no head to train: `runs` is empty")
    if any(not run.sentences or run.epochs < 1 for run in runs):
        raise ValueError("a run needs at least one sentence to train on and one epoch")
    vectors = torch.as_tensor(vectors).half()
    sizes = [vectors.shape[1], *[hidden or vectors.shape[1]] * (PASSES[kind].num_maps - 1), len(labels)]
    words = TrainingWords(vectors, starts, tags, labels)
    plan = _partition(runs, sum((a + 1) * b for a, b in pairwise(sizes)), torch.get_num_threads())
    parts = [
        [BatchGroup([runs[m] for m in group], *_initialise(kind, sizes, runs[group[0]].seed, crf)) for group in part]
        for part in plan
    ]
    with Progress("training heads", "steps", total=sum(r.steps for r in runs)) as bar:
        trained = in_parallel(lambda groups: _train_in_lockstep(kind, groups, words, bar.update), parts)
    order = np.argsort([m for part in plan for group in part for m in group]).tolist()
    stack = {name: torch.cat([part[name] for part in trained])[order] for name in trained[0]}
    if not all(bool(torch.isfinite(parameters).all()) for parameters in stack.values()):
        raise ValueError("the weights of a head are not finite after its training; try a lower --lr")
    return StackedHeads(kind, tuple(labels), stack)


def _partition(runs: Sequence[HeadRun], num_parameters: int, threads: int) -> list[list[list[int]]]:
    """Indices of runs: parts of about the same work that fit the cache, each a list of groups, most steps first."""
    groups: dict[tuple, list[int]] = {}
    for m, run in enumerate(runs):
        groups.setdefault(run.group, []).append(m)
    order = sorted(groups.values(), key=lambda group: -runs[group[0]].steps)
    line = np.array([m for group in order for m in group], dtype=np.int64)
    work = np.array([len(runs[m].sentences) * runs[m].epochs for m in line])
    count = threads * math.ceil(len(runs) * 16 * num_parameters / (threads * CACHE_BYTES))
    numbers = ((np.cumsum(work) - work / 2) * count / work.sum()).astype(np.int64)
    parts = np.split(line, np.flatnonzero(np.diff(numbers)) + 1)
    return [[list(group) for _, group in groupby(part.tolist(), key=lambda m: runs[m].group)] for part in parts]


def _initialise(kind: str, sizes: Sequence[int], seed: int, crf: bool) -> tuple[dict[str, Tensor], torch.Generator]:
    """A head's initial parameters, and a generator that continues after them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body = SPELLED_OUT[kind](sizes[0], sizes[-1], HiddenOptions(hidden=sizes[1]))
        after = torch.Generator()
        after.set_state(torch.get_rng_state())
    named = {f"{name}.{n}": p.detach() for name, linear in body.maps().items() for n, p in linear.named_parameters()}
    if crf:
        tags = sizes[-1]
        named |= dict(zip(CRF_NAMES, map(torch.zeros, ((tags,), (tags, tags), (tags,))), strict=True))
    return named, after


def _train_in_lockstep(
    kind: str, groups: Sequence[BatchGroup], words: TrainingWords, advance: Callable[[int], object]
) -> dict[str, Tensor]:
    """Parameters (heads, ...), those with most steps first; `advance` gets the number of heads after each step."""
    optimizer = _AdamW(groups)
    parameters, gradients = optimizer.parameters, optimizer.gradients
    crf = CRF_NAMES[0] in parameters
    score_gradient = CRFGradient(words.labels, parameters, gradients) if crf else SoftmaxGradient(words.labels)
    write_gradients = PASSES[kind](groups, words, parameters, gradients, score_gradient)
    feeds = [batches(group.runs[0], words.starts) for group in groups]
    num_heads = [len(group.runs) for group in groups]
    steps = np.array([group.runs[0].steps for group in groups])
    for step in range(steps[0]):
        active = int((steps > step).sum())
        write_gradients(join([next(feed) for feed in feeds[:active]], num_heads[:active], words.tags))
        optimizer.step(active)
        advance(sum(num_heads[:active]))
    return parameters


class _AdamW:
    """Parameters (heads, ...), and AdamW with linear decay and each head's own learning rate and weight decay."""

    def __init__(self, groups: Sequence[BatchGroup]) -> None:
        self.parameters = {
            name: torch.cat([group.initial[name].expand(len(group.runs), *p.shape) for group in groups])
            for name, p in groups[0].initial.items()
        }
        self.gradients = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        moments = [{name: torch.zeros_like(p) for name, p in self.parameters.items()} for _ in range(2)]
        kept = (self.parameters, self.gradients, *moments)
        heads = ([[p[m] for p in stack.values()] for stack in kept] for m in range(sum(len(g.runs) for g in groups)))
        self._groups = [[(run, next(heads)) for run in group.runs] for group in groups]
        self._done = torch.zeros(())
        self._counts = [self._done] * len(self.parameters)

    def step(self, num_groups: int) -> None:
        """PyTorch's fused kernel without the bookkeeping of `torch.optim`, which takes several times as long."""
        done = self._done.item()
        self._done += 1
        adamw: Callable[..., None] = torch._fused_adamw_  # pyright: ignore[reportPrivateImportUsage]
        for run, tensors in chain.from_iterable(self._groups[:num_groups]):
            rate = run.lr * (1 - done / run.steps)
            adamw(*tensors, [], self._counts, lr=rate, weight_decay=run.weight_decay, **FIXED)
