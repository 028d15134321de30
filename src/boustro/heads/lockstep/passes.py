"""The forward and backward pass of several groups of heads, written out: linear and mlp.

    linear   s = x W₁ᵀ + b₁
    mlp      z = dropout(relu(x W₁ᵀ + b₁)),  s = z W₂ᵀ + b₂

x is the words' vectors after dropout. Given g, the gradient of the losses by the scores s:

    ∂W₂ = gᵀ z    ∂b₂ = Σ g    g' = g W₂ · [z > 0]    ∂W₁ = g'ᵀ x    ∂b₁ = Σ g'      (linear: g' = g)

Dropout only sets to zero; the scale of the kept elements is applied in the products. Scores and hidden units of all
groups are end to end in one matrix, (P, C) and (P, h), for the operations that run once for all groups.

k heads of a group and n of its words, P pairs (word, head) of all groups; d width of a vector, h hidden width, C tags.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from boustro.heads.dropout import draw_kept, kept_scale
from boustro.heads.lockstep.batches import BatchGroup, JointBatch, TrainingWords

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
        """(numel,) int16, 1 where an element is kept; valid until the next call."""
        return draw_kept(numel, self.dropouts[group], self._generators[group], self._drawn)

    def drop(self, batch: JointBatch) -> Sequence[Tensor]:
        """The vectors after dropout, (n, d) float32 of each group."""
        bits = torch.index_select(self._vectors, 0, batch.rows, out=self._bits[: batch.rows.shape[0]])
        for group, own in enumerate(bits.split(batch.num_words)):
            if self.dropouts[group]:
                own.mul_(self.draw(group, own.numel()).view_as(own))  # times 0 or 1: the bits of 0, or unchanged
        return self._x[: bits.shape[0]].copy_(bits.view(torch.float16)).split(batch.num_words)

    def first_map(self, group: int, x: Tensor) -> Tensor:
        """(n, k · out)"""
        return torch.addmm(self._biases[group], x, self._weights[group], alpha=self.scales[group])

    def first_gradients(self, words: Sequence[Tensor], gradient: Tensor, batch: JointBatch) -> None:
        """Of the first map, from the gradient (P, out) by its output."""
        self.bias_gradients[0].zero_().index_add_(0, batch.heads, gradient)
        parts = zip(words, self.by_group(gradient, batch), self._weight_gradients, self.scales, strict=False)
        for x, own, result, scale in parts:
            by_output = own.mT.reshape(result.shape[0], x.shape[0])
            torch.addmm(result, by_output, x, beta=0, alpha=scale, out=result)

    def by_group(self, pairs: Tensor, batch: JointBatch) -> list[Tensor]:
        """(k, n, out) of each group, from (P, out)."""
        parts = zip(pairs.split(batch.num_pairs), self.num_heads, batch.num_words, strict=False)
        return [own.view(heads, words, pairs.shape[1]) for own, heads, words in parts]


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


PASSES: dict[int, type[_Pass]] = {1: _LinearPass, 2: _MlpPass}
"""By the number of affine maps from the vectors to the scores."""
