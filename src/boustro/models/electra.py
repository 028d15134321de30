"""ELECTRA: a generator and a discriminator over the same embeddings, with their joint loss.

    generator input       [8, M, 4, M]   predicts 3, 6; its samples: 3, 9
    discriminator input   [8, 3, 4, 9]   is_replaced [0, 0, 0, 1]     a correct sample counts as original

    L = L_MLM + λ · L_disc,   λ = 50

The generator learns from the masked loss only (no gradient passes through the samples), the discriminator from every
piece but padding. The discriminator is what is kept. Source: ELECTRA, section 3 and equation of 3.1.
Shape letters as in `masked`; N rows, V pieces of the vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from boustro.models.loss import best_chunk_rows
from boustro.models.masked import Ids, Scalar, Slots, at, encode, prediction_head
from boustro.models.presets import make_generator_config


class ReplacedLMWithLoss(nn.Module):
    """Joins both; `forward` takes a batch of the objective `replaced`.

    The embeddings of `generator` become those of the discriminator, `lm`. Returns {"loss", "masked_loss",
    "replaced_loss"}, the first being the weighted sum. Raises `ValueError` for configs that cannot share embeddings.
    """

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
        input_ids: Ids,
        positions: Slots,
        targets: Slots,
        draws: Float[Tensor, "B K"],
        documents: Ids,
        num_targets: Scalar | None = None,
    ) -> dict[str, Scalar]:
        rows = at(encode(self.generator, input_ids, documents), positions).flatten(0, 1)
        summed, sampled = self._fill(rows, targets.flatten(), draws.flatten())  # type: ignore[call-arg]
        masked = summed / ((targets != -100).sum().clamp_min(1) if num_targets is None else num_targets)
        inputs, is_replaced = replace(input_ids, positions, targets, sampled.view_as(targets))
        scores = self.lm.discriminator_predictions(encode(self.lm, inputs, documents))
        real = documents >= 0
        errors = F.binary_cross_entropy_with_logits(scores.float(), is_replaced.float(), reduction="none")
        found = (errors * real).sum() / real.sum()
        return {"loss": masked + self.weight * found, "masked_loss": masked, "replaced_loss": found}

    @torch.compiler.disable  # the compiler would unroll the chunks
    def _fill(
        self, rows: Float[Tensor, "N D"], targets: Int[Tensor, " N"], draws: Float[Tensor, " N"]
    ) -> tuple[Float[Tensor, ""], Int[Tensor, " N"]]:
        """The generator's summed loss and its samples, some rows of logits at a time."""
        head, total, sampled = prediction_head(self.generator), rows.new_zeros((), dtype=torch.float32), []
        chunk_rows = best_chunk_rows(rows.device)
        for start in range(0, len(rows), chunk_rows):
            part = slice(start, start + chunk_rows)
            logits = head(rows[part]).float()
            total = total + F.cross_entropy(logits, targets[part], ignore_index=-100, reduction="sum")
            sampled.append(sample(logits.detach(), draws[part]))
        return total, torch.cat(sampled)


def with_generator(lm: ElectraForPreTraining) -> ReplacedLMWithLoss:
    """A discriminator with a generator of a quarter of its width, with random weights."""
    config: Any = make_generator_config(lm.config)
    return ReplacedLMWithLoss(ElectraForMaskedLM(config), lm)


def sample(logits: Float[Tensor, "N V"], draws: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """A piece from each row's distribution: the first whose cumulative probability exceeds the draw."""
    cumulative = logits.softmax(-1).cumsum(-1)
    # Rounding may leave the sum below 1, so the draw is scaled to it.
    places = torch.searchsorted(cumulative, (draws * cumulative[:, -1])[:, None], right=True).squeeze(1)
    return places.clamp(max=logits.shape[1] - 1)


def replace(input_ids: Ids, positions: Slots, targets: Slots, sampled: Slots) -> tuple[Ids, Bool[Tensor, "B T"]]:
    """The discriminator's input, and which of its pieces are replaced; empty slots change nothing."""
    length = input_ids.shape[1]
    places = positions.masked_fill(targets == -100, length)  # empty slots go to an extra column
    inputs = F.pad(input_ids, (0, 1)).scatter(1, places, sampled)[:, :length]
    is_replaced = torch.zeros_like(F.pad(input_ids, (0, 1)), dtype=torch.bool).scatter(1, places, sampled != targets)
    return inputs, is_replaced[:, :length]
