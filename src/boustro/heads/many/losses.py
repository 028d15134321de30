"""The gradient of the losses of many heads by their scores; each head's loss is the mean over the words of its batch.

    softmax   (probability of each tag - 1 for the gold one) / words
    CRF       (expected count of each tag - 1 for the gold one) / words; likewise for the CRF's own parameters

H heads, P pairs of a word and a head (`many.groups`), C tags.
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
from boustro.heads.many.groups import JointBatch

CRF_NAMES = ("crf.starts", "crf.transitions", "crf.ends")


class SoftmaxGradient:
    """Of the cross-entropy: (P, C) from scores (P, C)."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._onehot = torch.eye(len(labels))

    def __call__(self, scores: Tensor, batch: JointBatch) -> Tensor:
        onehot = self._onehot.index_select(0, batch.tags)
        return scores.softmax(-1).sub_(onehot).mul_(batch.weights[batch.heads].unsqueeze(1))


class CRFGradient:
    """Of a CRF's negative log-likelihood; writes the gradients of the CRFs' own parameters (H, ...) as well."""

    def __init__(self, labels: Sequence[str], parameters: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        self._valid, self._onehot = valid_transitions(labels), torch.eye(len(labels), dtype=torch.float64)
        self._parameters = [parameters[name] for name in CRF_NAMES]
        self._gradients = [gradients[name] for name in CRF_NAMES]

    def __call__(self, scores: Tensor, batch: JointBatch) -> Tensor:
        num_heads, num_tags = len(batch.lengths), scores.shape[1]
        lengths = torch.from_numpy(np.concatenate(batch.lengths))
        heads = torch.from_numpy(np.repeat(np.arange(num_heads), [len(own) for own in batch.lengths]))
        chains = Chains(*make_chain(self._valid, *(parameter[:num_heads] for parameter in self._parameters)))
        expected = expected_counts(exact(scores), lengths, heads, chains)

        at = edges(lengths, len(scores))
        cells = batch.heads * num_tags + batch.tags  # (head, tag) as one number
        pairs = cells[at.followed] * num_tags + batch.tags[at.followed + 1]
        gold = (cells[at.first], pairs, cells[at.last])
        for gradient, mean, used in zip(self._gradients, expected[1:], gold, strict=True):
            excess = mean - torch.bincount(used, minlength=mean.numel()).view_as(mean)
            gradient[:num_heads] = excess * batch.weights.view(-1, *[1] * (excess.dim() - 1))
        onehot = self._onehot.index_select(0, batch.tags)
        return expected.tags.sub_(onehot).mul_(batch.weights[batch.heads].unsqueeze(1)).float()
