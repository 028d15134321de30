"""Masked LMs with their losses: a batch of an objective in, the mean loss out.

Only the states at the hidden positions go through the head. Documents in one segment do not see each other, and each
begins at position 0 (`packing`). B segments, T pieces, K slots for predictions (empty: target -100), D width.

So that the mean loss of a step's micro-batches is the mean over all their targets, each divides by `num_targets`, the
mean number per micro-batch (by default its own number):

    3 targets of loss 2, and 1 of loss 6     2 and 6, mean 4     with num_targets = 2: 3 and 3, mean 3 = 12 / 4

Sources: BERT, section 3.1; Jurafsky & Martin, 11.2.
"""

import operator

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import BertForPreTraining, PreTrainedModel

from boustro.models.loss import lm_loss
from boustro.models.packing import packed_attention, packed_positions
from boustro.models.pretrained import first_position

Ids = Int[Tensor, "B T"]
Slots = Int[Tensor, "B K"]
Scalar = Float[Tensor, ""]

HEADS: dict[str, tuple[str, ...]] = {
    "bert": ("cls.predictions",),
    "electra": ("generator_predictions", "generator_lm_head"),
    "modernbert": ("head", "decoder"),
    **dict.fromkeys(("eurobert", "roberta", "xlm-roberta", "camembert"), ("lm_head",)),
}
"""Attributes of a masked LM that together are its head, by architecture."""


class MaskedLMWithLoss(nn.Module):
    """Wraps a transformers masked LM; `forward` returns {"loss": mean over targets that are not -100}.

    Raises `ValueError` for an architecture whose head is not in `HEADS`.
    """

    def __init__(self, lm: PreTrainedModel) -> None:
        super().__init__()
        self.lm = lm
        prediction_head(lm)  # raises now, not at the first batch

    def forward(
        self,
        input_ids: Ids,
        positions: Slots,
        targets: Slots,
        documents: Ids,
        suffix: Bool[Tensor, "B T"] | None = None,
        num_targets: Scalar | None = None,
    ) -> dict[str, Scalar]:
        states = encode(self.lm, input_ids, documents, suffix)
        return {"loss": self.masked_loss(states, positions, targets, num_targets)}

    def masked_loss(
        self, states: Float[Tensor, "B T D"], positions: Slots, targets: Slots, num_targets: Scalar | None
    ) -> Scalar:
        """The loss of the hidden pieces."""
        return lm_loss(at(states, positions), prediction_head(self.lm), targets, num_targets=num_targets)


class PairLMWithLoss(MaskedLMWithLoss):
    """Wraps BERT with both heads; L_NSP comes from the pooled state of the first piece.

    `forward` returns {"loss", "masked_loss", "pair_loss"}, the first being the sum of the others.
    """

    lm: BertForPreTraining

    def forward(
        self,
        input_ids: Ids,
        segment_ids: Ids,
        positions: Slots,
        targets: Slots,
        documents: Ids,
        is_random: Int[Tensor, " B"],
        num_targets: Scalar | None = None,
    ) -> dict[str, Scalar]:
        states = encode(self.lm, input_ids, documents, token_type_ids=segment_ids)
        masked = self.masked_loss(states, positions, targets, num_targets)
        pooler = self.lm.bert.pooler
        assert pooler is not None, "BertForPreTraining pools its first state"
        scores = self.lm.cls.seq_relationship(pooler(states))
        pair = F.cross_entropy(scores.float(), is_random)
        return {"loss": masked + pair, "masked_loss": masked, "pair_loss": pair}


def encode(
    lm: PreTrainedModel, input_ids: Ids, documents: Ids, suffix: Bool[Tensor, "B T"] | None = None, **segments: Tensor
) -> Float[Tensor, "B T D"]:
    """The last hidden states, each document encoded as if it were alone, and its prefix as if it had no `suffix`."""
    return lm.base_model(
        input_ids=input_ids,
        attention_mask=packed_attention(documents, lm.config, lm.dtype, suffix),
        position_ids=packed_positions(documents) + first_position(lm.config),
        **segments,
    ).last_hidden_state


def prediction_head(lm: PreTrainedModel) -> nn.Sequential:
    """Hidden states → logits over the vocabulary; shares the LM's weights."""
    kind = lm.config.model_type
    if kind not in HEADS:
        raise ValueError(f"no masked-LM head is known for {kind!r}: known are {', '.join(HEADS)}; add a line to HEADS")
    return nn.Sequential(*(operator.attrgetter(path)(lm) for path in HEADS[kind]))


def at(states: Float[Tensor, "B T D"], positions: Slots) -> Float[Tensor, "B K D"]:
    """The states at the positions of each segment."""
    return states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))
