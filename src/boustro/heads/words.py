"""The words of a text beside a head: TF-IDF sees exactly what an encoder blurs, such as a rare name, and the vectors of
a table of words (`encoders.word_table`) bring near what means about the same.

    x_t = (1 + log count_t) · (log((1 + n) / (1 + n_t)) + 1),  then x / ‖x‖      n texts, n_t of them with the term t
    word scores = log softmax(W · [x; 2 (v - mean v)] + b)     logistic regression over words, 2-grams and vectors v
    scores      = a · log softmax(head) + Σ_k b_k · word scores with the first k vectors      a > 0, b_k ≥ 0

v are the first k = 0, 1 or 2 of the vectors that a table has of a text. Each k is tried with each ratio b_k / a on
texts that neither part was trained on, and what is tried is averaged: it counts e^-m where it makes m mistakes more
than the best. So few texts, which cannot tell, give an average, and many a choice; all b may be 0. The sum of a and b
has the least cross-entropy there. For several labels per text, each label has its own regression, log softmax is the
identity, and m is by how much the sum of the cross-entropies is larger.

Sources: Salton and Buckley 1988 for TF-IDF; Wolpert 1992 for stacking; Catoni 2007 for averages of this form (Gibbs
posteriors). S texts, T terms, C classes, K vectors of a text and D their width.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

WORD_FOLDS = 5
FEW_TEXTS = 500
"""With fewer texts every fold is left out in turn; with more, only the first."""
WORD_STRENGTH = 1 / 30
"""Of the penalty on W; more texts count more against it."""
MOST_STEPS, REMEMBERED, TOLERANCE = 200, 8, 1e-4
"""Of L-BFGS, see `descend`."""
RATIOS = (0.0, 0.15, 0.3, 0.6, 1.0, 2.0, 4.0, 100.0)
"""b_k / a."""
SUM_GRID = tuple(2.0 ** (power / 2) for power in range(-6, 3))
"""The sum of a and all b."""
NEGLIGIBLE = 0.01
"""What counts less than this share of the best does not count."""
SHARE = 2.0
"""The length of a vector of a text beside that of its TF-IDF."""
MOST_DENSE = 1000
"""Texts up to which their products with each other are kept."""
MODEL_ARRAYS = ("idf", "weight", "bias", "centre")
LEAST_LENGTH = 1e-300
"""The length of a text without a known term, instead of 0."""


def terms(words: Sequence[str]) -> list[str]:
    """`["No", "fun"]` → `["no", "fun", "no fun"]`."""
    lower = [word.lower() for word in words]
    return [*lower, *(f"{a} {b}" for a, b in pairwise(lower))]


def vectorizer(**options: Any) -> Any:
    """scikit-learn's TF-IDF of `terms`."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    given: dict[str, Any] = {"analyzer": terms, "sublinear_tf": True, **options}
    return TfidfVectorizer(**given)


@dataclass(frozen=True)
class WordModel:
    """A linear model over the TF-IDF of `terms`, and over vectors of texts.

    `vocabulary` (T,), `idf` (T,), `weight` (C, T + K · D), `bias` (C,), `centre` (K · D,).
    """

    vocabulary: list[str]
    idf: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    centre: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    def scores(self, texts: Sequence[Sequence[str]], vectors: np.ndarray | None = None) -> np.ndarray:
        """Return (S, C): W · x + b for texts split into words; terms that are not known count nothing.

        `vectors` (S, K', D) are those of the texts, of which the first are read.
        """
        places = {term: place for place, term in enumerate(self.vocabulary)}
        found = np.tile(self.bias.astype(np.float64), (len(texts), 1))
        for row, words in zip(found, texts, strict=True):
            known = Counter(places[term] for term in terms(words) if term in places)
            rows = np.fromiter(known, np.int64, len(known))
            own = (1 + np.log(np.fromiter(known.values(), np.float64, len(known)))) * self.idf[rows]
            row += self.weight[:, rows] @ (own / max(np.sqrt(own @ own), LEAST_LENGTH))
        if len(self.centre):
            assert vectors is not None
            given = vectors.reshape(len(texts), -1)[:, : len(self.centre)]
            found += SHARE * (given - self.centre) @ self.weight[:, len(self.vocabulary) :].T
        return found


