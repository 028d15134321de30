"""A head for few texts without gradient descent: linear discriminant analysis of the mean, maximum and first word.

    x = [mean h],  [mean h; max h],  [mean h; 1.5 · first h]   or   [mean h; max h; 1.5 · first h]

Each block is centred, scaled and given one length. Which of them are read has the best accuracy on examples left out:
the first word's vector, where a backward LM has read all of the text, tells the kind of a question, but not the intent
of a request. The scores of LDA are too sure of themselves, so they are times the scale of the least cross-entropy on
the same n examples, none of which is believed to be surer than (n + 1) / (n + 2) (Platt 1999).

A vector v of the whole text, as a sentence encoder gives it, is no part of h. It is divided by one number, so that the
mean length is 1, and has two classifiers of its own: `heads.prototypes`, which begins at what the labels are called,
and a logistic regression U with C = 10, which has the accuracy of any C to 1,000, and less below. To it each label
counts the same, and it has no constant: with few texts of unequal labels that learns which label was drawn the most. A
name counts as two more texts there where it tells. The scores are then

    a · prototypes + b · U · v + Σ_k b_k · LDA_k        one b_k for each choice k of blocks

with weights that are chosen on the same examples left out (`heads.words.choose_weights`), where there are others of
their class; else with a = 1 and no b. Texts without a label, where there are any, move the names and are what v is
measured from (`heads.centroid_pool.move_names`). Copies of a text are one text.

Source: `heads.closed_form`. S texts, d width of h, e = 3 d with v beside h, C classes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from boustro.heads.centroid_pool import FEWEST_TEXTS, TEMPERATURE, adapted_temperature, move_names, unit_rows
from boustro.heads.closed_form import LabelledWords, lda
from boustro.heads.inputs import Kinship
from boustro.heads.options import HeadOptions
from boustro.heads.pooled import SolvedHead, pool_max, pool_mean
from boustro.heads.prototypes import frequency, learn_prototypes
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
SCALE_DOUBT = 10.0
"""In nats, of all texts: what a scale of the prototypes costs, times the square of its logarithm."""
FAVOUR = 100.0
"""How much more the prototypes alone count beforehand than any other mixture, where names are believed; few texts call
mixtures good by chance, which cost messages and SST 1 to 5 points (docs/log.md)."""
NAME_COUNT = 2.0
"""Texts that a name counts as in the logistic regression, if it is believed."""
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


class PooledLDA(SolvedHead):
    """A discriminant over pooled texts."""

    takes_names = True
    body: Discriminant
    trust = 0.0
    """After training, how much of the prototypes begins at what the labels are called."""
    tried: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]] = ()
    """After training, for each part that was left out: the numbers of the texts that were learned, those of the part,
    and their scores (S, C)."""

    def _pool(self, vectors: Tensor, lengths: Tensor) -> Float[Tensor, "S e"]:
        """[mean; max; first] of each text, 0 of one without words."""
        padded = torch.cat([vectors, vectors.new_zeros(1, vectors.shape[1])])
        starts = torch.where(lengths > 0, lengths.cumsum(0) - lengths, vectors.shape[0])
        return torch.cat([pool_mean(vectors, lengths), pool_max(vectors, lengths), padded[starts]], dim=1)

    def _scores(self, x: Float[Tensor, "S e"]) -> Float[Tensor, "S C"]:
        return self.body.map(self._measured(x))

    def _measured(self, pooled: Float[Tensor, "S e"]) -> Float[Tensor, "S e"]:
        return (pooled - self.body.mean) * self.body.scale

    @torch.no_grad()
    def solve(
        self,
        pooled: Float[Tensor, "S e"],
        targets: Any,
        lengths: Tensor,
        kin: Kinship | None = None,
        named: tuple[Float[Tensor, "M e"], np.ndarray] | None = None,
        unlabelled: Float[Tensor, "N e"] | None = None,
    ) -> None:
        """Train on texts, whatever their lengths; `named` are the vectors of what labels are called, and the numbers of
        these labels, `unlabelled` those of texts without a label. `ValueError` for several labels per text."""
        if targets.is_floating_point():
            raise ValueError("an lda-pool head learns one label per text; use another head")
        ids, body, count = targets.cpu().numpy(), self.body, len(self.labels)
        self._measure(pooled)
        x = self._measured(pooled).cpu().numpy()
        kin, whole = Kinship(np.arange(len(ids))) if kin is None else kin, self.whole.numpy()
        once = np.isin(np.arange(len(ids)), np.unique(np.stack([ids, kin.copies]), axis=1, return_index=True)[1])
        splits = [(kin.rest(left), left & once) for left in _splits(ids, kin.groups)]
        splits = [(learned, left) for learned, left in splits if learned.any() and left.any()]
        gold = np.concatenate([ids[:0], *(ids[left] for _, left in splits)])
        places = np.arange(x.shape[1]).reshape(len(BLOCK_LENGTHS), -1)
        columns = [places[list(blocks)][:, ~whole].ravel() for blocks in (() if whole.all() else CHOICES)]
        tried = [_try(_of_words(x, ids, count), own, x, gold, splits, LDA_SCALES) for own in columns]
        if whole.any():
            start = self._start(named, unlabelled)
            own = places[0, whole]
            prototypes, logistic, self.trust = _of_vectors(x, own, ids, kin.copies, start)
            first = _try(prototypes, own, x, gold, splits, VECTOR_SCALES, SCALE_DOUBT / len(ids))
            tried = [first, _try(logistic, own, x, gold, splits, VECTOR_SCALES), *tried]
            weights = np.eye(len(tried))[0]
            fair = np.concatenate([np.zeros(0, bool), *(np.isin(ids[left], ids[own]) for own, left in splits)])
            if fair.any():
                scores = [each.scores[fair] for each in tried]
                favour = 1 + FAVOUR * self.trust**2
                weights = choose_weights(
                    scores[0], scores[1:], gold[fair], _loss, len(np.unique(kin.groups)), favour, SCALE_DOUBT
                )
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
            own, bias = each.fit(np.ones(len(ids), bool), each.columns)
            solution[:, each.columns] += weight * each.scale * own
            offset += weight * each.scale * bias
        body.map.weight.copy_(torch.from_numpy(solution))
        body.map.bias.copy_(torch.from_numpy(offset))

    @torch.no_grad()
    def scores_by_name(
        self,
        pooled: Float[Tensor, "S e"],
        named: tuple[Float[Tensor, "M e"], np.ndarray],
        unlabelled: Float[Tensor, "N e"] | None = None,
    ) -> np.ndarray:
        """Return (S, C): what the names alone say of texts, after training."""
        start, whole = self._start(named, unlabelled), self.whole
        x = self._measured(pooled).cpu()[:, : len(whole)][:, whole].numpy()
        scores = (x - start.centre) / start.length @ start.names.T / start.temperature
        return np.where(start.names.any(1), scores, ABSENT + scores.min(1, keepdims=True, initial=0))

    def facts(self) -> dict[str, Any]:
        """Return how far the names of labels are believed, where they are."""
        return {"label_names": round(self.trust, 3)} if self.trust else {}

    @property
    def whole(self) -> Bool[Tensor, " d"]:
        """Which of the columns of h are those of v."""
        return torch.tensor([any(shape[3:4]) for shape in self.streams]).repeat_interleave(torch.tensor(self.widths))

    def _measure(self, pooled: Float[Tensor, "S e"]) -> None:
        """Set what x is measured by: each block of h is centred and gets its length, v gets the mean length 1."""
        whole, body = self.whole.to(pooled.device), self.body
        spread = pooled.std(0, correction=0)
        lengths = torch.tensor(BLOCK_LENGTHS, device=pooled.device).repeat_interleave(len(whole))
        body.mean.copy_(pooled.mean(0))
        body.scale.copy_(torch.where(spread > 0, 1 / spread, 1.0) * lengths / math.sqrt(max(1, int((~whole).sum()))))
        mixes = [mix for mix, shape in zip(self.mixes, self.streams, strict=True) if any(shape[3:4])]
        if mixes:
            scale, mean = (torch.cat([getattr(mix, name).flatten() for mix in mixes]) for name in ("scale", "mean"))
            length = (pooled[:, : len(whole)][:, whole] / scale + mean).square().sum(1).mean().sqrt()
            body.mean[: len(whole)][whole] = -mean * scale
            body.scale[: len(whole)][whole] = 1 / (scale * length.clamp_min(LEAST_MEAN_LENGTH))

    def _start(self, named: tuple[Tensor, np.ndarray] | None, unlabelled: Tensor | None) -> "NamedStart":
        """Return what the vectors of texts begin at."""
        whole = self.whole

        def vectors(pooled: Tensor) -> Tensor:
            return self._measured(pooled).cpu()[:, : len(whole)][:, whole]

        names = torch.zeros(len(self.labels), int(whole.sum()))
        if named is not None:
            names[torch.from_numpy(named[1])] = unit_rows(vectors(named[0]))
        if unlabelled is None or len(unlabelled) < FEWEST_TEXTS or not names.any():
            return NamedStart(names.numpy(), np.zeros(names.shape[1], np.float32), 1.0, TEMPERATURE)
        texts = vectors(unlabelled)
        moved, centre = move_names(names, texts)
        length = float((texts - centre).norm(dim=1).mean())
        temperature = adapted_temperature(int(names.any(1).sum())) / length
        return NamedStart(moved.numpy(), centre.numpy(), length, temperature)


@dataclass(frozen=True)
class NamedStart:
    """Vectors (C, d) of what labels are called, of length 1 or 0; the place (d,) and the length that the vectors of
    texts are measured from and by; and the temperature of scores by names alone."""

    names: np.ndarray
    centre: np.ndarray
    length: float
    temperature: float


Fit = Callable[[np.ndarray, np.ndarray], Linear]
"""From a mask of the texts that are learned (S,), and columns of x."""


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
    x: np.ndarray,
    gold: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    scales: np.ndarray,
    doubt: float = 0.0,
) -> ColumnFit:
    """`gold` are the classes of what is left out; `doubt` is what a scale costs, times the square of its logarithm."""
    parts = []
    for learned, left in splits:
        weight, bias = fit(learned, columns)
        parts.append(x[left][:, columns] @ weight.T + bias)
    if not parts:
        return ColumnFit(fit, columns, 1.0, np.zeros((0, 1)))
    scores = np.concatenate(parts)
    scale = float(min(scales, key=lambda scale: _loss(scale * scores, gold) + doubt * math.log(scale) ** 2))
    return ColumnFit(fit, columns, scale, scale * scores)


def _of_words(x: np.ndarray, ids: np.ndarray, count: int) -> Fit:
    """Linear discriminant analysis."""

    def fit(learned: np.ndarray, columns: np.ndarray) -> Linear:
        own = ids[learned]
        solution = lda(LabelledWords(x[learned][:, columns], own, count, np.arange(len(own) + 1)), SHRINKAGE)
        return solution.weight, solution.bias

    return fit


def _of_vectors(
    x: np.ndarray, columns: np.ndarray, ids: np.ndarray, copies: np.ndarray, start: NamedStart
) -> tuple[Fit, Fit, float]:
    """Prototypes and logistic regression over the vectors of texts, and how far the names are believed."""
    count, temperature = len(start.names), start.temperature

    def different(learned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return texts, copies with one label being one, and their classes."""
        pairs, places = np.unique(np.stack([ids[learned], copies[learned]]), axis=1, return_inverse=True)
        sums = np.zeros((pairs.shape[1], len(columns)), x.dtype)
        np.add.at(sums, places.ravel(), (x[learned][:, columns] - start.centre) / start.length)
        return sums / np.bincount(places.ravel())[:, None], pairs[0]

    def of_x(weight: np.ndarray, bias: np.ndarray, own: np.ndarray) -> Linear:
        weight = weight / start.length
        return weight, bias - weight @ start.centre + frequency(own, count)

    def prototypes(learned: np.ndarray, columns: np.ndarray) -> Linear:
        v, own = different(learned)
        made = learn_prototypes(v, own, start.names, temperature)
        return of_x(made.weight, np.where(made.weight.any(1), made.bias, ABSENT), own)

    def logistic(learned: np.ndarray, columns: np.ndarray) -> Linear:
        v, own = different(learned)
        return of_x(*_logistic(v, own, start.names, worth), own)

    all_texts = learn_prototypes(*different(np.ones(len(ids), bool)), start.names, temperature)
    trust, worth = all_texts.trust, NAME_COUNT * all_texts.trust * all_texts.believed
    return prototypes, logistic, trust


def _logistic(x: np.ndarray, ids: np.ndarray, names: np.ndarray, worth: np.ndarray) -> Linear:
    """That of scikit-learn without a constant, where each class counts the same, see `heads.words.descend`; a name is a
    further text that counts as `worth`."""
    called = np.flatnonzero(names.any(1) & (worth > 0))
    x, own = np.concatenate([x, names[called]]), np.concatenate([ids, called])
    counts = np.concatenate([np.ones(len(ids)), worth[called]])
    present, places = np.unique(own, return_inverse=True)
    weight, bias = np.zeros((len(names), x.shape[1]), np.float32), np.full(len(names), ABSENT, np.float32)
    penalty = LOGISTIC_STRENGTH * (2 if len(present) == 2 else 1) / counts.sum()
    each = counts / np.bincount(places, counts)[places]
    shares = descend(
        lambda shares: x @ (x.T @ shares), places, penalty, tolerance=LOGISTIC_TOLERANCE, counts=each, constant=False
    )
    weight[present], bias[present] = (x.T @ shares[:-1]).T, 0
    return weight, bias


def _loss(scores: np.ndarray, gold: np.ndarray) -> float:
    """Return the mean cross-entropy, where no example is believed to be surer than the module says."""
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
