"""Linear heads that solve a convex problem exactly: ridge and shrinkage LDA.

The result depends on no order of sentences, seed or number of epochs; the only hyper-parameter is the strength.

    ridge      least squares on one-hot tags         + strength · ‖W - A · W₀‖²        (no penalty on the bias)
    lda        Gaussian classes with one covariance, (1 - strength) · within + strength · mean variance · I

Both are invariant to rotation, so they are solved in principal axes:

    X - mean = Z · B      Z (N, r), ZᵀZ diagonal;   B (r, d) orthonormal;   r = rank ≤ min(N, d)

Without a development set, ridge chooses its strength by leaving out each group S of sentences in turn, such as those of
a document (`heads.inputs.Kinship`). One solution gives all held-out residuals exactly: (I - H_SS)⁻¹ · residual, with
the hat matrix H; where a group has more words than r + 1, the sums without it are solved instead, which are smaller.

W₀ are maps that are known before any example, such as the probabilities of kinds of names (`KnownMaps`); by default
there are none. A says how far each tag follows each map. It has the least squared error on the groups left out, and
begins at what is trusted without an example, as if that had been seen five times; so it is near 0 where a map does
harm. What is linear in the targets is so in the residuals: one solution for the tags and one for the maps give all.

Sources: Hastie, Tibshirani and Friedman, chapters 3, 4 and 7; Woodbury's identity for the residual of a block.
Letters: N words, d width, r rank, C tags, S strengths, K maps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from boustro.heads.inputs import Kinship, sentence_rows

RIDGE_STRENGTHS = tuple(float(s) for s in 10.0 ** np.arange(-2, 1.6, 0.25))
"""The strengths that are tried, in units of the mean squared length of the centred vectors."""
STRENGTH_ALONE = 0.3  # nothing can be left out to choose it by
TRUSTED_EXAMPLES = 5.0
"""Known maps are trusted as if so many examples had borne them out; 1 costs up to 14 points with twenty tweets."""
KNOWN_SCALE = 4.0  # a score of 1 beside 0 is then a probability of 98%
SCALE_GRID = tuple(float(s) for s in 2.0 ** np.arange(0, 7, 0.5))


@dataclass(frozen=True, slots=True)
class LinearSolution:
    """Tag scores = weight · x + bias; `strength` is the one that was used."""

    weight: np.ndarray  # (C, d)
    bias: np.ndarray  # (C,)
    strength: float


class KnownMaps(NamedTuple):
    """Maps of vectors, and how far the tags follow each without an example."""

    weight: np.ndarray  # (K, d)
    bias: np.ndarray  # (K,)
    trust: np.ndarray  # (C, K)

    @classmethod
    def none(cls, num_tags: int, width: int) -> "KnownMaps":
        """No maps: K is 0."""
        return cls(np.zeros((0, width), np.float32), np.zeros(0, np.float32), np.zeros((num_tags, 0)))

    @property
    def solution(self) -> LinearSolution:
        """Scores of the tags from the maps alone."""
        return LinearSolution(self.trust @ self.weight, self.trust @ self.bias, 0.0)


class LabelledWords:
    """Vectors of words and their tags; the principal axes are computed once for all heads and strengths."""

    def __init__(
        self,
        vectors: np.ndarray,
        tags: np.ndarray,
        num_tags: int,
        starts: np.ndarray,
        kin: Kinship | None = None,
        known: KnownMaps | None = None,
    ) -> None:
        """`vectors` (N, d), `tags` (N,) ids, `starts` (sentences + 1,); `ValueError` where they disagree.

        `kin` says which sentences are left out together; by default each is by itself. `known` are W₀.
        """
        if not len(vectors) == len(tags) == starts[-1] or not len(tags):
            raise ValueError(
                f"{len(vectors)} vectors, {len(tags)} tags and sentences of {starts[-1]} words do not match"
            )
        self.tags, self.num_tags = tags, num_tags
        self.num_words, self.width = vectors.shape
        self.starts, self.kin = starts, Kinship(np.arange(len(starts) - 1)) if kin is None else kin
        self.mean = vectors.mean(0, dtype=np.float64)
        self.centred = vectors - self.mean
        self.onehot = np.eye(num_tags)[tags]  # (N, C)
        self.known = KnownMaps.none(num_tags, self.width) if known is None else known
        self.told = vectors @ self.known.weight.T + self.known.bias  # (N, K)

    @cached_property
    def parts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rows of the words of each group of sentences, and of all that are left out with it."""
        pairs = ([sentence_rows(self.starts, some)[0] for some in pair] for pair in self.kin.each())
        return [(own, left) for own, left in pairs if len(own)]

    @cached_property
    def principal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The diagonal of ZᵀZ (r,), Z (N, r) and B (r, d)."""
        wide = self.num_words <= self.width
        values, axes = np.linalg.eigh(self.centred @ self.centred.T if wide else self.centred.T @ self.centred)
        kept = values > max(values[-1], 0) * 1e-10  # what is smaller is rounding of directions that no word has
        values, axes = values[kept], axes[:, kept]
        root = np.sqrt(values)
        if wide:
            return values, axes * root, (axes / root).T @ self.centred
        return values, self.centred @ axes, axes.T

    @property
    def squared_length(self) -> float:
        """The mean squared length of the centred vectors, a natural unit of strength."""
        return float(np.square(self.centred).sum()) / self.num_words

    def solution(self, weight: np.ndarray, bias: np.ndarray, strength: float) -> LinearSolution:
        """From weight (C, d) and bias (C,) for the centred vectors."""
        return LinearSolution(weight.astype(np.float32), (bias - weight @ self.mean).astype(np.float32), strength)


def ridge(words: LabelledWords, strength: float | None = None) -> LinearSolution:
    """Least squares; by default with the strength of the least squared error on sentences left out.

    A single group of sentences cannot be left out, and has `STRENGTH_ALONE`.
    """
    known, follow = words.known, words.known.trust.T
    if len(words.parts) > 1 and (strength is None or len(follow)):
        tried = [s * words.squared_length for s in RIDGE_STRENGTHS] if strength is None else [strength]
        held_out, follows = _left_out(words, tried)
        errors = [np.square(scores - words.onehot).sum() for scores in held_out]
        best = len(tried) - 1 - int(np.argmin(errors[::-1]))  # the strongest of equally good ones
        strength, follow = tried[best], follows[best]
    elif strength is None:
        strength = STRENGTH_ALONE * words.squared_length
    values, z, axes = words.principal
    targets = words.onehot - words.told @ follow
    weight = z.T @ targets / (values + strength)[:, None]
    learned = words.solution(weight.T @ axes, targets.mean(0), strength)
    weight, bias = learned.weight + follow.T @ known.weight, learned.bias + follow.T @ known.bias
    return LinearSolution(weight.astype(np.float32), bias.astype(np.float32), strength)


def ridge_held_out(words: LabelledWords, strengths: Sequence[float]) -> np.ndarray:
    """Return (S, N, C): the scores of each word, from training without its group of sentences. Exact, but that tags
    follow known maps as far as with all groups."""
    return _left_out(words, strengths)[0]


def _left_out(words: LabelledWords, strengths: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of `ridge_held_out`, and Aᵀ (S, K, C): how far each tag follows each map, -1 to 1."""
    targets, trust = np.hstack([words.onehot, words.told]), words.known.trust.T
    wanted, known = np.split(targets - _held_out(words, targets, strengths), [words.num_tags], axis=2)
    follow = np.broadcast_to(trust, (len(strengths), *trust.shape))
    if len(words.parts) > 1:
        gram = known.swapaxes(1, 2) @ known + TRUSTED_EXAMPLES * np.eye(len(trust))
        follow = np.linalg.solve(gram, known.swapaxes(1, 2) @ wanted + TRUSTED_EXAMPLES * trust).clip(-1, 1)
    return words.onehot - wanted + known @ follow, follow


