"""A masked LM of the BERT family as an encoder of words: every piece sees both sides at once.

A reading is framed as the model was trained, [CLS] … [SEP]. `before` is then the state of the piece on the
left, which knows the word as well, so that it is no pure context as it is in a causal LM; it helps all the same
(docs/results.md).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from boustro.encoders.transformer import TransformerEncoder
from boustro.encoders.windows import Window, plan_centred_windows
from boustro.models.kinds import architecture_kind


class MaskedEncoder(TransformerEncoder):
    """Raises `ValueError` for an architecture that no masked LM has, and for a tokenizer without a mask piece."""

    default_pooling = "exit+before"

    def _frame(self, config: Any) -> tuple[list[int], list[int]]:
        if architecture_kind(config) != "masked":
            raise ValueError(
                f"{self._path} is a causal LM ({config.model_type}), which masked: cannot read; name it without masked:"
            )
        if self.tokenizer.mask_token_id is None:
            raise ValueError(f"{self._path}: its tokenizer has no mask piece, so this is no masked LM")
        framed = self.tokenizer(self.tokenizer.mask_token)["input_ids"]
        place = framed.index(self.tokenizer.mask_token_id)
        return framed[:place], framed[place + 1 :]

    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        return plan_centred_windows(text, num_pieces, self._window, -len(self._prefix))

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        positions = torch.arange(ids.shape[1], device=ids.device)
        mask = (positions < torch.tensor(lengths, device=ids.device)[:, None]).long()
        return self._states(input_ids=ids, attention_mask=mask)
