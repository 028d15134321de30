"""Bodies of the heads that score words: linear, mlp, a Transformer block, a BiLSTM.

Each maps the words of a batch, end to end (N, d), and the lengths of its sentences (S,) to scores (N, C):

    linear   W · h
    mlp      W2 · ReLU(W1 · h),                W1: d → hidden, W2: hidden → C
    block    W2 · Transformer(W1 · h)
    bilstm   W · [LSTM→(h); LSTM←(h)]

The scores of a sentence depend on nothing else in its batch. Dropout is applied before every affine map, and in the
block also where BERT applies it. `hidden=None` is d. N words, d width.

`Dropout` has its own random numbers on a CPU: PyTorch draws one Bernoulli number per element, on one thread, which in a
small head takes longer than the matrix products. Here one 64-bit random number serves four elements, 16 bits each. So
the probability is rounded to a multiple of 2⁻¹⁶, and the scale is exact for the rounded one.

`both_ways`, the LSTM in each direction over one sentence, is one operator: tracing `nn.LSTM` gives an exported graph a
step for each word, and `boustro.apps.export.onnx` writes this operator as the one of ONNX. Elsewhere `nn.LSTM` is
called as it is.

Source: backward-LM paper, section 3.3 and appendix A (hidden = 768 for the block).
"""

from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from boustro.hardware import multiply
from boustro.heads.layout import by_length, in_batch_order, pad, time_major, unpad
from boustro.heads.options import HiddenOptions, TrainedOptions


@cache
def both_ways() -> Any:
    """Return the operator, which is registered when it is first asked for: what exports nothing need not wait for it.

    It gives (N, 2h), the states at each word, of vectors (N, d) and the weights of `nn.LSTM`: (4h, d), (4h, h), (4h,)
    and (4h,) of each direction.
    """

    @torch.library.custom_op("boustro::both_ways", mutates_args=())
    def operator(x: Tensor, weights: list[Tensor]) -> Tensor:
        start = x.new_zeros(2, 1, weights[1].shape[1])
        states, _, _ = torch.lstm(x[:, None], (start, start), weights, True, 1, 0.0, False, True, False)
        return states[:, 0].clone()

    @operator.register_fake
    def _(x: Tensor, weights: list[Tensor]) -> Tensor:
        return x.new_empty(x.shape[0], 2 * weights[1].shape[1])

    return operator


def lstm_weights(*lstms: nn.LSTM) -> list[Tensor]:
    """Return the weights of both directions, of one `nn.LSTM` that has both or of one for each."""
    names = [name for name, _ in nn.LSTM(1, 1, bidirectional=len(lstms) == 1).named_parameters()]
    return [getattr(lstm, name) for lstm in lstms for name in names]


LEVELS = 1 << 16  # 16 random bits an element: the probability is rounded by at most 2⁻¹⁷


