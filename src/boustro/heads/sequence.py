"""Bodies of a head that see the whole sentence: the paper's Transformer block, and a BiLSTM.

Both map the words of a batch, end to end, (N, d) and the lengths of its sentences (S,), on whatever device, to scores
(N, C).
What a sentence gets depends on nothing else in its batch. Only what joins words sees sentences at all:
every affine map works on the words alone, so no time is spent on padding.

    Block    p = softmax(W2 · Transformer(W1 · h)),   W1: d → hidden, W2: hidden → C
    BiLSTM   p = softmax(W · [LSTM→(h); LSTM←(h)])

Source: backward-LM paper, section 3.3 and appendix A, where hidden is 768, for the block.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from boustro.heads.dropout import Dropout
from boustro.heads.layout import by_length, pad, restore, time_major, unpad

HEAD_WIDTH = 64
GROUP_SENTENCES = 32  # attention is padded among so many sentences of about one length


class Block(nn.Module):
    """One layer of BERT's architecture between two affine maps; `hidden` None means d.

    Post-norm, GELU, a feed-forward layer four times as wide, and attention heads 64 wide. If 64 does not
    divide `hidden`, they are as wide as its largest divisor below 64 (100 → two of 50). Dropout is where
    BERT has it (on attention weights and on what either sublayer adds), and before both affine maps.

    There are no position embeddings, as in the paper's equation: the LMs' states carry the position, and to
    states that did not, the block would be blind to order.
    """

    def __init__(self, width: int, num_tags: int, hidden: int | None, dropout: float) -> None:
        super().__init__()
        hidden = hidden or width
        self.num_heads = hidden // max(n for n in range(1, HEAD_WIDTH + 1) if hidden % n == 0)
        self.enter = nn.Sequential(Dropout(dropout), nn.Linear(width, hidden))
        self.queries_keys_values = nn.Linear(hidden, 3 * hidden)
        self.attended = nn.Sequential(nn.Linear(hidden, hidden), Dropout(dropout))
        self.attended_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.feed_forward = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden), Dropout(dropout)
        )
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.leave = nn.Sequential(Dropout(dropout), nn.Linear(hidden, num_tags))
        self.weight_dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "N C"]:
        """Tag scores (logits)."""
        x = self.enter(x)
        groups = by_length(lengths.to(x.device), len(x), GROUP_SENTENCES)
        projected = self.queries_keys_values(x)
        gathered = restore([self._attend(projected[group.rows], group.lengths) for group in groups], groups)
        x = self.attended_norm(x + self.attended(gathered))
        x = self.norm(x + self.feed_forward(x))
        return self.leave(x)

    def _attend(self, projected: Float[Tensor, "n k"], lengths: Int[Tensor, " s"]) -> Float[Tensor, "n h"]:
        """Each word's mixture of the values of its own sentence; the weight of padding is exactly 0."""
        padded, mask = pad(projected, lengths)
        num_sentences, longest, triple = padded.shape
        head_width = triple // 3 // self.num_heads
        shape = (num_sentences, longest, 3, self.num_heads, head_width)
        queries, keys, values = padded.view(shape).permute(2, 0, 3, 1, 4)  # each (s, heads, T, head_width)
        similarity = (queries * head_width**-0.5) @ keys.transpose(-1, -2)
        weights = similarity.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
        mixed = self.weight_dropout(weights) @ values
        return unpad(mixed.transpose(1, 2).flatten(2), mask)


class BiLSTM(nn.Module):
    """One LSTM in each direction, each half of `hidden` wide (rounded down); `hidden` None means d.

    It reads all first words, then all second ones, and so on, so that it never runs over padding.
    """

    def __init__(self, width: int, num_tags: int, hidden: int | None, dropout: float) -> None:
        super().__init__()
        half = (hidden or width) // 2
        self.dropout = Dropout(dropout)
        self.lstm = nn.LSTM(width, half, bidirectional=True)
        self.leave = nn.Sequential(Dropout(dropout), nn.Linear(2 * half, num_tags))

    def forward(self, x: Float[Tensor, "N d"], lengths: Int[Tensor, " S"]) -> Float[Tensor, "N C"]:
        """Tag scores (logits)."""
        (group,) = by_length(lengths.to(x.device), len(x), max(1, len(lengths)))
        order = time_major(group.lengths)
        if not len(x):
            return self.leave(x.new_zeros(0, 2 * self.lstm.hidden_size))  # nn.LSTM refuses an empty batch
        rows = group.rows[order.rows]
        states, _ = self.lstm(PackedSequence(self.dropout(x)[rows], order.sizes))
        return self.leave(torch.empty_like(states.data).index_copy(0, rows, states.data))
