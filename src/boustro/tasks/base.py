"""Task: labelled examples in, a trained head out; then text in, answers out.

    task = Tagger(encoder="starter", head="mlp")
    task.fit("train.conll", dev="dev.conll", seed=1)
    task.evaluate("dev.conll").value
    task.predict("Jane Villanueva of United Airlines spoke.")
    task.save_pretrained("ner"); Tagger.from_pretrained("ner")

The LMs stay frozen: features are computed once and cached, and only the head is trained and saved.

An *example* is what the head learns from, such as a `Sentence`; an *input* is what `predict` is given, such as a
running text, which may become several examples. What the head learns from examples is the labelling's
(`tasks.labellings`), which the kind of head chooses.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np

from boustro.errors import require_torch
from boustro.features.reader import within_memory
from boustro.given import as_text, iterate
from boustro.options import PositiveOrZero, Seed, Share, check_options
from boustro.output import as_json
from boustro.store import ModelPlace
from boustro.tasks import TEXT_KEYS
from boustro.tasks.answering import checked_inputs
from boustro.tasks.answers import Answer, GivenRecord, Input, InputAnswer, InputPart, Label, Labels
from boustro.tasks.data import data_name
from boustro.tasks.data.named import RecordReader
from boustro.tasks.data.reading import DataOptions, Note, named_columns, named_in, named_of, warn_of
from boustro.tasks.data.units import Offsets
from boustro.tasks.plan import Examples, Fitted, Plan, make_plan
from boustro.tasks.render import Shown, in_form
from boustro.tasks.sets import judged_set, keep_columns, training_sets
from boustro.text.rows import parse_record
from boustro.text.words import RULE, word_rule

if TYPE_CHECKING:
    from boustro.encoders.base import Encoder
    from boustro.metrics.score import Score

Result = TypeVar("Result")
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
PREDICT_INPUTS = 1024  # full batches for the encoder, and answers long before the end of a stream
READ_TEXTS = ("read", "collect", "as_input", "parse_line", "parse_value", "split")
"""Functions of a task's class that split texts into words."""


