"""The span boundary objective: each piece of a hidden span, predicted from the two pieces around the span.

    h_i = [z_(s-1) ; z_(e+1) ; p_(i-s+1)]        (11.18, 11.19)
    s_i = FFN(h_i): LayerNorm(GELU(W2 · LayerNorm(GELU(W1 · h_i))))
    y_i = softmax(W_V · s_i)                      (11.20), W_V being the LM's own output embeddings
    L   = L_MLM + L_SBO                           (11.17)

z are the last hidden states, p a learned embedding (200 wide) of the position in the span. Shape letters as in
`masked`. Sources: Jurafsky & Martin, 11.5.1; SpanBERT, section 3.2.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from boustro.models.loss import lm_loss
from boustro.models.masked import Ids, MaskedLMWithLoss, Scalar, Slots, at, encode

PLACE_WIDTH = 200


class SpanBoundaryHead(nn.Module):
    """Predicts from the boundary; positions from `num_places` on share the last embedding."""

    def __init__(self, width: int, num_places: int = 32, layer_norm_eps: float = 1e-12) -> None:
        super().__init__()
        self.places = nn.Embedding(num_places, PLACE_WIDTH)
        widths = ((2 * width + PLACE_WIDTH, width), (width, width))
        layers = ((nn.Linear(*ends), nn.GELU(), nn.LayerNorm(width, eps=layer_norm_eps)) for ends in widths)
        self.feed_forward = nn.Sequential(*(module for layer in layers for module in layer))
        self.apply(_initialise)

    def forward(
        self, states: Float[Tensor, "B T D"], left: Slots, right: Slots, places: Slots
    ) -> Float[Tensor, "B K D"]:
        """s_i of each position; `places` is i - s, from 0."""
        place = self.places(places.clamp(max=self.places.num_embeddings - 1))
        return self.feed_forward(torch.cat([at(states, left), at(states, right), place], dim=-1))


class SpanLMWithLoss(MaskedLMWithLoss):
    """A masked LM with SpanBERT's loss; `forward` takes a batch of the objective `span`.

    Returns {"loss", "masked_loss", "boundary_loss"}, the first being the sum of the others. The head `boundary` is
    used in pretraining only. Raises `ValueError` for an LM whose output embeddings are not as wide as its states.
    """

    def __init__(self, lm: PreTrainedModel) -> None:
        super().__init__(lm)
        embeddings: Any = lm.get_input_embeddings()
        width, embedding_width = lm.config.hidden_size, embeddings.embedding_dim
        if width != embedding_width:
            raise ValueError(
                f"the span boundary objective predicts with the LM's embeddings, which are {embedding_width} wide and "
                f"its states {width}; choose an architecture where these are equal, such as bert or eurobert"
            )
        self.boundary = SpanBoundaryHead(width)

    def forward(
        self,
        input_ids: Ids,
        positions: Slots,
        targets: Slots,
        left: Slots,
        right: Slots,
        places: Slots,
        documents: Ids,
        num_targets: Scalar | None = None,
    ) -> dict[str, Scalar]:
        states, decoder = encode(self.lm, input_ids, documents), self.lm.get_output_embeddings()
        assert decoder is not None, "a masked LM has output embeddings"
        masked = self.masked_loss(states, positions, targets, num_targets)
        spans = self.boundary(states, left, right, places)
        boundary = lm_loss(spans, decoder, targets, num_targets=num_targets)
        return {"loss": masked + boundary, "masked_loss": masked, "boundary_loss": boundary}


def _initialise(module: nn.Module) -> None:
    """As BERT: normal weights of standard deviation 0.02, no biases."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
