"""Training of many heads at once on one matrix of frozen vectors: the heads that `train_head` gives one by one.

Most operations of a small head's step are tiny, and their cost is the call. So the backward pass and the optimiser's
step are written out, and heads share operations:

    once per step    gather the rows; softmax or CRF; gradients of the biases; derivative of ReLU
    once per group   dropout masks; x · [W₁ … W_k]ᵀ and its gradient, for the k heads of a batch group (`batches`)
    once per head    AdamW, by PyTorch's fused kernel

Groups are trained in lockstep, several per thread, those with most steps first, so that those that have not finished
are always the first ones. The numbers are those of `heads.training.train_head` with mixes that are not learned. On a
CPU only; on a GPU use `train_head`.

The passes of several groups, where x is the words' vectors after dropout and g the gradient of the losses by the
scores s:

    linear   s = x W₁ᵀ + b₁
    mlp      z = dropout(relu(x W₁ᵀ + b₁)),  s = z W₂ᵀ + b₂

    ∂W₂ = gᵀ z    ∂b₂ = Σ g    g' = g W₂ · [z > 0]    ∂W₁ = g'ᵀ x    ∂b₁ = Σ g'      (linear: g' = g)

g is the mean over the words of a head's batch:

    softmax   (probability of each tag - 1 for the gold one) / words
    CRF       (expected count of each tag - 1 for the gold one) / words; likewise for the CRF's own parameters

Dropout only sets to zero; the scale of the kept elements is applied in the products. Scores and hidden units of all
groups are end to end in one matrix, (P, C) and (P, h), for the operations that run once for all groups.

M or H heads, k of a group and n of its words, N words of all sentences, P pairs (word, head) of all groups; d width of
a vector, h hidden width, C tags.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, groupby, pairwise
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.heads.base import Head
from boustro.heads.bodies import PerWord, draw_kept, kept_scale
from boustro.heads.crf import TINY, Chain
from boustro.heads.crf.layer import exact, make_chains, scaled, valid_tensors
from boustro.heads.layout import by_length, edges, time_major
from boustro.heads.lockstep.batches import BatchGroup, JointBatch, Member, TrainingWords, join_batches
from boustro.heads.options import TrainedOptions
from boustro.heads.tagging import TaggingHead
from boustro.heads.training import adamw_step
from boustro.progress import Progress


class SoftmaxGradient:
    """Of the cross-entropy: (P, C) from scores (P, C)."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._onehot = torch.eye(len(labels))

    def __call__(self, scores: Tensor, batch: JointBatch) -> Tensor:
        onehot = self._onehot.index_select(0, batch.tags)
        return scores.softmax(-1).sub_(onehot).mul_(batch.weights[batch.heads].unsqueeze(1))


class CRFGradient:
    """Of a CRF's negative log-likelihood; writes the gradients of the CRFs' own parameters (H, ...) as well.

    The latter are given in the order of `crf.layer.CRF`: starts, transitions, ends.
    """

    def __init__(self, labels: Sequence[str], parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        self._valid, self._onehot = valid_tensors(labels), torch.eye(len(labels), dtype=torch.float64)
        self._parameters, self._gradients = parameters, gradients

    def __call__(self, scores: Tensor, batch: JointBatch) -> Tensor:
        num_heads, num_tags = len(batch.lengths), scores.shape[1]
        lengths = torch.from_numpy(np.concatenate(batch.lengths))
        heads = torch.from_numpy(np.repeat(np.arange(num_heads), [len(head_lengths) for head_lengths in batch.lengths]))
        chains = make_chains(self._valid, *(parameter[:num_heads] for parameter in self._parameters))
        expected, counts = expected_counts(exact(scores), lengths, heads, chains)

        at = edges(lengths, len(scores))
        cells = batch.heads * num_tags + batch.tags  # (head, tag) as one number
        pairs = cells[at.followed] * num_tags + batch.tags[at.followed + 1]
        gold = (cells[at.first], pairs, cells[at.last])
        for gradient, mean, used in zip(self._gradients, counts, gold, strict=True):
            excess = mean - torch.bincount(used, minlength=mean.numel()).view_as(mean)
            gradient[:num_heads] = excess * batch.weights.view(-1, *[1] * (excess.dim() - 1))
        onehot = self._onehot.index_select(0, batch.tags)
        return expected.sub_(onehot).mul_(batch.weights[batch.heads].unsqueeze(1)).float()


def expected_counts(
    scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], heads: Int[Tensor, " S"], chains: Chain
) -> tuple[Float[Tensor, "N C"], Chain]:
    """Return how often each score is used, in expectation over all sequences: per word, and the rest summed by head.

    This is `crf.layer.expectations` for all heads at once: their sentences are processed together, each with a copy of
    its head's links (C² numbers per word and per sentence, which suits small batches):

        head 0  a0 a1 a2 | b0      →  t = 0  a0 b0 c0,  t = 1  a1 c1,  t = 2  a2
        head 1  c0 c1                 links  L₀ L₀ L₁          L₀ L₁          L₀

    `scores` (float64) are those of sentences end to end, `heads` the chain of each, `chains` have a first axis H.
    """
    head_of = heads.repeat_interleave(lengths)  # (N,)
    ahead, back = _messages(scores, lengths, head_of, chains).unbind(1)
    tags = (ahead + back - scores).softmax(-1)
    at = edges(lengths, len(scores))
    pair_heads = head_of.index_select(0, at.followed)
    left = scaled(ahead.index_select(0, at.followed)).unsqueeze(2)  # (p, C, 1)
    right = scaled(back.index_select(0, at.followed + 1)).unsqueeze(1)  # (p, 1, C)
    links = chains.transitions.exp()
    pairs = links.index_select(0, pair_heads).mul_(left).mul_(right)  # (p, C, C)
    pairs.div_(pairs.sum((1, 2), keepdim=True).clamp_min_(TINY))

    def by_head(counts: Tensor, numbers: Tensor) -> Tensor:
        return counts.new_zeros(len(links), *counts.shape[1:]).index_add_(0, numbers, counts)

    first, last = (by_head(tags[rows], head_of[rows]) for rows in (at.first, at.last))
    return tags, Chain(first, by_head(pairs, pair_heads), last)


