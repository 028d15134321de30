"""A scikit-learn estimator: word lists in, tag lists out, so that its model selection works on taggers.

    search = GridSearchCV(TaggerClassifier(encoder="gpt2+./backward"), {"head": ["linear", "mlp"], "lr": [1e-3, 3e-3]})
    search.fit([["Ada", "Brandt", "spoke", "."], ...], [["B-PER", "I-PER", "O", "O"], ...])
    search.best_score_   # entity F1, from 0 to 1 as scores are there

The features of a fold are computed once and kept in Boustro's cache, whatever the number of settings. It is no
`ClassifierMixin`: scikit-learn would then look at the lists of tags, whose lengths differ, and refuse them.
"""

from collections.abc import Sequence
from typing import Any

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise ImportError("TaggerClassifier needs scikit-learn; install it with: pip install scikit-learn") from error

from boustro.given import as_list, as_tags
from boustro.metrics.spans import score_spans
from boustro.tasks.tagger import Tagger

NOT_OPTIONS = ("preset", "seed", "cache", "device", "options")


class TaggerClassifier(BaseEstimator):
    """A `Tagger` with scikit-learn's manners; after `fit`, `tagger_` is the tagger itself.

    What is None is the preset's. `options` holds fields of `TaggerConfig` that have no parameter of their own.
    """

    def __init__(
        self,
        encoder: str = "starter",
        head: str = "mlp",
        *,
        layers: str | None = None,
        pooling: str | None = None,
        hidden: int | None = None,
        dropout: float | None = None,
        epochs: int | None = None,
        lr: float | None = None,
        batch_sentences: int | None = None,
        weight_decay: float | None = None,
        options: dict[str, Any] | None = None,
        preset: str = "default",
        seed: int = 1,
        cache: bool | str = True,
        device: str | None = None,
    ) -> None:
        self.encoder, self.head = encoder, head
        self.layers, self.pooling, self.hidden, self.dropout = layers, pooling, hidden, dropout
        self.epochs, self.lr, self.batch_sentences, self.weight_decay = epochs, lr, batch_sentences, weight_decay
        self.options, self.preset, self.seed, self.cache, self.device = options, preset, seed, cache, device

    def fit(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> "TaggerClassifier":
        """Train on sentences of words `X` and their tags `y`, in BIO, IOB1 or BIOES; the last epoch is kept.

        Raises `ValueError` where a sentence has another number of tags than of words.
        """
        chosen = {k: v for k, v in self.get_params(deep=False).items() if k not in NOT_OPTIONS and v is not None}
        tagger = Tagger(**{**chosen, **(self.options or {})}, preset=self.preset, cache=self.cache, device=self.device)
        words, tags = as_list(X, "sentences as lists of words"), as_tags(y)
        self.tagger_ = tagger.fit(list(zip(words, tags, strict=True)), seed=self.seed)
        return self

    def predict(self, X: Sequence[Sequence[str]]) -> list[list[str]]:
        """BIO tags, a list a sentence."""
        check_is_fitted(self)
        return [list(tags) for tags in self.tagger_.tag(X)]

    def score(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> float:
        """Entity F1 by conlleval's rules, from 0 to 1."""
        return score_spans(y, self.predict(X)).f1 / 100
