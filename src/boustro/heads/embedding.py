"""A trained head of sentence embeddings: the weighted mean of the words beside what a small network finds in them.

    m = Σ w_i · h_i / n                     weights of the words (SIF), h_i the standardised layers of a word
    z_i = ReLU(W1 · h_i)
    b = A · W · (m - c)
    v = [b / |b| ; γ · [mean z; max z] / |[mean z; max z]|]

c and W whiten the means of the training texts. A begins as the identity, so training begins near the untrained vectors,
and on whitened vectors all directions learn at one pace; γ is learned. Texts are compared by the cosine. Pairs with
scores are brought into the order of their scores; pairs without belong together, and no other two texts of the batch:

    cosent      log(1 + Σ_{score_i > score_j} exp(s · (cos_j - cos_i)))
    contrast    cross-entropy of softmax_j(s · cos(u_i, v_j)) against j = i, and the same from v to u

s is the scale, an inverse temperature. cosent uses only which of two pairs is more alike, so scores need no range.

Sources: Su 2022 (CoSENT); Gao et al. 2021, *SimCSE*, equation 1, and Henderson et al. 2017 (in-batch negatives).

N words of a batch, S texts, P pairs, d width of a word with its weight as the last column, e width of an embedding.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.dropout import Dropout
from boustro.heads.inputs import Inputs
from boustro.heads.layout import check_lengths
from boustro.heads.options import EmbeddingOptions
from boustro.heads.pooled import pool_max, pool_mean
from boustro.heads.rows import sentence_starts
from boustro.heads.statistics import pool_words
from boustro.heads.transforms import Whitened
from boustro.heads.vectors import VectorHead

SCALE = 20.0
"""s."""


class EmbeddingBody(nn.Module):
    """From words, with their weights as the last column, to one vector per text."""

    center: Tensor
    whitening: Tensor

    def __init__(self, width: int, num_labels: int, options: EmbeddingOptions) -> None:
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


class EmbeddingHead(VectorHead):
    """See the module. Targets are the scores of pairs, or `None` for pairs that belong together."""

    body: EmbeddingBody
    options: EmbeddingOptions

    @property
    def width(self) -> int:
        return self.body.width

    def begin(self, inputs: Inputs, mix: Callable[[], Tensor]) -> None:
        """Set c and W to the whitening of the weighted means of the training texts, pair by pair."""
        means, mixed = [], mix()
        for number in range(len(inputs)):
            words = inputs.batch(np.array([number])).to_words(mixed).numpy(force=True)
            bounds = sentence_starts(inputs.lengths[inputs.parts[number]])
            means += [pool_words(words[a:b, :-1], words[a:b, -1]) for a, b in pairwise(bounds)]
        whitened = Whitened.fit(np.stack(means)).arrays()
        self.body.center.copy_(torch.from_numpy(whitened["mean"]))
        self.body.whitening.copy_(torch.from_numpy(whitened["matrix"] / whitened["deviation"][:, None]))

    def embed(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        return self.body(vectors, lengths.to(vectors.device))

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Tensor | None) -> Tensor:
        """CoSENT for scores of pairs, in-batch contrast for `None`; `ValueError` as `predict`."""
        check_lengths(lengths, len(vectors))
        found = self.embed(vectors, lengths)
        first, second = found[0::2], found[1::2]
        if targets is None:
            return contrast(first, second, SCALE)
        return cosent(F.cosine_similarity(first, second), targets.to(found.device), SCALE)


def cosent(cosines: Float[Tensor, " P"], scores: Float[Tensor, " P"], scale: float) -> Tensor:
    """Zero where no two scores differ."""
    wrong = scale * (cosines[None, :] - cosines[:, None])[scores[:, None] > scores[None, :]]
    return torch.logsumexp(torch.cat([wrong.new_zeros(1), wrong]), 0)


def contrast(first: Float[Tensor, "P e"], second: Float[Tensor, "P e"], scale: float) -> Tensor:
    """The mean of both directions; `first[i]` belongs to `second[i]`, and to no other one."""
    scores = scale * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    own = torch.arange(len(scores), device=scores.device)
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2
