"""Task: labelled examples in, a trained head out; then text in, answers out.

    task = Tagger(encoder="starter", head="mlp")
    task.fit("train.conll", dev="dev.conll", seed=1)
    task.evaluate("dev.conll").value
    task.predict("Jane Villanueva of United Airlines spoke.")
    task.save_pretrained("ner"); Tagger.from_pretrained("ner")

The LMs stay frozen: features are computed once and cached, and only the head is trained and saved. What a task says
for itself is in `tasks.contract`; here is what is common to all.
"""

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np

from boustro.choose import suggestion
from boustro.errors import require_torch
from boustro.features.reader import within_memory
from boustro.given import (
    DEV,
    TRAIN,
    are_inputs,
    is_by_text,
    is_frame,
    is_of_columns,
    is_of_splits,
    iterate,
    part_of,
    plain_labels,
    with_labels,
)
from boustro.heads.inputs import HeadInputs
from boustro.heads.options import HeadOptions
from boustro.names import is_shipped
from boustro.options import OptionError, PositiveOrZero, Seed, Share, check_options
from boustro.tasks.answers import Answer, Input, InputAnswer, Label, Labels
from boustro.tasks.contract import Contract, Result
from boustro.tasks.data import data_name, kept_for
from boustro.tasks.data.reading import COLUMN_OPTIONS, KEPT, TEXT_KEYS, Note, named_in, named_of, warn_of
from boustro.tasks.data.records import WORD_KEYS
from boustro.tasks.data.texts import texts_outside
from boustro.tasks.labellings import Labelling
from boustro.tasks.plan import Examples, Fitted, Plan, make_plan, plans_to_choose
from boustro.text.languages import ForeignTexts
from boustro.text.words import RULE, word_rule

if TYPE_CHECKING:
    import torch

    from boustro.encoders.base import Encoder
    from boustro.features.reader import Reader
    from boustro.heads.base import Head
    from boustro.metrics.score import Score

PREDICT_INPUTS = 1024  # full batches for the encoder, and answers long before the end of a stream
READ_TEXTS = ("read", "collect", "as_input", "parse_line", "parse_value", "split")
"""Functions of a task's class that split texts into words."""
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


def _by_rule(rule: int, read: Callable[..., Any], *given: Any, **options: Any) -> Any:
    with word_rule(rule):
        return read(*given, **options)


