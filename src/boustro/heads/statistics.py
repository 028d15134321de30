"""Sentence embeddings without training: the weighted mean of the words, less what the texts have in common.

    mean    v = Σ x_w / n
    sif     v = Σ w · x_w / n,   then v - u (u · v)       w = a / (a + p(word)), as the side features say
    then a transform (`heads.transforms`), fitted to the same texts

u is the first singular vector of the means of the texts. A text without words is 0.

Source: Arora et al. 2017, *A simple but tough-to-beat baseline for sentence embeddings*, algorithm 1.

N words of S texts, end to end; d width of a word with its weight as the last column, e = d - 1.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.fitted import FittedTransform
from boustro.heads.inputs import Inputs
from boustro.heads.layout import check_lengths
from boustro.heads.options import StatisticsOptions
from boustro.heads.rows import sentence_starts
from boustro.heads.vectors import SIDE_FEATURES, VectorHead

LEAST_TEXTS = 2


class StatisticsBody(nn.Module):
    """The transform, and the first component, zero where none is taken away."""

    def __init__(self, width: int, num_labels: int, options: StatisticsOptions) -> None:
        super().__init__()
        self.transform = FittedTransform(options.transform, width - SIDE_FEATURES)
        self.component = nn.Parameter(torch.zeros(width - SIDE_FEATURES), requires_grad=False)


class StatisticsHead(VectorHead):
    """See the module. It has no targets; layers are joined as they are."""

    closed_form = True
    body: StatisticsBody
    weighted: bool = True
    """While it is trained: whether words have different weights."""

    def begin(self, inputs: Inputs, mix: Callable[[], Tensor]) -> None:
        """Note whether words are weighted: then the first component is taken away."""
        self.weighted = inputs.side is not None and bool((inputs.side != 1).any())

    @property
    def width(self) -> int:
        return len(self.body.component)

    def pool(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """The weighted mean of the words of each text; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        words, bounds = vectors.numpy(force=True), sentence_starts(lengths.numpy(force=True))
        return torch.from_numpy(np.stack([pool_words(words[a:b, :-1], words[a:b, -1]) for a, b in pairwise(bounds)]))

    @torch.no_grad()
    def solve(self, pooled: Float[Tensor, "S e"], targets: Any, lengths: Tensor) -> None:
        """Set the component and the transform; `ValueError` for fewer than two texts with words."""
        means = pooled.numpy()[lengths.numpy(force=True) > 0]
        if len(means) < LEAST_TEXTS:
            raise ValueError(f"statistics need at least {LEAST_TEXTS} texts with words; got {len(means)}")
        if self.weighted:
            component = first_component(means)
            self.body.component.copy_(torch.from_numpy(component))
            means = remove_component(means, component)
        self.body.transform.fit(means)

    def embed(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        pooled = remove_component(self.pool(vectors, lengths).numpy(), self.body.component.cpu().numpy())
        return torch.from_numpy(self.body.transform.transform.apply(pooled)).to(vectors.device)


def pool_words(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(d,) the mean of the words (N, d) of one text, weighted by (N,); zeros without words."""
    if not len(vectors):
        return np.zeros(vectors.shape[1], np.float32)
    return (vectors.astype(np.float32) * weights[:, None]).mean(0)


def first_component(vectors: np.ndarray) -> np.ndarray:
    """(d,) the first right singular vector of vectors (S, d), which are not centred, as in the paper."""
    wide = vectors.astype(np.float64)
    return np.linalg.eigh(wide.T @ wide)[1][:, -1].astype(np.float32)


def remove_component(vectors: np.ndarray, component: np.ndarray) -> np.ndarray:
    """The vectors (S, d) without their part along a unit vector (d,)."""
    return vectors - (vectors @ component)[:, None] * component
