"""A prompt and the places to write on, as one batch: what a masked LM reads while a text is written or scored.

    prompts [[5, 7, 2], [4]], 2 places      prefix     [5, 7, 2]    suffix  [M, M]      M: the mask piece
                                                       [-, -, 4]            [M, M]      -: padding, on the left
                                            documents  [0, 0, 0, 0, 0]
                                                       [-1, -1, 0, 0, 0]

Every row reads as if it were alone: padding is a document of its own, and positions count from the first true piece.
A frame of the tokenizer (BERT's [CLS] … [SEP]) stands around the whole. B rows, P pieces of prefix, S places, V pieces.

    read = canvas.reader()      read(suffix)            log-probabilities (B, S, V) of all places
                                read(suffix, places)    of the places (B, K) alone: (B, K, V)

With the prefix mask the prefix never sees the suffix, so its keys and values are computed once, and each reading costs
S places in place of P + S; the numbers are the same but for rounding. Source: BiGLM, section 2.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import DynamicCache

from boustro.lab.generation.models import MaskedLM, likeliest_lengths
from boustro.lab.masked import at, encode, packed_attention, packed_positions, prediction_head

Sides = tuple[Sequence[int], Sequence[int]]
"""The pieces on the left and on the right of a gap."""


@runtime_checkable
class SuffixReader(Protocol):
    """Reads pieces of the suffix, mask pieces among them; gives log-probabilities of what can be written there."""

    @property
    def dtype(self) -> torch.dtype:
        """Type that the LM computes in: log-probabilities are equal within its rounding (`draws.in_order`)."""
        ...

    def __call__(
        self, suffix: Int[Tensor, "B S"], places: Int[Tensor, "B K"] | None = None
    ) -> Float[Tensor, "B K V"]: ...


@dataclass(frozen=True)
class Predicting:
    """A `SuffixReader` of what can be written, from `states`: suffix (B, S) → (B, at least S, d), the suffix first."""

    model: MaskedLM
    states: Callable[[Tensor], Tensor]
    num_places: int
    writable: Bool[Tensor, " V"]

    @property
    def dtype(self) -> torch.dtype:
        return self.model.lm.dtype

    @torch.inference_mode()
    def __call__(self, suffix: Int[Tensor, "B S"], places: Int[Tensor, "B K"] | None = None) -> Float[Tensor, "B K V"]:
        states, head = self.states(suffix), prediction_head(self.model.lm)
        logits = head(states[:, : self.num_places] if places is None else at(states, places)).float()
        return logits.masked_fill(~self.writable, -torch.inf).log_softmax(-1)


@dataclass(frozen=True)
class Canvas:
    """A batch of prompts, each followed by the same number of places."""

    model: MaskedLM
    prefix: Int[Tensor, "B P"]
    """With padding on the left; the frame's pieces before the text included."""
    padding: Bool[Tensor, "B P"]
    num_places: int

    @staticmethod
    def of(model: MaskedLM, prompts: Sequence[Sequence[int]], num_places: int) -> "Canvas":
        """Raises `ValueError` where a prompt and the places are longer than the model's window."""
        rows = [[*model.before, *prompt] for prompt in prompts]
        longest = max(map(len, rows))
        model.refuse_longer(longest + num_places + len(model.after))
        fill = model.mask_id
        prefix = torch.tensor([[fill] * (longest - len(row)) + row for row in rows], device=model.device)
        padding = torch.tensor([[True] * (longest - len(row)) + [False] * len(row) for row in rows], dtype=torch.bool)
        shape = (len(rows), longest)
        return Canvas(model, prefix.long().view(shape), padding.to(model.device).view(shape), num_places)

    def blank(self) -> Int[Tensor, "B S"]:
        """Return the places, all hidden."""
        return self.prefix.new_full((len(self.prefix), self.num_places), self.model.mask_id)

    def likeliest_lengths(self, count: int, most: int) -> list[list[int]]:
        """For each prompt the likeliest lengths that the model's length head expects."""
        assert self.model.length_head is not None
        with torch.inference_mode():
            states = encode(self.model.lm, self.prefix, -self.padding.long())
        return likeliest_lengths(self.model.length_head, states, ~self.padding, count, most)

    def reader(self, cached: bool | None = None) -> SuffixReader:
        """Return the function that reads the suffix; `cached` by default where the prefix can be computed once.

        Raises `ValueError` for a cache with a model that does not allow it.
        """
        if cached:
            self.model.refuse_cache()
        reads_prefix_once = self.model.has_prefix_cache if cached is None else cached
        read = self._cached() if reads_prefix_once and self.prefix.shape[1] else self._whole()
        return Predicting(self.model, read, self.num_places, self.model.writable)

    def _frame(self) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"] | None]:
        """Documents, and which pieces the prefix does not see, of prefix, suffix and what stands after it."""
        rows, seen = self.prefix.shape
        tail = self.num_places + len(self.model.after)
        documents = torch.cat([-self.padding.long(), self.prefix.new_zeros(rows, tail)], dim=1)
        if not self.model.has_prefix_mask:
            return documents, None
        places = torch.arange(seen + tail, device=documents.device)
        return documents, (places >= seen).expand_as(documents)

    def _tail(self, suffix: Int[Tensor, "B S"]) -> Int[Tensor, "B Y"]:
        """Return the suffix and what stands after it."""
        after = suffix.new_tensor(self.model.after).expand(len(suffix), -1)
        return torch.cat([suffix, after], dim=1)

    def _whole(self) -> Callable[[Tensor], Tensor]:
        """Prefix and suffix in every reading."""
        documents, hidden = self._frame()

        def states(suffix: Tensor) -> Tensor:
            ids = torch.cat([self.prefix, self._tail(suffix)], dim=1)
            return encode(self.model.lm, ids, documents, hidden)[:, self.prefix.shape[1] :]

        return states

    def _cached(self) -> Callable[[Tensor], Tensor]:
        """Return the prefix once, then the suffix alone."""
        (documents, hidden), seen, lm = self._frame(), self.prefix.shape[1], self.model.lm
        body, positions = lm.base_model, packed_positions(documents)
        mask = packed_attention(documents, lm.config, lm.dtype, hidden)
        assert isinstance(mask, Tensor), "EuroBERT has one kind of block"
        cache = DynamicCache()
        with torch.inference_mode():
            body(
                input_ids=self.prefix,
                attention_mask=mask[:, :, :seen, :seen],
                position_ids=positions[:, :seen],
                past_key_values=cache,
            )

        def states(suffix: Tensor) -> Tensor:
            tail = self._tail(suffix)
            hidden_states = body(
                input_ids=tail,
                attention_mask=mask[:, :, seen:],
                position_ids=positions[:, seen:],
                past_key_values=cache,
            ).last_hidden_state
            cache.crop(-tail.shape[1])
            return hidden_states

        return states