def _held_out(words: LabelledWords, targets: np.ndarray, strengths: Sequence[float]) -> np.ndarray:
    """Return (S, N, C): the same for any targets (N, C), from no maps."""
    values, z, _ = words.principal
    shrink = 1 / (values + np.asarray(strengths)[:, None])  # (S, r)
    mean, moments = targets.mean(0), z.T @ targets
    held_out = np.empty((len(strengths), *targets.shape))
    for rows, left in words.parts:
        vectors, wanted = z[left], targets[left]
        if len(left) > len(values) + 1:
            held_out[:, rows] = _without(words, targets, strengths, rows, left)
            continue
        residual = wanted - mean - vectors @ (shrink[:, :, None] * moments)
        hat = (vectors * shrink[:, None]) @ vectors.T + 1 / words.num_words
        found = wanted - np.linalg.solve(np.eye(len(vectors)) - hat, residual)
        held_out[:, rows] = found if left is rows else found[:, np.searchsorted(left, rows)]
    return held_out


def _without(
    words: LabelledWords, targets: np.ndarray, strengths: Sequence[float], rows: np.ndarray, left: np.ndarray
) -> np.ndarray:
    """Return (S, n, C): the scores of the words of `rows` without the many of `left`, from sums with a constant behind
    z."""
    values, z, _ = words.principal
    others = np.delete(np.column_stack([z, np.ones(len(z))]), left, axis=0)
    gram, moments = others.T @ others, others.T @ np.delete(targets, left, axis=0)
    held_out = np.empty((len(strengths), len(rows), targets.shape[1]))
    for found, strength in zip(held_out, strengths, strict=True):
        # the constant is not shrunk; it needs some penalty only so that the system can be solved
        penalty = np.append(np.full(len(values), strength), 1e-9)
        weight = np.linalg.solve(gram + np.diag(penalty), moments)
        found[:] = z[rows] @ weight[:-1] + weight[-1]
    return held_out


