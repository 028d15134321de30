"""A masked LM of the BERT family as an encoder, `masked:PATH`: every piece sees both sides.

A reading is framed as the model was trained, [CLS] … [SEP]. `before` is the state of the piece on the left, which here
knows the word as well; it helps all the same (docs/results.md).
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from boustro.encoders.transformer import TransformerEncoder, padding_mask
from boustro.models.pretrained import architecture_kind, describe
from boustro.text.start import frame_of


class MaskedEncoder(TransformerEncoder):
    """Raises `ValueError` for a model that is not a masked LM, and for a tokenizer without a mask piece."""

    default_pooling = "exit+before"
    sees_both_sides = True

    def _refuse_other_kind(self, path: str, config: Any) -> None:
        kind = architecture_kind(config)
        if kind == "causal":
            raise ValueError(f"{path} is {describe(config)}; name it without masked:")
        if kind is None:
            raise ValueError(f"{path} is {describe(config)}, not a masked LM; name a masked LM such as bert-base-cased")

    def _frame(self, config: Any, start_piece: str) -> tuple[list[int], list[int]]:
        if self.tokenizer.mask_token_id is None:
            raise ValueError(f"{self._path}: its tokenizer has no mask piece, so this is not a masked LM")
        return frame_of(self.tokenizer, self.tokenizer.mask_token)

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        return self._states(input_ids=ids, attention_mask=padding_mask(ids, lengths))
