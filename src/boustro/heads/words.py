"""TF-IDF of words and pairs of words beside a head: what an encoder blurs, such as a rare name, these see exactly.

    x_t = (1 + log count_t) · (log((1 + n) / (1 + n_t)) + 1),  then x / ‖x‖      n texts, n_t of them with the term t
    word scores = log softmax(W · x + b)                       logistic regression over single words and 2-grams
    scores      = a · log softmax(head) + b · word scores      a, b ≥ 0

a and b have the least cross-entropy on texts that neither part was trained on, parts of the training set; b may
be 0. For several labels per text, each label has its own regression, and log softmax is the identity.

Sources: Salton and Buckley 1988 for TF-IDF; Wolpert 1992 for stacking. S texts, T terms, C classes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

FOLDS = 5
FEW = 2000
"""With fewer texts every fold is left out in turn; with more, only the first."""
STRENGTH = 1 / 30
"""Of the penalty on W; more texts count more against it."""
MOST_STEPS = 200
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
    """A linear model over the TF-IDF of `terms`; `vocabulary` (T,), `idf` (T,), `weight` (C, T), `bias` (C,)."""

    vocabulary: list[str]
    idf: np.ndarray
    weight: np.ndarray
    bias: np.ndarray

    def scores(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """(S, C): W · x + b for texts split into words; terms that are not known count nothing."""
        places = {term: place for place, term in enumerate(self.vocabulary)}
        found = np.tile(self.bias.astype(np.float64), (len(texts), 1))
        for row, words in zip(found, texts, strict=True):
            known = Counter(places[term] for term in terms(words) if term in places)
            rows = np.fromiter(known, np.int64, len(known))
            own = (1 + np.log(np.fromiter(known.values(), np.float64, len(known)))) * self.idf[rows]
            row += self.weight[:, rows] @ (own / max(np.sqrt(own @ own), TINY))
        return found


def fit_words(texts: Sequence[Sequence[str]], gold: np.ndarray, num_labels: int) -> WordModel:
    """Logistic regression; `gold` has class ids (S,), or membership (S, C) where texts have several labels.

    A class that no text has gets a score that is never the best.
    """
    made = vectorizer()
    x = made.fit_transform(texts)
    weight, bias = np.zeros((num_labels, x.shape[1]), np.float32), np.full(num_labels, np.log(1e-6), np.float32)
    if gold.ndim == 1:
        _solve(x, gold, weight, bias)
    else:
        for label in range(num_labels):
            pair = np.zeros((2, x.shape[1]), np.float32), np.full(2, np.log(1e-3), np.float32)
            _solve(x, gold[:, label].astype(int), *pair)
            weight[label], bias[label] = pair[0][1] - pair[0][0], pair[1][1] - pair[1][0]
    return WordModel(made.get_feature_names_out().tolist(), made.idf_.astype(np.float32), weight, bias)


def _solve(x: Any, ids: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> None:
    """Write the solution for these ids into rows of `weight` and `bias`."""
    from sklearn.linear_model import LogisticRegression

    present = np.unique(ids)
    if len(present) == 1:
        bias[present] = 0
        return
    model = LogisticRegression(C=1 / STRENGTH, tol=1e-3, max_iter=MOST_STEPS).fit(x, ids)
    if len(present) == 2:  # scikit-learn has one vector for both
        weight[present] = np.concatenate([-model.coef_, model.coef_]) / 2
        bias[present] = np.concatenate([-model.intercept_, model.intercept_]) / 2
    else:
        weight[present], bias[present] = model.coef_, model.intercept_


def choose_weights(
    head: np.ndarray, words: np.ndarray, gold: np.ndarray, loss: Callable[[np.ndarray, np.ndarray], float]
) -> tuple[float, float]:
    """(a, b) of the module's formula with the least `loss(scores, gold)`, a convex one; `head`, `words` (S, C)."""
    from scipy.optimize import minimize

    found = minimize(
        lambda ab: loss(ab[0] * head + ab[1] * words, gold),
        x0=np.array([1.0, 0.5]),
        bounds=[(0.01, 10.0), (0.0, 10.0)],
        method="L-BFGS-B",
    )
    return float(found.x[0]), float(found.x[1])
