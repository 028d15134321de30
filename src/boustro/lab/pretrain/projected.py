"""The embeddings of another LM, frozen, through a learned projection P: a vocabulary of any size for a few parameters.

    E   (V, D)   the other LM's embeddings in their principal axes, standardised; never trained, never in a checkpoint
    P   (D, d)   trained; begins as the first d axes

    input   E[ids] · P            (B, T, d)
    logits  h · (E · P)ᵀ          (B, T, V)

Every piece has a vector, whether the training text has it or not. `fold` multiplies E · P out, so that what is saved is
an ordinary LM with tied embeddings.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

TABLE_ROWS = 8192  # of the table at a time, where all of it is read
PROJECTION, FOLDED = "projection", "weight"


class ProjectedEmbedding(nn.Module):
    """Piece ids → vectors; `vectors()` has those of all pieces."""

    table: Tensor

    def __init__(self, table: Float[Tensor, "V D"], projection: nn.Parameter) -> None:
        super().__init__()
        self.register_buffer("table", table, persistent=False)
        self.projection = projection

    def forward(self, ids: Int[Tensor, "*"]) -> Tensor:
        return F.linear(self.table[ids].to(self.projection.dtype), self.projection.T)

    @torch.no_grad()
    def vectors(self) -> Float[Tensor, "V d"]:
        """E · P, in the table's precision."""
        narrow = self.projection.to(self.table.dtype)
        return torch.cat([rows @ narrow for rows in self.table.split(TABLE_ROWS)])


class ProjectedHead(ProjectedEmbedding):
    """Hidden states → logits over all pieces, with the same table and projection."""

    def forward(self, states: Float[Tensor, "*B d"]) -> Float[Tensor, "*B V"]:
        return F.linear(F.linear(states, self.projection).to(self.table.dtype), self.table)


def project_embeddings(lm: PreTrainedModel, table: Float[Tensor, "V D"], counts: Int[Tensor, " V"]) -> None:
    """Replace the embeddings of `lm` and its head, which are then tied, by those of `table` through a projection.

    `counts` are how often each piece occurs; the axes and their scale are those of running text. Raises `ValueError`
    for a table that is narrower than the LM.
    """
    width, rms = lm.config.hidden_size, lm.config.initializer_range
    if table.shape[1] < width:
        raise ValueError(
            f"the embeddings are {table.shape[1]:,} wide, the model to train {width:,}; choose a narrower --preset"
        )
    projection = nn.Parameter(torch.eye(table.shape[1], width))
    axes = standardised(table, counts) * rms
    lm.set_input_embeddings(ProjectedEmbedding(axes, projection))
    lm.set_output_embeddings(ProjectedHead(axes, projection))
    lm.config.tie_word_embeddings = True


@torch.no_grad()
def standardised(table: Float[Tensor, "V D"], counts: Int[Tensor, " V"], power: float = 0.5) -> Float[Tensor, "V D"]:
    """Return the rows in their principal axes, the largest first, each axis divided by its scale to `power`; rms 1 in
    text.

    Row i counts `counts[i]` + 1 times. In the table's own precision.
    """
    weights = (counts + 1) / (counts + 1).sum()
    second = torch.zeros(table.shape[1], table.shape[1], dtype=torch.float64)
    for rows, row_weights in zip(table.split(TABLE_ROWS), weights.split(TABLE_ROWS), strict=True):
        scaled = rows.float() * row_weights[:, None].sqrt()
        second += scaled.T @ scaled
    variances, axes = torch.linalg.eigh(second)
    variances, axes = variances.flip(0).clamp_min(0), axes.flip(1)
    # directions without variance would be divided by 0
    scale = variances.clamp_min(1e-9 * variances[0]) ** (-power / 2)
    scale /= ((variances * scale**2).mean() ** 0.5).clamp_min(1e-30)
    turn = (axes * scale).float()
    return torch.cat([(rows.float() @ turn).to(table.dtype) for rows in table.split(TABLE_ROWS)])


def fold(lm: Any, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of the trained `lm` as those of an ordinary one: E · P in place of each projection."""
    projected = [name for name in weights if name.endswith(f".{PROJECTION}")]
    if not projected:
        return weights
    vectors = lm.get_input_embeddings().vectors()  # those of the head too
    others = {name: tensor for name, tensor in weights.items() if name not in projected}
    return others | {name.removesuffix(PROJECTION) + FOLDED: vectors for name in projected}
