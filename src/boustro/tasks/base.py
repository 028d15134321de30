"""Task: labelled examples in, a trained head out; then text in, answers out.

    task = Tagger(encoder="starter", head="mlp")
    task.fit("train.conll", dev="dev.conll", seed=1)
    task.evaluate("dev.conll").value
    task.predict("Jane Villanueva of United Airlines spoke.")
    task.save_pretrained("ner"); Tagger.from_pretrained("ner")

The LMs stay frozen: features are computed once and cached, and only the head is trained and saved. What a task says
for itself is in `tasks.contract`; here is what is common to all.
"""

import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from boustro.choose import suggestion
from boustro.errors import require_torch
from boustro.given import (
    DEV,
    TRAIN,
    are_inputs,
    is_by_text,
    is_frame,
    is_of_columns,
    is_of_splits,
    part_of,
    plain_labels,
    with_labels,
)
from boustro.options import OptionError, PositiveOrZero, Seed, Share, check_options
from boustro.store import ModelPlace
from boustro.tasks import TEXT_KEYS, WORD_KEYS
from boustro.tasks.answers import Input
from boustro.tasks.contract import Result
from boustro.tasks.data import data_name, kept_for
from boustro.tasks.data.reading import COLUMN_OPTIONS, KEPT, OUTSIDE_TEXTS, named_in, named_of
from boustro.tasks.model import PlannedModel
from boustro.tasks.plan import Examples, Fitted, Plan, make_plan

if TYPE_CHECKING:
    from boustro.metrics.score import Score

SHOWN = (
    "classes_",
    "config",
    "evaluate",
    "fit",
    "from_pretrained",
    "predict",
    "push_to_hub",
    "record",
    "save",
    "score",
    "stream",
    "types",
)
"""What completion offers of every task; what extends a task, or serves the package, is in the documentation."""


