"""ELECTRA: a generator and a discriminator over the same embeddings, with their joint loss.

    generator reads  [8, M, 4, M]   and is asked for 3, 6; its samples: 3, 9
    discriminator    [8, 3, 4, 9]   is_replaced [0, 0, 0, 1]     a sample that is right counts as original

    L = L_MLM + λ · L_disc,   λ = 50

The generator learns from the masked loss alone (the samples pass no gradient), the discriminator from every piece
that is no padding. What is kept is the discriminator. Source: ELECTRA, section 3 and equation of 3.1.
Shape letters as in `masked`; N rows, V pieces of the vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from boustro.models.loss import best_chunk_rows
from boustro.models.masked import at, encode, prediction_head
from boustro.models.masked_presets import make_generator_config


class ReplacedLMWithLoss(nn.Module):
    """Joins both; `forward` takes a batch of the objective `replaced`.

    `generator` gives up its embeddings for those of `lm`, the discriminator. Returns {"loss", "masked_loss",
    "replaced_loss"}, the first being the weighted sum. Raises `ValueError` for configs that cannot share embeddings.
    """

    def __init__(
        self,
        generator: ElectraForMaskedLM,
        lm: ElectraForPreTraining,
        weight: float = 50.0,
        chunk_rows: int | None = None,
    ) -> None:
        super().__init__()
        for name in ("vocab_size", "embedding_size", "max_position_embeddings", "type_vocab_size"):
            theirs, ours = getattr(generator.config, name), getattr(lm.config, name)
            if theirs != ours:
                raise ValueError(
                    f"the generator's {name} is {theirs} and the discriminator's {ours}; to share embeddings they "
                    "must be alike (make_generator_config makes a fitting generator)"
                )
        generator.electra.embeddings = lm.electra.embeddings
        generator.tie_weights()
        self.generator, self.lm, self.weight, self.chunk_rows = generator, lm, weight, chunk_rows

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        positions: Int[Tensor, "B K"],
        targets: Int[Tensor, "B K"],
        draws: Float[Tensor, "B K"],
        documents: Int[Tensor, "B T"],
        num_targets: Float[Tensor, ""] | None = None,
    ) -> dict[str, Float[Tensor, ""]]:
        states = at(encode(self.generator, input_ids, documents), positions)
        rows = states.flatten(0, 1)
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
        """The generator's summed loss and its samples, `chunk_rows` rows of logits at a time."""
        head, total, sampled = prediction_head(self.generator), rows.new_zeros((), dtype=torch.float32), []
        chunk_rows = self.chunk_rows or best_chunk_rows(rows.device)
        for start in range(0, len(rows), chunk_rows):
            part = slice(start, start + chunk_rows)
            logits = head(rows[part]).float()
            total = total + F.cross_entropy(logits, targets[part], ignore_index=-100, reduction="sum")
            sampled.append(sample(logits.detach(), draws[part]))
        return total, torch.cat(sampled)


def with_generator(lm: ElectraForPreTraining) -> ReplacedLMWithLoss:
    """A discriminator beside a generator of a quarter of its width, with random weights."""
    config: Any = make_generator_config(lm.config)
    return ReplacedLMWithLoss(ElectraForMaskedLM(config), lm)


def sample(logits: Float[Tensor, "N V"], draws: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """A piece of each row's distribution: the first whose cumulative probability exceeds the draw."""
    cumulative = logits.softmax(-1).cumsum(-1)
    # Rounding may leave the sum below 1: the draw is a share of what there is.
    places = torch.searchsorted(cumulative, (draws * cumulative[:, -1])[:, None], right=True).squeeze(1)
    return places.clamp(max=logits.shape[1] - 1)


def replace(
    input_ids: Int[Tensor, "B T"],
    positions: Int[Tensor, "B K"],
    targets: Int[Tensor, "B K"],
    sampled: Int[Tensor, "B K"],
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """What the discriminator reads, and which pieces of it are not the original ones; empty places change nothing."""
    length = input_ids.shape[1]
    places = positions.masked_fill(targets == -100, length)  # a column behind the segment takes them
    inputs = F.pad(input_ids, (0, 1)).scatter(1, places, sampled)[:, :length]
    is_replaced = torch.zeros_like(F.pad(input_ids, (0, 1)), dtype=torch.bool).scatter(1, places, sampled != targets)
    return inputs, is_replaced[:, :length]
