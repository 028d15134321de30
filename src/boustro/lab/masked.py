"""Masked LMs with their losses: a batch of an objective in, the mean loss out.

Only the states at the hidden positions go through the head. Documents in one segment do not see each other, and each
begins at position 0. B segments, T pieces, K slots for predictions (empty: target -100), D width, N rows, V pieces of
the vocabulary.

So that the mean loss of a step's micro-batches is the mean over all their targets, each divides by `num_targets`, the
mean number per micro-batch (by default its own number):

    3 targets of loss 2, and 1 of loss 6     2 and 6, mean 4     with num_targets = 2: 3 and 3, mean 3 = 12 / 4

Sources: BERT, section 3.1; Jurafsky & Martin, 11.2.

`packed_attention` and `packed_positions` let several documents of one segment each be read as if it were alone:

    documents  [0, 0, 1, 1, 1]   →  positions [0, 1, 0, 1, 2]
    attention  1 1 . . .
               1 1 . . .
               . . 1 1 1            a (B, 1, T, T) mask, which transformers' encoders take as it is
               . . 1 1 1
               . . 1 1 1

Padding, -1, counts as a document of its own, so no piece sees it and no row of the mask is empty. For models that see
both sides; a causal LM needs only the restarted positions. Where a document has a suffix, its prefix does not see it:

    suffix     [0, 1, 0, 0, 1]       1 . . . .
                                     1 1 . . .
                                     . . 1 1 .
                                     . . 1 1 .
                                     . . 1 1 1

`SpanLMWithLoss`, the span boundary objective, predicts each piece of a hidden span from the two pieces around it:

    h_i = [z_(s-1) ; z_(e+1) ; p_(i-s+1)]        (11.18, 11.19)
    s_i = FFN(h_i): LayerNorm(GELU(W2 · LayerNorm(GELU(W1 · h_i))))
    y_i = softmax(W_V · s_i)                      (11.20), W_V being the LM's own output embeddings
    L   = L_MLM + L_SBO                           (11.17)

z are the last hidden states, p a learned embedding (200 wide) of the position in the span. Sources: Jurafsky & Martin,
11.5.1; SpanBERT, section 3.2.

`ReplacedLMWithLoss`, ELECTRA, is a generator and a discriminator over the same embeddings, with their joint loss:

    generator input       [8, M, 4, M]   predicts 3, 6; its samples: 3, 9
    discriminator input   [8, 3, 4, 9]   is_replaced [0, 0, 0, 1]     a correct sample counts as original

    L = L_MLM + λ · L_disc,   λ = 50

The generator learns from the masked loss only (no gradient passes through the samples), the discriminator from every
piece but padding. The discriminator is what is kept. Source: ELECTRA, section 3 and equation of 3.1.
"""

import operator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import (
    BertForPreTraining,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    PretrainedConfig,
    PreTrainedModel,
)

from boustro.lab.presets import make_generator_config
from boustro.models.loss import best_chunk_rows, lm_loss
from boustro.models.pretrained import first_position

IdTensor = Int[Tensor, "B T"]
Slots = Int[Tensor, "B K"]
Scalar = Float[Tensor, ""]

MASKED_HEADS: dict[str, tuple[str, ...]] = {
    "bert": ("cls.predictions",),
    "electra": ("generator_predictions", "generator_lm_head"),
    "modernbert": ("head", "decoder"),
    **dict.fromkeys(("eurobert", "roberta", "xlm-roberta", "camembert"), ("lm_head",)),
}
"""Attributes of a masked LM that together are its head, by architecture."""


class MaskedLMWithLoss(nn.Module):
    """Wraps a transformers masked LM; `forward` returns {"loss": mean over targets that are not -100}.

    Raises `ValueError` for an architecture whose head is not in `MASKED_HEADS`.
    """

    def __init__(self, lm: PreTrainedModel) -> None:
        super().__init__()
        self.lm = lm
        prediction_head(lm)  # raises now, not at the first batch

    def forward(
        self,
        input_ids: IdTensor,
        positions: Slots,
        targets: Slots,
        documents: IdTensor,
        suffix: Bool[Tensor, "B T"] | None = None,
        num_targets: Scalar | None = None,
    ) -> dict[str, Scalar]:
        states = encode(self.lm, input_ids, documents, suffix)
        return {"loss": self.masked_loss(states, positions, targets, num_targets)}

    def masked_loss(
        self, states: Float[Tensor, "B T D"], positions: Slots, targets: Slots, num_targets: Scalar | None
    ) -> Scalar:
        """Return the loss of the hidden pieces."""
        return lm_loss(at(states, positions), prediction_head(self.lm), targets, num_targets=num_targets)