class Task(PlannedModel[Input, Result]):
    """An encoder and a trained head."""

    estimator_type: ClassVar[str | None] = None
    """What scikit-learn calls it: a classifier or a regressor."""

    def __init__(
        self,
        encoder: str | None = None,
        head: str | None = None,
        *,
        preset: str = "default",
        cache: bool | str | Path = True,
        device: str | None = None,
        **options: Any,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            encoder: Spec of the encoder, see `boustro.load_encoder`. By default `starter`, the pair of the package;
                for a tagger `starter-large`, unless the options read otherwise than its memory of words was made; for a
                classifier of texts `starter-texts`.
            head: Kind of head; by default the task's own, or of few examples the one that cross-validation finds best.
            preset: Name of a set of options.
            cache: Keep the features of training and development data on disk (a folder says where).
            device: cpu, cuda, mps or auto, see `boustro.load_encoder`; by default the best available.
            options: Fields of the task's config and options of its head, over the preset's.

        Raises `ValueError` for an unknown head, preset or option, for an option of another head, and for a value
        outside its range.
        """
        check_options(Task.__init__, locals())
        require_torch()
        self._params = {"encoder": encoder, "head": head, "preset": preset, "cache": cache, "device": device, **options}
        self._asked = make_plan(type(self), encoder, head, preset=preset, cache=cache, device=device, **options)
        self.plan = self._asked
        self._fitted: Fitted | None = None

    def __dir__(self) -> list[str]:
        """List the attributes that a user of a model needs: `SHOWN`, and what its own task adds."""
        common = {*dir(Task)}
        members = (name for cls in type(self).__mro__ if issubclass(cls, Task) for name in vars(cls))
        shown = {*SHOWN, *(name for name in members if name not in common and not name.startswith("_"))}
        return sorted(shown if self.is_trained else shown - {"classes_"})

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: Any = None,
        seed: Seed = 1,
        weak: Any = None,
        weak_weight: Share | None = None,
        cross_validate: PositiveOrZero = 0.0,
        **reading: Any,
    ) -> Self:
        """Train the head; with `dev`, keep the epoch with the best score there.

            Classifier().fit(["It rained.", "We won."], ["weather", "sport"])
            Classifier().fit(frame, dev=other, text_column="message", label_column="topic")
            Tagger().fit(["Ada left Vellmar."], [[("Ada", "PER"), ("Vellmar", "PLACE")]])

        Args:
            X: Labelled examples, in any form that `read` takes, or texts, whose labels are `y`. A tagger's may have
                sentences without labels: the context of the others in their document. Of a dict of data sets, such as
                a `DatasetDict`, `train` is learned from, and `validation` or `dev` is the development set.
            y: Labels of `X`, one for each text, a tagger's a list of entities; with labelled `X` the development set.
            dev: A development set, in any form that `X` has, or `(texts, labels)`; without it the last epoch is kept.
            seed: Of the head's weights, the order of examples and dropout.
            weak: Examples with silver labels, in any form that `X` has, learned before the training set.
            weak_weight: How much their loss counts; by default chosen on parts of the training set left out.
            cross_validate: Seconds for `tasks.estimate`, which records how good the head is; chooses no kind of head.
            reading: Options of `read`, such as scheme.

        Raises `ValueError` with file:line for bad data, and for a training set without labels.
        """
        self.refuse_exported("is not trained again")
        check_options(Task.fit, {"seed": seed, "weak_weight": weak_weight, "cross_validate": cross_validate})
        self._check_reading(reading)
        if weak_weight is not None and weak is None:
            raise OptionError("weak_weight is not read without weak examples; remove it")
        if is_frame(X) and not (y is None or is_frame(y) or isinstance(y, (str, Path, Mapping))):
            raise ValueError("X is a table; give the column of its texts, or remove y and name its columns")
        if y is not None and not are_inputs(X, y, self.in_documents):
            if dev is not None:
                raise ValueError("X has its labels already, so y is not read; remove it, or give dev alone")
            y, dev = None, y
        if is_of_splits(X):
            dev = part_of(X, DEV, None) if dev is None else dev
            X = part_of(X, TRAIN)
        outside = OUTSIDE_TEXTS if getattr(self.config, "none", 0) else {}
        judges = () if dev is None else self._read_beside(part_of(dev, DEV), y, outside | reading)
        examples = Examples(
            train=self.read(self._joined(X, y), **reading, **self.lenient),
            dev=judges,
            weak=() if weak is None else self._read_beside(part_of(weak, TRAIN), y, reading),
            weight=weak_weight,
        )
        self.learn(examples, seed, cross_validate, self._asked_for(examples.train))
        self.keep_columns(named_of(reading) or named_in(X))
        return self

    def learn(self, given: Examples, seed: int = 1, seconds: float = 0.0, plan: Plan[Any] | None = None) -> Self:
        """Train on examples that are read already, see `fitting.choice.fit_best`; by default by the plan of this
        model."""
        from boustro.tasks.fitting.choice import fit_best

        self.fitted = fit_best(plan or self._asked, self._params["head"], given, seed, seconds)
        return self

    def _asked_for(self, train: Sequence[Any]) -> Plan:
        """The plan for the languages of these examples, of which it warns."""
        named = self._params["encoder"] is not None
        asked, note = self._asked.for_languages_of(self.running_texts(train), named)
        if note:
            warnings.warn(note, stacklevel=3)
        return asked

    def _read_beside(self, given: Any, y: Any, reading: Mapping[str, Any]) -> list[Any]:
        """Examples of a set beside the training set, whose columns may have other names; `(texts, labels)` too, which
        two examples as a tuple are only where the training set has no `y`."""
        two = isinstance(given, tuple) and len(given) == 2
        as_examples = two and y is None and all(isinstance(one, tuple) and len(one) == 2 for one in given)
        if two and not as_examples and are_inputs(given[0], given[1], self.in_documents):
            given = self._joined(given[0], given[1])
        else:
            given = self._joined(given, None)
        columns = {name: value for name, value in reading.items() if name in COLUMN_OPTIONS}
        others = {name: value for name, value in reading.items() if name not in COLUMN_OPTIONS}
        return self.read(given, **others, **kept_for(given, columns))

    def keep_columns(self, named: Mapping[str, Any]) -> None:
        """Keep the names of the columns of labelled data, which its folder then reads data by (`kept_for`)."""
        if named:
            self.fitted = replace(self.fitted, record=self.record | {KEPT: named})

    def kept_reading(self, data: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of `read` that are given, and those of the training set whose columns this data has."""
        kept = {n: v for n, v in self.record.get(KEPT, {}).items() if n in signature(self.read).parameters}
        return kept_for(data, kept, given) | dict(given)

    def _check_reading(self, reading: Iterable[str]) -> None:
        """`OptionError` for what is no option of `read`."""
        known = signature(type(self).read).parameters
        for name in (name for name in reading if name not in known):
            made = f"; options of the model are given when it is made: {type(self).__name__}({name}=…)"
            raise OptionError(f"unknown option {name!r}{suggestion(name, known) or made}")

    def _joined(self, given: Any, labels: Any) -> Any:
        """Texts with their labels, also of a dict of both, as examples; a dict of columns as rows."""
        if labels is None and is_of_columns(given, (*TEXT_KEYS, *WORD_KEYS, *self.texts)):
            given = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
        if labels is None and is_by_text(given):
            given, labels = list(given), list(given.values())
        if labels is None:
            return given
        return with_labels(given, labels if isinstance(labels, str) else plain_labels(labels), self.labelled)

    def evaluate(self, X: Any, y: Any = None, **reading: Any) -> "Score":
        """Scores on labelled examples, in percent; `value` is the main one.

        `X` and `y` are what `fit` takes. Gold labels that the head does not know are a warning.
        """
        self._check_reading(reading)
        if is_of_splits(X):
            raise ValueError(f"these are several sets ({', '.join(map(str, X))}); give one, such as data['test']")
        data = self._joined(X, y)
        outside = OUTSIDE_TEXTS if self.is_trained and self.fitted.labelling.gives_none else {}
        examples = self.read(data, **outside | self.kept_reading(data, reading))
        for what, count in self.unknown_labels(examples).items():
            warnings.warn(f"{data_name(examples)}: {count:,} {what}", stacklevel=2)
        return self.score_answers(examples, self.answer(examples, cached=True))

    def score(self, X: Any, y: Any = None, **reading: Any) -> float:
        """Return the value of `evaluate` from 0 to 1, for scikit-learn."""
        return self.evaluate(X, y, **reading).value / 100

    @property
    def classes_(self) -> np.ndarray:
        """The labels in order, as `fit` was given them; `AttributeError` before, as scikit-learn's tools expect."""
        if self.is_trained and not self.types:
            raise AttributeError(f"a {type(self).__name__} has no classes_: it gives no labels")
        if not self.is_trained:
            raise AttributeError(
                f"this {type(self).__name__} is not trained yet, so it has no classes_; call fit first"
            )
        values = self.fitted.labelling.values
        return np.unique([values.get(label, label) for label in self.types])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of `__init__`, with its defaults, for scikit-learn's `clone`."""
        return dict(self._params)

    def set_params(self, **params: Any) -> Self:
        """Another encoder, head or option; the model is then untrained."""
        self.__init__(**{**self._params, **params})  # type: ignore[misc]
        return self

    def __sklearn_is_fitted__(self) -> bool:
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

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder with the head, its labels, and which encoder it belongs to; atomic."""
        check_options(Task.save_pretrained, locals())
        self.refuse_exported("is not saved again")
        from boustro.tasks.folder import save_fitted

        save_fitted(self.fitted, path)

    def save(self, path: str | Path) -> None:
        """Write the folder, as `save_pretrained`; `boustro.load` opens it."""
        self.save_pretrained(path)

    def push_to_hub(
        self, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
    ) -> str:
        """Save and upload, see `tasks.hub.upload`; returns the address of the commit."""
        from boustro.tasks.hub import upload, write_card

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / repo_id.rpartition("/")[2]
            self.save_pretrained(path)
            write_card(path, repo_id)
            return upload(path, repo_id, private=private, revision=revision, token=token)

    @classmethod
    def from_pretrained(
        cls,
        path: ModelPlace,
        *,
        revision: str | None = None,
        encoder: str | None = None,
        cache: bool | str | Path = True,
        device: str | None = None,
        given_states: bool = False,
    ) -> Self:
        """Open a saved folder, or a folder of the hub by its name.

        Args:
            path: A folder, or owner/name on the hub.
            revision: A branch, tag or commit of the hub.
            encoder: Where the encoder is now, if it has moved.
            cache, device: As for the constructor.
            given_states: The weights of a causal LM are not loaded: its states will be given (`boustro.from_states`,
                `boustro.Watch`).

        Raises `FileNotFoundError` or `ValueError` when the folder is missing, incomplete, damaged or of another task,
        or when the LMs are not the ones that the head was trained on.
        """
        check_options(Task.from_pretrained, locals())
        require_torch()
        from boustro.tasks.folder import load_fitted
        from boustro.tasks.hub import download

        where: dict[str, Any] = {"encoder": encoder, "cache": cache, "device": device}
        fitted = load_fitted(cls, download(path, revision), given_states=given_states, **where)
        made = cls.of(fitted.plan)
        made.fitted = fitted
        return made
