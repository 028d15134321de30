"""Estimators of scikit-learn for every task whose data fit its shapes, for use with model selection.

    search = GridSearchCV(TaggerClassifier(encoder="gpt2+./backward"), {"head": ["linear", "mlp"], "lr": [1e-3, 3e-3]})
    search.fit([["Ada", "Brandt", "spoke", "."], ...], [["B-PER", "I-PER", "O", "O"], ...])
    search.best_score_   # entity F1, from 0 to 1 as usual in scikit-learn

    TextClassifier().fit(["A film to remember.", ...], ["good", ...]).predict_proba(["Two hours lost."])
    PairRegressor().fit([("It rained.", "Rain fell."), ...], [4.8, ...]).score(pairs, scores)   # R²

The features of a fold are computed once and kept in Boustro's cache, whatever the number of settings. Questions and
texts with several labels are not here, because scikit-learn has no shape for them.
"""

from collections.abc import Sequence
from dataclasses import asdict
from inspect import Parameter, Signature
from typing import Any, ClassVar, Self

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_consistent_length, check_is_fitted
except ImportError as error:
    raise ImportError("Boustro's estimators need scikit-learn; install it with: pip install scikit-learn") from error

from boustro.choose import suggestion
from boustro.errors import shorten
from boustro.given import as_list, as_tags, is_missing
from boustro.heads.registry import HEADS
from boustro.metrics.spans import score_spans
from boustro.tasks import TASKS, task_class
from boustro.tasks.contract import Contract


class TaskEstimator(BaseEstimator):
    """A task with scikit-learn's interface; after `fit`, `task_` is the trained task.

    Parameters are `encoder`, `head`, `seed`, `cache` and `device` of the task, and every option of its config and of
    its heads with its default; `**TaggerConfig.presets["paper"]` gives a preset. A subclass names its task.
    """

    defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, task: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if task is None:
            return
        config = TASKS[task].config
        options = {name: value for head in config.heads() for name, value in asdict(HEADS[head].options()).items()}
        args = {"encoder": None, "head": None, "seed": 1, "cache": True, "device": None}
        cls._task, cls.defaults = task, {**args, **asdict(config()), **options}

        def make(self: TaskEstimator, encoder: str | None = None, head: str | None = None, **parameters: Any) -> None:
            for name in parameters:
                if name not in cls.defaults:
                    raise TypeError(f"{cls.__name__} has no parameter {name!r}{suggestion(name, cls.defaults)}")
            vars(self).update({**cls.defaults, **parameters, "encoder": encoder, "head": head})

        # scikit-learn takes the parameters and their defaults from this.
        args = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value) for name, value in cls.defaults.items()]
        first = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        make.__signature__ = Signature([first, *args])
        cls.__init__ = make

    def _fit(self, examples: Sequence[Any]) -> Self:
        chosen = {n: v for n, v in self.get_params(deep=False).items() if v != self.defaults[n]}
        seed = chosen.pop("seed", self.defaults["seed"])
        self.task_: Any = task_class(self._task)(**chosen).fit(examples, seed=seed)
        return self

    def _results(self, X: Any) -> list[Any]:
        check_is_fitted(self)
        return self.task_.predict([_input(x) for x in as_list(X, "texts, or pairs of texts")])


class TaggerClassifier(TaskEstimator, task="tag"):
    """A `Tagger`: sentences as lists of words, and their tags.

    It is no `ClassifierMixin`, because scikit-learn would then reject lists of tags with different lengths.
    """

    @property
    def tagger_(self) -> Any:
        """The trained tagger."""
        return self.task_

    def fit(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> Self:
        """Train on sentences of words `X` and their tags `y`, in BIO, IOB1 or BIOES, and keep the last epoch.

        Raises `ValueError` for a sentence with different numbers of words and tags.
        """
        words, tags = as_list(X, "sentences as lists of words"), as_tags(y)
        return self._fit(list(zip(words, tags, strict=True)))

    def predict(self, X: Sequence[Sequence[str]]) -> list[list[str]]:
        """BIO tags, one list per sentence."""
        check_is_fitted(self)
        return [list(tags) for tags in self.task_.tag(X)]

    def score(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> float:
        """Entity F1 by conlleval's rules, from 0 to 1."""
        return score_spans(y, self.predict(X)).f1 / 100


class TextClassifier(ClassifierMixin, TaskEstimator, task="classify"):
    """A `Classifier`: texts, and one label each. `score` is the accuracy, `classes_` has the labels in order."""

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts (or pairs) and their labels, which may be numbers, and keep the last epoch.

        Raises `ValueError` for several labels of one text, and for other numbers of texts than of labels.
        """
        labels, items = as_list(y, "labels"), as_list(X, "texts, or pairs of texts")
        if any(isinstance(label, (list, tuple, set, np.ndarray)) for label in labels):
            raise ValueError(f"{type(self).__name__} takes one label per text; boustro.Classifier takes several")
        check_consistent_length(items, labels)
        for number, label in enumerate(labels, start=1):
            if is_missing(label):
                raise ValueError(
                    f"label {number} is {shorten(label)} (a missing value?); leave its text out, or label it"
                )
        self.classes_ = np.unique(labels)
        return self._fit([_example(x, str(label)) for x, label in zip(items, labels, strict=True)])

    def predict(self, X: Any) -> np.ndarray:
        """(texts,): the most probable labels, as they were given to `fit`."""
        results = self._results(X)
        numbers = {str(label): number for number, label in enumerate(self.classes_)}
        return self.classes_[np.array([numbers[result.label] for result in results], np.int64)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(texts, labels): the probability of each label, in the order of `classes_`."""
        results = self._results(X)
        rows = [[result.probabilities[str(label)] for label in self.classes_] for result in results]
        return np.array(rows, np.float64).reshape(-1, len(self.classes_))


class PairClassifier(TextClassifier, task="pair"):
    """A `boustro.PairClassifier`: pairs of texts, and one label each."""


class TextRegressor(RegressorMixin, TaskEstimator, task="regress"):
    """A `boustro.TextRegressor`: texts, and a number each. `score` is R²."""

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts (or pairs) and their numbers, and keep the last epoch.

        Raises `ValueError` for other numbers of texts than of numbers, and for what is no number.
        """
        numbers, items = as_list(y, "numbers"), as_list(X, "texts, or pairs of texts")
        check_consistent_length(items, numbers)
        return self._fit([_example(x, number) for x, number in zip(items, numbers, strict=True)])

    def predict(self, X: Any) -> np.ndarray:
        """(texts,): the numbers."""
        return np.array(self._results(X), np.float64)


class PairRegressor(TextRegressor, task="similarity"):
    """A `boustro.PairRegressor`: pairs of texts, and a number each."""


def _input(item: Any) -> Any:
    """A text, or a pair that may be a list or the row of an array."""
    return tuple(item) if isinstance(item, (list, np.ndarray)) else item


def _example(item: Any, gold: Any) -> tuple[Any, ...]:
    return Contract.labelled(_input(item), gold, "the example")