class PairLMWithLoss(MaskedLMWithLoss):
    """Wraps BERT with both heads; L_NSP comes from the pooled state of the first piece.

    `forward` returns {"loss", "masked_loss", "pair_loss"}, the first being the sum of the others.
    """

    lm: BertForPreTraining

    def forward(
        self,
        input_ids: IdTensor,
        segment_ids: IdTensor,
        positions: Slots,
        targets: Slots,
        documents: IdTensor,
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
    lm: PreTrainedModel,
    input_ids: IdTensor,
    documents: IdTensor,
    suffix: Bool[Tensor, "B T"] | None = None,
    **segments: Tensor,
) -> Float[Tensor, "B T D"]:
    """Return the last hidden states, each document encoded as if it were alone, and its prefix as if it had no
    `suffix`."""
    return lm.base_model(
        input_ids=input_ids,
        attention_mask=packed_attention(documents, lm.config, lm.dtype, suffix),
        position_ids=packed_positions(documents) + first_position(lm.config),
        **segments,
    ).last_hidden_state


def prediction_head(lm: PreTrainedModel) -> nn.Sequential:
    """Hidden states → logits over the vocabulary; shares the LM's weights."""
    kind = lm.config.model_type
    if kind not in MASKED_HEADS:
        raise ValueError(
            f"no masked-LM head is known for {kind!r}: known are {', '.join(MASKED_HEADS)}; add a line to HEADS"
        )
    return nn.Sequential(*(operator.attrgetter(path)(lm) for path in MASKED_HEADS[kind]))


def at(states: Float[Tensor, "B T D"], positions: Slots) -> Float[Tensor, "B K D"]:
    """Return the states at the positions of each segment."""
    return states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))


Mask = Bool[Tensor, "B 1 T T"] | Float[Tensor, "B 1 T T"]


def packed_attention(
    documents: Int[Tensor, "B T"],
    config: PretrainedConfig,
    dtype: torch.dtype = torch.float32,
    suffix: Bool[Tensor, "B T"] | None = None,
) -> Mask | dict[str, Mask]:
    """Return the mask in the form that the model's attention takes: boolean for sdpa, added to the scores for eager.

    Pieces of the `suffix` are seen by each other only. An architecture that also has blocks with a sliding window
    (ModernBERT) gets one mask per kind of block. Raises `ValueError` for an attention that takes no such mask (with
    flash attention documents would leak).
    """
    same = documents[:, None, :, None] == documents[:, None, None, :]
    if suffix is not None:
        same = same & (~suffix[:, None, None, :] | suffix[:, None, :, None])
    if "sliding_attention" not in (getattr(config, "layer_types", None) or ()):
        return _formatted(same, config, dtype)
    places = torch.arange(documents.shape[1], device=documents.device)
    near = (places[:, None] - places).abs() <= config.sliding_window
    kinds = {"full_attention": same, "sliding_attention": same & near}
    return {kind: _formatted(seen, config, dtype) for kind, seen in kinds.items()}


def _formatted(seen: Bool[Tensor, "B 1 T T"], config: PretrainedConfig, dtype: torch.dtype) -> Mask:
    implementation = config._attn_implementation
    if implementation == "sdpa":
        return seen
    if implementation == "eager":
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)
    raise ValueError(
        f"packed documents would leak under attention {implementation!r}, which takes no mask; load the model with "
        "attn_implementation='sdpa' (or 'eager')"
    )


