"""The head of sentence embeddings: the weighted mean of the words beside what a small network finds in them.

    m = Σ w_i · h_i / n                     weights of `pooling` (SIF), h_i the standardised layers of a word
    z_i = ReLU(W1 · h_i)
    b = A · W · (m - c)
    v = [b / |b| ; γ · [mean z; max z] / |[mean z; max z]|]

c and W whiten the means of the training texts. A begins as the identity, so training begins near the untrained vectors,
and on whitened vectors all directions learn at one pace; γ is learned. Texts are compared by the cosine. An example has
two texts; targets are the scores of pairs, or None for neighbours (`embeddings.losses`).

N words of a batch, S texts, d width of a word with its weight as the last column, e width of an embedding.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from boustro.embeddings.losses import contrast, cosent
from boustro.heads.base import Head
from boustro.heads.dropout import Dropout
from boustro.heads.layout import check_lengths
from boustro.heads.options import HiddenOptions
from boustro.heads.pooled import pool_max, pool_mean
from boustro.heads.transforms import Whitened


class EmbeddingBody(nn.Module):
    """From words, with their weights as the last column, to one vector per text."""

    center: Tensor
    whitening: Tensor

    def __init__(self, width: int, num_labels: int, options: HiddenOptions) -> None:
        super().__init__()
        words, hidden = width - 1, options.hidden or width
        self.width = words + 2 * hidden
        self.register_buffer("center", torch.zeros(words))
        self.register_buffer("whitening", torch.eye(words))
        self.mean = nn.Linear(words, words, bias=False)
        nn.init.eye_(self.mean.weight)
        self.enter = nn.Sequential(Dropout(options.dropout), nn.Linear(words, hidden), nn.ReLU())
        self.gamma = nn.Parameter(torch.zeros(()))  # its logarithm

    def forward(self, x: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """Embeddings."""
        words, weights = x[:, :-1], x[:, -1:]
        found = self.enter(words)
        pooled = torch.cat([pool_mean(found, lengths), pool_max(found, lengths)], dim=1)
        mean = self.mean((pool_mean(words * weights, lengths) - self.center) @ self.whitening)
        return torch.cat([F.normalize(mean, dim=1), F.normalize(pooled, dim=1) * self.gamma.exp()], dim=1)


class EmbeddingHead(Head):
    """One vector per text; trained on pairs of texts."""

    parts = 2
    body: EmbeddingBody

    def __init__(self, options: HiddenOptions, streams: Sequence[tuple[int, int]], scale: float) -> None:
        super().__init__("embedding", EmbeddingBody, options, streams, labels=(), side=1)
        self.scale = scale

    @property
    def width(self) -> int:
        """The width of an embedding."""
        return self.body.width

    def start_whitened(self, means: np.ndarray) -> None:
        """Set c and W to the whitening of the weighted means (S, d) of the training texts."""
        whitened = Whitened.fit(means).arrays()
        self.body.center.copy_(torch.from_numpy(whitened["mean"]))
        self.body.whitening.copy_(torch.from_numpy(whitened["matrix"] / whitened["deviation"][:, None]))

    def embed(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """Embeddings of texts; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        return self.body(self.project(vectors), lengths.to(vectors.device))

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Tensor | None) -> Tensor:
        """CoSENT for scores of pairs, in-batch contrast for `None`."""
        found = self.embed(vectors, lengths)
        first, second = found[0::2], found[1::2]
        if targets is None:
            return contrast(first, second, self.scale)
        return cosent(F.cosine_similarity(first, second), targets.to(found.device), self.scale)

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[float]:
        """The cosine of each pair."""
        found = self.embed(vectors, lengths)
        return F.cosine_similarity(found[0::2], found[1::2]).tolist()
