"""A causal LM with its causal mask removed, in all blocks or in a range (`models.unmask`): every piece sees both sides.

Nothing is trained, so the model is used in a way that it never met in pretraining, except for an LM that `boustro
adapt` trained for it (`adapted`).
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from boustro.encoders.identity import Identity
from boustro.encoders.lm import LMEncoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.transformer import padding_mask
from boustro.models.unmask import parse_blocks, remove_mask


class UnmaskedEncoder(LMEncoder):
    """Reads in the LM's direction, with its start piece; `before` knows the word too, unlike that of a causal LM.

    Raises `ValueError` for a range that the model does not have, and for a model whose mask cannot be removed.
    """

    sees_both_sides = True

    def __init__(self, path: str, reading: ReadingOptions, *, blocks: str | None = None, **common: Any) -> None:
        self._range = blocks
        super().__init__(path, reading, **common)
        first, last = self.blocks = parse_blocks(blocks, self._num_layers, self.spec)
        try:
            remove_mask(self.model, first, min(last, self._num_blocks), self.device)
        except ValueError as error:
            raise ValueError(
                f"{path}: {error}; use it as it is ({path}), repeat the text (repeated:{path}), or pair it with a "
                "backward LM"
            ) from error

    def _needed_blocks(self, highest: int) -> int:
        """At least one block without the mask, so that it is known whether the mask can be removed."""
        return max(highest, parse_blocks(self._range, self._num_layers, self.spec)[0])

    def identity(self) -> Identity:
        return super().identity().with_facts(unmasked=list(self.blocks))

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """With a mask for the padding, which is visible without the causal mask."""
        return self._states(input_ids=ids, attention_mask=padding_mask(ids, lengths), use_cache=False)