def between(
    model: MaskedLM, contexts: Sequence[Sides], length: int, writable: Tensor | None = None
) -> tuple[SuffixReader, Int[Tensor, "B S"]]:
    """Return the function that reads the places between two contexts, and the places, all hidden; padding as on a
    canvas.

        left [5, 7], 2 places, right [9]      5 7 M M 9
        left [8], 2 places, right [2, 4]      - 8 M M 2 4

    What a prefix mask hides from the left context is hidden here as in training. `writable` (V',) says which of the
    first V' pieces may be written, by default all but special ones.
    """
    before = [[*model.before, *left] for left, _ in contexts]
    after = [[*right, *model.after] for _, right in contexts]
    wide, tail, mask = max(map(len, before)), max(map(len, after)), model.mask_id
    model.refuse_longer(wide + length + tail)
    ids = [
        [*[mask] * (wide - len(left)), *left, *[mask] * length, *right, *[mask] * (tail - len(right))]
        for left, right in zip(before, after, strict=True)
    ]
    document_ids = [
        [*[-1] * (wide - len(left)), *[0] * (len(left) + length + len(right)), *[-2] * (tail - len(right))]
        for left, right in zip(before, after, strict=True)
    ]
    pieces, documents = (torch.tensor(rows, device=model.device) for rows in (ids, document_ids))
    hidden = None
    if model.has_prefix_mask:
        hidden = (torch.arange(pieces.shape[1], device=model.device) >= wide).expand_as(pieces)
    allowed = model.writable.clone()
    if writable is not None:
        allowed[: len(writable)] &= writable
        allowed[len(writable) :] = False

    def states(suffix: Tensor) -> Tensor:
        whole = torch.cat([pieces[:, :wide], suffix, pieces[:, wide + length :]], dim=1)
        return encode(model.lm, whole, documents, hidden)[:, wide:]

    read = Predicting(model, states, length, allowed)
    return read, pieces.new_full((len(contexts), length), mask)
