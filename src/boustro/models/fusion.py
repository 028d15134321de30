"""Fusing the states of a forward and a backward LM by predicting each piece from its context.

The two LMs, its towers, read the same pieces, and their states are put into text order:

    pieces           p0    p1    p2
    forward    f0    f1    f2    f3       f0 is the start piece's; f_j knows p0 … p_{j-1}
    backward   b0    b1    b2    b3       b3 is the start piece's; b_j knows p_j … p2

So f_i and b_{i+1} together know all but piece i, and f_{i+1} and b_i each know it. Piece i is between those two:

    cloze of p1:     query f1 + b2;   keys and values  f0 f1  and  b2 b3    none of which knows p1
    reading of p1:   the same query;  keys and values  f0 f1 f2  and  b1 b2 b3

The residual connection carries only the query, which does not know the piece either. The output predicts the piece
through the frozen embeddings. The linear kind is a control without attention: it sees only the two nearest states.

B texts, P pieces, Q = P + 1 states of a tower, F and R widths of the forward and the backward LM, D width of the
fusion, H its heads, E width of the embeddings, V pieces of the vocabulary. Source: Baevski et al. 2019, Cloze-driven
Pretraining, who train the towers too.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from boustro.models.loss import lm_loss
from boustro.names import FUSION
from boustro.store import Artefact, write_file

FUSION_KIND = FUSION
FUSION_FILE = "fusion.safetensors"
CLOZE, READING = 1, 0  # the distance, in pieces, from a piece to the nearest visible state
REACH = 32  # longer distances count as this one


Lengths = Int[Tensor, " B"]


class TowerStates(NamedTuple):
    """The states of each tower, in text order; those beyond a text's own length have no meaning."""

    forward: Float[Tensor, "B Q F"]
    backward: Float[Tensor, "B Q R"]


@dataclass(frozen=True)
class Towers:
    """Two transformers without their heads, and the pieces that each starts with, at least one."""

    forward: nn.Module
    backward: nn.Module
    starts: tuple[Sequence[int], Sequence[int]]

    def states(self, pieces: Int[Tensor, "B P"], lengths: Lengths) -> TowerStates:
        """Top states of texts padded on the right, `lengths` long."""
        (first, last), (ahead, back) = self.starts, both_readings(pieces, lengths)
        read = _read(self.backward, last, back)
        return TowerStates(_read(self.forward, first, ahead), in_text_order(read, lengths))


def both_readings(texts: Int[Tensor, "B P"], lengths: Lengths) -> tuple[Int[Tensor, "B P"], Int[Tensor, "B P"]]:
    """Texts as they are and reversed: `[5, 7, 9]` → `[5, 7, 9]`, `[9, 7, 5]`."""
    places = torch.arange(texts.shape[1], device=texts.device)
    return texts, texts.gather(1, (lengths[:, None] - 1 - places).clamp(min=0))


def after(start: Sequence[int], texts: Int[Tensor, "B P"]) -> Int[Tensor, "B Q"]:
    """Texts after their start pieces: `[5, 7, 9]` → `[0, 5, 7, 9]`."""
    begin = torch.tensor(start, dtype=texts.dtype, device=texts.device)
    return torch.cat([begin.expand(len(texts), -1), texts], 1)


def in_text_order(states: Float[Tensor, "*L B Q R"], lengths: Lengths) -> Float[Tensor, "*L B Q R"]:
    """Return the states of a reversed reading, in text order."""
    order = (lengths[:, None] - torch.arange(states.shape[-2], device=states.device)).clamp(min=0)
    return states.gather(-2, order[:, :, None].expand(states.shape))


def _read(tower: nn.Module, start: Sequence[int], texts: Tensor) -> Tensor:
    """Top states from the last start piece on; nothing is kept for a backward pass."""
    with torch.no_grad():
        return tower(input_ids=after(start, texts), use_cache=False).last_hidden_state[:, len(start) - 1 :]


