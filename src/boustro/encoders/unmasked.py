"""A causal LM with its causal mask removed, in all blocks or in a range (`models.unmask`): every piece sees both sides.

Nothing is trained, so the model is used in a way that it never met in pretraining, except for an LM that `boustro
adapt` trained for it (`adapted`).
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from boustro.encoders.lm import LMEncoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.transformer import padding_mask
from boustro.models.unmask import parse_blocks, remove_mask


class UnmaskedEncoder(LMEncoder):
    """Reads in the LM's direction, with its sentinel; `before` knows the word too, unlike that of a causal LM.

    Raises `ValueError` for a range that the model does not have, and for a model whose mask cannot be removed.
    """

    sees_both_sides = True

    def __init__(self, path: str, reading: ReadingOptions, *, blocks: str | None = None, **common: Any) -> None:
        super().__init__(path, reading, **common)
        self.blocks = parse_blocks(blocks, self._num_layers, self.spec)
        try:
            remove_mask(self.model, *self.blocks)
        except ValueError as error:
            raise ValueError(
                f"{path}: {error}; use it as it is ({path}), repeat the text (repeated:{path}), or pair it with a "
                "backward LM"
            ) from error

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "unmasked": list(self.blocks)}

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """With a mask for the padding, which is visible without the causal mask."""
        return self._states(input_ids=ids, attention_mask=padding_mask(ids, lengths), use_cache=False)
