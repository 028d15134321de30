"""The gradient of a convoy's losses by its scores: of every head's mean loss over the words of its batch.

    softmax   slope = (probability of each tag - 1 at the right one) / words
    CRF       slope = (expected count of each tag - 1 at the right one) / words; its own parameters likewise

H heads of a convoy, P pairs of a word and a head (`lanes`), C tags.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from boustro.heads.crf.chain import exact
from boustro.heads.crf.chains import Chains, expected_counts
from boustro.heads.crf.layer import make_chain
from boustro.heads.crf.transitions import valid_transitions
from boustro.heads.layout import edges
from boustro.heads.many.groups import Batch

CRF_NAMES = ("crf.starts", "crf.transitions", "crf.ends")


class SoftmaxSlope:
    """Of the cross-entropy: (P, C) from scores (P, C)."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._onehot = torch.eye(len(labels))

    def __call__(self, scores: Tensor, batch: Batch) -> Tensor:
        onehot = self._onehot.index_select(0, batch.tags)
        return scores.softmax(-1).sub_(onehot).mul_(batch.shares[batch.heads].unsqueeze(1))


class CRFSlope:
    """Of a CRF's negative log-likelihood; writes the gradients of the CRFs' own parameters (H, ...) as well."""

    def __init__(self, labels: Sequence[str], parameters: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        self._valid, self._onehot = valid_transitions(labels), torch.eye(len(labels), dtype=torch.float64)
        self._parameters = [parameters[name] for name in CRF_NAMES]
        self._gradients = [gradients[name] for name in CRF_NAMES]

    def __call__(self, scores: Tensor, batch: Batch) -> Tensor:
        num_heads, num_tags = len(batch.lengths), scores.shape[1]
        lengths = torch.from_numpy(np.concatenate(batch.lengths))
        heads = torch.from_numpy(np.repeat(np.arange(num_heads), [len(own) for own in batch.lengths]))
        chains = Chains(*make_chain(self._valid, *(parameter[:num_heads] for parameter in self._parameters)))
        expected = expected_counts(exact(scores), lengths, heads, chains)

        at = edges(lengths, len(scores))
        places = batch.heads * num_tags + batch.tags  # (head, tag) as one number
        pairs = places[at.followed] * num_tags + batch.tags[at.followed + 1]
        gold = (places[at.first], pairs, places[at.last])
        for gradient, mean, used in zip(self._gradients, expected[1:], gold, strict=True):
            slope = mean - torch.bincount(used, minlength=mean.numel()).view_as(mean)
            gradient[:num_heads] = slope * batch.shares.view(-1, *[1] * (slope.dim() - 1))
        onehot = self._onehot.index_select(0, batch.tags)
        return expected.tags.sub_(onehot).mul_(batch.shares[batch.heads].unsqueeze(1)).float()
