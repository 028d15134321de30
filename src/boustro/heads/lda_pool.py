"""A head for few texts without gradient descent: linear discriminant analysis of the mean, maximum and first word.

    x = [mean h],  [mean h; max h],  [mean h; 1.5 · first h]   or   [mean h; max h; 1.5 · first h]

Each block is centred, scaled and given one length. Which of them are read has the best accuracy on examples left out:
the first word's vector, where a backward LM has read all of the text, tells the kind of a question, but not the intent
of a request. The scores of LDA are too sure of themselves, so they are times the scale of the least cross-entropy on
the same n examples, none of which is believed to be surer than (n + 1) / (n + 2) (Platt 1999).

A vector v of the whole text, as a sentence encoder gives it, is no part of h. It has a logistic regression of its own,
over v as it is but for one scale that gives it the mean length 1, with C = 10: MiniLM has the same accuracy from there
to C = 1,000, and less below. The scores are then

    a · (U · v + c) + Σ_k b_k · LDA_k        one for each choice k of blocks

with weights that are chosen on the same examples left out (`heads.words.choose_weights`), where there are others of
their class; else with a = 1 and b = 0.

What a label is called counts as two more of its texts in that regression. No text has taught the names anything, so all
texts judge them: they count where more texts than by chance are nearest to the name of their own label.

Source: `heads.closed_form`. S texts, d width of h, e = 3 d with v beside h, C classes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from boustro.arrays import unit
from boustro.heads.base import Head
from boustro.heads.closed_form import LabelledWords, lda
from boustro.heads.inputs import Kinship
from boustro.heads.layout import check_lengths
from boustro.heads.options import HeadOptions
from boustro.heads.pooled import pool_max, pool_mean
from boustro.heads.words import choose_weights, descend

SHRINKAGE = 0.6  # 0.3 and 0.9 are within a point on TREC with 8 texts a label (docs/log.md)
BLOCK_LENGTHS = (1.0, 1.0, 1.5)
"""Of the blocks: mean, maximum, first word."""
CHOICES = ((0,), (0, 1), (0, 2), (0, 1, 2))
"""The blocks that may be read."""
LDA_FOLDS, VALIDATED, MOST_SPLITS = 4, 600, 20
"""Parts that are left out in turn, until about so many examples have been, in so many parts at most."""
LDA_SCALES = 2.0 ** np.arange(-24, 3, 0.5)  # separable classes want scores of any size, hopeless ones nearly 0
LOGISTIC_STRENGTH = 0.1
"""1 / C of the logistic regression."""
LOGISTIC_TOLERANCE = 1e-6
"""Of the logistic regression. At 1e-4, as for TF-IDF, 10 of 500 answers from 8 texts of AG News were others."""
ABSENT = math.log(1e-6)
"""The score of a class that no text has."""
LEAST_MEAN_LENGTH = 1e-9
"""The least mean length of v."""
VECTOR_SCALES = LDA_SCALES[LDA_SCALES >= 1 / 4]
"""Of the logistic regression: where examples left out cannot tell, its scores stay above those of the others."""
ONE_SIDED = 1.64
"""Standard deviations of a normal distribution that 5% are beyond."""
Linear = tuple[np.ndarray, np.ndarray]
"""Weight (C, k) and bias (C,)."""


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
    """A discriminant over pooled texts. Targets are class ids (S,); the prediction for a text is its scores (C,),
    before softmax."""

    closed_form = takes_names = True
    body: Discriminant
    names_count = False
    """After training, whether what the labels are called was learned, too."""
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
    def solve(
        self,
        pooled: Float[Tensor, "S e"],
        targets: Any,
        lengths: Tensor,
        kin: Kinship | None = None,
        named: tuple[Float[Tensor, "M e"], np.ndarray] | None = None,
    ) -> None:
        """Train on texts, whatever their lengths; `named` are the vectors of what labels are called, and the numbers of
        these labels. `ValueError` for several labels per text."""
        if targets.is_floating_point():
            raise ValueError("an lda-pool head learns one label per text; use another head")
        ids, body, count = targets.cpu().numpy(), self.body, len(self.labels)
        body.mean.copy_(pooled.mean(0))
        body.scale.copy_(self._scales(pooled))
        x = ((pooled - body.mean) * body.scale).cpu().numpy()
        kin, whole = Kinship(np.arange(len(ids))) if kin is None else kin, self.whole.numpy()
        splits = [(learned, left) for left in _splits(ids, kin.groups) if (learned := kin.rest(left)).any()]
        places = np.arange(x.shape[1]).reshape(len(BLOCK_LENGTHS), -1)
        columns = [places[list(blocks)][:, ~whole].ravel() for blocks in (() if whole.all() else CHOICES)]
        tried = [_try(_discriminant, own, LDA_SCALES, x, ids, count, splits) for own in columns]
        gold = np.concatenate([ids[:0], *(ids[left] for _, left in splits)])
        if whole.any():
            said = [each.scores for each in tried]
            own, learn = places[0, whole], _logistic
            self.names_count = False
            if named is not None:
                names = ((named[0] - body.mean) * body.scale).cpu().numpy()[:, own]
                self.names_count = _tell_more_than_chance(names, named[1], x[:, own], ids)
                if self.names_count:
                    learn = partial(_logistic, names=np.repeat(names, 2, 0), named=np.repeat(named[1], 2))
            vector = _try(learn, own, VECTOR_SCALES, x, ids, count, splits)
            weights = np.eye(1 + len(tried))[0]
            judged = [np.isin(ids[left], ids[learned]) for learned, left in splits]
            fair = np.concatenate([np.zeros(0, bool), *judged])
            if said and fair.any():
                fairly = [scores[fair] for scores in said]
                weights = choose_weights(vector.scores[fair], fairly, gold[fair], _loss, len(np.unique(kin.groups)))
            tried = [vector, *tried]
        else:
            right = [(each.scores.argmax(1) == gold).sum() for each in tried]
            weights = np.eye(len(tried))[np.argmax(right)]  # the smallest of equally good ones
        counted = [(weight, each) for weight, each in zip(weights, tried, strict=True) if weight]
        outputs = sum(weight * each.scores for weight, each in counted)
        parts = np.split(outputs, np.cumsum([left.sum() for _, left in splits]))
        tried = zip(splits, parts, strict=False)
        self.tried = [(np.flatnonzero(learned), np.flatnonzero(left), part) for (learned, left), part in tried]
        solution, offset = np.zeros((count, x.shape[1])), np.zeros(count)
        for weight, each in counted:
            own, bias = each.fit(x[:, each.columns], ids, count)
            solution[:, each.columns] += weight * each.scale * own
            offset += weight * each.scale * bias
        body.map.weight.copy_(torch.from_numpy(solution))
        body.map.bias.copy_(torch.from_numpy(offset))

    def facts(self) -> dict[str, Any]:
        """Whether the names of labels were learned, where they were."""
        return {"label_names": True} if self.names_count else {}

    @property
    def whole(self) -> Bool[Tensor, " d"]:
        """Which of the columns of h are those of v."""
        return torch.tensor([bool(shape[3:]) for shape in self.streams]).repeat_interleave(torch.tensor(self.widths))

    def _scales(self, pooled: Float[Tensor, "S e"]) -> Float[Tensor, " e"]:
        """Return the factors of x: each block of h gets its length, v the mean length 1."""
        whole = self.whole.to(pooled.device)
        spread = pooled.std(0, correction=0)
        lengths = torch.tensor(BLOCK_LENGTHS, device=pooled.device).repeat_interleave(len(whole))
        scale = torch.where(spread > 0, 1 / spread, 1.0) * lengths / math.sqrt(max(1, int((~whole).sum())))
        mixes = [mix for mix, shape in zip(self.mixes, self.streams, strict=True) if shape[3:]]
        if mixes:
            unit, mean = (torch.cat([getattr(mix, name).flatten() for mix in mixes]) for name in ("scale", "mean"))
            length = (pooled[:, : len(whole)][:, whole] / unit + mean).square().sum(1).mean().sqrt()
            scale[: len(whole)][whole] = 1 / (unit * length.clamp_min(LEAST_MEAN_LENGTH))
        return scale


Fit = Callable[[np.ndarray, np.ndarray, int], Linear]
"""From vectors (S, k), their classes (S,), and the number of all classes."""


@dataclass(frozen=True)
class ColumnFit:
    """A way to fit some of the columns of x, the scale of its scores, and these, scaled, of examples left out."""

    fit: Fit
    columns: np.ndarray
    scale: float
    scores: np.ndarray


def _try(
    fit: Fit,
    columns: np.ndarray,
    scales: np.ndarray,
    x: np.ndarray,
    ids: np.ndarray,
    count: int,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
) -> ColumnFit:
    own, parts, gold = x[:, columns], [np.zeros((0, count))], [ids[:0]]
    for learned, left in splits:
        weight, bias = fit(own[learned], ids[learned], count)
        parts.append(own[left] @ weight.T + bias)
        gold.append(ids[left])
    scores = np.concatenate(parts)
    scale = _scale(scores, np.concatenate(gold), scales) if splits else 1.0
    return ColumnFit(fit, columns, scale, scale * scores)


def _discriminant(x: np.ndarray, ids: np.ndarray, count: int) -> Linear:
    solution = lda(LabelledWords(x, ids, count, np.arange(len(ids) + 1)), SHRINKAGE)
    return solution.weight, solution.bias


def _tell_more_than_chance(names: np.ndarray, named: np.ndarray, x: np.ndarray, ids: np.ndarray) -> bool:
    """Whether so many texts (S, k) are nearest to the name (M, k) of their own label that it is no chance, p < 0.05."""
    asked = np.isin(ids, named)
    number = int(asked.sum())
    if len(names) < 2 or not number:
        return False
    right = int((named[(x[asked] @ unit(names - names.mean(0)).T).argmax(1)] == ids[asked]).sum())
    chance = 1 / len(names)
    return right - 0.5 - number * chance > ONE_SIDED * math.sqrt(number * chance * (1 - chance))


def _logistic(
    x: np.ndarray, ids: np.ndarray, count: int, names: np.ndarray | None = None, named: np.ndarray | None = None
) -> Linear:
    """That of scikit-learn, see `heads.words.descend`; `names` of the labels `named` are further texts."""
    if names is not None and named is not None:
        x, ids = np.concatenate([x, names]), np.concatenate([ids, named])
    present, places = np.unique(ids, return_inverse=True)
    weight, bias = np.zeros((count, x.shape[1]), np.float32), np.full(count, ABSENT, np.float32)
    penalty = LOGISTIC_STRENGTH * (2 if len(present) == 2 else 1) / len(ids)
    shares = descend(lambda shares: x @ (x.T @ shares), places, penalty, tolerance=LOGISTIC_TOLERANCE)
    weight[present], bias[present] = (x.T @ shares[:-1]).T, shares[-1] - shares[-1].mean()
    return weight, bias


def _scale(scores: np.ndarray, gold: np.ndarray, scales: np.ndarray) -> float:
    """The scale of scores (S, C) before softmax."""
    return float(min(scales, key=lambda scale: _loss(scale * scores, gold)))


def _loss(scores: np.ndarray, gold: np.ndarray) -> float:
    """The mean cross-entropy, where no example is believed to be surer than the module says."""
    share = 1 / (len(gold) + 2)
    shifted = scores - scores.max(1, keepdims=True)
    right = shifted[np.arange(len(gold)), gold]
    return float((np.log(np.exp(shifted).sum(1)) - (1 - share) * right - share * shifted.mean(1)).mean())


def _splits(ids: np.ndarray, groups: np.ndarray) -> Iterator[np.ndarray]:
    """Masks (S,) of examples to leave out, a group together, each class spread over the folds by the first of each
    group; a small set is split repeatedly."""
    rng, wanted = np.random.default_rng(0), min(MOST_SPLITS, math.ceil(LDA_FOLDS * VALIDATED / len(ids)))
    firsts, places = np.unique(groups, return_index=True, return_inverse=True)[1:]
    fold = np.zeros(len(firsts), int)
    for number in range(wanted):
        if number % LDA_FOLDS == 0:
            for label in np.unique(ids):
                rows = rng.permutation(np.flatnonzero(ids[firsts] == label))
                fold[rows] = (np.arange(len(rows)) + rng.integers(LDA_FOLDS)) % LDA_FOLDS
        left = np.equal(fold, number % LDA_FOLDS)[places]
        if left.any() and not left.all():
            yield left
