"""Sentences end to end, and the two other ways of laying them out: padded, and time-major.

Heads take the words of a batch as rows (N, …) without padding, with the `lengths` (S,) of its sentences. The
functions here give the indices that sequence models need, and the way back.

    lengths 3 0 1 2      rows a0 a1 a2 b0 c0 c1   (the second sentence is empty)
    by_length            a0 a1 a2 c0 c1 b0        longest first, empty sentences left out
    pad                  a0 a1 a2 | c0 c1 .. | b0 .. ..
    time_major           a0 c0 b0 | a1 c1 | a2    sizes 3 2 1

N words, S sentences, T words of the longest one.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Some sentences of a batch: `rows` (n,) are the indices of their words, `lengths` (s,) never increase, none 0."""

    rows: Int[Tensor, " n"]
    lengths: Int[Tensor, " s"]


@dataclass(frozen=True, slots=True)
class TimeMajor:
    """All first words, then all second ones: `sizes[t]` sentences have a word t, and those come first.

    `rows` (n,) follows each sentence from its beginning, `flipped` (n,) from its end. `sizes` is on the CPU.
    """

    rows: Int[Tensor, " n"]
    flipped: Int[Tensor, " n"]
    sizes: Int[Tensor, " T"]


@dataclass(frozen=True, slots=True)
class Edges:
    """Rows of the words that begin a sentence, that end one, and that have another word after them."""

    first: Int[Tensor, " s"]
    last: Int[Tensor, " s"]
    followed: Int[Tensor, " p"]


def by_length(lengths: Int[Tensor, " S"], num_words: Any, max_sentences: int) -> list[LengthGroup]:
    """Return a batch of `num_words` words in groups of at most `max_sentences`, the longest sentences first.

    Always at least one group, which is empty if the batch is. Raises `ValueError` as `check_lengths` does. In a graph
    that is exported the whole batch is one group, as it is.
    """
    if torch.compiler.is_exporting():
        return [LengthGroup(torch.arange(num_words, device=lengths.device), lengths)]
    check_lengths(lengths, num_words)
    starts = lengths.cumsum(0) - lengths
    order = lengths.argsort(descending=True, stable=True)
    order = order[: int((lengths > 0).sum())]
    groups = []
    for chosen in order.split(max_sentences):
        sizes = lengths[chosen]
        shifts = starts[chosen] - (sizes.cumsum(0) - sizes)
        rows = shifts.repeat_interleave(sizes) + torch.arange(int(sizes.sum()), device=lengths.device)
        groups.append(LengthGroup(rows, sizes))
    return groups


def in_batch_order(parts: list[Tensor], groups: list[LengthGroup]) -> Shaped[Tensor, "N k"]:
    """Rows that were computed group by group, in the order of the batch."""
    joined = torch.cat(parts)
    if torch.compiler.is_exporting():
        return joined
    return torch.empty_like(joined).index_copy(0, torch.cat([group.rows for group in groups]), joined)


def pad(x: Shaped[Tensor, "N k"], lengths: Int[Tensor, " S"]) -> tuple[Shaped[Tensor, "S T k"], Bool[Tensor, "S T"]]:
    """Return one row per sentence, padded with zeros, and a mask that is true at words; `unpad` is the way back.

    In a graph that is exported, rows are as long as all words together, since no shape may depend on lengths.
    """
    if torch.compiler.is_exporting():
        steps = torch.arange(x.shape[0], device=x.device)
        mask = steps < lengths[:, None]
        rows = (lengths.cumsum(0) - lengths)[:, None] + steps
        return x[rows.clamp_max(x.shape[0] - 1)] * mask[..., None].to(x.dtype), mask
    longest = int(lengths.max()) if len(lengths) else 0
    mask = torch.arange(longest, device=lengths.device) < lengths[:, None]
    padded = x.new_zeros(*mask.shape, x.shape[1])
    padded[mask] = x
    return padded, mask


def unpad(padded: Shaped[Tensor, "S T k"], mask: Bool[Tensor, "S T"]) -> Shaped[Tensor, "N k"]:
    """Return the words of all rows, end to end."""
    if not torch.compiler.is_exporting():
        return padded[mask]
    texts = texts_of(mask.sum(1), mask.shape[1])
    starts = mask.sum(1).cumsum(0) - mask.sum(1)
    return padded[texts, torch.arange(mask.shape[1], device=padded.device) - starts[texts]]


def texts_of(lengths: Int[Tensor, " S"], num_words: Any) -> Int[Tensor, " N"]:
    """Return the number of the text that each of so many words belongs to."""
    if torch.compiler.is_exporting():  # a graph cannot repeat a thing as often as its input says
        return (lengths.cumsum(0)[None] <= torch.arange(num_words, device=lengths.device)[:, None]).sum(1)
    return torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)


def time_major(lengths: Int[Tensor, " s"]) -> TimeMajor:
    """Return the order of a group's words that a recurrence needs; `lengths` must not increase (see `by_length`)."""
    starts = lengths.cumsum(0) - lengths
    steps = torch.arange(int(lengths[0]) if len(lengths) else 0, device=lengths.device)[:, None]
    mask = steps < lengths
    return TimeMajor((starts + steps)[mask], (starts + lengths - 1 - steps)[mask], mask.sum(1).cpu())


def edges(lengths: Int[Tensor, " S"], num_words: int) -> Edges:
    """Where the sentences of a batch begin and end; empty ones do neither. Raises `ValueError` as `check_lengths`."""
    check_lengths(lengths, num_words)
    lengths = lengths[lengths > 0]
    ends = lengths.cumsum(0)
    followed = torch.ones(num_words, dtype=torch.bool, device=lengths.device)
    followed[ends - 1] = False
    return Edges(ends - lengths, ends - 1, followed.nonzero().squeeze(1))


def check_lengths(lengths: Int[Tensor, " S"], num_words: int) -> None:
    """`ValueError` where `lengths` do not sum to `num_words`."""
    if int(lengths.sum()) != num_words:
        raise ValueError(f"the lengths of the sentences sum to {int(lengths.sum())}, but there are {num_words} words")