class Task(ABC, Generic[Input, Result]):
    """An encoder and a trained head.

    What stands before `__init__` is a task's own; what has no default must be given.

    Attributes:
        name: As in `TASKS`.
        estimator_type: What scikit-learn calls it: a classifier or a regressor.
        formats: How `boustro predict` can print its answers.
        columns: What a table says of an answer, see `cells`.
        texts: The keys of an input's texts, which columns of a table may be named for.
        text_keys: All keys that they may have, each time together.
        in_documents: Whether its examples are sentences, read in the documents that they stand in.
        records: How its labelled records become examples, unless `collect` says it.
        offsets: Where its inputs have places in characters, which may be given in another unit.
        given: What an input is, for messages.
        example: An input as JSON has it, see `parse_value`.
        lenient: Options of `read` for a training set, which may have examples without labels, for context.
        untrained: Makes a model from a folder that no training wrote, by its kind.
        plan: What a training was told, with what it left to the examples; before `fit`, what it will be told.
    """

    name: ClassVar[str]
    estimator_type: ClassVar[str | None] = None
    formats: ClassVar[tuple[str, ...]] = ("text", "jsonl", "html")
    columns: "ClassVar[tuple[str, ...]] | property" = ("label", "score", "probabilities")
    texts: ClassVar[tuple[str, ...]] = TEXT_KEYS[:1]
    text_keys: ClassVar[tuple[tuple[str, ...], ...]] = tuple((key,) for key in TEXT_KEYS)
    in_documents: ClassVar[bool] = False
    records: ClassVar[RecordReader[Any]]
    offsets: ClassVar[Offsets | None] = None
    given: ClassVar[str] = "a text"
    example: ClassVar[Any] = "Ada Brandt flew to Port Lisse."
    lenient: ClassVar[Mapping[str, Any]] = {}
    untrained: ClassVar[Mapping[str, Callable[..., Fitted]]] = {}

    @classmethod
    def collect(cls, data: Any, options: DataOptions, notes: list[Note]) -> list[Any]:
        """Labelled examples of a file, a data set or Python lists; what was changed or left out goes to `notes`.

        Raises `FileNotFoundError`, `ValueError` with file:line for bad data, and `OptionError` for options that the
        data of this task do not have.
        """
        return cls.records.read(data, notes, options)

    @classmethod
    def read(cls, data: Any, text_column: str | Sequence[str] = (), label_column: str | None = None) -> list[Any]:
        """Read labelled data, with the columns of a table by their names; a warning counts what was changed or left
        out."""
        return cls.read_by(data, named_columns(text_column, label_column))

    @classmethod
    def read_by(cls, data: Any, options: DataOptions) -> list[Any]:
        """Read labelled data by options; warns as `read`."""
        notes: list[Note] = []
        examples = cls.collect(data, options, notes)
        warn_of(notes, data_name(examples))
        return examples

    @staticmethod
    def without_each(example: Any) -> Iterator[Any] | None:
        """For each of the words of an example the example without it, or `None` for one that is never left out.

        `None` for all of it where an example has more answers than one, so that no word has an effect on the whole.
        """
        return None

    @staticmethod
    def as_examples(given: Iterable[Any]) -> list[Any]:
        """Examples that are answered, checked; `ValueError`, with the place, for what is none."""
        return list(given)

    @staticmethod
    def as_input(given: Any, place: str) -> Any:
        """An input as the task needs it; `ValueError`, with the place, for anything else."""
        return as_text(given, place)

    @staticmethod
    def is_input(given: Any) -> bool:
        """Whether this is a single input, and not several."""
        return isinstance(given, str)

    @staticmethod
    def labelled(given: Any, label: Any, place: str) -> Any:
        """An input and its label, given from Python, as `read` takes them; `ValueError` with the place.

        By default a tuple of both; a pair of texts becomes the first two of three.
        """
        return (*given, label) if isinstance(given, tuple) else (given, label)

    @staticmethod
    def parse_line(line: str, place: str) -> Any:
        """The input on a line of a file; `ValueError`, with the place, where there is none."""
        return line

    @classmethod
    def parse_value(cls, value: Any, place: str) -> Any:
        """The input that a JSON value stands for: a text, or an object with a `text`; `ValueError` for others."""
        return cls.as_input(text_in(value, place), place)

    @staticmethod
    @abstractmethod
    def split(given: Any, name: str) -> Iterable[InputPart]:
        """The examples of an input, each with the places of its words."""

    def result(self, answer: InputAnswer[Input]) -> Result:
        """Return the result of `predict` for an input; by default what the labelling makes of its only example."""
        ((_, own),) = answer.parts
        return self.fitted.labelling.result(own)

    def to_record(self, answer: InputAnswer[Input]) -> dict[str, Any]:
        """Return the answer, without the input, as JSON can hold it."""
        result: Any = self.result(answer)
        return result.to_dict() if isinstance(result, Label) else {self.columns[0]: result}  # type: ignore[not-subscriptable]

    def empty_answer(self) -> dict[str, Any] | None:
        """Return the record of an input without a text, which the model is not asked for; `None` where it is."""
        return dict.fromkeys(self.columns)  # type: ignore[arg-type]

    @abstractmethod
    def shown(self, answer: InputAnswer[Input]) -> Shown:
        """Return what forms show of an answer besides its record."""

    def show(self, answer: InputAnswer[Input], form: str, colour: bool = False) -> Any:
        """Return the answer for an input, printable, in one of `formats`; jsonl is a dict, with the input."""
        shown = self.shown(answer)
        return {**shown.given, **self.to_record(answer)} if form == "jsonl" else in_form(shown, form, colour)

    def cells(self, answer: InputAnswer[Input]) -> list[Any]:
        """Return the cells of the answer in a table, one for each of `columns`; what is no text and no number is
        JSON."""
        record: Any = self.to_record(answer)
        values = [record[name] for name in self.columns]  # type: ignore[union-attr]
        return [value if value is None or isinstance(value, (str, int, float)) else as_json(value) for value in values]

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
        """Nothing is loaded yet; the arguments are those of the task's class.

        Raises `ValueError` for an unknown head, preset or option, for an option of another head, and for a value
        outside its range.
        """
        check_options(Task.__init__, locals())
        require_torch()
        how = {"preset": preset, "cache": cache, "device": device, **options}
        self._start(make_plan(type(self), encoder, head, **how), encoder=encoder, head=head, **how)

    @classmethod
    def of(cls, plan: Plan, **asked: Any) -> Self:
        """Make a model by a plan; `asked` are arguments of `Task.__init__` that left to the plan what it has."""
        made, how = cls.__new__(cls), {"cache": plan.reader.cache, "device": plan.reader.device}
        given = {"encoder": plan.reader.spec, "head": plan.head_kind, "preset": "default", **how}
        made._start(plan, **{**given, **plan.settings(), **asked})
        return made

    def _start(self, plan: Plan, **params: Any) -> None:
        self._params, self._fitted, self._foreign = params, None, None
        self.plan = self._asked = plan  # the latter stays as it is when examples change a plan
        _read_by_rule(self)

    def sharing(self, **changed: Any) -> Self:
        """Return a model with all that this one has but some attributes."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), **changed)
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
        self._fitted, self.plan, self._foreign = fitted, fitted.plan, fitted.foreign_texts()
        _read_by_rule(self)

    @property
    def is_trained(self) -> bool:
        """Whether there is a head that answers."""
        return self._fitted is not None

    @property
    def config(self) -> Any:
        """The options, a `TaskConfig`."""
        return self.plan.config

    @property
    def record(self) -> dict[str, Any]:
        """Record of the training: data, scores on the development set, losses, seconds, notices."""
        return self._fitted.record if self._fitted else {}

    @property
    def types(self) -> list[str]:
        """The labels that the trained head can answer, in alphabetical order; empty before `fit`."""
        return list(self._fitted.labelling.types) if self._fitted else []

    def encoder(self, cached: bool = False) -> "Encoder":
        """The encoder, loaded on first use; `cached` puts the feature cache before it.

        Raises `ValueError` where the LMs are not those that the head was trained on.
        """
        return self.plan.reader.encoder(cached)

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the encoders, which a copy opens again when it needs them."""
        if self._fitted is None:
            return dict(vars(self))
        packed = self._fitted.packed()
        return {**vars(self), "plan": packed.plan, "_fitted": packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.plan, self._asked = self.plan.on_device(), self._asked.on_device()
        if self._fitted is not None:
            self._fitted = replace(self._fitted, plan=self.plan)
            self._fitted.head.to(self.plan.device)

    def __repr__(self) -> str:
        state = f"types={self.types}" if self.is_trained else "trained=False"
        return f"{type(self).__name__}(encoder={self.plan.reader.spec!r}, head={self.plan.head_kind!r}, {state})"

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
        if self._fitted is not None:
            self._fitted.refuse_exported("is not trained again")
        check_options(Task.fit, {"seed": seed, "weak_weight": weak_weight, "cross_validate": cross_validate})
        examples = training_sets(self, X, y, dev, weak, weak_weight, reading)
        plan, note = self._asked.for_languages_of(examples.train, named=self._params["encoder"] is not None)
        if note:
            warnings.warn(note, stacklevel=2)
        self.learn(examples, seed, cross_validate, plan)
        if columns := named_of(reading) or named_in(X):
            self.fitted = keep_columns(self.fitted, columns)
        return self

    def learn(self, given: Examples, seed: int = 1, seconds: float = 0.0, plan: Plan[Any] | None = None) -> Self:
        """Train on examples that are read already, see `fitting.choice.fit_best`; by default by the plan of this
        model."""
        from boustro.tasks.fitting.choice import fit_best

        self.fitted = fit_best(plan or self._asked, self._params["head"], given, seed, seconds)
        return self

    def evaluate(self, X: Any, y: Any = None, **reading: Any) -> "Score":
        """Scores on labelled examples, in percent; `value` is the main one.

        `X` and `y` are what `fit` takes. Gold labels that the head does not know are a warning.
        """
        examples = judged_set(self, X, y, reading)
        for what, count in self.fitted.labelling.unknown(examples).items():
            warnings.warn(f"{data_name(examples)}: {count:,} {what}", stacklevel=2)
        return self.fitted.score(examples, self.answer(examples, cached=True))

    def score(self, X: Any, y: Any = None, **reading: Any) -> float:
        """Return the value of `evaluate` from 0 to 1, for scikit-learn."""
        return self.evaluate(X, y, **reading).value / 100

    def answer(self, examples: Iterable[Any], cached: bool = False) -> list[Answer]:
        """Answers, with their probabilities, for examples; those of one sentence may be lists of words.

        Raises `ValueError`, with the place, for a word that is not a string.
        """
        return self._answer(self.as_examples(examples), cached)

    def _answer(self, examples: Sequence[Any], cached: bool = False) -> list[Answer]:
        """Return answers for examples that are checked."""
        return self.fitted.answer(examples, cached)

    def answer_inputs(self, inputs: Iterable[Any], first: int = 1) -> list[InputAnswer[Input]]:
        """Answer inputs, each a document of its own; the number of the first, for messages, is `first`.

        Raises `ValueError` for what is none, with its number.
        """
        assert self.fitted  # is there, before any LM is loaded
        return self.answer_checked(checked_inputs(self, inputs, first))

    def answer_checked(self, inputs: Sequence[Any]) -> list[InputAnswer[Input]]:
        """Return the answers for inputs that `as_input` has checked, each a document of its own."""
        what = self.given.partition(" ")[2]
        split = [list(self.split(item, f"{what} {number}")) for number, item in enumerate(inputs)]
        examples = [part.example for parts in split for part in parts]
        if self._foreign is not None:
            self._foreign.add(self.plan.running_texts(examples))
        chunks = within_memory(examples, self.encoder().bytes_per_word)
        answers = chain.from_iterable(map(self._answer, chunks))
        pairs = zip(inputs, split, strict=True)
        return [InputAnswer(item, tuple(zip(parts, answers, strict=False))) for item, parts in pairs]

    def stream(self, inputs: Iterable[Any], batch: int = PREDICT_INPUTS) -> Iterator[Result]:
        """Yield the results of `predict`, input by input; only `batch` inputs are in memory at once. Warn, once, of
        texts in another language."""
        rest, number = iterate(inputs, f"{self.given} or several"), 0
        while some := list(islice(rest, batch)):
            answers = self.answer_inputs(some, number + 1)
            number += len(some)
            if note := self.language_note():  # before the first answer, behind which `predict` does not go on
                warnings.warn(note, stacklevel=3)
            yield from map(self.result, answers)

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

    def notices(self, cached: bool = False) -> dict[str, int]:
        """Count what happened to the words that this encoder read: cut, not aligned, …; and foreign texts, if many."""
        return dict(+self.encoder(cached).counts) | ({} if self._foreign is None else self._foreign.notices)

    @property
    def classes_(self) -> np.ndarray:
        """The labels in order, as `fit` was given them; `AttributeError` before, as scikit-learn's tools expect."""
        if not self.types:
            why = "not trained yet, so it has no classes_; call fit first"
            name = type(self).__name__
            raise AttributeError(
                f"a {name} has no classes_: it gives no labels" if self.is_trained else f"this {name} is {why}"
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
        """Return the tags that scikit-learn asks of an estimator."""
        return _tags_of(self.estimator_type)

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder with the head, its labels, and which encoder it belongs to; atomic."""
        check_options(Task.save_pretrained, locals())
        from boustro.tasks.folder import save_fitted

        self.fitted.refuse_exported("is not saved again")
        save_fitted(self.fitted, path)

    def save(self, path: str | Path) -> None:
        """Write the folder, as `save_pretrained`; `boustro.load` opens it."""
        self.save_pretrained(path)

    def push_to_hub(
        self, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
    ) -> str:
        """Save and upload, see `tasks.hub.upload`; returns the address of the commit."""
        from boustro.tasks.hub import upload_saved

        return upload_saved(self.save_pretrained, repo_id, private=private, revision=revision, token=token)

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

        how: dict[str, Any] = {"encoder": encoder, "cache": cache, "device": device, "given_states": given_states}
        fitted = load_fitted(cls, download(path, revision), **how)
        made = cls.of(fitted.plan)
        made.fitted = fitted
        return made


def text_in(value: Any, place: str) -> Any:
    """Return the text of an object with a `text`, and any other value as it is; `ValueError` for an object without."""
    if not isinstance(value, Mapping):
        return value
    key = next((key for key in TEXT_KEYS if key in value), None)
    if key is None:
        raise ValueError(f"{place}: no text under 'text' (found: {', '.join(map(str, value)) or 'nothing'})")
    return value[key]


class RecordTask(Task[Any, Result]):
    """Base class of tasks whose input is an object, or a tuple of its values.

    Attributes:
        keys: Of the values of a tuple; none where no tuple is taken.
        makes: What `as_input` makes, which is an input too.
    """

    keys: ClassVar[tuple[str, ...]] = ()
    makes: ClassVar[type] = GivenRecord

    @classmethod
    def is_input(cls, given: Any) -> bool:
        is_tuple = isinstance(given, tuple) and len(given) == len(cls.keys) > 0 and isinstance(given[0], str)
        return is_tuple or isinstance(given, (Mapping, cls.makes))

    @classmethod
    def asked(cls, given: Any, place: str, make: Callable[[Any, str], Any]) -> GivenRecord:
        """Return an input with the example that `make` makes of it, whose places are in characters then."""
        if isinstance(given, GivenRecord):
            return given
        offsets = cls.offsets
        example = make(given if offsets is None else offsets.convert(given, offsets.unit([given]), place, []), place)
        return GivenRecord(given if isinstance(given, Mapping) else dict(zip(cls.keys, given, strict=False)), example)

    @classmethod
    def parse_value(cls, value: Any, place: str) -> Any:
        return cls.as_input(value, place)

    @classmethod
    def parse_line(cls, line: str, place: str) -> Any:
        """A JSON object."""
        return cls.parse_value(parse_record(line, place), place)

    @staticmethod
    def split(given: GivenRecord, name: str) -> Iterable[InputPart]:
        """The whole input as one example."""
        return [InputPart(given.example, getattr(given.example, "places", ()))]


def _by_rule(rule: int, read: Callable[..., Any], *given: Any, **options: Any) -> Any:
    with word_rule(rule):
        return read(*given, **options)


def _read_by_rule(task: Task[Any, Any]) -> None:
    """Let all that reads texts split them by the rule of words of the plan, where this is not the present one."""
    for name in READ_TEXTS:
        vars(task).pop(name, None)
        if task.plan.words != RULE:
            vars(task)[name] = partial(_by_rule, task.plan.words, getattr(type(task), name))


def _tags_of(kind: str | None) -> Any:
    """Return scikit-learn's tags: texts are the input, and labels or numbers are needed."""
    from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

    return Tags(
        estimator_type=kind,
        target_tags=TargetTags(required=True),
        classifier_tags=ClassifierTags() if kind == "classifier" else None,
        regressor_tags=RegressorTags() if kind == "regressor" else None,
        input_tags=InputTags(two_d_array=False, string=True),
    )