class Dropout(nn.Module):
    """Dropout as `torch.nn.Dropout` has it, drawn faster on a CPU; also seeded by `torch.manual_seed`."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        kept = draw_kept(x.numel(), self.p).view(x.shape).to(x.dtype).mul_(kept_scale(self.p))
        return x * kept if x.requires_grad else kept.mul_(x)  # what a step allocates costs as much as what it computes


def draw_kept(numel: int, p: float, generator: torch.Generator | None = None, room: Tensor | None = None) -> Tensor:
    """Return (numel,) int16: 1 where an element is kept, 0 where it is dropped with probability `p`.

    `generator` is PyTorch's global one by default; `room` is an int64 buffer of at least numel / 4 elements.
    """
    count = -(-numel // 4)
    drawn = torch.empty(count, dtype=torch.int64) if room is None else room[:count]
    drawn.random_(-(1 << 63), None, generator=generator)
    return drawn.view(torch.int16)[:numel].ge_(round(p * LEVELS) - LEVELS // 2)


def kept_scale(p: float) -> float:
    """Return the factor for kept elements that preserves the mean."""
    return LEVELS / (LEVELS - round(p * LEVELS))


ATTENTION_HEAD_WIDTH, GROUP_SENTENCES = 64, 32  # sentences of similar length are padded together for attention


class WordMap(nn.Linear):
    """An affine map of words, (N, d) → (N, k)."""

    def forward(self, input: Float[Tensor, "N d"]) -> Float[Tensor, "N k"]:
        if input.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        return multiply(input.to(torch.get_autocast_dtype("cpu")), self.weight, self.bias)


class PerWord(nn.Sequential):
    """A body that scores every word independently: affine maps, dropout before each, ReLU between them."""

    def maps(self) -> list[nn.Linear]:
        """Return its affine maps in the order in which they are applied; `heads.lockstep` writes it out."""
        return [layer for layer in self if isinstance(layer, nn.Linear)]

    @torch.no_grad()
    def fill(self, weight: np.ndarray, bias: np.ndarray) -> None:
        """Set its only affine map: weight (C, d), bias (C,)."""
        (layer,) = self.maps()
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))

    def forward(self, x: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N C"]:
        return super().forward(x)


def linear(width: int, num_labels: int, options: TrainedOptions) -> PerWord:
    """Return one affine map."""
    return PerWord(Dropout(options.dropout), WordMap(width, num_labels))


def mlp(width: int, num_labels: int, options: HiddenOptions) -> PerWord:
    """Two affine maps with a ReLU between them."""
    hidden, p = options.hidden or width, options.dropout
    return PerWord(Dropout(p), WordMap(width, hidden), nn.ReLU(), Dropout(p), WordMap(hidden, num_labels))


class Block(nn.Module):
    """One layer of BERT's architecture between two affine maps.

    Post-norm, GELU, a feed-forward layer four times as wide, and attention heads of width 64. If 64 does not
    divide `hidden`, their width is its largest divisor below 64 (100 → two of 50). As in the paper's equation, there
    are no position embeddings: the LMs' states encode the position.
    """

    def __init__(self, width: int, num_labels: int, options: HiddenOptions) -> None:
        super().__init__()
        hidden, dropout = options.hidden or width, options.dropout
        self.num_heads = hidden // max(n for n in range(1, ATTENTION_HEAD_WIDTH + 1) if hidden % n == 0)
        self.enter = nn.Sequential(Dropout(dropout), nn.Linear(width, hidden))
        self.queries_keys_values = nn.Linear(hidden, 3 * hidden)
        self.attended = nn.Sequential(nn.Linear(hidden, hidden), Dropout(dropout))
        self.attended_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.feed_forward = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden), Dropout(dropout)
        )
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.leave = nn.Sequential(Dropout(dropout), nn.Linear(hidden, num_labels))
        self.weight_dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "N C"]:
        """Scores (logits)."""
        x = self.enter(x)
        groups = by_length(lengths.to(x.device), x.shape[0], GROUP_SENTENCES)
        projected = self.queries_keys_values(x)
        gathered = in_batch_order([self._attend(projected[group.rows], group.lengths) for group in groups], groups)
        x = self.attended_norm(x + self.attended(gathered))
        return self.leave(self.norm(x + self.feed_forward(x)))

    def _attend(self, projected: Float[Tensor, "n k"], lengths: Int[Tensor, " s"]) -> Float[Tensor, "n h"]:
        """Return each word's weighted sum of the values of its own sentence; the weight of padding is exactly 0."""
        padded, mask = pad(projected, lengths)
        head_width = padded.shape[2] // 3 // self.num_heads
        split = padded.view(*mask.shape, 3, self.num_heads, head_width)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)  # each (s, heads, T, head_width)
        similarity = (queries * head_width**-0.5) @ keys.transpose(-1, -2)
        weights = similarity.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
        mixed = self.weight_dropout(weights) @ values
        return unpad(mixed.transpose(1, 2).flatten(2), mask)


class BiLSTM(nn.Module):
    """One LSTM in each direction, each with half of `hidden` units (rounded down)."""

    def __init__(self, width: int, num_labels: int, options: HiddenOptions) -> None:
        super().__init__()
        half = (options.hidden or width) // 2
        self.dropout = Dropout(options.dropout)
        self.lstm = nn.LSTM(width, half, bidirectional=True)
        self.leave = nn.Sequential(Dropout(options.dropout), nn.Linear(2 * half, num_labels))

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "N C"]:
        """Scores (logits)."""
        return self.leave(self.states(x, lengths))

    def states(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "N h"]:
        """Return the states of both directions, joined; a graph that is exported reads one sentence."""
        if torch.compiler.is_exporting():
            return both_ways()(x, lstm_weights(self.lstm))
        (group,) = by_length(lengths.to(x.device), len(x), max(1, len(lengths)))
        if not len(x):
            return x.new_zeros(0, 2 * self.lstm.hidden_size)  # nn.LSTM refuses an empty batch
        order = time_major(group.lengths)
        rows = group.rows[order.rows]
        states, _ = self.lstm(PackedSequence(self.dropout(x)[rows].float(), order.sizes))
        return torch.empty_like(states.data).index_copy(0, rows, states.data)