@dataclass(frozen=True, kw_only=True)
class FusionShape:
    """Sizes of a fusion; `width` is that of its states."""

    kind: Literal["attention", "linear"]
    forward_width: int
    backward_width: int
    width: int
    num_heads: int = 4


def _per_tower(shape: FusionShape, make: Callable[[int], nn.Module]) -> nn.ModuleList:
    """Return one module for the width of each tower, forward first."""
    return nn.ModuleList([make(shape.forward_width), make(shape.backward_width)])


class AttentionFusion(nn.Module):
    """One attention layer over the states of both towers, then a feed-forward layer."""

    def __init__(self, shape: FusionShape) -> None:
        super().__init__()
        self.width = width = shape.width
        if width % shape.num_heads:
            raise ValueError(f"a width of {width} cannot be divided among {shape.num_heads} heads")
        self.num_heads = shape.num_heads
        self.norms = _per_tower(shape, nn.LayerNorm)
        self.queries, self.keys, self.values = (_per_tower(shape, lambda d: nn.Linear(d, width)) for _ in range(3))
        # The biases for the distance first fall with it, steeply in the first head and hardly in the last.
        falling = -(2.0 ** torch.linspace(1, -3, shape.num_heads))[:, None] * torch.arange(REACH)
        self.distance = nn.Parameter(torch.stack([falling] * 2))
        self.out = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.final = nn.LayerNorm(width)

    def forward(
        self, forward: Float[Tensor, "B Q F"], backward: Float[Tensor, "B Q R"], lengths: Lengths, nearest: int
    ) -> Float[Tensor, "B P D"]:
        """Fused states of all pieces; `nearest` is `CLOZE` or `READING`."""
        states = [norm(x) for norm, x in zip(self.norms, (forward, backward), strict=True)]
        query = self.queries[0](states[0][:, :-1]) + self.queries[1](states[1][:, 1:])
        key, value = (
            torch.cat([self._heads(to(x)) for to, x in zip(maps, states, strict=True)], 2)
            for maps in (self.keys, self.values)
        )  # (B, H, 2Q, D / H)
        mask = self._mask(forward.shape[1], lengths, nearest).to(query.dtype)
        seen = F.scaled_dot_product_attention(self._heads(query), key, value, attn_mask=mask)
        x = query + self.out(seen.transpose(1, 2).flatten(2))
        return self.final(x + self.feed_forward(x))

    def _heads(self, x: Tensor) -> Tensor:
        """Return (B, n, D) → (B, H, n, D / H)."""
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)

    def _mask(self, num_states: int, lengths: Tensor, nearest: int) -> Float[Tensor, "B H P K"]:
        """Added to the scores of all states of both towers: a bias for the distance, -inf for hidden states."""
        piece = torch.arange(num_states - 1, device=lengths.device)[:, None]
        state = torch.arange(num_states, device=lengths.device)
        away = torch.stack([piece + 1 - state, state - piece])  # (2, P, Q): at most 0 for states that know the piece
        bias = torch.stack(
            [side[:, (steps - 1).clamp(0, REACH - 1)] for side, steps in zip(self.distance, away, strict=True)]
        )  # (2, H, P, Q)
        seen = (away >= nearest) & (state <= lengths[:, None, None, None])  # (B, 2, P, Q)
        mask = bias[None].masked_fill(~seen[:, :, None], -torch.inf)  # (B, 2, H, P, Q)
        return torch.cat([mask[:, 0], mask[:, 1]], -1)


