"""One LM as an encoder: a causal one as it is, without its mask, or given the text several times; and a masked LM.

`gpt2`, `backward:PATH`. A backward LM, whose config may not say so, is given the pieces reversed, [5, 7, 9] →
[9, 7, 5]; only this file and `reading` know about that.

`unmasked:PATH`. The causal mask is removed, in all blocks or in a range (`models.blocks`): every piece sees both sides.
Nothing is trained, so the model is used in a way that it never met in pretraining, except for an LM that `boustro
adapt` trained for it (`adapted`).

`repeated:PATH`. The text is read in the last copy, which has seen all of it:

    repeated:PATH      [S] p0 p1 p2 ⏎ p0 p1 p2                   states of the second p0 p1 p2
    repeated:3:PATH    [S] p0 p1 p2 ⏎ p0 p1 p2 ⏎ p0 p1 p2        states of the third

The text `between` separates copies. The window holds all copies, so windows of a long text are shorter. `before` is
the state before the word in the last copy, which has seen the word in earlier copies. One copy is the LM as it is.
Sources: Springer et al. 2024 (echo embeddings); for sequence labelling, with early exit, Kukić et al. 2026, who
fine-tune; here all is frozen. `layers` makes the early exit: no block above the highest one is computed.

`masked:PATH`. A reading of a masked LM is framed as the model was trained, [CLS] … [SEP]. `before` is the state of the
piece on the left, which here knows the word as well; it helps all the same (docs/results.md).
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from boustro.encoders.base import Identity
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import pad_rows
from boustro.encoders.transformer import PARAGRAPH, TransformerEncoder, padding_mask
from boustro.models.blocks import parse_blocks, remove_mask
from boustro.models.packed import refuse_cut
from boustro.models.pretrained import architecture_kind, causal_class, describe_architecture, refuse_no_causal_lm
from boustro.store import Artefact
from boustro.text.start import frame_of, is_recorded, run_up_pieces, start_pieces
from boustro.types import Direction

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TRIED_PIECES = 12
"""Pieces of a trial whether an LM's cache gives the same states."""
ROUNDING_SHARE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 0.1, torch.int8: 1e-3}
"""Of the length of a state, by what it is computed in: how far rounding alone moves it."""


