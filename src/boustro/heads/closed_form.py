"""Linear heads that are the exact solution of a convex problem: ridge, logistic regression, shrinkage LDA.

With few examples (N words of width d, N below d) nothing is cheaper, and nothing depends less on luck: no
order of sentences, no seed, no number of epochs; one strength of regularisation is all there is to choose.

    ridge      least squares on one-hot tags         + strength · ‖W‖²       (the bias is free)
    logistic   sum of cross-entropies                + strength / 2 · ‖W‖²   (the bias is free)
    lda        Gaussian classes under one covariance, (1 - strength) · within + strength · mean variance · I

None of them changes when the vectors are rotated. So all are solved in the words' own principal axes, where
there are at most N coordinates however wide the vectors are:

    X - mean = Z · B      Z (N, r), ZᵀZ diagonal;   B (r, d) orthonormal;   r = rank ≤ min(N, d)

At K = 4 (200 words of width 1,024) a head then takes milliseconds. What comes out is an ordinary linear
head, weight (C, d) and bias (C,), for the vectors as they were.

A strength that is not given is chosen without any development set, sentences being left out whole, since the
vectors of their words have read each other: for ridge each sentence S in turn, exactly and from one solution
(held-out residual = (I - H_SS)⁻¹ · residual, H being the hat matrix), for logistic by folds of
sentences; for lda Ledoit and Wolf's formula gives it.

Sources: Hastie, Tibshirani and Friedman, chapters 3, 4 and 7; the residual of a block is Woodbury's identity; Ledoit
and Wolf 2004; L-BFGS as in Nocedal and Wright, chapter 7.
Letters: N words, d width, r rank, C tags, S strengths, P problems that are solved side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

RIDGE_STRENGTHS = tuple(float(s) for s in 10.0 ** np.arange(-2, 1.6, 0.25))
LOGISTIC_STRENGTHS = tuple(float(s) for s in 10.0 ** np.arange(-3, 0.1, 0.5))
"""What is tried, in units of the mean squared length of the centred vectors."""
FOLDS = 5
RANK_TOLERANCE = 1e-10
SUFFICIENT_DECREASE, MOST_HALVINGS, REMEMBERED_STEPS = 1e-4, 30, 8


@dataclass(frozen=True, slots=True)
class Linear:
    """Tag scores = weight · x + bias; `strength` is the one that was used."""

    weight: np.ndarray  # (C, d)
    bias: np.ndarray  # (C,)
    strength: float

    def scores(self, vectors: np.ndarray) -> np.ndarray:
        """(N, C)"""
        return vectors @ self.weight.T + self.bias


class Words:
    """Labelled words in their principal axes, computed once for all heads and strengths."""

    def __init__(self, vectors: np.ndarray, tags: np.ndarray, num_tags: int, starts: np.ndarray) -> None:
        """`vectors` (N, d), `tags` (N,) ids, `starts` (sentences + 1,); `ValueError` where they disagree."""
        if not len(vectors) == len(tags) == starts[-1] or not len(tags):
            raise ValueError(
                f"{len(vectors)} vectors, {len(tags)} tags and sentences of {starts[-1]} words do not match"
            )
        self.tags, self.num_tags = tags, num_tags
        self.num_words, self.width = vectors.shape
        self.sentences = [slice(int(a), int(b)) for a, b in pairwise(starts) if b > a]
        self.mean = vectors.mean(0, dtype=np.float64)
        centred = vectors - self.mean
        wide = self.num_words <= self.width
        values, axes = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
        kept = values > max(values[-1], 0) * RANK_TOLERANCE
        self.values, axes = values[kept], axes[:, kept]  # (r,): the diagonal of ZᵀZ
        root = np.sqrt(self.values)
        self.z = axes * root if wide else centred @ axes
        self._axes = (axes / root).T @ centred if wide else axes.T  # B

    @cached_property
    def onehot(self) -> np.ndarray:
        """(N, C)"""
        return np.eye(self.num_tags)[self.tags]

    @property
    def squared_length(self) -> float:
        """The mean squared length of the centred vectors, a natural unit of strength."""
        return float(self.values.sum()) / self.num_words

    def linear(self, weight: np.ndarray, bias: np.ndarray, strength: float) -> Linear:
        """The head whose weight on z is (r, C)."""
        weight = weight.T @ self._axes
        return Linear(weight.astype(np.float32), (bias - weight @ self.mean).astype(np.float32), strength)


def ridge(words: Words, strength: float | None = None) -> Linear:
    """Least squares; by default the strength whose left-out sentences have the least squared error."""
    if strength is None:
        tried = [s * words.squared_length for s in RIDGE_STRENGTHS]
        strength = _least(tried, [np.square(s - words.onehot).sum() for s in ridge_held_out(words, tried)])
    weight = words.z.T @ words.onehot / (words.values + strength)[:, None]
    return words.linear(weight, words.onehot.mean(0), strength)


def ridge_held_out(words: Words, strengths: Sequence[float]) -> np.ndarray:
    """(S, N, C): what each word would score, had its sentence been left out. Exact."""
    shrink = 1 / (words.values + np.asarray(strengths)[:, None])  # (S, r)
    mean, moments = words.onehot.mean(0), words.z.T @ words.onehot
    held_out = np.empty((len(strengths), *words.onehot.shape))
    for rows in words.sentences:
        z, wanted = words.z[rows], words.onehot[rows]
        residual = wanted - mean - z @ (shrink[:, :, None] * moments)
        hat = (z * shrink[:, None]) @ z.T + 1 / words.num_words
        held_out[:, rows] = wanted - np.linalg.solve(np.eye(len(z)) - hat, residual)
    return held_out


def lda(words: Words, strength: float | None = None) -> Linear:
    """Gaussian classes with one shrunk covariance; a tag that no word has is never predicted."""
    counts = words.onehot.sum(0)
    means = words.onehot.T @ words.z / np.maximum(counts, 1)[:, None]  # (C, r)
    within = words.z - means[words.tags]
    covariance = within.T @ within / words.num_words
    if strength is None:
        strength = ledoit_wolf(within, covariance, words.width)
    shrunk = (1 - strength) * covariance
    shrunk[np.diag_indices_from(shrunk)] += strength * np.trace(covariance) / words.width
    weight = np.linalg.lstsq(shrunk, means.T)[0] if strength == 0 else np.linalg.solve(shrunk, means.T)  # (r, C)
    prior = np.log(np.maximum(counts, 1e-30) / words.num_words)
    return words.linear(weight, prior - 0.5 * (means.T * weight).sum(0), strength)


def ledoit_wolf(within: np.ndarray, covariance: np.ndarray, width: int) -> float:
    """The shrinkage, 0 to 1, with the least expected squared error of the covariance of centred vectors (N, r)."""
    count, squares = len(within), float(np.square(covariance).sum())
    noise = (float(np.square(np.square(within).sum(1)).sum()) / count - squares) / count
    distance = squares - float(np.trace(covariance)) ** 2 / width
    return min(noise, distance) / distance if distance > 0 else 1.0


def logistic(words: Words, strength: float | None = None) -> Linear:
    """Multinomial logistic regression; by default the strength whose left-out folds have the least cross-entropy."""
    if strength is None:
        tried = [s * words.squared_length for s in LOGISTIC_STRENGTHS]
        strength = _least(tried, [_cross_entropy(s, words.tags) for s in logistic_held_out(words, tried)])
    weight, bias = solve_logistic(words, np.array([strength]), np.ones((1, words.num_words)))
    return words.linear(weight[0], bias[0], strength)


def logistic_held_out(words: Words, strengths: Sequence[float]) -> np.ndarray:
    """(S, N, C): what each word scores when the fold of its sentence is left out."""
    folds = min(FOLDS, len(words.sentences))
    fold = np.empty(words.num_words, int)
    for number, rows in enumerate(words.sentences):
        fold[rows] = number % folds
    taught = np.repeat(fold != np.arange(folds)[:, None], len(strengths), axis=0)  # (folds · S, N)
    weight, bias = solve_logistic(words, np.tile(strengths, folds), taught.astype(np.float64))
    held_out = np.empty((len(strengths), *words.onehot.shape))
    for number in range(folds):
        own = slice(number * len(strengths), (number + 1) * len(strengths))
        held_out[:, fold == number] = words.z[fold == number] @ weight[own] + bias[own, None]
    return held_out


def solve_logistic(
    words: Words, strengths: np.ndarray, counts: np.ndarray, tolerance: float = 1e-6
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (P, r, C) and biases (P, C) of problems with a strength each (P,) and a count for every word (P, N).

    Along principal axes the Hessian is nearly diagonal, and known beforehand: with it as a preconditioner, L-BFGS
    needs a few dozen steps, each two matrix products for all problems. They stop when a Newton step along
    the diagonal promises less than `tolerance` a word.
    """
    num_problems, rank, num_tags = len(strengths), words.z.shape[1], words.num_tags
    z = np.concatenate([words.z, np.ones((words.num_words, 1))], 1)
    penalty = np.zeros((num_problems, rank + 1, 1))
    penalty[:, :-1, 0] = strengths[:, None]
    total = counts.sum(1)
    share = counts @ words.onehot / total[:, None]
    variance = np.append(words.values, words.num_words) / words.num_words
    curvature = (total * (share * (1 - share)).mean(1))[:, None, None] * variance[:, None] + penalty
    start = np.zeros((num_problems, rank + 1, num_tags))
    start[:, -1] = np.log(np.maximum(share, 1e-3))

    def loss_and_slope(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = (z @ w.transpose(1, 0, 2).reshape(rank + 1, -1)).reshape(-1, num_problems, num_tags)
        scores -= scores.max(-1, keepdims=True)
        wanted = scores[np.arange(len(z)), :, words.tags]
        np.exp(scores, out=scores)
        sums = scores.sum(-1)
        loss = ((np.log(sums) - wanted) * counts.T).sum(0) + 0.5 * (penalty * w * w).sum((1, 2))
        scores *= (counts.T / sums)[..., None]
        scores[np.arange(len(z)), :, words.tags] -= counts.T
        slope = (z.T @ scores.reshape(len(z), -1)).reshape(rank + 1, num_problems, num_tags)
        return loss, slope.transpose(1, 0, 2) + penalty * w

    solved = minimise(loss_and_slope, start, 1 / curvature, tolerance * total)
    return solved[:, :-1], solved[:, -1]


def minimise(
    function: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    w: np.ndarray,
    scale: np.ndarray,
    tolerance: np.ndarray,
    most_steps: int = 500,
) -> np.ndarray:
    """Minima of P convex functions by L-BFGS, from w (P, r, C); `scale` guesses the inverse Hessian's diagonal."""

    def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.einsum("prc,prc->p", a, b)[:, None, None]

    loss, slope = function(w)
    steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # (change of w, of the slope, 1 / their product)
    for _ in range(most_steps):
        if (dot(slope * scale, slope)[:, 0, 0] <= tolerance).all():
            break
        direction, taken = slope, []
        for change, bend, inverse in reversed(steps):
            taken.append(inverse * dot(change, direction))
            direction = direction - taken[-1] * bend
        direction = direction * scale
        for (change, bend, inverse), part in zip(steps, reversed(taken), strict=True):
            direction = direction + change * (part - inverse * dot(bend, direction))
        promised, size = dot(direction, slope), np.ones_like(loss)[:, None, None]
        for _ in range(MOST_HALVINGS):
            tried = w - size * direction
            new_loss, new_slope = function(tried)
            rounding = 1e-12 * np.abs(loss)
            poor = new_loss > loss - SUFFICIENT_DECREASE * (size * promised)[:, 0, 0] + rounding
            if not poor.any():
                break
            size = np.where(poor[:, None, None], size / 2, size)
        change, bend = tried - w, new_slope - slope
        product = dot(change, bend)
        inverse = np.divide(1, product, out=np.zeros_like(product), where=product > 0)
        steps = [*steps, (change, bend, inverse)][-REMEMBERED_STEPS:]
        w, loss, slope = tried, new_loss, new_slope
    return w


def _least(strengths: Sequence[float], errors: Sequence[float]) -> float:
    """The strength with the least error; of equal ones the strongest."""
    return -min(zip(errors, (-s for s in strengths), strict=True))[1]


def _cross_entropy(scores: np.ndarray, tags: np.ndarray) -> float:
    top = scores.max(-1)
    return float((top + np.log(np.exp(scores - top[:, None]).sum(-1)) - scores[np.arange(len(tags)), tags]).sum())


CLOSED_FORMS: dict[str, Callable[[Words, float | None], Linear]] = {"ridge": ridge, "logistic": logistic, "lda": lda}
