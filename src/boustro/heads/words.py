"""The words of a text beside a head: TF-IDF sees exactly what an encoder blurs, such as a rare name, and the vectors of
a table of words (`encoders.word_table`) bring near what means about the same.

    x_t = (1 + log count_t) · (log((1 + n) / (1 + n_t)) + 1),  then x / ‖x‖      n texts, n_t of them with the term t
    word scores = log softmax(W · [x; 2 (v - mean v)] + b)     logistic regression over words, 2-grams and vectors v
    scores      = a · log softmax(head) + b · word scores      a, b ≥ 0

v are the first 0, 1 or 2 of the vectors that a table has of a text. Their number and b / a have the best accuracy on
texts that neither part was trained on, parts of the training set; a + b has the least cross-entropy there; b may be 0.
For several labels per text, each label has its own regression, log softmax is the identity, and all is chosen by the
cross-entropy.

Sources: Salton and Buckley 1988 for TF-IDF; Wolpert 1992 for stacking. S texts, T terms, C classes, K vectors of a text
and D their width.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

FOLDS = 5
FEW = 500
"""With fewer texts every fold is left out in turn; with more, only the first."""
STRENGTH = 1 / 30
"""Of the penalty on W; more texts count more against it."""
MOST_STEPS, TOLERANCE = 200, 3e-4
RATIOS = (0.0, 0.15, 0.3, 0.6, 1.0, 2.0, 4.0, 100.0)
"""b / a."""
SCALES = tuple(2.0 ** (power / 2) for power in range(-6, 3))
"""a + b."""
SHARE = 2.0
"""The length of a vector of a text beside that of its TF-IDF."""
MOST_TURNED = 1000
"""Texts up to which the problem is solved in principal axes, of which there are no more than texts."""
MODEL_ARRAYS = ("idf", "weight", "bias", "centre")
TINY = 1e-300
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
        """(S, C): W · x + b for texts split into words; terms that are not known count nothing.

        `vectors` (S, K', D) are those of the texts, of which the first are read.
        """
        places = {term: place for place, term in enumerate(self.vocabulary)}
        found = np.tile(self.bias.astype(np.float64), (len(texts), 1))
        for row, words in zip(found, texts, strict=True):
            known = Counter(places[term] for term in terms(words) if term in places)
            rows = np.fromiter(known, np.int64, len(known))
            own = (1 + np.log(np.fromiter(known.values(), np.float64, len(known)))) * self.idf[rows]
            row += self.weight[:, rows] @ (own / max(np.sqrt(own @ own), TINY))
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
    made = vectorizer()
    x = made.fit_transform(texts).astype(np.float32)
    v = np.zeros((len(texts), 0), np.float32) if vectors is None else vectors.reshape(len(texts), -1)
    centre = v.mean(0)
    v = SHARE * (v - centre)
    width = x.shape[1] + v.shape[1]
    weight, bias = np.zeros((num_labels, width), np.float32), np.full(num_labels, np.log(1e-6), np.float32)
    if gold.ndim == 1:
        _solve(x, v, gold, weight, bias)
    else:
        for label in range(num_labels):
            pair = np.zeros((2, width), np.float32), np.full(2, np.log(1e-3), np.float32)
            _solve(x, v, gold[:, label].astype(int), *pair)
            weight[label], bias[label] = pair[0][1] - pair[0][0], pair[1][1] - pair[1][0]
    known = made.get_feature_names_out().tolist(), made.idf_.astype(np.float32)
    return WordModel(*known, weight, bias, centre)


def _solve(x: Any, v: np.ndarray, ids: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> None:
    """Write the solution for these ids, from TF-IDF x (S, T) and vectors v (S, D), into rows of `weight` and `bias`.

    Least is the mean cross-entropy + penalty / 2S · ‖W‖², with the penalty of scikit-learn's logistic regression, which
    has one vector for two classes.
    """
    present, own = np.unique(ids, return_inverse=True)
    if len(present) == 1:
        bias[present] = 0
        return
    penalty = STRENGTH * (2 if len(present) == 2 else 1) / len(ids)
    if len(ids) > min(MOST_TURNED, weight.shape[1]):
        found = _descend(x, v, own, penalty)
        weight[present], bias[present] = found[:-1].T, found[-1] - found[-1].mean()
        return
    values, axes = np.linalg.eigh((x @ x.T).toarray().astype(np.float64) + v @ v.T)  # ‖W‖ is that in principal axes
    kept = values > max(values[-1], TINY) * 1e-7
    root, axes = np.sqrt(values[kept]).astype(np.float32), axes[:, kept].astype(np.float32)
    found = _descend(x[:, :0], axes * root, own, penalty)
    shares = (axes / root) @ found[:-1]
    weight[present] = np.concatenate([x.T @ shares, v.T @ shares]).T
    bias[present] = found[-1] - found[-1].mean()


def _descend(x: Any, v: np.ndarray, own: np.ndarray, penalty: float) -> np.ndarray:
    """(T + D + 1, C): W, and b in the last row, of the least loss, for classes numbered from 0."""
    from scipy.optimize import minimize

    num_texts, num_terms, num_labels = len(own), x.shape[1], int(own.max()) + 1
    turned, gold = x.T.tocsr(), np.eye(num_labels, dtype=np.float32)[own]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.astype(np.float32).reshape(-1, num_labels)
        scores = x @ w[:num_terms] + v @ w[num_terms:-1] + w[-1]
        scores -= scores.max(1, keepdims=True)
        surest = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        residual = (np.exp(surest) - gold) / num_texts
        slope = np.concatenate([turned @ residual, v.T @ residual, residual.sum(0, keepdims=True)])
        slope[:-1] += np.float32(penalty) * w[:-1]
        value = float(penalty / 2 * np.square(w[:-1]).sum() - surest[gold > 0].mean())
        return value, slope.astype(np.float64).ravel()

    begin = np.zeros((num_terms + v.shape[1] + 1) * num_labels)
    how: dict[str, Any] = {"maxiter": MOST_STEPS, "gtol": TOLERANCE, "ftol": 1e-9}
    return minimize(loss, begin, jac=True, method="L-BFGS-B", options=how).x.reshape(-1, num_labels)


Loss = Callable[[np.ndarray, np.ndarray], float]


def choose_weights(head: np.ndarray, words: np.ndarray, gold: np.ndarray, loss: Loss) -> tuple[float, float]:
    """(a, b) of the module's formula: b / a with the most `merit`, and the scale of the least `loss(scores, gold)`.

    `head`, `words` (S, C).
    """
    tried = []
    for ratio in RATIOS:
        scores = head + ratio * words
        least = min((loss(scale / (1 + ratio) * scores, gold), scale / (1 + ratio)) for scale in SCALES)
        tried.append((merit(scores, gold, least[0]), -ratio, least[1]))
    _, ratio, scale = max(tried)
    return scale, -ratio * scale


def merit(scores: np.ndarray, gold: np.ndarray, loss: float) -> tuple[float, float]:
    """How good scores (S, C) are: where texts have one label, by their accuracy, and then by their loss, roughly."""
    return float((scores.argmax(1) == gold).mean()) if gold.ndim == 1 else 0.0, -round(loss, 2)