class LMEncoder(TransformerEncoder):
    """Reads in `direction`, by default that of the model's config, else forward; `ValueError` for no causal LM.

    A reading begins with the start piece and the run-up (`text.start`), which are computed once for all readings.
    """

    default_pooling = "exit+before"
    own_type = "llama"

    def __init__(
        self, place: str | Artefact, reading: ReadingOptions, *, direction: Direction | None = None, **common: Any
    ):
        self._direction = direction
        super().__init__(place, reading, **common)

    def _refuse_other_kind(self, path: str, config: Any) -> None:
        if architecture_kind(config) == "masked":
            raise ValueError(
                f"{path} is {describe_architecture(config)}, which reads both ways already; name it masked:{path}"
            )
        refuse_no_causal_lm(path, config)

    def _frame(self, config: Any, reading: ReadingOptions) -> tuple[list[int], list[int]]:
        self.backward = (self._direction or getattr(config, "direction", "forward")) == "backward"
        self._start = start_pieces(self.tokenizer, config, reading.start_piece, backward=self.backward)
        return [*self._start, *run_up_pieces(self.tokenizer, config, reading.prefix, backward=self.backward)], []

    def identity(self) -> Identity:
        return replace(super().identity(), direction="backward" if self.backward else "forward")

    def language_model(self) -> "PreTrainedModel":
        """Return the whole LM: this encoder's `model`, not a copy, and the head that predicts pieces."""
        refuse_cut(self.spec, self.config)
        lm = self._load(causal_class(self.model.config), self.model.config, self.model.dtype)
        setattr(lm, lm.base_model_prefix, self.model)
        lm.tie_weights()
        return lm

    @property
    def trained_by_boustro(self) -> bool:
        """Whether the LM's config records how it was trained."""
        return is_recorded(self.config)

    @property
    def start(self) -> list[int]:
        """Ids that a text of its own begins with: the start piece, or nothing."""
        return list(self._start)

    @property
    def before(self) -> list[int]:
        """The pieces before every reading: the start piece and the run-up."""
        return list(self._prefix)

    @torch.inference_mode()
    def states_of(self, ids: Sequence[int]) -> Tensor:
        """Return (P, L, D): the states of the layers that are kept after each of these pieces, at the start of a
        text."""
        row = self._row(ids)
        states = self._hidden_states(torch.tensor([row], device=self.device), [len(row)])
        return torch.stack([states[layer][0, self._origin(len(ids)) :] for layer in self.layers], dim=1)

    @torch.inference_mode()
    def states_after(self, before: Sequence[int], texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """For each text (P, L, D), in float32 on the CPU: the states of its pieces behind `before`, in place of the
        start piece and the run-up."""
        rows = torch.from_numpy(pad_rows([[*before, *text] for text in texts], 0)).to(self.device)
        states = self.body.states(rows)
        kept = torch.stack([states[layer] for layer in self.layers], 2).float().cpu()
        return [part[len(before) : len(before) + len(text)] for part, text in zip(kept, texts, strict=True)]

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Without an attention mask: a causal LM never sees the padding on its right."""
        return self._after_run_up(ids, *self.run_up) if self.run_up else self.body.states(ids)

    def _after_run_up(self, ids: Tensor, cache: Any, begun: Mapping[int, Tensor]) -> Any:
        """Return the states by layer, from the keys and values of the run-up, and its states (1, R, D)."""
        cache = copy.deepcopy(cache)  # reading appends to it, and the next rows begin from the run-up too
        cache.batch_repeat_interleave(len(ids))
        states = self.body.states(ids[:, len(self._prefix) :], cache=cache)
        return {n: torch.cat([begun[n].expand(len(ids), -1, -1), states[n]], 1) for n in self.layers}

    @cached_property
    @torch.inference_mode()
    def run_up(self) -> Any:
        """The cache and the states of the start that all rows share, computed once. `None` where that is only a piece,
        and for an LM that reads on from it otherwise than it reads all at once, which is tried on a few pieces."""
        if len(self._prefix) < 2:
            return None
        row = self._row(self.tokenizer(PARAGRAPH, add_special_tokens=False)["input_ids"][:TRIED_PIECES])
        ids = torch.tensor([row, row], device=self.device)
        cache = self.body.new_cache()
        with suppress(Exception):  # an architecture with another kind of cache raises anything
            states = self.body.states(ids[:1, : len(self._prefix)], cache=cache)
            begun = {n: states[n].clone() for n in self.layers}
            whole = self.body.states(ids)
            on = self._after_run_up(ids, cache, begun)
            if all(self.nearly_equal(on[n], whole[n]) for n in self.layers):
                return cache, begun
        return None

    def nearly_equal(self, states: Tensor, others: Tensor) -> bool:
        """Return whether two computations of a layer's states (…, D) differ by this LM's rounding alone."""
        return nearly_equal(states, others, self._compute)


def nearly_equal(states: Tensor, others: Tensor, dtype: torch.dtype) -> bool:
    """Return whether two computations of states (…, D) in a dtype differ by rounding alone.

    State by state: some LMs have one whose values are thousands of times as large as all others, by which nothing else
    can be measured.
    """
    gaps, lengths = (part.float().norm(dim=-1) for part in (states - others, others))
    return bool((gaps <= ROUNDING_SHARE[dtype] * lengths).all())


class UnmaskedEncoder(LMEncoder):
    """Reads in the LM's direction, with its start piece; `before` knows the word too, unlike that of a causal LM.

    Raises `ValueError` for a range that the model does not have, and for a model whose mask cannot be removed.
    """

    sees_both_sides = True
    run_up: Any = None  # it sees the text
    own_type = None  # the mask is removed from the model of transformers

    def __init__(
        self, place: str | Artefact, reading: ReadingOptions, *, blocks: str | None = None, **common: Any
    ) -> None:
        self._range = blocks
        super().__init__(place, reading, **common)
        first, last = self.blocks = parse_blocks(blocks, self.num_layers, self.spec)
        try:
            remove_mask(self.model, first, min(last, self.num_blocks), self.device)
        except ValueError as error:
            raise ValueError(
                f"{place}: {error}; use it as it is ({place}), repeat the text (repeated:{place}), or pair it with a "
                "backward LM"
            ) from error

    def _needed_blocks(self, highest: int) -> int:
        """At least one block without the mask, so that it is known whether the mask can be removed."""
        return max(highest, parse_blocks(self._range, self.num_layers, self.spec)[0])

    def identity(self) -> Identity:
        return super().identity().with_facts(unmasked=list(self.blocks))

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """With a mask for the padding, which is visible without the causal mask."""
        return self.body.states(ids, padding_mask(ids, lengths))


class RepeatedEncoder(LMEncoder):
    """Raises `ValueError` for a wrong number of copies, and for more than fit into the model's window."""

    def __init__(
        self, place: str | Artefact, reading: ReadingOptions, *, copies: str = "2", between: str = "\n", **common: Any
    ) -> None:
        if not copies.isdecimal() or int(copies) < 1:
            name = common.get("spec") or place
            raise ValueError(f"{name}: the number of copies is a whole number such as 2 or 3, not {copies!r}")
        self._copies, self._separator = int(copies), between
        self.sees_both_sides = self._copies > 1
        super().__init__(place, reading, **common)

    def _frame(self, config: Any, reading: ReadingOptions) -> tuple[list[int], list[int]]:
        given = self.tokenizer(self._separator, add_special_tokens=False)["input_ids"] if self._separator else []
        self._between = list(given)
        return super()._frame(config, reading)

    def identity(self) -> Identity:
        return super().identity().with_facts(copies=self._copies, between=self._between)

    def _room(self, window: int) -> int:
        room = (super()._room(window) - (self._copies - 1) * len(self._between)) // self._copies
        if room < 2:
            raise ValueError(f"{self.spec}: the model's window of {window:,} pieces cannot hold {self._copies} copies")
        return room

    def _row(self, pieces: Sequence[int]) -> list[int]:
        once = list(pieces)
        return [*self._prefix, *(once + self._between) * (self._copies - 1), *once, *self._suffix]

    def _origin(self, num_pieces: int) -> int:
        return super()._origin(num_pieces) + (self._copies - 1) * (num_pieces + len(self._between))

    def last_copy(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Return (B, T, L, D) the states of texts of T pieces each, in reading order, of the layers that are read."""
        rows = torch.tensor([self._row(text) for text in texts], device=self.device)
        states, first = self._hidden_states(rows, [rows.shape[1]] * len(rows)), self._origin(len(texts[0]))
        return torch.stack([states[layer][:, first : first + len(texts[0])] for layer in self.layers], 2)


class MaskedEncoder(TransformerEncoder):
    """Raises `ValueError` for a model that is not a masked LM, and for a tokenizer without a mask piece."""

    default_pooling = "exit+before"
    sees_both_sides = True
    own_type = "bert"
    observe: Callable[[Tensor, Sequence[int], Tensor], None] | None = None
    """Is given the ids, the lengths and the last states of all that this body reads."""

    def _refuse_other_kind(self, path: str, config: Any) -> None:
        kind = architecture_kind(config)
        if kind == "causal":
            raise ValueError(f"{path} is {describe_architecture(config)}; name it without masked:")
        if kind is None:
            raise ValueError(
                f"{path} is {describe_architecture(config)}, not a masked LM; name a masked LM such as bert-base-cased"
            )

    def _frame(self, config: Any, reading: ReadingOptions) -> tuple[list[int], list[int]]:
        if self.tokenizer.mask_token_id is None:
            raise ValueError(f"{self.path}: its tokenizer has no mask piece, so this is not a masked LM")
        return frame_of(self.tokenizer, self.tokenizer.mask_token)

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        states = self.body.states(ids, padding_mask(ids, lengths))
        if self.observe:
            self.observe(ids, lengths, states[-1])
        return states
