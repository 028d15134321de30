"""A scikit-learn estimator for taggers: word lists in, tag lists out, for use with model selection.

    search = GridSearchCV(TaggerClassifier(encoder="gpt2+./backward"), {"head": ["linear", "mlp"], "lr": [1e-3, 3e-3]})
    search.fit([["Ada", "Brandt", "spoke", "."], ...], [["B-PER", "I-PER", "O", "O"], ...])
    search.best_score_   # entity F1, from 0 to 1 as usual in scikit-learn

The features of a fold are computed once and kept in Boustro's cache, whatever the number of settings. The class is not
a `ClassifierMixin`, because scikit-learn would then reject lists of tags with different lengths.
"""

from collections.abc import Sequence
from dataclasses import asdict
from inspect import Parameter, Signature
from typing import Any

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise ImportError("TaggerClassifier needs scikit-learn; install it with: pip install scikit-learn") from error

from boustro.choose import suggestion
from boustro.given import as_list, as_tags
from boustro.metrics.spans import score_spans
from boustro.tasks.config import TaggerConfig
from boustro.tasks.tagger import Tagger

DEFAULTS = {"encoder": "starter", "head": None, "seed": 1, "cache": True, "device": None, **asdict(TaggerConfig())}


class TaggerClassifier(BaseEstimator):
    """A `Tagger` with scikit-learn's interface; after `fit`, `tagger_` is the tagger.

    Parameters are `encoder`, `head`, `seed`, `cache` and `device` of a `Tagger`, and every field of
    `boustro.TaggerConfig` with its default; `**TaggerConfig.presets["paper"]` gives a preset.
    """

    def __init__(self, encoder: str = "starter", head: str | None = None, **parameters: Any) -> None:
        for name in parameters:
            if name not in DEFAULTS:
                raise TypeError(f"TaggerClassifier has no parameter {name!r}{suggestion(name, DEFAULTS)}")
        vars(self).update({**DEFAULTS, **parameters, "encoder": encoder, "head": head})

    # scikit-learn takes the parameters and their defaults from this.
    __init__.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
            *(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value) for name, value in DEFAULTS.items()),
        ]
    )

    def fit(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> "TaggerClassifier":
        """Train on sentences of words `X` and their tags `y`, in BIO, IOB1 or BIOES, and keep the last epoch.

        Raises `ValueError` for a sentence with different numbers of words and tags.
        """
        chosen = self.get_params(deep=False)
        seed = chosen.pop("seed")
        words, tags = as_list(X, "sentences as lists of words"), as_tags(y)
        self.tagger_ = Tagger(**chosen).fit(list(zip(words, tags, strict=True)), seed=seed)
        return self

    def predict(self, X: Sequence[Sequence[str]]) -> list[list[str]]:
        """BIO tags, one list per sentence."""
        check_is_fitted(self)
        return [list(tags) for tags in self.tagger_.tag(X)]

    def score(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> float:
        """Entity F1 by conlleval's rules, from 0 to 1."""
        return score_spans(y, self.predict(X)).f1 / 100