class Task(Contract[Input, Result]):
    """An encoder and a trained head.

    Attributes:
        plan: What a training was told, with what it left to the examples; before `fit`, what it will be told.
        fitted: What training gave.
    """

    _foreign: ForeignTexts | None = None
    """Inputs in languages that a model of the package does not read, nor has learned from."""
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

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Make a task by a plan."""
        made = cls.__new__(cls)
        made.plan, made._asked, made._fitted = plan, plan, None
        made._read_by_rule()
        how = {"preset": "default", "cache": plan.reader.cache, "device": plan.reader.device}
        made._params = {"encoder": plan.reader.spec, "head": plan.head_kind, **how, **made.settings()}
        return made

    @property
    def fitted(self) -> Fitted:
        """Outcome of training; `ValueError` before `fit`."""
        if self._fitted is None:
            name = type(self).__name__
            raise ValueError(f"this {name} is not trained yet; call fit first, or open one with {name}.from_pretrained")
        return self._fitted

    @fitted.setter
    def fitted(self, fitted: Fitted) -> None:
        self._fitted, self.plan = fitted, fitted.plan
        known = fitted.record.get("languages", ())
        unanswered = getattr(fitted.labelling, "english", False)
        self._foreign = ForeignTexts(known, unanswered) if is_shipped(fitted.plan.reader.spec) else None
        self._read_by_rule()

    def _read_by_rule(self) -> None:
        """Let all that reads texts split them by the rule of words of the plan, where this is not the present one."""
        for name in READ_TEXTS:
            vars(self).pop(name, None)
            if self.plan.words != RULE:
                vars(self)[name] = partial(_by_rule, self.plan.words, getattr(type(self), name))

    @property
    def is_trained(self) -> bool:
        """Whether there is a head that answers."""
        return self._fitted is not None

    @property
    def config(self) -> Any:
        """The options, a `TaskConfig`."""
        return self.plan.config

    @property
    def reader(self) -> "Reader":
        """From examples to what the head reads."""
        return self.plan.reader

    @property
    def head_kind(self) -> str:
        """The kind of head."""
        return self.plan.head_kind

    @property
    def head_options(self) -> HeadOptions:
        """Options of the head, of its kind's own class."""
        return self.plan.head_options

    @property
    def device(self) -> "torch.device":
        """Where the head is."""
        return self.plan.device

    @property
    def labelling(self) -> Labelling | None:
        """Labelling that the head learned; `None` before `fit`."""
        return self._fitted and self._fitted.labelling

    @property
    def head(self) -> "Head | None":
        """The trained head; `None` before `fit`."""
        return self._fitted and self._fitted.head

    @property
    def record(self) -> dict[str, Any]:
        """Record of the training: data, scores on the development set, losses, seconds, notices."""
        return self._fitted.record if self._fitted else {}

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the encoders, which a copy opens again when it needs them."""
        if self._fitted is None:
            return dict(vars(self))
        plan = replace(self.plan, reader=self.reader.pinned())
        fitted = replace(self._fitted, plan=plan, head=copy.deepcopy(self._fitted.head).cpu())
        return {**vars(self), "plan": plan, "_fitted": fitted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from boustro.hardware import find_device

        vars(self).update(state)
        plan = replace(self.plan, device=find_device(self.reader.device))
        self._asked = replace(self._asked, device=plan.device)
        self._settle(plan)
        if self._fitted is not None:
            self._fitted.head.to(plan.device)

    def _settle(self, plan: Plan[Any]) -> None:
        """Go on by another plan, with what is trained."""
        self.plan = plan
        if self._fitted is not None:
            self._fitted = replace(self._fitted, plan=plan)

    def __repr__(self) -> str:
        state = f"types={self.types}" if self.is_trained else "trained=False"
        return f"{type(self).__name__}(encoder={self.encoder_spec!r}, head={self.head_kind!r}, {state})"

    def __dir__(self) -> list[str]:
        """List the attributes that a user of a model needs: `SHOWN`, and what its own task adds."""
        common = {*dir(Task)}
        members = (name for cls in type(self).__mro__ if issubclass(cls, Task) for name in vars(cls))
        shown = {*SHOWN, *(name for name in members if name not in common and not name.startswith("_"))}
        return sorted(shown if self.is_trained else shown - {"classes_"})

    def settings(self) -> dict[str, Any]:
        """The values of all options, those of the head too."""
        return {**asdict(self.config), **asdict(self.head_options)}

    @property
    def encoder_spec(self) -> str:
        """The spec of the encoder."""
        return self.reader.spec

    @property
    def width(self) -> int | None:
        """The width of the vector that each answer is; `None` where answers are no vectors."""
        return None

    @property
    def types(self) -> list[str]:
        """The labels that the trained head can answer, in alphabetical order; empty before `fit`."""
        return list(self.labelling.types) if self.labelling else []

    def encoder(self, cached: bool = False) -> "Encoder":
        """The encoder, loaded on first use; `cached` puts the feature cache before it.

        Raises `ValueError` where the LMs are not those that the head was trained on.
        """
        return self.reader.encoder(cached)

    def read_single_sentences(self) -> None:
        """Let the encoder read each sentence by itself, not in its document."""
        self._asked = self._asked.reading_alone()
        self._settle(self.plan.reading_alone())

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
        from boustro.tasks.estimate import fit_best

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
        with texts_outside(bool(getattr(self.config, "none", 0))):
            judges = () if dev is None else self._read_beside(part_of(dev, DEV), y, reading)
        examples = Examples(
            train=self.read(self._joined(X, y), **reading, **self.lenient),
            dev=judges,
            weak=() if weak is None else self._read_beside(part_of(weak, TRAIN), y, reading),
            weight=weak_weight,
        )
        plans = plans_to_choose(self._asked_for(examples.train), self._params["head"])
        self.fitted = fit_best(plans, examples, seed, cross_validate)
        self.keep_columns(reading, X)
        return self

    def _asked_for(self, train: Sequence[Any]) -> Plan:
        """The plan for the languages of these examples, where no encoder is named."""
        if self._params["encoder"] is not None:
            return self._asked
        asked, note = self._asked.for_languages_of(self.running_texts(train), named=False)
        if asked is not self._asked:
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
        others = {name: value for name, value in reading.items() if name not in COLUMN_OPTIONS}
        return self.read(given, **others, **kept_for(given, reading))

    def keep_columns(self, options: Mapping[str, Any], data: Any = None) -> None:
        """Keep the names of the columns of labelled data, which its folder then reads data by (`kept_for`)."""
        if named := named_of(options) or named_in(data):
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

    def inputs(self, examples: Sequence[Any], cached: bool = False) -> HeadInputs:
        """The features of examples; a sentence that several examples share is encoded once."""
        return self.fitted.inputs(examples, cached)

    def answer(self, examples: Iterable[Any], cached: bool = False) -> list[Answer]:
        """Answers, with their probabilities, for examples; those of one sentence may be lists of words.

        Raises `ValueError`, with the place, for a word that is not a string.
        """
        return self._answer(self.as_examples(examples), cached)

    def _answer(self, examples: Sequence[Any], cached: bool = False) -> list[Answer]:
        """Return answers for examples that are checked."""
        return self.fitted.answers(self.fitted.outputs(examples, cached), examples)

    def answer_inputs(self, inputs: Iterable[Any], first: int = 1) -> list[InputAnswer[Input]]:
        """Answers for inputs, each a document of its own.

        Raises `ValueError` for what is none, with its number; that of the first is `first`.
        """
        assert self.fitted  # is there, before any LM is loaded
        what, several = self.given.partition(" ")[2], f"{self.given} or several"
        named = [(f"{what} {n}", item) for n, item in enumerate(iterate(inputs, several), first)]
        if self.offsets is not None:
            notes: list[Note] = []
            named = self.offsets.convert_all(named, notes)
            warn_of(notes, "the given inputs")
        return self.answer_checked([self.as_input(item, place) for place, item in named])

    def answer_checked(self, inputs: Sequence[Any]) -> list[InputAnswer[Input]]:
        """Return the answers for inputs that `as_input` has checked, each a document of its own."""
        what = self.given.partition(" ")[2]
        split = [list(self.split(item, f"{what} {number}")) for number, item in enumerate(inputs)]
        examples = [part.example for parts in split for part in parts]
        if self._foreign is not None:
            self._foreign.add(self.running_texts(examples))
        some = within_memory(examples, self.parts, self.encoder().bytes_per_word)
        answers = (answer for chunk in some for answer in self._answer(chunk))
        return [
            InputAnswer(item, tuple((part, next(answers)) for part in parts))
            for item, parts in zip(inputs, split, strict=True)
        ]

    def stream(self, inputs: Iterable[Any], batch: int = PREDICT_INPUTS) -> Iterator[Result]:
        """Yield the results of `predict`, input by input; only `batch` inputs are in memory at once."""
        return map(self.result, self.stream_answers(inputs, batch))

    def stream_answers(self, inputs: Iterable[Any], batch: int = PREDICT_INPUTS) -> Iterator[InputAnswer[Input]]:
        """Yield the answers of `answer_inputs`, input by input; once, warn of texts in another language."""
        rest, number = iterate(inputs, f"{self.given} or several"), 0
        while some := list(islice(rest, batch)):
            answers = self.answer_inputs(some, number + 1)
            number += len(some)
            if note := self.language_note():  # before the first answer, behind which `predict` does not go on
                warnings.warn(note, stacklevel=3)
            yield from answers

    def language_note(self, texts: Iterable[str] = ()) -> str:
        """Return, once, what to say of the languages of the inputs, and of texts that something else reads."""
        if self._foreign is None:
            return ""
        self._foreign.add(texts)
        return self._foreign.say()

    def take_languages(self) -> dict[str, int]:
        """The languages of the inputs so far, see `ForeignTexts.take`; for work that several processes share."""
        return {} if self._foreign is None else self._foreign.take()

    @overload
    def predict(self, given: Input) -> Result: ...
    @overload
    def predict(self, given: Iterable[Input]) -> list[Result]: ...
    def predict(self, given: Any) -> Result | list[Result]:
        """The answer for an input, or the answers for several.

        Args:
            given: An input, or any iterable of inputs: a list, a generator, a column of a data frame.

        Raises `ValueError`, with the place, for what is no input.
        """
        if self.is_input(given):
            return next(self.stream([given]))
        found: list[Any] = list(self.stream(given))
        return Labels(found, self.fitted.labelling.values) if found and type(found[0]) is Label else found

    def evaluate(self, X: Any, y: Any = None, **reading: Any) -> "Score":
        """Scores on labelled examples, in percent; `value` is the main one.

        `X` and `y` are what `fit` takes. Gold labels that the head does not know are a warning.
        """
        self._check_reading(reading)
        if is_of_splits(X):
            raise ValueError(f"these are several sets ({', '.join(map(str, X))}); give one, such as data['test']")
        data = self._joined(X, y)
        with texts_outside(self.is_trained and self.fitted.labelling.gives_none):
            examples = self.read(data, **self.kept_reading(data, reading))
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

    def notices(self, cached: bool = False) -> dict[str, int]:
        """Count what happened to the words that this encoder read: cut, not aligned, …; and foreign texts, if many."""
        return dict(+self.encoder(cached).counts) | ({} if self._foreign is None else self._foreign.notices)

    def unknown_labels(self, examples: Sequence[Any]) -> dict[str, int]:
        """Gold labels that the head never answers, see `Labelling.unknown`."""
        return self.fitted.labelling.unknown(examples)

    def score_answers(self, examples: Sequence[Any], answers: Sequence[Answer]) -> "Score":
        """Scores of answers, with their signature."""
        return self.fitted.score(examples, answers)

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
        path: str | Path,
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

    def read_answers(self, outputs: Sequence[Any], examples: Sequence[Any]) -> list[Answer]:
        """The head's outputs for examples, as answers."""
        return self.fitted.answers(outputs, examples)

    @property
    def is_exported(self) -> bool:
        """Whether this is an exported folder, which only answers."""
        return self.is_trained and self.trained_head().is_exported

    def refuse_exported(self, what: str) -> None:
        """Raise `ValueError` for an exported folder."""
        if self.is_exported:
            raise ValueError(f"an exported folder {what}; use the folder that it was exported from")

    def trained_head(self) -> "Head":
        """The head; `ValueError` before `fit`."""
        return self.fitted.head
