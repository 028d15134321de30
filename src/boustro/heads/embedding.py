"""Heads of sentence embeddings: untrained statistics, and a trained one.

An example has two texts, and the prediction for it is a vector of each; a text alone is an example whose second text
has no word. The last side feature of a word is its weight in its text (SIF): w = a / (a + p(word)).

`statistics` has the weighted mean of the words h_i, less what the texts have in common:

    mean    v = Σ h_i / n
    sif     v = Σ w_i · h_i / n,   then v - u (u · v)
    then a transform (`heads.transforms`), fitted to the same texts

u is the first singular vector of the means of the texts. A text without words is 0.

`embedding` has the weighted mean beside what a small network finds in the words:

    m = Σ w_i · h_i / n
    z_i = ReLU(W1 · h_i)
    b = A · W · (m - c)
    v = [b / |b| ; γ · [mean z; max z] / |[mean z; max z]|]

c and W whiten the means of the training texts. A begins as the identity, so training begins near the untrained vectors,
and on whitened vectors all directions learn at one pace; γ is learned. Texts are compared by the cosine. Pairs with
scores are brought into the order of their scores; pairs without belong together, and no other two texts of the batch:

    cosent      log(1 + Σ_{score_i > score_j} exp(s · (cos_j - cos_i)))
    contrast    cross-entropy of softmax_j(s · cos(u_i, v_j)) against j = i, and the same from v to u

s is the scale, an inverse temperature. cosent uses only which of two pairs is more alike, so scores need no range.

Sources: Arora et al. 2017, *A simple but tough-to-beat baseline for sentence embeddings*, algorithm 1; Su 2022
(CoSENT); Gao et al. 2021, *SimCSE*, equation 1, and Henderson et al. 2017 (in-batch negatives).

N words of a batch, S texts, P pairs, d width of a word with its weight as the last column, e width of an embedding.
"""

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.bodies import Dropout
from boustro.heads.inputs import WEIGHT_FEATURES, HeadInputs, Kinship, sentence_starts
from boustro.heads.layout import check_lengths
from boustro.heads.options import EmbeddingOptions, StatisticsOptions
from boustro.heads.pooled import pool_max, pool_mean
from boustro.heads.transforms import TRANSFORMS, Transform, Whitened


