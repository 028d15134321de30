"""A causal LM that is given the text several times and read in the last copy, which has seen all of it.

    repeated:PATH      [S] p0 p1 p2 ⏎ p0 p1 p2                   states of the second p0 p1 p2
    repeated:3:PATH    [S] p0 p1 p2 ⏎ p0 p1 p2 ⏎ p0 p1 p2        states of the third

The text `between` separates copies. The window holds all copies, so windows of a long text are shorter. `before` is
the state before the word in the last copy, which has seen the word in earlier copies. One copy is the LM as it is.

Sources: Springer et al. 2024 (echo embeddings); for sequence labelling, with early exit, Kukić et al. 2026, who
fine-tune; here all is frozen. `layers` makes the early exit: no block above the highest one is computed.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.identity import Identity
from boustro.encoders.lm import LMEncoder
from boustro.encoders.options import ReadingOptions


class RepeatedEncoder(LMEncoder):
    """Raises `ValueError` for a wrong number of copies, and for more than fit into the model's window."""

    def __init__(
        self, path: str, reading: ReadingOptions, *, copies: str = "2", between: str = "\n", **common: Any
    ) -> None:
        if not copies.isdecimal() or int(copies) < 1:
            name = common.get("spec") or path
            raise ValueError(f"{name}: the number of copies is a whole number such as 2 or 3, not {copies!r}")
        self._copies, self._separator = int(copies), between
        self.sees_both_sides = self._copies > 1
        super().__init__(path, reading, **common)

    def _frame(self, config: Any, start_piece: str) -> tuple[list[int], list[int]]:
        given = self.tokenizer(self._separator, add_special_tokens=False)["input_ids"] if self._separator else []
        self._between = list(given)
        return super()._frame(config, start_piece)

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
        """(B, T, L, D) the states of texts of T pieces each, in reading order, of the layers that are read."""
        rows = torch.tensor([self._row(text) for text in texts], device=self.device)
        states, first = self._hidden_states(rows, [rows.shape[1]] * len(rows)), self._origin(len(texts[0]))
        return torch.stack([states[layer][:, first : first + len(texts[0])] for layer in self.layers], 2)
