"""A language model with its loss, as one module: piece ids and targets in, mean cross-entropy out.

In a small model the head dominates: (pieces x vocabulary) logits. They are made in chunks of rows, so
that a chunk stays near the processor and all of them never stand in memory together.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel


class LMWithLoss(nn.Module):
    """Wraps a transformers causal LM; `forward` returns {"loss": mean over targets that are not -100}.

    The logits are the head's own output: a model that scales or caps them afterwards (Gemma 2, Granite)
    is trained without that step.
    """

    def __init__(self, lm: PreTrainedModel, chunk_rows: int = 4096) -> None:
        super().__init__()
        self.lm, self.chunk_rows = lm, chunk_rows

    def forward(self, input_ids: Int[Tensor, "B T"], targets: Int[Tensor, "B T"]) -> dict[str, Float[Tensor, ""]]:
        states = self.lm.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        head = self.lm.get_output_embeddings()
        assert head is not None, "a causal LM has a head"
        return {"loss": lm_loss(states, head, targets, self.chunk_rows)}


def lm_loss(
    states: Float[Tensor, "B T D"], head: nn.Module, targets: Int[Tensor, "B T"], chunk_rows: int = 4096
) -> Float[Tensor, ""]:
    """Mean cross-entropy of `head(states)` against `targets`, `chunk_rows` rows of logits at a time."""
    rows, wanted = states.flatten(0, 1), targets.flatten()
    total = rows.new_zeros((), dtype=torch.float32)
    for start in range(0, len(rows), chunk_rows):
        logits = head(rows[start : start + chunk_rows]).float()
        total = total + F.cross_entropy(logits, wanted[start : start + chunk_rows], ignore_index=-100, reduction="sum")
    return total / (wanted != -100).sum()
