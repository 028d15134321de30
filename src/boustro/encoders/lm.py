"""One causal LM as an encoder: `gpt2`, or `backward:PATH` for a backward LM whose config does not say so.

A backward LM is given the pieces reversed, [5, 7, 9] → [9, 7, 5]; only this file and `reading` know about that.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from boustro.encoders.identity import Identity
from boustro.encoders.options import ReadingOptions
from boustro.encoders.transformer import TransformerEncoder
from boustro.models.pretrained import architecture_kind, causal_class, describe, refuse_no_causal_lm
from boustro.text.start import is_recorded, start_pieces
from boustro.types import Direction


class LMEncoder(TransformerEncoder):
    """Reads in `direction`, by default that of the model's config, else forward; `ValueError` for no causal LM.

    A reading begins with the start piece (`text.start`).
    """

    default_pooling = "exit+before"

    def __init__(self, path: str, reading: ReadingOptions, *, direction: Direction | None = None, **common: Any):
        self._direction = direction
        super().__init__(path, reading, **common)

    def _refuse_other_kind(self, path: str, config: Any) -> None:
        if architecture_kind(config) == "masked":
            raise ValueError(f"{path} is {describe(config)}, which reads both ways already; name it masked:{path}")
        refuse_no_causal_lm(path, config)

    def _frame(self, config: Any, start_piece: str) -> tuple[list[int], list[int]]:
        self.backward = (self._direction or getattr(config, "direction", "forward")) == "backward"
        return start_pieces(self.tokenizer, config, start_piece, backward=self.backward), []

    def identity(self) -> Identity:
        return replace(super().identity(), direction="backward" if self.backward else "forward")

    def language_model(self) -> PreTrainedModel:
        """The whole LM: this encoder's `model`, not a copy, and the head that predicts pieces."""
        lm = self._load(causal_class(self.model.config), self.model.config, self.model.dtype)
        setattr(lm, lm.base_model_prefix, self.model)
        lm.tie_weights()
        return lm

    @property
    def is_ours(self) -> bool:
        """Whether the LM's config records how it was trained."""
        return is_recorded(self.model.config)

    @property
    def start(self) -> list[int]:
        """The pieces at the start of every reading: the start piece, or nothing."""
        return list(self._prefix)

    def continue_reading(self, ids: Tensor, **cache: Any) -> Tensor:
        """(P, L, D): the states of the layers that are kept after each of these pieces (1, P), which follow what the
        cache has read."""
        states = self._states(input_ids=ids, **cache)
        return torch.stack([states[layer][0] for layer in self._layers], dim=1)

    @torch.inference_mode()
    def states_of(self, ids: Sequence[int]) -> Tensor:
        """(P, L, D): the same of the pieces at the start of a text."""
        row = self._row(ids)
        states = self._hidden_states(torch.tensor([row], device=self.device), [len(row)])
        return torch.stack([states[layer][0, self._origin(len(ids)) :] for layer in self._layers], dim=1)

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Without an attention mask: a causal LM never sees the padding on its right."""
        return self._states(input_ids=ids, use_cache=False)
