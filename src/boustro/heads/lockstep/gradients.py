"""The gradient of the losses of many heads by their scores; each head's loss is the mean over the words of its batch.

    softmax   (probability of each tag - 1 for the gold one) / words
    CRF       (expected count of each tag - 1 for the gold one) / words; likewise for the CRF's own parameters

H heads, P pairs of a word and a head (`lockstep.batches`), N words of a batch's sentences, C tags.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from boustro.heads.crf.chain import exact, scaled
from boustro.heads.crf.decode import TINY, Chain
from boustro.heads.crf.layer import make_chain, valid_tensors
from boustro.heads.layout import by_length, edges, time_major
from boustro.heads.lockstep.batches import JointBatch


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
        heads = torch.from_numpy(np.repeat(np.arange(num_heads), [len(own) for own in batch.lengths]))
        chains = make_chain(self._valid, *(parameter[:num_heads] for parameter in self._parameters))
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
    """How often each score is used, in expectation over all sequences: per word, and the rest summed by head.

    This is `crf.chain.expectations` for all heads at once: their sentences are processed together, each with a copy of
    its head's links (C² numbers per word and per sentence, which suits small batches):

        head 0  a0 a1 a2 | b0      →  t = 0  a0 b0 c0,  t = 1  a1 c1,  t = 2  a2
        head 1  c0 c1                 links  L₀ L₀ L₁          L₀ L₁          L₀

    `scores` (float64) are those of sentences end to end, `heads` the chain of each, `chains` have a first axis H.
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
    return tags, Chain(first, by_head(pairs, own), last)


def _messages(
    scores: Float[Tensor, "N C"], lengths: Int[Tensor, " S"], head_of: Int[Tensor, " N"], chains: Chain
) -> Float[Tensor, "N 2 C"]:
    """As in `crf.chain`, for all heads at once: a sentence and its reversal are adjacent rows."""
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