def ridge_scale(words: LabelledWords, strength: float) -> float:
    """Return the best scale of ridge's scores on sentences left out; for a single group of them 1, or that of known
    maps."""
    if len(words.parts) > 1:
        return best_scale(ridge_held_out(words, [strength])[0], words.tags)
    return KNOWN_SCALE if len(words.known.weight) else 1.0


def best_scale(
    scores: np.ndarray,
    ids: np.ndarray,
    scales: Sequence[float] = SCALE_GRID,
    doubt: Callable[[float], float] = lambda scale: 0.0,
) -> float:
    """Return the one by which scores (N, C), times it and before softmax, have the least cross-entropy to ids (N,);
    `doubt` of a scale, in nats of a mean word, is added."""
    return min(scales, key=lambda scale: _cross_entropy(scale * scores, ids) + doubt(scale))


def _cross_entropy(scores: np.ndarray, ids: np.ndarray) -> float:
    shifted = scores - scores.max(1, keepdims=True)
    return float((np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(ids)), ids]).mean())


def lda(words: LabelledWords, strength: float) -> LinearSolution:
    """Gaussian classes with one shrunk covariance; a tag that no word has is never predicted.

    This is scikit-learn's LinearDiscriminantAnalysis(solver="lsqr", shrinkage=strength) in r instead of d dimensions,
    which is ten to thirty times as fast.
    """
    values, z, axes = words.principal
    counts = words.onehot.sum(0)
    means = words.onehot.T @ z / np.maximum(counts, 1)[:, None]  # (C, r)
    within = z - means[words.tags]
    covariance = within.T @ within / words.num_words
    shrunk = (1 - strength) * covariance
    spread = max(np.trace(covariance), 1e-6 * values.sum() / words.num_words)  # one word per tag has no variance within
    shrunk[np.diag_indices_from(shrunk)] += strength * spread / words.width
    weight = np.linalg.solve(shrunk, means.T)  # (r, C)
    prior = np.log(np.maximum(counts, 1e-30) / words.num_words)
    return words.solution(weight.T @ axes, prior - 0.5 * (means.T * weight).sum(0), strength)
