"""A causal LM with its mask removed, in all blocks or in a range of them: every piece sees both sides.

Nothing is trained, so the model meets what it has never met in pretraining; how much that costs is for a
comparison to show. Blocks outside the range stay causal. With 4 blocks:

    unmasked:PATH        blocks 1, 2, 3, 4 read both ways
    unmasked:3-4:PATH    1 and 2 as pretrained, 3 and 4 both ways
    unmasked:3:PATH      block 3 alone
    unmasked:DIR         an LM that `boustro adapt` trained for it, in the blocks that it was trained for (`adapted`)

How the mask goes: `models.unmask`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.lm import LMEncoder
from boustro.encoders.windows import Window, plan_centred_windows
from boustro.models.unmask import parse_blocks, remove_mask


class UnmaskedEncoder(LMEncoder):
    """Reads in the LM's direction, with its sentinel; `before` is the state of the piece met before, no pure context.

    Raises `ValueError` for a range that the model does not have, and for a model whose mask cannot be removed.
    """

    def __init__(self, name_or_path: str, *, blocks: str | None = None, **options: Any) -> None:
        super().__init__(name_or_path, **options)
        self.blocks = parse_blocks(blocks, self._num_layers, self.spec)
        try:
            remove_mask(self.model, *self.blocks)
        except ValueError as error:
            raise ValueError(
                f"{name_or_path}: {error}; read it as it is ({name_or_path}), give it twice "
                f"(repeated:{name_or_path}), or pair it with a backward LM"
            ) from error

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "unmasked": list(self.blocks)}

    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        return plan_centred_windows(text, num_pieces, self._window, -len(self._prefix))

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """With a mask for the padding, which stands in sight now."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        mask = (positions < torch.tensor(lengths, device=ids.device)[:, None]).long()
        return self._states(input_ids=ids, attention_mask=mask, use_cache=False)
