"""BERT's pretraining loss: hidden pieces, and whether the second text follows the first.

L = L_MLM + L_NSP, the latter from the pooled state of the first piece. Shape letters as in `masked`.
Sources: BERT, section 3.1; Jurafsky & Martin, 11.2.2.
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import BertForPreTraining

from boustro.models.loss import lm_loss
from boustro.models.masked import at, encode, prediction_head


class PairLMWithLoss(nn.Module):
    """Wraps BERT with both heads; `forward` takes a batch of the objective `sentence_pair`.

    Returns {"loss", "masked_loss", "pair_loss"}, the first being the sum of the others.
    """

    def __init__(self, lm: BertForPreTraining, chunk_rows: int | None = None) -> None:
        super().__init__()
        self.lm, self.chunk_rows = lm, chunk_rows

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        segment_ids: Int[Tensor, "B T"],
        positions: Int[Tensor, "B K"],
        targets: Int[Tensor, "B K"],
        documents: Int[Tensor, "B T"],
        is_random: Int[Tensor, " B"],
        num_targets: Float[Tensor, ""] | None = None,
    ) -> dict[str, Float[Tensor, ""]]:
        states = encode(self.lm, input_ids, documents, token_type_ids=segment_ids)
        head = prediction_head(self.lm)
        masked = lm_loss(at(states, positions), head, targets, self.chunk_rows, num_targets=num_targets)
        pooler = self.lm.bert.pooler
        assert pooler is not None, "BertForPreTraining pools its first state"
        scores = self.lm.cls.seq_relationship(pooler(states))
        pair = F.cross_entropy(scores.float(), is_random)
        return {"loss": masked + pair, "masked_loss": masked, "pair_loss": pair}
