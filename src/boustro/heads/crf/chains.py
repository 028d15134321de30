"""The expected counts of many linear chains at once: sentences of many heads, each with the chain of its own head.

`chain.expectations` processes the sentences of one head, time step by time step. For a few-shot batch of four
sentences nearly all of the time is the overhead of calls, and 30 heads have it 30 times. Here the sentences of all
heads are processed together, each with a copy of its head's links:

    head 0  a0 a1 a2 | b0      →  t = 0  a0 b0 c0,  t = 1  a1 c1,  t = 2  a2
    head 1  c0 c1                 links  L₀ L₀ L₁          L₀ L₁          L₀

The mathematics is that of `chain.expectations`, also in float64. The copies take C² numbers per word and per
sentence, which suits small batches; for one head with many sentences use `chain`.

H heads, N words, S sentences, C tags.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.heads.crf.chain import TINY, scaled
from boustro.heads.layout import by_length, edges, time_major


class Chains(NamedTuple):
    """Scores of H chains: of first tags, of pairs (tag, next tag), of last tags; float64, -∞ where not valid."""

    starts: Float[Tensor, "H C"]
    transitions: Float[Tensor, "H C C"]
    ends: Float[Tensor, "H C"]


class ExpectedCounts(NamedTuple):
    """How often each score is used, in expectation over all sequences: per word, and the rest summed by head."""

    tags: Float[Tensor, "N C"]
    starts: Float[Tensor, "H C"]
    transitions: Float[Tensor, "H C C"]
    ends: Float[Tensor, "H C"]


def expected_counts(
    scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], heads: Int[Tensor, " S"], chains: Chains
) -> ExpectedCounts:
    """As `chain.expectations` for the sentences of each head.

    Args:
        scores: Sentences end to end, float64.
        lengths: Words in each.
        heads: The chain of each sentence.
    """
    head_of = heads.repeat_interleave(lengths)  # (N,)
    ahead, back = _messages(scores, lengths, head_of, chains).unbind(1)
    tags = (ahead + back - scores).softmax(-1)
    at = edges(lengths, len(scores))
    own = head_of.index_select(0, at.followed)
    left = scaled(ahead.index_select(0, at.followed)).unsqueeze(2)  # (p, C, 1)
    right = scaled(back.index_select(0, at.followed + 1)).unsqueeze(1)  # (p, 1, C)
    links = chains.transitions.exp()
    pairs = links.index_select(0, own).mul_(left).mul_(right)  # (p, C, C)
    pairs.div_(pairs.sum((1, 2), keepdim=True).clamp_min_(TINY))

    def by_head(counts: Tensor, numbers: Tensor) -> Tensor:
        return counts.new_zeros(len(links), *counts.shape[1:]).index_add_(0, numbers, counts)

    first, last = (by_head(tags[rows], head_of[rows]) for rows in (at.first, at.last))
    return ExpectedCounts(tags, first, by_head(pairs, own), last)


def _messages(
    scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], head_of: Int[Tensor, " N"], chains: Chains
) -> Float[Tensor, "N 2 C"]:
    """Forward and backward messages: log of the sums over all paths to a tag at a word from either end.

    Both include the word's own score. A sentence and its reversal are adjacent rows.
    """
    (group,) = by_length(lengths, len(scores), max(1, len(lengths)))
    order = time_major(group.lengths)
    rows = torch.stack([group.rows[order.rows], group.rows[order.flipped]], 1).flatten()
    sizes = [2 * size for size in order.sizes.tolist()]
    own = head_of[rows[: sizes[0] : 2]] if sizes else head_of
    reached = torch.stack([chains.starts, chains.ends], 1)[own].flatten(0, 1)  # (2s, C)
    links = torch.stack([chains.transitions.mT, chains.transitions], 1).exp()[own].flatten(0, 1)  # (2s, to, from)
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
