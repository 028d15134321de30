"""From a stream's layers to one vector per word: standardise, then mix with learned weights, or concatenate.

    mix      γ · Σ_l softmax(w)_l · (x_l - mean_l) / sd_l
    concat   [(x_0 - mean_0) / sd_0 ; … ; (x_n - mean_n) / sd_n]

`mean` and `sd` are per layer and dimension, computed on the training set and stored with the head: otherwise a few
large dimensions would dominate the rest, and a large LM a small one. Sources: ELMo (Peters et al. 2018) for the scalar
mix with γ; Jurafsky and Martin, chapter 11.3.2, for standardising.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn


class LayerConcat(nn.Module):
    """(B, L, D) → (B, L·D). Nothing is learned."""

    mean: Tensor
    scale: Tensor
    learned = False

    def __init__(self, num_layers: int, width: int, standardise: bool = True) -> None:
        super().__init__()
        self.standardise = standardise
        self.width = num_layers * width  # of the result
        self.register_buffer("mean", torch.zeros(num_layers, width))
        self.register_buffer("scale", torch.ones(num_layers, width))

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B d"]:
        return self.standardised(x).flatten(1)

    def standardised(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """In float32; with `standardise`, mean 0 and standard deviation 1 on the training set."""
        x = x.float()
        return torch.addcmul(-self.mean * self.scale, x, self.scale) if self.standardise else x

    def fit_standardisation(self, features: np.ndarray, block: int = 512) -> None:
        """Compute mean and standard deviation of features (words, L, D), in one pass over blocks that fit a cache."""
        if not self.standardise:
            return
        total = torch.zeros(self.mean.shape, dtype=torch.float64)
        squares = torch.zeros_like(total)
        for start in range(0, len(features), block):
            part = torch.from_numpy(np.array(features[start : start + block])).float()
            total += part.sum(0).double()
            squares += part.square_().sum(0).double()
        mean = total / len(features)
        variance = (squares / len(features) - mean.square()).clamp_min(0)
        self.mean.copy_(mean)
        self.scale.copy_(1 / variance.sqrt().clamp_min(1e-3))

    def layer_weights(self) -> list[float]:
        """The weights of the layers, which sum to 1."""
        return [1 / len(self.mean)] * len(self.mean)


class LayerMix(LayerConcat):
    """(B, L, D) → (B, D). With one layer there is nothing to learn, and no γ and no weights."""

    def __init__(self, num_layers: int, width: int, standardise: bool = True) -> None:
        super().__init__(num_layers, width, standardise)
        self.width = width
        self.learned = num_layers > 1
        self.weights = nn.Parameter(torch.zeros(num_layers)) if self.learned else None
        self.gamma = nn.Parameter(torch.ones(())) if self.learned else None

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B D"]:
        x = self.standardised(x)
        if self.weights is None or self.gamma is None:
            return x.squeeze(1)
        weights = (self.gamma * self.weights.softmax(0)).expand(len(x), 1, -1)
        return torch.bmm(weights, x).squeeze(1)

    def layer_weights(self) -> list[float]:
        """The learned weights of the layers, which sum to 1."""
        return [1.0] if self.weights is None else self.weights.detach().softmax(0).tolist()


class Mixes(nn.ModuleList):
    """Those of a head, one per stream."""

    def __iter__(self) -> Iterator[LayerConcat]:
        return cast("Iterator[LayerConcat]", super().__iter__())

    def fit_standardisation(self, streams: Sequence[np.ndarray]) -> None:
        """See `LayerConcat.fit_standardisation`; features (words, L, D) of every stream."""
        for mix, stream in zip(self, streams, strict=True):
            mix.fit_standardisation(stream)


MIXES: dict[str, type[LayerConcat]] = {"mix": LayerMix, "concat": LayerConcat}
