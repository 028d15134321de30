"""A head for few texts without gradient descent: linear discriminant analysis of the mean, maximum and first word.

    x = [mean h],  [mean h; max h],  [mean h; 1.5 · first h]   or   [mean h; max h; 1.5 · first h]

Each block is centred, scaled and given one length. Which of them are read has the best accuracy on examples left out:
the first word's vector, where a backward LM has read all of the text, tells the kind of a question, but not the intent
of a request. The scores of LDA are too sure of themselves, so they are times the scale of the least cross-entropy on
the same n examples, none of which is believed to be surer than (n + 1) / (n + 2) (Platt 1999).

Source: `heads.closed_form`. S texts, d width of h, e = 3 d, C classes.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.base import Head
from boustro.heads.closed_form import LabelledWords, lda
from boustro.heads.inputs import Kinship
from boustro.heads.layout import check_lengths
from boustro.heads.options import HeadOptions
from boustro.heads.pooled import pool_max, pool_mean

SHRINKAGE = 0.6
LENGTHS = (1.0, 1.0, 1.5)
"""Of the blocks: mean, maximum, first word."""
CHOICES = ((0,), (0, 1), (0, 2), (0, 1, 2))
"""The blocks that may be read."""
FOLDS, VALIDATED, MOST_SPLITS = 4, 600, 20
"""Parts that are left out in turn, until about so many examples have been, in so many parts at most."""
SCALES = 2.0 ** np.arange(-24, 3, 0.5)


class Discriminant(nn.Module):
    """The affine map, and what x is measured by: `mean` and `scale` (e,)."""

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, num_labels: int, options: HeadOptions) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3 * width))
        self.register_buffer("scale", torch.ones(3 * width))
        self.map = nn.Linear(3 * width, num_labels).requires_grad_(False)


class PooledLDA(Head):
    """See the module. Targets are class ids (S,); the prediction for a text is its scores (C,), before softmax."""

    closed_form = True
    body: Discriminant
    tried: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]] = ()
    """After training, for each part that was left out: the numbers of the texts that were learned, those of the part,
    and their scores (S, C)."""

    def pool(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S e"]:
        """[mean; max; first] of each text, 0 of one without words; `ValueError` where `lengths` do not sum to N."""
        check_lengths(lengths, len(vectors))
        return self._pool(vectors, lengths.to(vectors.device))

    def _pool(self, vectors: Tensor, lengths: Tensor) -> Float[Tensor, "S e"]:
        padded = torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
        starts = torch.where(lengths > 0, lengths.cumsum(0) - lengths, vectors.shape[0])
        return torch.cat([pool_mean(vectors, lengths), pool_max(vectors, lengths), padded[starts]], dim=1)

    def graph(self, vectors: Float[Tensor, "N d"], *given: Tensor) -> Float[Tensor, "S C"]:
        return self._scores(self._pool(vectors, *given))

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[np.ndarray]:
        return list(self._scores(self.pool(vectors, lengths)).cpu().numpy())

    def soften(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S C"]:
        """The scores."""
        return self._scores(self.pool(vectors, lengths))

    def _scores(self, x: Float[Tensor, "S e"]) -> Float[Tensor, "S C"]:
        return self.body.map((x - self.body.mean) * self.body.scale)

    @torch.no_grad()
    def solve(self, pooled: Float[Tensor, "S e"], targets: Any, lengths: Tensor, kin: Kinship | None = None) -> None:
        """Train on texts, whatever their lengths; `ValueError` for several labels per text."""
        if targets.is_floating_point():
            raise ValueError("an lda-pool head learns one label per text; use another head")
        ids, body = targets.cpu().numpy(), self.body
        width = pooled.shape[1] // len(LENGTHS)
        body.mean.copy_(pooled.mean(0))
        spread = pooled.std(0, correction=0)
        lengths = torch.tensor(LENGTHS, device=pooled.device).repeat_interleave(width)
        body.scale.copy_(torch.where(spread > 0, 1 / spread, 1.0) * lengths / math.sqrt(width))
        x = ((pooled - body.mean) * body.scale).cpu().numpy()
        kin, candidates = Kinship(np.arange(len(ids))) if kin is None else kin, []
        splits = [(learned, left) for left in _splits(ids, kin.groups) if (learned := kin.rest(left)).any()]
        for blocks in CHOICES:
            columns = np.concatenate([np.arange(block * width, (block + 1) * width) for block in blocks])
            parts = [self._held_out(x[:, columns], ids, *split) for split in splits]
            scores, gold = (np.concatenate(row) for row in zip(*parts, strict=True)) if parts else (x[:0, :1], ids[:0])
            right = (scores.argmax(1) == gold).sum()
            candidates.append((right, columns, _scale(scores, gold) if parts else 1.0, parts))
        _, columns, scale, parts = max(candidates, key=lambda each: each[0])  # the smallest of equally good ones
        self.tried = [
            (*map(np.flatnonzero, split), scale * outputs) for split, (outputs, _) in zip(splits, parts, strict=True)
        ]
        solution = self._solution(x[:, columns], ids)
        body.map.weight.zero_()[:, columns] = torch.from_numpy(scale * solution.weight).to(body.map.weight)
        body.map.bias.copy_(torch.from_numpy(scale * solution.bias))

    def _held_out(
        self, x: np.ndarray, ids: np.ndarray, learned: np.ndarray, left: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The scores of examples left out, and their classes; both are masks."""
        solution = self._solution(x[learned], ids[learned])
        return x[left] @ solution.weight.T + solution.bias, ids[left]

    def _solution(self, x: np.ndarray, ids: np.ndarray) -> Any:
        return lda(LabelledWords(x, ids, len(self.labels), np.arange(len(ids) + 1)), SHRINKAGE)


def _scale(scores: np.ndarray, gold: np.ndarray) -> float:
    """The scale of scores (S, C) before softmax."""
    wanted = np.full(scores.shape, 1 / ((len(gold) + 2) * scores.shape[1]))
    wanted[np.arange(len(gold)), gold] += 1 - 1 / (len(gold) + 2)
    scaled = SCALES[:, None, None] * scores
    scaled -= scaled.max(-1, keepdims=True)
    losses = np.log(np.exp(scaled).sum(-1)) - (wanted * scaled).sum(-1)
    return float(SCALES[losses.mean(1).argmin()])


def _splits(ids: np.ndarray, groups: np.ndarray) -> Iterator[np.ndarray]:
    """Masks (S,) of examples to leave out, a group together, each class spread over the folds by the first of each
    group; a small set is split repeatedly."""
    rng, wanted = np.random.default_rng(0), min(MOST_SPLITS, math.ceil(FOLDS * VALIDATED / len(ids)))
    firsts, places = np.unique(groups, return_index=True, return_inverse=True)[1:]
    fold = np.zeros(len(firsts), int)
    for number in range(wanted):
        if number % FOLDS == 0:
            for label in np.unique(ids):
                rows = rng.permutation(np.flatnonzero(ids[firsts] == label))
                fold[rows] = (np.arange(len(rows)) + rng.integers(FOLDS)) % FOLDS
        left = np.equal(fold, number % FOLDS)[places]
        if left.any() and not left.all():
            yield left
