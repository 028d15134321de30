"""Sums over all tag sequences of a linear chain, for many sentences at once, as training needs them.

    score(y) = start[y_1] + Σ_t s_t[y_t] + Σ_t transition[y_t, y_t+1] + end[y_T]      -∞ where y is not valid

Time is O(T · C²); all sentences are processed together, time step by time step, without padding. Messages are products
of odds, a matrix product and a multiplication a step; in float64 only tags less probable than e^-400 times the word's
best one lose precision. Where a product leaves the range of float64, the same is computed in logarithms, which takes
twice as long. There is no automatic differentiation through the recursion: the derivative of log Z by a score is the
expected number of times that it is used, which forward and backward messages give.

Source: Lafferty, McCallum and Pereira 2001, section 3; Rabiner 1989 for the recursions.
N words, S sentences, C tags.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from boustro.heads.crf.decode import TINY, Chain
from boustro.heads.layout import TimeMajor, by_length, edges, time_major

CELLS = 1 << 17  # a step's (sentences, C, C): small enough to stay in the processor's cache
SMALL = 1e-120  # a sum of products of odds whose least part float64 can still hold


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
    # Messages have no log 0: what is not valid has about e^-690, and times its score, -∞, a loss would be infinite.
    starts = tags[at.first].sum(0).masked_fill(chain.starts.isneginf(), 0.0)
    ends = tags[at.last].sum(0).masked_fill(chain.ends.isneginf(), 0.0)
    return Expected(log_z, tags, starts, pairs, ends)


class _LogPartition(torch.autograd.Function):
    """Forward computes the expected counts as well, which are all that backward needs."""

    @staticmethod
    def forward(ctx, scores: Tensor, starts: Tensor, transitions: Tensor, ends: Tensor, lengths: Tensor) -> Tensor:
        expected = expectations(scores, lengths, Chain(starts, transitions, ends))
        ctx.save_for_backward(*expected[1:])
        return expected.log_z

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):
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
        ahead, back = group.rows[order.rows], group.rows[order.flipped]
        words = torch.stack([scores[ahead], scores[back]])
        found = _by_odds(words, edge, links, order, group.lengths)
        result[0, ahead], result[1, back] = _by_logs(words, edge, links, order) if found is None else found
    return result


def _by_odds(
    words: Float[Tensor, "2 n C"], edge: Tensor, links: Tensor, order: TimeMajor, lengths: Int[Tensor, " s"]
) -> Float[Tensor, "2 n C"] | None:
    """Messages in time-major order, as products of odds; `None` where these leave the range of float64.

    The odds of a word are those of its tags against its best one, so products change with the transitions alone.
    """
    sizes, peaks, edge_peak = order.sizes.tolist(), words.amax(-1, keepdim=True), edge.amax(-1, keepdim=True)
    products, reached = (words - peaks).exp_(), (edge - edge_peak).exp()
    found = [products[:, :0]]
    for own, num_going_on in zip(products.split(sizes, dim=1), [*sizes, 0][1:], strict=True):
        found.append(reached.expand_as(own))
        reached = torch.bmm(own.mul_(reached)[:, :num_going_on], links)
    total = products.sum(-1)
    if not bool(((total > SMALL) & (total < 1 / SMALL)).all()):
        return None
    own = torch.empty_like(peaks).index_copy(1, order.rows, peaks)  # sentence after sentence
    summed = own.cumsum(1)
    before = (summed - own)[:, lengths.cumsum(0) - lengths].repeat_interleave(lengths, dim=1)
    # A word's own score is added as it is: it is in both messages, and is subtracted once.
    others = torch.cat(found, dim=1).clamp_min(TINY).log()
    return others + (words - peaks) + (summed - before)[:, order.rows] + edge_peak


def _by_logs(words: Float[Tensor, "2 n C"], edge: Tensor, links: Tensor, order: TimeMajor) -> Float[Tensor, "2 n C"]:
    """The same for any scores."""
    sizes, reached, found = order.sizes.tolist(), edge, [edge[:, :0]]
    for own, num_going_on in zip(words.split(sizes, dim=1), [*sizes, 0][1:], strict=True):
        found.append(reached + own)
        message = found[-1][:, :num_going_on]
        peak = message.amax(-1, keepdim=True)
        reached = torch.bmm((message - peak).exp(), links).clamp_min(TINY).log() + peak
    return torch.cat(found, dim=1)