def fit_words(
    texts: Sequence[Sequence[str]], gold: np.ndarray, num_labels: int, vectors: np.ndarray | None = None
) -> WordModel:
    """Logistic regression; `gold` has class ids (S,), or membership (S, C) where texts have several labels.

    `vectors` (S, K, D) are read beside the words. A class that no text has gets a score that is never the best.
    """
    vectors = np.zeros((len(texts), 0, 0), np.float32) if vectors is None else vectors
    return next(fit_each(texts, gold, num_labels, vectors, [vectors.shape[1]]))


def fit_each(
    texts: Sequence[Sequence[str]], gold: np.ndarray, num_labels: int, vectors: np.ndarray, counts: Iterable[int]
) -> Iterator[WordModel]:
    """Fit a model for each of these numbers of vectors; one solution is where the search for the next begins."""
    made = vectorizer()
    x = made.fit_transform(texts).astype(np.float32)
    known = made.get_feature_names_out().tolist(), made.idf_.astype(np.float32)
    found: dict[int, np.ndarray | None] = {}
    for count in counts:
        v = vectors[:, :count].reshape(len(texts), -1)
        centre = v.mean(0)
        v = SHARE * (v - centre)
        # one product of all texts with each other serves every label
        width, product = x.shape[1] + v.shape[1], _kernel(x, v)
        weight, bias = np.zeros((num_labels, width), np.float32), np.full(num_labels, np.log(1e-6), np.float32)
        for number, ids in enumerate([gold] if gold.ndim == 1 else gold.T.astype(int)):
            present, places = np.unique(ids, return_inverse=True)
            own = np.zeros((len(present), width), np.float32), np.zeros(len(present), np.float32)
            if len(present) > 1:
                penalty = WORD_STRENGTH * (2 if len(present) == 2 else 1) / len(ids)
                found[number] = shares = descend(product, places, penalty, found.get(number))
                own = np.concatenate([x.T @ shares[:-1], v.T @ shares[:-1]]).T, shares[-1] - shares[-1].mean()
            if gold.ndim == 1:
                weight[present], bias[present] = own
            else:
                pair = np.zeros((2, width), np.float32), np.full(2, np.log(1e-3), np.float32)
                pair[0][present], pair[1][present] = own
                weight[number], bias[number] = pair[0][1] - pair[0][0], pair[1][1] - pair[1][0]
        yield WordModel(*known, weight, bias, centre)