class LinearFusion(nn.Module):
    """The sum of linear maps of the nearest forward and the nearest backward state, each standardised before."""

    def __init__(self, shape: FusionShape) -> None:
        super().__init__()
        self.width = shape.width
        self.norms = _per_tower(shape, nn.LayerNorm)
        self.maps = _per_tower(shape, lambda d: nn.Linear(d, shape.width))

    def forward(
        self, forward: Float[Tensor, "B Q F"], backward: Float[Tensor, "B Q R"], lengths: Lengths, nearest: int
    ) -> Float[Tensor, "B P D"]:
        """Fused states of all pieces; `nearest` is `CLOZE` or `READING`."""
        num_pieces = forward.shape[1] - 1
        before, after = 1 - nearest, nearest
        near = forward[:, before : before + num_pieces], backward[:, after : after + num_pieces]
        one, other = (to(norm(x)) for to, norm, x in zip(self.maps, self.norms, near, strict=True))
        return one + other


Fusion = AttentionFusion | LinearFusion
FUSIONS: dict[str, Callable[[FusionShape], Fusion]] = {"attention": AttentionFusion, "linear": LinearFusion}


class TiedHead(nn.Module):
    """Fused states → scores of all pieces through frozen embeddings, with a map to their width if it differs.

    Given the pieces' counts, the bias begins at their shares, which would take thousands of steps to learn.
    """

    embeddings: Tensor

    def __init__(
        self, width: int, embeddings: Float[Tensor, "V E"], counts: Int[np.ndarray, " V"] | None = None
    ) -> None:
        super().__init__()
        same = width == embeddings.shape[1]
        self.project = nn.Identity() if same else nn.Linear(width, embeddings.shape[1], bias=False)
        shares = torch.ones(len(embeddings)) if counts is None else torch.from_numpy(counts + 1).float()
        self.bias = nn.Parameter((shares / shares.sum()).log())
        self.scale = nn.Parameter(torch.tensor(embeddings.shape[1] ** -0.5))
        self.register_buffer("embeddings", embeddings.detach().float().clone(), persistent=False)

    def forward(self, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n V"]:
        return F.linear(self.scale * self.project(rows), self.embeddings, self.bias)


class Cloze(nn.Module):
    """A fusion and its head in training, with the loss."""

    def __init__(self, fusion: nn.Module, head: TiedHead) -> None:
        super().__init__()
        self.fusion, self.head = fusion, head

    def forward(self, states: TowerStates, pieces: Int[Tensor, "B P"]) -> Float[Tensor, ""]:
        """Mean cross-entropy, in nats, of every piece given all others; the texts have the same length."""
        lengths = torch.full((len(pieces),), pieces.shape[1], device=pieces.device)
        return lm_loss(self.fusion(states.forward, states.backward, lengths, CLOZE), self.head, pieces)


def save_fusion(folder: Path, cloze: Cloze, shape: FusionShape, facts: dict[str, Any]) -> None:
    """Write weights and config into a folder that `store.write_folder` opened; `facts` are added to the config."""
    save_file({name: tensor.contiguous() for name, tensor in cloze.state_dict().items()}, folder / FUSION_FILE)
    write_file(folder / "config.json", json.dumps({"shape": asdict(shape), **facts}, indent=1))


def load_fusion(path: Artefact) -> tuple[Fusion, dict[str, Any]]:
    """Return the fusion without its head, and its config. Raises as `Artefact.check`."""
    with path.opened(FUSION_KIND):
        config = path.config()
        named = [config["forward"], config["backward"], *config["trained"], config.get("start_piece", "auto")]
        if not all(isinstance(name, str) for name in named) or "towers" not in config:
            raise ValueError("the config does not name its LMs")
        starts = config.get("starts", [[], []])
        if not (type(starts) is list and [type(pieces) for pieces in starts] == [list] * 2):
            raise ValueError("the config does not say with which pieces each of its LMs begins")
        if not all(type(piece) is int for pieces in starts for piece in pieces):
            raise ValueError("the config names pieces that are no numbers")
        shape = FusionShape(**config["shape"])
        fusion = FUSIONS[shape.kind](shape)
        weights = load_file(path / FUSION_FILE)
        fusion.load_state_dict({n.removeprefix("fusion."): w for n, w in weights.items() if n.startswith("fusion.")})
    return fusion.eval().requires_grad_(False), config