def _messages(
    scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], head_of: Int[Tensor, " N"], chains: Chain
) -> Float[Tensor, "N 2 C"]:
    """Compute the messages of `crf.layer` for all heads at once: a sentence and its reversal are adjacent rows."""
    (group,) = by_length(lengths, len(scores), max(1, len(lengths)))
    order = time_major(group.lengths)
    rows = torch.stack([group.rows[order.rows], group.rows[order.flipped]], 1).flatten()
    sizes = [2 * size for size in order.sizes.tolist()]
    row_heads = head_of[rows[: sizes[0] : 2]] if sizes else head_of
    reached = torch.stack([chains.starts, chains.ends], 1)[row_heads].flatten(0, 1)  # (2s, C)
    links = torch.stack([chains.transitions.mT, chains.transitions], 1).exp()[row_heads].flatten(0, 1)  # (2s, to, from)
    messages = []
    for words, num_going_on in zip(scores[rows].split(sizes), [*sizes, 0][1:], strict=True):
        messages.append(words.add_(reached))
        message = messages[-1][:num_going_on]
        peak = message.amax(-1, keepdim=True)
        ways = torch.bmm(links[:num_going_on], (message - peak).exp_().unsqueeze(2)).squeeze(2)
        reached = ways.clamp_min_(TINY).log_().add_(peak)
    result = torch.empty(len(scores), 2, scores.shape[1], dtype=scores.dtype)
    ahead = torch.cat(messages).view(-1, 2, scores.shape[1]) if messages else result
    for side in range(2):
        result[:, side].index_copy_(0, rows[side::2], ahead[:, side])
    return result


ScoreGradient = Callable[[Tensor, JointBatch], Tensor]
"""The gradient of the losses by scores (P, C), of a batch."""


