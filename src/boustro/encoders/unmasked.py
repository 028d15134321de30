"""A causal LM with its causal mask removed, in all blocks or in a range: every piece sees both sides.

Nothing is trained, so the model is used in a way that it never met in pretraining. With 4 blocks:

    unmasked:PATH        blocks 1, 2, 3, 4 without the mask
    unmasked:3-4:PATH    1 and 2 as pretrained, 3 and 4 without the mask
    unmasked:3:PATH      only block 3 without the mask
    unmasked:DIR         an LM that `boustro adapt` trained for this, in the blocks it was trained for (`adapted`)

How the mask is removed: `models.unmask`.
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
