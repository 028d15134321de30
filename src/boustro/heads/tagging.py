"""Heads that give each word a score for every tag: `linear`, and the paper's two-layer `mlp`.

    linear   p = softmax(W · h)
    mlp      p = softmax(W2 · ReLU(W1 · h)),  W1: d → hidden (d → d in the paper)

h is the concatenation of the mixed streams (d is its width). Source: backward-LM paper, section 3.3.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.dropout import Dropout
from boustro.heads.mix import LayerMix


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What a head is made of; `streams` are (layers, width) pairs, `hidden` None means d."""

    kind: str
    streams: tuple[tuple[int, int], ...]
    num_tags: int
    hidden: int | None = None
    dropout: float = 0.1
    standardise: bool = True


def linear(width: int, config: HeadConfig) -> nn.Module:
    """One affine map."""
    return nn.Sequential(Dropout(config.dropout), nn.Linear(width, config.num_tags))


def mlp(width: int, config: HeadConfig) -> nn.Module:
    """Two affine maps with a ReLU between them."""
    hidden = config.hidden or width
    return nn.Sequential(
        Dropout(config.dropout),
        nn.Linear(width, hidden),
        nn.ReLU(),
        Dropout(config.dropout),
        nn.Linear(hidden, config.num_tags),
    )


HEADS: dict[str, Callable[[int, HeadConfig], nn.Module]] = {"linear": linear, "mlp": mlp}


class TaggingHead(nn.Module):
    """A mix of layers per stream, the streams joined, and a body that scores tags."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        if config.kind not in HEADS:
            raise ValueError(f"unknown head {config.kind!r}: known are {', '.join(HEADS)}")
        self.config = config
        self.mixes = nn.ModuleList(LayerMix(layers, width, config.standardise) for layers, width in config.streams)
        self.body = HEADS[config.kind](sum(width for _, width in config.streams), config)

    def mix(self, streams: list[Float[Tensor, "B L D"]]) -> Float[Tensor, "B d"]:
        """One vector a word: every stream's layers mixed, the streams joined."""
        return torch.cat([mix(x) for mix, x in zip(self.mixes, streams, strict=True)], dim=-1)

    def forward(self, streams: list[Float[Tensor, "B L D"]]) -> Float[Tensor, "B C"]:
        """Tag scores (logits) of B words."""
        return self.body(self.mix(streams))