class VectorHead(Head):
    """A vector for every text."""

    parts = 2

    @property
    @abstractmethod
    def width(self) -> int:
        """The width of an embedding."""

    @abstractmethod
    def embed(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """Return the vectors of texts with words; what it gives for a text without words is not used."""

    @torch.no_grad()
    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[np.ndarray]:
        """Return (2, e) for each example, zero for a text without words; `ValueError` where `lengths` do not sum to
        N."""
        check_lengths(lengths, len(vectors))
        embedded = self.embed(vectors, lengths) * (lengths > 0).to(vectors)[:, None]
        return list(embedded.unflatten(0, (-1, 2)).cpu().numpy())


class FittedTransform(nn.Module):
    """A transform by its name; its arrays are buffers, zero until `fit`."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.kind = TRANSFORMS[name]
        for array, shape in self.kind.shapes(width).items():
            self.register_buffer(array, torch.zeros(shape))

    @property
    def transform(self) -> Transform:
        """The transform."""
        return self.kind.from_arrays({name: buffer.cpu().numpy() for name, buffer in self.named_buffers()})

    def fit(self, sample: np.ndarray) -> Transform:
        """Fit it to `sample` (n, d), and return it; `ValueError` as `Transform.fit`."""
        fitted = self.kind.fit(sample)
        for name, array in fitted.arrays().items():
            getattr(self, name).copy_(torch.from_numpy(array))
        return fitted


class StatisticsBody(nn.Module):
    """The transform, and the first component, zero where none is taken away."""

    def __init__(self, width: int, num_labels: int, options: StatisticsOptions) -> None:
        super().__init__()
        self.transform = FittedTransform(options.transform or "whitened", width - WEIGHT_FEATURES)
        self.component = nn.Parameter(torch.zeros(width - WEIGHT_FEATURES), requires_grad=False)


class StatisticsHead(VectorHead):
    """Weighted means of words, less their common component. It has no targets; layers are joined as they are."""

    closed_form = True
    body: StatisticsBody
    weighted: bool = True
    """While it is trained: whether words have different weights."""

    def begin(self, inputs: HeadInputs, mix: Callable[[], Tensor]) -> None:
        """Note whether words are weighted: then the first component is taken away."""
        self.weighted = inputs.side is not None and bool((inputs.side != 1).any())

    @property
    def width(self) -> int:
        return len(self.body.component)

    def pool(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """Return the weighted mean of the words of each text; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        words, bounds = vectors.numpy(force=True), sentence_starts(lengths.numpy(force=True))
        return torch.from_numpy(np.stack([pool_words(words[a:b, :-1], words[a:b, -1]) for a, b in pairwise(bounds)]))

    @torch.no_grad()
    def solve(self, pooled: Float[Tensor, "S e"], targets: Any, lengths: Tensor, kin: Kinship | None = None) -> None:
        """Set the component and the transform; `ValueError` for fewer than two texts with words."""
        means = pooled.numpy()[lengths.numpy(force=True) > 0]
        alike = not (means != means[:1]).any()  # equal texts have no spread, so no component
        if alike and (len(means) < 2 or means.any()):  # zeros alone are texts of words that a table lacks
            raise ValueError(f"statistics need two different texts with words at least; got {min(1, len(means))}")
        if self.weighted:
            component = first_component(means)
            self.body.component.copy_(torch.from_numpy(component))
            means = remove_component(means, component)
        self.body.transform.fit(means)

    def embed(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        pooled = remove_component(self.pool(vectors, lengths).numpy(), self.body.component.cpu().numpy())
        return torch.from_numpy(self.body.transform.transform.apply(pooled)).to(vectors.device)


def pool_words(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (d,) the mean of the words (N, d) of one text, weighted by (N,); zeros without words."""
    if not len(vectors):
        return np.zeros(vectors.shape[1], np.float32)
    return (vectors.astype(np.float32) * weights[:, None]).mean(0)


def first_component(vectors: np.ndarray) -> np.ndarray:
    """Return (d,) the first right singular vector of vectors (S, d), which are not centred, as in the paper."""
    wide = vectors.astype(np.float64)
    return np.linalg.eigh(wide.T @ wide)[1][:, -1].astype(np.float32)


def remove_component(vectors: np.ndarray, component: np.ndarray) -> np.ndarray:
    """Return the vectors (S, d) without their part along a unit vector (d,)."""
    return vectors - (vectors @ component)[:, None] * component


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
        hidden = self.enter(words)
        pooled = torch.cat([pool_mean(hidden, lengths), pool_max(hidden, lengths)], dim=1)
        mean = self.mean((pool_mean(words * weights, lengths) - self.center) @ self.whitening)
        return torch.cat([F.normalize(mean, dim=1), F.normalize(pooled, dim=1) * self.gamma.exp()], dim=1)


class EmbeddingHead(VectorHead):
    """A head that learns vectors of texts. Targets are the scores of pairs, or `None` for pairs that belong
    together."""

    body: EmbeddingBody
    options: EmbeddingOptions

    @property
    def width(self) -> int:
        return self.body.width

    def begin(self, inputs: HeadInputs, mix: Callable[[], Tensor]) -> None:
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
        embedded = self.embed(vectors, lengths)
        first, second = embedded[0::2], embedded[1::2]
        if targets is None:
            return contrast(first, second, SCALE)
        return cosent(F.cosine_similarity(first, second), targets.to(embedded.device), SCALE)


def cosent(cosines: Float[Tensor, " P"], scores: Float[Tensor, " P"], scale: float) -> Tensor:
    """Zero where no two scores differ."""
    wrong = scale * (cosines[None, :] - cosines[:, None])[scores[:, None] > scores[None, :]]
    return torch.logsumexp(torch.cat([wrong.new_zeros(1), wrong]), 0)


def contrast(first: Float[Tensor, "P e"], second: Float[Tensor, "P e"], scale: float) -> Tensor:
    """Return the mean of both directions; `first[i]` belongs to `second[i]`, and to no other one."""
    scores = scale * F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    diagonal = torch.arange(len(scores), device=scores.device)
    return (F.cross_entropy(scores, diagonal) + F.cross_entropy(scores.T, diagonal)) / 2