def packed_positions(documents: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Return the position of each piece in its document, whose pieces are contiguous."""
    places = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return places - torch.where(begins, places, 0).cummax(dim=1).values


PLACE_WIDTH = 200  # the width of SpanBERT's boundary places


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
        input_ids: IdTensor,
        positions: Slots,
        targets: Slots,
        left: Slots,
        right: Slots,
        places: Slots,
        documents: IdTensor,
        num_targets: Scalar | None = None,
    ) -> dict[str, Scalar]:
        states, decoder = encode(self.lm, input_ids, documents), self.lm.get_output_embeddings()
        assert decoder is not None, "a masked LM has output embeddings"
        masked = self.masked_loss(states, positions, targets, num_targets)
        spans = self.boundary(states, left, right, places)
        boundary = lm_loss(spans, decoder, targets, num_targets=num_targets)
        return {"loss": masked + boundary, "masked_loss": masked, "boundary_loss": boundary}


def _initialise(module: nn.Module) -> None:
    """Draw weights from a normal distribution of standard deviation 0.02 and set biases to 0, as BERT does."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)  # BERT's own spread
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


class ReplacedLMWithLoss(nn.Module):
    """Joins both; `forward` takes a batch of the objective `replaced`.

    The embeddings of `generator` become those of the discriminator, `lm`. Returns {"loss", "masked_loss",
    "replaced_loss"}, the first being the weighted sum. Raises `ValueError` for configs that cannot share embeddings.
    """

    # ELECTRA's λ: the discriminator's loss is the smaller one by far
    def __init__(self, generator: ElectraForMaskedLM, lm: ElectraForPreTraining, weight: float = 50.0) -> None:
        super().__init__()
        for name in ("vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size"):
            one, other = getattr(generator.config, name), getattr(lm.config, name)
            if one != other:
                raise ValueError(
                    f"the generator's {name} is {one} and the discriminator's {other}; to share embeddings they "
                    "must be equal (make_generator_config makes a fitting generator)"
                )
        generator.electra.embeddings = lm.electra.embeddings
        generator.tie_weights()
        self.generator, self.lm, self.weight = generator, lm, weight

    def forward(
        self,
        input_ids: IdTensor,
        positions: Slots,
        targets: Slots,
        draws: Float[Tensor, "B K"],
        documents: IdTensor,
        num_targets: Scalar | None = None,
    ) -> dict[str, Scalar]:
        rows = at(encode(self.generator, input_ids, documents), positions).flatten(0, 1)
        summed, sampled = self._fill(rows, targets.flatten(), draws.flatten())  # type: ignore[call-arg]
        masked = summed / ((targets != -100).sum().clamp_min(1) if num_targets is None else num_targets)
        inputs, is_replaced = replace(input_ids, positions, targets, sampled.view_as(targets))
        scores = self.lm.discriminator_predictions(encode(self.lm, inputs, documents))
        real = documents >= 0
        errors = F.binary_cross_entropy_with_logits(scores.float(), is_replaced.float(), reduction="none")
        replaced_loss = (errors * real).sum() / real.sum()
        return {"loss": masked + self.weight * replaced_loss, "masked_loss": masked, "replaced_loss": replaced_loss}

    @torch.compiler.disable  # the compiler would unroll the chunks
    def _fill(
        self, rows: Float[Tensor, "N D"], targets: Int[Tensor, " N"], draws: Float[Tensor, " N"]
    ) -> tuple[Float[Tensor, ""], Int[Tensor, " N"]]:
        """Return the generator's summed loss and its samples, some rows of logits at a time."""
        head, total, sampled = prediction_head(self.generator), rows.new_zeros((), dtype=torch.float32), []
        chunk_rows = best_chunk_rows(rows.device)
        for start in range(0, len(rows), chunk_rows):
            part = slice(start, start + chunk_rows)
            logits = head(rows[part]).float()
            total = total + F.cross_entropy(logits, targets[part], ignore_index=-100, reduction="sum")
            sampled.append(sample(logits.detach(), draws[part]))
        return total, torch.cat(sampled)


def with_generator(lm: ElectraForPreTraining) -> ReplacedLMWithLoss:
    """Return a discriminator with a generator of a quarter of its width, with random weights."""
    config: Any = make_generator_config(lm.config)
    return ReplacedLMWithLoss(ElectraForMaskedLM(config), lm)


def sample(logits: Float[Tensor, "N V"], draws: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Return a piece from each row's distribution: the first whose cumulative probability exceeds the draw."""
    cumulative = logits.softmax(-1).cumsum(-1)
    # Rounding may leave the sum below 1, so the draw is scaled to it.
    places = torch.searchsorted(cumulative, (draws * cumulative[:, -1])[:, None], right=True).squeeze(1)
    return places.clamp(max=logits.shape[1] - 1)


def replace(
    input_ids: IdTensor, positions: Slots, targets: Slots, sampled: Slots
) -> tuple[IdTensor, Bool[Tensor, "B T"]]:
    """Return the discriminator's input, and which of its pieces are replaced; empty slots change nothing."""
    length = input_ids.shape[1]
    places = positions.masked_fill(targets == -100, length)  # empty slots go to an extra column
    inputs = F.pad(input_ids, (0, 1)).scatter(1, places, sampled)[:, :length]
    is_replaced = torch.zeros_like(F.pad(input_ids, (0, 1)), dtype=torch.bool).scatter(1, places, sampled != targets)
    return inputs, is_replaced[:, :length]
