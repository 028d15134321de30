"""The face of a model that scikit-learn's tools ask for: `clone`, grid searches, pipelines and calibrations."""

from typing import Any, ClassVar, Self

import numpy as np


class Estimator:
    """The methods and attributes of an estimator of scikit-learn, beside `fit` and `predict`.

    Attributes:
        estimator_type: What scikit-learn calls it: a classifier or a regressor.
    """

    estimator_type: ClassVar[str | None] = None
    _params: dict[str, Any]
    """The arguments of `Task.__init__`."""

    @property
    def classes_(self: Any) -> np.ndarray:
        """The labels in order, as `fit` was given them; `AttributeError` before, as scikit-learn's tools expect."""
        name = type(self).__name__
        if not self.is_trained:
            raise AttributeError(f"this {name} is not trained yet, so it has no classes_; call fit first")
        if not self.types:
            raise AttributeError(f"a {name} has no classes_: it gives no labels")
        values = self.fitted.labelling.values
        return np.unique([values.get(label, label) for label in self.types])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of `__init__`, with its defaults, for scikit-learn's `clone`."""
        return dict(self._params)

    def set_params(self, **params: Any) -> Self:
        """Another encoder, head or option; the model is then untrained."""
        self.__init__(**{**self._params, **params})  # type: ignore[misc]
        return self

    def score(self: Any, X: Any, y: Any = None, **reading: Any) -> float:
        """Return the value of `evaluate` from 0 to 1, for scikit-learn."""
        return self.evaluate(X, y, **reading).value / 100

    def __sklearn_is_fitted__(self: Any) -> bool:
        return self.is_trained

    def __sklearn_tags__(self) -> Any:
        """Return the tags that scikit-learn asks of an estimator: texts are its input, and labels or numbers are
        needed."""
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind = self.estimator_type
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            input_tags=InputTags(two_d_array=False, string=True),
        )
