"""Bodies of the heads that score words: linear, mlp, a Transformer block, a BiLSTM.

Each maps the words of a batch, end to end (N, d), and the lengths of its sentences (S,) to scores (N, C):

    linear   W · h
    mlp      W2 · ReLU(W1 · h),                W1: d → hidden, W2: hidden → C
    block    W2 · Transformer(W1 · h)
    bilstm   W · [LSTM→(h); LSTM←(h)]

The scores of a sentence depend on nothing else in its batch. Dropout is applied before every affine map, and in the
block also where BERT applies it. `hidden=None` is d.

Source: backward-LM paper, section 3.3 and appendix A (hidden = 768 for the block).
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from boustro.heads.dropout import Dropout
from boustro.heads.layout import by_length, pad, restore, time_major, unpad
from boustro.heads.options import HiddenOptions, TrainedOptions
from boustro.heads.recurrent import both_ways, weights_of

HEAD_WIDTH, GROUP_SENTENCES = 64, 32  # sentences of similar length are padded together for attention


class PerWord(nn.Sequential):
    """A body that scores every word independently: affine maps, dropout before each, ReLU between them."""

    def maps(self) -> list[nn.Linear]:
        """Its affine maps in the order in which they are applied; `heads.lockstep` writes it out."""
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
    """One affine map."""
    return PerWord(Dropout(options.dropout), nn.Linear(width, num_labels))


def mlp(width: int, num_labels: int, options: HiddenOptions) -> PerWord:
    """Two affine maps with a ReLU between them."""
    hidden, p = options.hidden or width, options.dropout
    return PerWord(Dropout(p), nn.Linear(width, hidden), nn.ReLU(), Dropout(p), nn.Linear(hidden, num_labels))


class Block(nn.Module):
    """One layer of BERT's architecture between two affine maps.

    Post-norm, GELU, a feed-forward layer four times as wide, and attention heads of width 64. If 64 does not
    divide `hidden`, their width is its largest divisor below 64 (100 → two of 50). As in the paper's equation, there
    are no position embeddings: the LMs' states encode the position.
    """

    def __init__(self, width: int, num_labels: int, options: HiddenOptions) -> None:
        super().__init__()
        hidden, dropout = options.hidden or width, options.dropout
        self.num_heads = hidden // max(n for n in range(1, HEAD_WIDTH + 1) if hidden % n == 0)
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
        gathered = restore([self._attend(projected[group.rows], group.lengths) for group in groups], groups)
        x = self.attended_norm(x + self.attended(gathered))
        return self.leave(self.norm(x + self.feed_forward(x)))

    def _attend(self, projected: Float[Tensor, "n k"], lengths: Int[Tensor, " s"]) -> Float[Tensor, "n h"]:
        """Each word's weighted sum of the values of its own sentence; the weight of padding is exactly 0."""
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
        """The states of both directions, joined; a graph that is exported reads one sentence."""
        if torch.compiler.is_exporting():
            return both_ways(x, weights_of(self.lstm))
        (group,) = by_length(lengths.to(x.device), len(x), max(1, len(lengths)))
        if not len(x):
            return x.new_zeros(0, 2 * self.lstm.hidden_size)  # nn.LSTM refuses an empty batch
        order = time_major(group.lengths)
        rows = group.rows[order.rows]
        states, _ = self.lstm(PackedSequence(self.dropout(x)[rows].float(), order.sizes))
        return torch.empty_like(states.data).index_copy(0, rows, states.data)