def _kernel(x: Any, v: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the product of K = x · xᵀ + v · vᵀ and a matrix, from TF-IDF x (S, T) and vectors v (S, D)."""
    if len(v) <= MOST_DENSE:
        kernel = (x @ x.T).toarray() + v @ v.T
        return lambda shares: kernel @ shares
    turned = x.T.tocsr()
    return lambda shares: x @ (turned @ shares) + v @ (v.T @ shares)


def _inner(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.dot(one[0].ravel(), other[1].ravel()))


def _way_down(slope: np.ndarray, memory: Sequence[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """Where L-BFGS goes: the slope times the inverse curvature that the remembered steps show."""
    way, shares = -slope, []
    for step, change, bend in reversed(memory):
        shares.append(_inner(step, way) / bend)
        way -= shares[-1] * change
    if memory:
        step, change, bend = memory[-1]
        way *= bend / _inner(change, change)
    for (step, change, bend), share in zip(memory, reversed(shares), strict=True):
        way += (share - _inner(change, way) / bend) * step
    return way


def descend(
    product: Callable[[np.ndarray], np.ndarray],
    own: np.ndarray,
    penalty: float,
    begin: np.ndarray | None = None,
    tolerance: float | None = None,
    counts: np.ndarray | None = None,
    constant: bool = True,
) -> np.ndarray:
    """Return (S + 1, C): A, and b in the last row, for classes numbered from 0; `product` is that with K. It ends where
    a step promises to lessen the loss by less than `tolerance`, by default `TOLERANCE`.

    `counts` (S,) say how much each text counts, by default the same; without a `constant`, b stays 0.

    Least is the mean cross-entropy + penalty / 2 · ‖W‖², W = Aᵀ · [x; v]: the loss of scikit-learn's logistic
    regression, which has one vector for two classes. What L-BFGS adds and multiplies are slopes of W, which are such
    products too. So it holds [A; b] and [K · A; b] of each, and a step along one costs no product with K.
    """
    gold, tolerance = np.eye(int(own.max()) + 1, dtype=np.float32)[own], tolerance or TOLERANCE
    each = np.ones(len(own), np.float32) if counts is None else counts.astype(np.float32)
    each = (each / each.sum())[:, None]
    memory: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=REMEMBERED)

    def both(shares: np.ndarray) -> np.ndarray:
        return np.stack([shares, np.concatenate([product(shares[:-1]), shares[-1:]])])

    def answer(scores: np.ndarray) -> tuple[np.ndarray, float]:
        scores = scores - scores.max(1, keepdims=True)
        chances = np.exp(scores)
        sums = chances.sum(1, keepdims=True)
        return chances / sums, float((each * (np.log(sums) - (scores * gold).sum(1, keepdims=True))).sum())

    point = both(np.zeros((len(own) + 1, gold.shape[1]), np.float32) if begin is None else begin)
    chances, value = answer(point[1, :-1] + point[1, -1])
    step = before = None
    for _ in range(MOST_STEPS):
        residual = (chances - gold) * each
        slope = both(np.concatenate([residual + penalty * point[0, :-1], constant * residual.sum(0, keepdims=True)]))
        if step is not None:
            change = slope - before
            memory.append((step, change, _inner(step, change)))
        way = _way_down(slope, memory)
        fall = -_inner(slope, way)
        if fall < tolerance:
            break
        up = way[1, :-1] + way[1, -1]
        linear = penalty * float((point[0, :-1] * way[1, :-1]).sum())
        square = penalty * float((way[0, :-1] * way[1, :-1]).sum())
        means = (chances * up).sum(1, keepdims=True)
        bend = float((each * ((chances * up * up).sum(1, keepdims=True) - means * means)).sum())
        length = fall / (bend + square)  # Newton's, along this way
        while True:
            chances, found = answer(point[1, :-1] + point[1, -1] + length * up)
            if found - value + length * linear + length**2 / 2 * square <= -1e-4 * length * fall or length < 1e-6:
                break
            length /= 2
        step, before, value = length * way, slope, found
        point = point + step
    return point[0]


Loss = Callable[[np.ndarray, np.ndarray], float]


def choose_weights(
    head: np.ndarray,
    words: Sequence[np.ndarray],
    gold: np.ndarray,
    loss: Loss,
    num_texts: int,
    favour: float = 1.0,
    doubt: float = 0.0,
) -> np.ndarray:
    """[a, b_0, b_1, …] of the module's formula, from log probabilities (S, C) of so many different texts.

    The head alone counts `favour` times as much beforehand as any other ratio; a sum of the weights other than 1 costs
    `doubt` nats, of all texts, times the square of its logarithm.
    """

    def scaled(scores: np.ndarray) -> tuple[float, float]:
        costs = {scale: doubt / max(num_texts, 1) * np.log(scale) ** 2 for scale in SUM_GRID}
        return min((loss(scale * scores, gold) + cost, scale) for scale, cost in costs.items())

    shares, merits = np.zeros((len(words), len(RATIOS), 1 + len(words))), np.zeros((len(words), len(RATIOS)))
    for k, own in enumerate(words):
        for n, ratio in enumerate(RATIOS):
            shares[k, n, [0, 1 + k]] = 1 / (1 + ratio), ratio / (1 + ratio)
            scores = shares[k, n, 0] * head + shares[k, n, 1 + k] * own
            merits[k, n] = (scores.argmax(1) == gold).mean() if gold.ndim == 1 else -scaled(scores)[0]
    counted = np.exp(num_texts * (merits - merits.max()))
    counted[:, 0] *= favour
    counted[counted < NEGLIGIBLE] = 0
    weights = np.tensordot(counted / counted.sum(), shares, 2)
    return scaled(np.tensordot(weights, np.stack([head, *words]), 1))[1] * weights


def average(models: Sequence[WordModel], weights: Sequence[float]) -> WordModel:
    """Return one model with the weighted sum of the scores of models of the same terms, each with more vectors."""
    weight = np.zeros_like(models[-1].weight)
    for model, own in zip(models, weights, strict=True):
        weight[:, : model.weight.shape[1]] += own * model.weight
    bias = sum(own * model.bias for model, own in zip(models, weights, strict=True))
    return replace(models[-1], weight=weight, bias=bias)
