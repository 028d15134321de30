"""From a stream's layers to one vector per word: standardise, then mix with learned weights, or concatenate.

    mix      γ · Σ_l softmax(w)_l · (x_l - mean_l) / sd_l
    concat   [(x_0 - mean_0) / sd_0 ; … ; (x_n - mean_n) / sd_n]

`mean` and `sd` are per layer and dimension, computed on the training set and stored with the head: otherwise a few
large dimensions would dominate the rest, and a large LM a small one. Sources: ELMo (Peters et al. 2018) for the scalar
mix with γ; Jurafsky and Martin, chapter 11.3.2, for standardising.

A stream may have fewer components than dimensions (`encoders.base.Stream`): it is then read along so many principal
components of the training set, which shortens every step of training by the rest.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

SAMPLED_WORDS = 20_000  # words that components are found among
RowNumbers = np.ndarray | None


class LayerConcat(nn.Module):
    """(B, L, D) → (B, L·D). Nothing is learned."""

    mean: Tensor
    scale: Tensor
    axes: Tensor | None
    learned = False

    def __init__(self, num_layers: int, width: int, standardise: bool = True, components: int | None = None) -> None:
        super().__init__()
        self.standardise = standardise
        self.width = num_layers * width if components is None else components  # of the result
        self.register_buffer("mean", torch.zeros(num_layers, width))
        self.register_buffer("scale", torch.ones(num_layers, width))
        assert components is None or num_layers == 1, "components are those of one layer"
        self.register_buffer("axes", None if components is None else torch.eye(width, components))

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B d"]:
        return self.reduced(self.standardised(x).flatten(1))

    def reduced(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B d"]:
        """The components of a stream that has fewer of them than dimensions."""
        return x if self.axes is None else x @ self.axes

    def standardised(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """In float32; with `standardise`, mean 0 and standard deviation 1 on the training set."""
        x = x.float()
        return torch.addcmul(-self.mean * self.scale, x, self.scale) if self.standardise else x

    def fit(self, features: np.ndarray, rows: RowNumbers = None, block: int = 512) -> None:
        """Compute mean and standard deviation of features (words, L, D), in one pass over blocks that fit a cache, and
        the principal components of some of them; `rows` are those of the words that count, by default all."""
        if self.standardise:
            self._fit_standardisation(features, rows, block)
        if self.axes is not None:
            count = len(features) if rows is None else len(rows)
            chosen = slice(None, None, count // SAMPLED_WORDS + 1)
            some = torch.from_numpy(np.array(features[chosen if rows is None else rows[chosen]]))
            self.axes.copy_(span_components(self.standardised(some)[:, 0], self.axes.shape[1]))

    def _fit_standardisation(self, features: np.ndarray, rows: RowNumbers, block: int) -> None:
        total = torch.zeros(self.mean.shape, dtype=torch.float64)
        squares, count = torch.zeros_like(total), len(features) if rows is None else len(rows)
        for start in range(0, count, block):
            some = slice(start, start + block)
            part = torch.from_numpy(np.array(features[some if rows is None else rows[some]])).float()
            total += part.sum(0).double()
            squares += part.square_().sum(0).double()
        mean = total / max(count, 1)
        variance = (squares / max(count, 1) - mean.square()).clamp_min(0)
        self.mean.copy_(mean)
        # a dimension that is constant in training must not blow up rounding
        self.scale.copy_(1 / variance.sqrt().clamp_min(1e-3))

    def layer_weights(self) -> list[float]:
        """The weights of the layers, which sum to 1."""
        return [1 / len(self.mean)] * len(self.mean)


def span_components(x: Float[Tensor, "N D"], count: int) -> Float[Tensor, "D R"]:
    """Axes, orthonormal, that span the `count` largest principal components, by subspace iteration: a quarter of the
    time of eigenvectors. Source: Halko, Martinsson and Tropp 2011, section 4.5."""
    covariance = torch.cov(x.T, correction=0)
    axes = torch.randn(x.shape[1], count, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        axes, _ = torch.linalg.qr(covariance @ axes)
    return axes


class LayerMix(LayerConcat):
    """(B, L, D) → (B, D), or (B, R) where there are R components.

    With one layer there is nothing to learn, and no γ and no weights.
    """

    def __init__(self, num_layers: int, width: int, standardise: bool = True, components: int | None = None) -> None:
        super().__init__(num_layers, width, standardise, components)
        self.width = components or width
        self.learned = num_layers > 1
        self.weights = nn.Parameter(torch.zeros(num_layers)) if self.learned else None
        self.gamma = nn.Parameter(torch.ones(())) if self.learned else None

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B d"]:
        if self.weights is None or self.gamma is None:
            return super().forward(x)
        weights = (self.gamma * self.weights.softmax(0)).expand(len(x), 1, -1)
        return torch.bmm(weights, self.standardised(x)).squeeze(1)

    def layer_weights(self) -> list[float]:
        """The learned weights of the layers, which sum to 1."""
        return [1.0] if self.weights is None else self.weights.detach().softmax(0).tolist()


class Mixes(nn.ModuleList):
    """Those of a head, one per stream."""

    def __iter__(self) -> Iterator[LayerConcat]:
        return cast("Iterator[LayerConcat]", super().__iter__())

    def fit(self, streams: Sequence[np.ndarray], rows: RowNumbers = None) -> None:
        """Fit every stream's mix, as `LayerConcat.fit`, to features (words, L, D) of every stream."""
        for mix, stream in zip(self, streams, strict=True):
            mix.fit(stream, rows)


MIXES: dict[str, type[LayerConcat]] = {"mix": LayerMix, "concat": LayerConcat}
