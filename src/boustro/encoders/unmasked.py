"""A causal LM with its mask removed, in all blocks or in a range of them: every piece sees both sides.

Nothing is trained, so the model meets what it has never met in pretraining; how much that costs is for a
comparison to show. Blocks outside the range stay causal. With 4 blocks:

    unmasked:PATH        blocks 1, 2, 3, 4 read both ways
    unmasked:3-4:PATH    1 and 2 as pretrained, 3 and 4 both ways
    unmasked:3:PATH      block 3 alone

Sources: mask removal in all blocks, Li et al. 2023 (LS-unLLaMA) and BehnamGhader et al. 2024 (LLM2Vec, which
trains afterwards); in groups of blocks, Dukić and Šnajder 2024. They fine-tune; here all stays frozen.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from boustro.encoders.blocks import find_blocks, keep_causal
from boustro.encoders.lm import LMEncoder
from boustro.encoders.windows import Window, plan_centred_windows

NOTICEABLE = 1e-4  # relative change of a value; a causal state does not change at all


class UnmaskedEncoder(LMEncoder):
    """Reads in the LM's direction, with its sentinel; `before` is the state of the piece met before, no pure context.

    Raises `ValueError` for a range that the model does not have, and for a model whose mask cannot be removed.
    """

    def __init__(self, name_or_path: str, *, blocks: str | None = None, **options: Any) -> None:
        super().__init__(name_or_path, **options)
        num_layers = self._num_layers
        self._range = _parse_range(blocks, num_layers, self.spec)
        for part in self.model.modules():
            if isinstance(part, PreTrainedModel):
                part.config.is_causal = False
        first, last = self._range
        listed = find_blocks(self.model, num_layers)
        try:
            if (first, last) != (1, num_layers):
                if not listed:
                    raise ValueError("its blocks stand in no list")
                for block in listed[: first - 1] + listed[last:]:
                    keep_causal(block)
            self._probe(first)
        except ValueError as error:
            raise ValueError(
                f"{name_or_path}: the causal mask of this architecture ({self.model.config.model_type}) cannot be "
                f"removed in block {first}: {error}; read it as it is ({name_or_path}), give it twice "
                f"(repeated:{name_or_path}), or pair it with a backward LM"
            ) from error

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "unmasked": list(self._range)}

    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        return plan_centred_windows(text, num_pieces, self._window, -len(self._prefix))

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """With a mask for the padding, which stands in sight now."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        mask = (positions < torch.tensor(lengths, device=ids.device)[:, None]).long()
        return self._states(input_ids=ids, attention_mask=mask, use_cache=False)

    @torch.inference_mode()
    def _probe(self, first: int) -> None:
        """Change the last of a few pieces: the states before it must follow from block `first` on, not sooner."""
        rows = torch.arange(1, 7, device=self.device).expand(2, 6).clone()
        rows[1, -1] = 7
        one, other = (
            self.model(
                input_ids=row[None],
                attention_mask=torch.ones_like(row)[None],
                output_hidden_states=True,
                use_cache=False,
            ).hidden_states
            for row in rows
        )
        follows = [_differ(a[:, :-1], b[:, :-1]) for a, b in zip(one[: first + 1], other[: first + 1], strict=True)]
        if not follows[first]:
            raise ValueError("what follows a piece still does not reach it")
        if any(follows[:first]):
            raise ValueError("the blocks below would see what follows as well")


def _differ(one: Tensor, other: Tensor) -> bool:
    """Whether a tenth of the values or more have changed noticeably."""
    return ((one - other).abs() > NOTICEABLE * one.abs()).float().mean().item() > 0.1


def _parse_range(text: str | None, num_layers: int, spec: str) -> tuple[int, int]:
    """`"3-4"` → (3, 4), `"3"` → (3, 3), None → (1, num_layers)."""
    if text is None:
        return 1, num_layers
    ends = [int(end) if end else 0 for end in text.split("-")]
    first, last = ends[0], ends[-1]
    if len(ends) > 2 or not 1 <= first <= last <= num_layers:
        raise ValueError(f"{spec}: no blocks {text}, the model has 1 to {num_layers}; a range is first-last")
    return first, last
