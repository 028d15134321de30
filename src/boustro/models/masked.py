"""A masked LM with its loss, as one module: what the objective `masked` gives goes in, the mean loss comes out.

Only the chosen positions, 15 in 100 of a segment or so, pass through the head, a chunk of rows at a time:

    states (B, T, D) → states at the positions (B, K, D) → logits of a chunk → cross-entropy

Documents of one segment do not see each other, and each begins at position 0 (`packing`). The head is all that
a transformers model puts over its base model, and each architecture names it otherwise: `HEADS` says how.
B segments, T pieces, K places for predictions (-100 in `targets` where a place is empty), D width.

Micro-batches differ in how much they ask for. So that the mean of their losses is the mean over all targets of a step,
each divides by `num_targets`, which is what a micro-batch of the step has on average (by default: what it has itself):

    3 targets of loss 2, and 1 of loss 6     2 and 6, mean 4     with num_targets = 2: 3 and 3, mean 3 = 12 / 4
"""

import operator

from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from boustro.models.loss import lm_loss
from boustro.models.masked_presets import first_position
from boustro.models.packing import packed_attention, packed_positions

HEADS: dict[str, tuple[str, ...]] = {
    "bert": ("cls.predictions",),
    "eurobert": ("lm_head",),
    "electra": ("generator_predictions", "generator_lm_head"),
    "modernbert": ("head", "decoder"),
    "roberta": ("lm_head",),
    "xlm-roberta": ("lm_head",),
    "camembert": ("lm_head",),
}
"""Where the parts of a masked LM's head lie, by architecture."""


class MaskedLMWithLoss(nn.Module):
    """Wraps a transformers masked LM; `forward` returns {"loss": mean over targets that are not -100}.

    Raises `ValueError` for an architecture whose head is not known here.
    """

    def __init__(self, lm: PreTrainedModel, chunk_rows: int | None = None) -> None:
        super().__init__()
        self.lm, self.chunk_rows = lm, chunk_rows
        prediction_head(lm)  # raises now, not at the first batch

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        positions: Int[Tensor, "B K"],
        targets: Int[Tensor, "B K"],
        documents: Int[Tensor, "B T"],
        num_targets: Float[Tensor, ""] | None = None,
    ) -> dict[str, Float[Tensor, ""]]:
        states = at(encode(self.lm, input_ids, documents), positions)
        return {"loss": lm_loss(states, prediction_head(self.lm), targets, self.chunk_rows, num_targets=num_targets)}


def encode(
    lm: PreTrainedModel, input_ids: Int[Tensor, "B T"], documents: Int[Tensor, "B T"], **segments: Tensor
) -> Float[Tensor, "B T D"]:
    """The last hidden states, each document read as if it were alone."""
    return lm.base_model(
        input_ids=input_ids,
        attention_mask=packed_attention(documents, lm.config, lm.dtype),
        position_ids=packed_positions(documents) + first_position(lm.config),
        **segments,
    ).last_hidden_state


def prediction_head(lm: PreTrainedModel) -> nn.Sequential:
    """The head that makes logits over the vocabulary of hidden states; it shares the LM's weights."""
    kind = lm.config.model_type
    if kind not in HEADS:
        raise ValueError(f"no masked-LM head is known for {kind!r}: known are {', '.join(HEADS)}; add a line to HEADS")
    return nn.Sequential(*(operator.attrgetter(path)(lm) for path in HEADS[kind]))


def at(states: Float[Tensor, "B T D"], positions: Int[Tensor, "B K"]) -> Float[Tensor, "B K D"]:
    """The states at the positions of each segment."""
    return states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))