class _Pass(ABC):
    """Writes the gradients of a batch's losses, with memory for the largest batch; what linear and mlp share."""

    def __init__(
        self,
        groups: Sequence[BatchGroup],
        words: TrainingWords,
        parameters: Sequence[Tensor],
        gradients: Sequence[Tensor],
        score_gradient: ScoreGradient,
    ) -> None:
        """`parameters` (heads, …) are weight and bias of each map in turn, `gradients` those by them."""
        self.score_gradient, self.num_heads = score_gradient, [*map(len, groups)]
        weights, biases, weight_gradients = (
            [stack.split(self.num_heads) for stack in stacks]
            for stacks in (parameters[::2], parameters[1::2], gradients[::2])
        )  # per map, per group (k, out, in), (k, out), (k, out, in)
        self.second = [*zip(weights[1], biases[1], weight_gradients[1], strict=True)] if len(weights) > 1 else []
        self._weights = [weight.flatten(0, 1).T for weight in weights[0]]  # (in, k · out)
        self._biases = [bias.flatten() for bias in biases[0]]
        self._weight_gradients = [gradient.flatten(0, 1) for gradient in weight_gradients[0]]
        self.bias_gradients = gradients[1::2]
        self.dropouts = [group.dropout for group in groups]
        self.scales, self._generators = [*map(kept_scale, self.dropouts)], [group.generator for group in groups]
        most, width = [group.max_batch_words(words.starts) for group in groups], words.vectors.shape[1]
        pairs = int(np.dot(most, self.num_heads))
        self.outputs = [torch.empty(pairs, gradient.shape[1]) for gradient in self.bias_gradients]
        self._back = torch.empty_like(self.outputs[0])
        self._vectors = words.vectors.view(torch.int16)
        self._bits, self._x = torch.empty(sum(most), width, dtype=torch.int16), torch.empty(sum(most), width)
        self._drawn = torch.empty(-(-max(most) * max(width, self.outputs[0].shape[1]) // 4), dtype=torch.int64)

    @abstractmethod
    def __call__(self, batch: JointBatch) -> None: ...

    def draw(self, group: int, numel: int) -> Tensor:
        """Return (numel,) int16, 1 where an element is kept; valid until the next call."""
        return draw_kept(numel, self.dropouts[group], self._generators[group], self._drawn)

    def drop(self, batch: JointBatch) -> Sequence[Tensor]:
        """Return the vectors after dropout, (n, d) float32 of each group."""
        bits = torch.index_select(self._vectors, 0, batch.rows, out=self._bits[: batch.rows.shape[0]])
        for group, part in enumerate(bits.split(batch.num_words)):
            if self.dropouts[group]:
                part.mul_(self.draw(group, part.numel()).view_as(part))  # times 0 or 1: the bits of 0, or unchanged
        return self._x[: bits.shape[0]].copy_(bits.view(torch.float16)).split(batch.num_words)

    def first_map(self, group: int, x: Tensor) -> Tensor:
        """Return (n, k · out)"""
        return torch.addmm(self._biases[group], x, self._weights[group], alpha=self.scales[group])

    def first_gradients(self, words: Sequence[Tensor], gradient: Tensor, batch: JointBatch) -> None:
        """Of the first map, from the gradient (P, out) by its output."""
        self.bias_gradients[0].zero_().index_add_(0, batch.heads, gradient)
        parts = zip(words, self.by_group(gradient, batch), self._weight_gradients, self.scales, strict=False)
        for x, group_gradient, result, scale in parts:
            by_output = group_gradient.mT.reshape(result.shape[0], x.shape[0])
            torch.addmm(result, by_output, x, beta=0, alpha=scale, out=result)

    def by_group(self, pairs: Tensor, batch: JointBatch) -> list[Tensor]:
        """Return (k, n, out) of each group, from (P, out)."""
        parts = zip(pairs.split(batch.num_pairs), self.num_heads, batch.num_words, strict=False)
        return [part.view(heads, words, pairs.shape[1]) for part, heads, words in parts]


class _LinearPass(_Pass):
    def __call__(self, batch: JointBatch) -> None:
        words, scores = self.drop(batch), self.outputs[0][: batch.tags.shape[0]]
        for group, (x, s) in enumerate(zip(words, self.by_group(scores, batch), strict=True)):
            s.transpose(0, 1).copy_(self.first_map(group, x).view(s.shape[1], s.shape[0], s.shape[2]))
        self.first_gradients(words, self.score_gradient(scores, batch), batch)


class _MlpPass(_Pass):
    def __call__(self, batch: JointBatch) -> None:
        words, (inner, scores) = self.drop(batch), (room[: batch.tags.shape[0]] for room in self.outputs)
        zs = self.by_group(inner, batch)
        for group, (x, z, s) in enumerate(zip(words, zs, self.by_group(scores, batch), strict=True)):
            k, n, h = z.shape
            hidden = self.first_map(group, x).relu_().view(n, k, h)
            if self.dropouts[group]:
                hidden.mul_(self.draw(group, n * h).view(n, 1, h).float())
            z.transpose(0, 1).copy_(hidden)
            weight, bias, _ = self.second[group]
            torch.baddbmm(bias.unsqueeze(1), z, weight.mT, alpha=self.scales[group], out=s)
        gradient = self.score_gradient(scores, batch)
        self.bias_gradients[1].zero_().index_add_(0, batch.heads, gradient)
        back = self._back[: inner.shape[0]]
        by_group = zip(self.by_group(gradient, batch), self.by_group(back, batch), zs, strict=True)
        for (g, g_before, z), (weight, _, result), scale in zip(by_group, self.second, self.scales, strict=False):
            torch.baddbmm(result, g.mT, z, beta=0, alpha=scale, out=result)
            torch.baddbmm(g_before, g, weight, beta=0, alpha=scale, out=g_before)
        self.first_gradients(words, back.mul_(inner.sign_()), batch)  # 0 where ReLU or dropout was


PASS_CLASSES: dict[int, type[_Pass]] = {1: _LinearPass, 2: _MlpPass}
"""By the number of affine maps from the vectors to the scores."""

CACHE_BYTES = 16 << 20
"""Parameters, gradients and moments of the heads trained in lockstep should fit a core's share of the last cache."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def takes_steps_with_others(head: Head, options: TrainedOptions, num_examples: int) -> bool:
    """Return whether it is a head whose passes are written out (`passes`), and whose mixes of layers are fixed."""
    fixed = options.mix_passes(num_examples) == 0 or not any(mix.learned for mix in head.mixes)
    written = type(head) is TaggingHead and isinstance(head.body, PerWord) and len(head.body.maps()) in PASS_CLASSES
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
    line = [member for group in sorted(groups.values(), key=lambda group: -group[0].steps) for member in group]
    work = np.array([len(member.sentences) * member.epochs for member in line])
    # 16 bytes a parameter: the weight, its gradient and two moments
    count = threads * math.ceil(len(line) * 16 * num_parameters / (threads * CACHE_BYTES))
    numbers = ((np.cumsum(work) - work / 2) * count / work.sum()).astype(np.int64)
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(line)]
    parts = (line[first:last] for first, last in pairwise(cuts))
    return [[BatchGroup([*group]) for _, group in groupby(part, key=lambda member: member.group)] for part in parts]


def _train_in_lockstep(groups: Sequence[BatchGroup], words: TrainingWords, advance: Callable[[int], object]) -> None:
    """Train the heads of groups, those with most steps first; `advance` gets the number of heads after each step."""
    optimizer = _Optimized(groups)
    head = groups[0].members[0].head
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord)
    maps, labels = head.body.maps(), head.labels
    (of_body, of_chain), (by_body, by_chain) = (
        (stacks[: 2 * len(maps)], stacks[2 * len(maps) :]) for stacks in (optimizer.parameters, optimizer.gradients)
    )
    score_gradient = CRFGradient(labels, of_chain, by_chain) if head.crf else SoftmaxGradient(labels)
    write_gradients = PASS_CLASSES[len(maps)](groups, words, of_body, by_body, score_gradient)
    feeds = [group.batches(words.starts) for group in groups]
    num_heads = [*map(len, groups)]
    for step in range(groups[0].steps):
        active = sum(group.steps > step for group in groups)
        write_gradients(join_batches([next(feed) for feed in feeds[:active]], num_heads[:active], words.tags))
        optimizer.step(active)
        advance(sum(num_heads[:active]))
    optimizer.write_back()


def _parameters(head: Head) -> list[Tensor]:
    """Weight and bias of each affine map in turn, then starts, transitions and ends of the CRF, if there is one."""
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord)
    weights = [p for layer in head.body.maps() for p in (layer.weight, layer.bias)]
    return weights + ([head.crf.starts, head.crf.transitions, head.crf.ends] if head.crf else [])


class _Optimized:
    """Parameters (heads, ...), and AdamW with linear decay and each head's own learning rate."""

    def __init__(self, groups: Sequence[BatchGroup]) -> None:
        self._heads = [_parameters(member.head) for group in groups for member in group.members]
        self.parameters = [torch.stack(tensors).detach() for tensors in zip(*self._heads, strict=True)]
        self.gradients, *moments = ([*map(torch.zeros_like, self.parameters)] for _ in range(3))
        kept = (self.parameters, self.gradients, *moments)
        heads = ([[stack[m] for stack in stacks] for stacks in kept] for m in range(len(self._heads)))
        self._groups = [[(member, next(heads)) for member in group.members] for group in groups]
        self._done = torch.zeros(())

    def step(self, num_groups: int) -> None:
        """One of all the heads of the first groups."""
        taken = self._done.item()
        self._done += 1
        for member, tensors in chain.from_iterable(self._groups[:num_groups]):
            adamw_step(tensors, self._done, member.options.lr * (1 - taken / member.steps))

    def write_back(self) -> None:
        """Give every head its parameters."""
        for m, parameters in enumerate(self._heads):
            for parameter, stack in zip(parameters, self.parameters, strict=True):
                parameter.copy_(stack[m])


def _in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the work on each item, in threads: two cores gain more from two small items than from halves of one."""
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    each = torch.inference_mode()(work)
    if workers <= 1:
        return [each(item) for item in items]
    try:
        # each thread computes with its share of the cores, or all would wait for each other
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            return list(pool.map(each, items))
    finally:
        torch.set_num_threads(threads)  # of the whole process again, which the last thread has changed
