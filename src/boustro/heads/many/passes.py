"""The forward and backward pass of a convoy's heads, written out: linear and mlp.

    linear   s = x W₁ᵀ + b₁
    mlp      z = dropout(relu(x W₁ᵀ + b₁)),  s = z W₂ᵀ + b₂

x is what dropout leaves of the words' vectors. Given the slope g, the derivative of the losses by the scores s:

    ∂W₂ = gᵀ z    ∂b₂ = Σ g    g' = g W₂ · [z > 0]    ∂W₁ = g'ᵀ x    ∂b₁ = Σ g'      (linear: g' = g)

Dropout only sets to zero; the scale of what stays goes into the products. Scores and hidden units of all lanes lie
end to end in one matrix, (P, C) and (P, h): what is done once for all needs no more than that.

k heads of a lane and n of its words, P pairs (word, head) of all lanes; d width of a vector, h hidden width, C tags.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from boustro.heads.dropout import draw_kept, kept_scale
from boustro.heads.many.groups import Batch, Lane, Taught

Slope = Callable[[Tensor, Batch], Tensor]
"""The derivative of the losses by scores (P, C), of a batch."""
Stacks = dict[str, Tensor]


class _Step(ABC):
    """Writes the gradients of a batch's losses; here is what linear and mlp share: dropout and the first map.

    Memory for the largest batch is held from step to step: fetched anew each time, it would cost more than the work.
    """

    def __init__(
        self, lanes: Sequence[Lane], taught: Taught, parameters: Stacks, gradients: Stacks, slope: Slope
    ) -> None:
        self.slope, self.widths = slope, [len(lane.runs) for lane in lanes]
        body = [name for name in parameters if name.startswith("body.")]
        weights, biases, weight_gradients = (
            [stacks[name].split(self.widths) for name in body if name.endswith(part)]
            for stacks, part in ((parameters, "weight"), (parameters, "bias"), (gradients, "weight"))
        )  # per map, per lane (k, out, in), (k, out), (k, out, in)
        self.second = [*zip(weights[1], biases[1], weight_gradients[1], strict=True)] if len(weights) > 1 else []
        self._weights = [weight.flatten(0, 1).T for weight in weights[0]]  # (in, k · out)
        self._biases = [bias.flatten() for bias in biases[0]]
        self._weight_gradients = [gradient.flatten(0, 1) for gradient in weight_gradients[0]]
        self.bias_gradients = [gradients[name] for name in body if name.endswith("bias")]
        self.dropouts = [lane.runs[0].dropout for lane in lanes]
        self.scales, self._generators = [*map(kept_scale, self.dropouts)], [lane.generator for lane in lanes]
        most, width = [lane.most_words(taught.starts) for lane in lanes], taught.vectors.shape[1]
        pairs = int(np.dot(most, self.widths))
        self.outputs = [torch.empty(pairs, gradient.shape[1]) for gradient in self.bias_gradients]
        self._back = torch.empty_like(self.outputs[0])
        self._vectors = taught.vectors.view(torch.int16)
        self._bits, self._x = torch.empty(sum(most), width, dtype=torch.int16), torch.empty(sum(most), width)
        self._drawn = torch.empty(-(-max(most) * max(width, self.outputs[0].shape[1]) // 4), dtype=torch.int64)

    @abstractmethod
    def __call__(self, batch: Batch) -> None: ...

    def keep(self, lane: int, numel: int) -> Tensor:
        """(numel,) int16, 1 where an element stays; valid until the next call."""
        return draw_kept(numel, self.dropouts[lane], self._generators[lane], self._drawn)

    def drop(self, batch: Batch) -> Sequence[Tensor]:
        """(n, d) float32 of each lane."""
        bits = torch.index_select(self._vectors, 0, batch.rows, out=self._bits[: batch.rows.shape[0]])
        for lane, own in enumerate(bits.split(batch.num_words)):
            if self.dropouts[lane]:
                own.mul_(self.keep(lane, own.numel()).view_as(own))  # times 0 or 1: the bits of 0, or unchanged
        return self._x[: bits.shape[0]].copy_(bits.view(torch.float16)).split(batch.num_words)

    def first_map(self, lane: int, x: Tensor) -> Tensor:
        """(n, k · out)"""
        return torch.addmm(self._biases[lane], x, self._weights[lane], alpha=self.scales[lane])

    def first_gradients(self, words: Sequence[Tensor], slope: Tensor, batch: Batch) -> None:
        """Of the first map, from the slope (P, out) of what it gave."""
        _sum_by_head(slope, batch, self.bias_gradients[0])
        parts = zip(words, self.by_lane(slope, batch), self._weight_gradients, self.scales, strict=False)
        for x, own, gradient, scale in parts:
            by_output = own.mT.reshape(gradient.shape[0], x.shape[0])
            torch.addmm(gradient, by_output, x, beta=0, alpha=scale, out=gradient)

    def by_lane(self, pairs: Tensor, batch: Batch) -> list[Tensor]:
        """(k, n, out) of each lane, from (P, out)."""
        parts = zip(pairs.split(batch.num_pairs), self.widths, batch.num_words, strict=False)
        return [own.view(width, words, pairs.shape[1]) for own, width, words in parts]


class _LinearStep(_Step):
    def __call__(self, batch: Batch) -> None:
        words, scores = self.drop(batch), self.outputs[0][: batch.tags.shape[0]]
        for lane, (x, s) in enumerate(zip(words, self.by_lane(scores, batch), strict=True)):
            s.transpose(0, 1).copy_(self.first_map(lane, x).view(s.shape[1], s.shape[0], s.shape[2]))
        self.first_gradients(words, self.slope(scores, batch), batch)


class _MlpStep(_Step):
    def __call__(self, batch: Batch) -> None:
        words, (inner, scores) = self.drop(batch), (room[: batch.tags.shape[0]] for room in self.outputs)
        zs = self.by_lane(inner, batch)
        for lane, (x, z, s) in enumerate(zip(words, zs, self.by_lane(scores, batch), strict=True)):
            k, n, h = z.shape
            hidden = self.first_map(lane, x).relu_().view(n, k, h)
            if self.dropouts[lane]:
                hidden.mul_(self.keep(lane, n * h).view(n, 1, h).float())
            z.transpose(0, 1).copy_(hidden)
            weight, bias, _ = self.second[lane]
            torch.baddbmm(bias.unsqueeze(1), z, weight.mT, alpha=self.scales[lane], out=s)
        slope = self.slope(scores, batch)
        _sum_by_head(slope, batch, self.bias_gradients[1])
        back = self._back[: inner.shape[0]]
        parts = zip(self.by_lane(slope, batch), self.by_lane(back, batch), zs, self.second, self.scales, strict=False)
        for g, g_before, z, (weight, _, gradient), scale in parts:
            torch.baddbmm(gradient, g.mT, z, beta=0, alpha=scale, out=gradient)
            torch.baddbmm(g_before, g, weight, beta=0, alpha=scale, out=g_before)
        self.first_gradients(words, back.mul_(inner.sign_()), batch)  # 0 where ReLU or dropout was


def _sum_by_head(pairs: Tensor, batch: Batch, result: Tensor) -> None:
    result.zero_().index_add_(0, batch.heads, pairs)


STEPS: dict[str, type[_Step]] = {"linear": _LinearStep, "mlp": _MlpStep}
