"""Sums and maxima over all tag sequences of a linear chain, for many sentences at once.

    score(y) = start[y_1] + Σ_t s_t[y_t] + Σ_t transition[y_t, y_t+1] + end[y_T]      -∞ where y is not valid

Time is O(T · C²); all sentences are processed together, time step by time step, without padding. The sums are matrix
products of exp(message - its maximum), which need few exponentials; in float64 only tags less probable than e^-690
times the word's best one lose precision. There is no automatic differentiation through the recursion: the derivative
of log Z by a score is the expected number of times that it is used, which forward and backward messages give.

Source: Lafferty, McCallum and Pereira 2001, section 3; Rabiner 1989 for the recursions.
N words, S sentences, C tags.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from boustro.heads.layout import by_length, edges, time_major

CELLS = 1 << 17  # a step's (sentences, C, C): small enough to stay in the processor's cache
TINY = 1e-300  # instead of 0, so that there is no log 0 and no 0 / 0


class Chain(NamedTuple):
    """Scores of first tags, of pairs (tag, next tag), of last tags; float64, -∞ where not valid."""

    starts: Float[Tensor, "*H C"]
    transitions: Float[Tensor, "*H C C"]
    ends: Float[Tensor, "*H C"]


def exact(x: Tensor) -> Tensor:
    """float64; on the CPU if the device has none (Apple's MPS)."""
    return (x.cpu() if x.device.type == "mps" else x).double()


class Expected(NamedTuple):
    """The derivatives of log Z: how often each score is used, in expectation, summed over the sentences."""

    log_z: Float[Tensor, ""]
    tags: Float[Tensor, "N C"]
    starts: Float[Tensor, " C"]
    transitions: Float[Tensor, "C C"]
    ends: Float[Tensor, " C"]


def log_partition(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Float[Tensor, ""]:
    """Sum of the sentences' log Z, differentiable once by the scores and the chain."""
    total = _LogPartition.apply(scores, *chain, lengths)
    assert isinstance(total, Tensor)
    return total


@torch.no_grad()
def expectations(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Expected:
    """The log partition and its derivatives."""
    ahead, back = messages(scores, lengths, chain)
    tags = (ahead + back - scores).softmax(-1)
    at = edges(lengths, len(scores))
    left, right = scaled(ahead[at.followed]), scaled(back[at.followed + 1])
    links = chain.transitions.exp()
    shares = ((left @ links) * right).sum(-1, keepdim=True).clamp_min(TINY)
    pairs = links * ((left / shares).T @ right)
    log_z = (ahead[at.last] + chain.ends).logsumexp(-1).sum()
    return Expected(log_z, tags, tags[at.first].sum(0), pairs, tags[at.last].sum(0))


@torch.no_grad()
def posteriors(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Float[Tensor, "N C"]:
    """The probability of each tag at each word, given the whole sentence."""
    ahead, back = messages(scores, lengths, chain)
    return (ahead + back - scores).softmax(-1)


@torch.no_grad()
def best_path(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Int[Tensor, " N"]:
    """The tags of the sequence with the highest score; among equals, any."""
    groups = by_length(lengths, len(scores), max(1, CELLS // scores.shape[1] ** 2))
    result = torch.empty(len(scores), dtype=torch.int64, device=scores.device)
    for group in groups:
        order = time_major(group.lengths)
        rows, sizes = group.rows[order.rows], order.sizes.tolist()
        reached, best, pointers = chain.starts, [], []
        for words, num_going_on in zip(scores[rows].split(sizes), [*sizes, 0][1:], strict=True):
            best.append(reached + words)
            reached, pointer = (best[-1][:num_going_on, :, None] + chain.transitions).max(1)
            pointers.append(pointer)
        result[rows] = _trace(best, pointers, chain.ends)
    return result


def _trace(best: list[Tensor], pointers: list[Tensor], ends: Tensor) -> Int[Tensor, " n"]:
    """The path from the last words back, in time-major order; a sentence is added at its last word."""
    path = [ends.new_empty(0, dtype=torch.int64)]
    for score, pointer in zip(reversed(best), reversed(pointers), strict=True):
        earlier = pointer.gather(1, path[-1][:, None]).squeeze(1)
        ended = (score[len(earlier) :] + ends).argmax(-1)
        path.append(torch.cat([earlier, ended]))
    return torch.cat(path[::-1])


class _LogPartition(torch.autograd.Function):
    """Forward computes the expected counts as well, which are all that backward needs."""

    @staticmethod
    def forward(ctx, scores: Tensor, starts: Tensor, transitions: Tensor, ends: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        expected = expectations(scores, lengths, Chain(starts, transitions, ends))
        ctx.save_for_backward(*expected[1:])
        return expected.log_z

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return *(gradient * expected for expected in ctx.saved_tensors), None


def scaled(message: Float[Tensor, "n C"]) -> Float[Tensor, "n C"]:
    """exp of the message minus its maximum."""
    return (message - message.amax(-1, keepdim=True)).exp()


def messages(scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], chain: Chain) -> Float[Tensor, "2 N C"]:
    """Log of the sums over all paths to a tag at a word, from either end; both include the word's own score."""
    edge = torch.stack([chain.starts, chain.ends])[:, None]
    links = torch.stack([chain.transitions, chain.transitions.T]).exp()
    result = scores.new_empty(2, *scores.shape)
    for group in by_length(lengths, len(scores), max(1, CELLS // scores.shape[1])):
        order = time_major(group.lengths)
        ahead, back, sizes = group.rows[order.rows], group.rows[order.flipped], order.sizes.tolist()
        reached, messages = edge, [edge[:, :0]]
        steps = torch.stack([scores[ahead], scores[back]]).split(sizes, dim=1)
        for words, num_going_on in zip(steps, [*sizes, 0][1:], strict=True):
            messages.append(reached + words)
            message = messages[-1][:, :num_going_on]
            peak = message.amax(-1, keepdim=True)
            reached = torch.bmm((message - peak).exp(), links).clamp_min(TINY).log() + peak
        result[0, ahead], result[1, back] = torch.cat(messages, dim=1)
    return result
