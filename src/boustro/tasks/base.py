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

from boustro.errors import count_of, require_torch
from boustro.features.reader import within_memory
from boustro.given import iterate
from boustro.options import PositiveOrZero, Seed, Share, check_options
from boustro.store import ModelPlace
from boustro.tasks.answers import Answer, Input, InputAnswer, Label, Labels
from boustro.tasks.data import data_name
from boustro.tasks.data.reading import DataOptions, Note, named_columns, warn_of
from boustro.tasks.estimator import Estimator
from boustro.tasks.inputs import TextInputs, by_rule
from boustro.tasks.plan import Examples, Fitted, Plan, make_plan
from boustro.tasks.render import Shown, cells_of, in_form
from boustro.text.words import RULE

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


class Task(Estimator, ABC, Generic[Input, Result]):
    """An encoder and a trained head. What stands before `__init__` is a task's own, and may have a default.

    Attributes:
        name: As in `TASKS`.
        formats: How `boustro predict` can print its answers.
        columns: What a table says of an answer, see `cells`.
        inputs: How an input is read, and becomes examples.
        in_documents: Whether its examples are sentences, read in the documents that they stand in.
        leaves_words_out: Whether an example has one answer, so that each of its words has an effect on it.
        lenient: Options of `read` for a training set, which may have examples without labels, for context.
        untrained: Makes a model from a folder that no training wrote, by its kind.
        plan: What a training was told, with what it left to the examples; before `fit`, what it will be told.
    """

    name: ClassVar[str]
    formats: ClassVar[tuple[str, ...]] = ("text", "jsonl", "html")
    columns: "ClassVar[tuple[str, ...]] | property" = ("label", "score", "probabilities")
    inputs: ClassVar[TextInputs]
    in_documents: ClassVar[bool] = False
    leaves_words_out: ClassVar[bool] = False
    lenient: ClassVar[Mapping[str, Any]] = {}
    untrained: ClassVar[Mapping[str, Callable[..., Fitted]]] = {}

    @staticmethod
    @abstractmethod
    def collect(data: Any, options: DataOptions, notes: list[Note]) -> list[Any]:
        """Labelled examples of a file, a data set or Python lists; what was changed or left out goes to `notes`.

        Raises `FileNotFoundError`, `ValueError` with file:line for bad data, and `OptionError` for options that the
        data of this task do not have.
        """

    @classmethod
    def read(cls, data: Any, text_column: str | Sequence[str] = (), label_column: str | None = None) -> list[Any]:
        """Read labelled data, with the columns of a table by their names; a warning counts what was changed or left
        out."""
        return read_warning(cls, data, named_columns(text_column, label_column))

    def result(self, answer: InputAnswer[Input]) -> Result:
        """Return the result of `predict` for an input; by default what the labelling makes of its only example."""
        ((_, own),) = answer.parts
        return self.fitted.labelling.result(own)

    def to_record(self, answer: InputAnswer[Input]) -> dict[str, Any]:
        """Return the answer, without the input, as JSON can hold it."""
        result: Any = self.result(answer)
        return result.to_dict() if hasattr(result, "to_dict") else {self.columns[0]: result}  # type: ignore[not-subscriptable]

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
        """Return the cells of the answer in a table, one for each of `columns`."""
        return cells_of(self.to_record(answer), self.columns)  # type: ignore[bad-argument-type]

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
        """Return the encoder, see `Reader.encoder`; `ValueError` where its LMs are not those that the head was trained
        on."""
        return self.plan.reader.encoder(cached)

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the encoders, which a copy opens again when it needs them."""
        packed = self._fitted and self._fitted.packed()
        return {**vars(self), "plan": packed.plan if packed else self.plan, "_fitted": packed}

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
        own = {name for name in dir(type(self)) if not name.startswith("_")} - {*dir(Task), *Task.__annotations__}
        return sorted({*SHOWN, *own} - (set() if self.is_trained else {"classes_"}))

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
        from boustro.tasks.sets import training_sets

        examples = training_sets(self, X, y, dev, weak, weak_weight, reading)
        plan, note = self.plan_for(examples)
        if note:
            warnings.warn(note, stacklevel=2)
        return self.learn(examples, seed, cross_validate, plan)

    def plan_for(self, given: Examples) -> tuple[Plan[Any], str]:
        """Return the plan for examples, and what is said of their languages, see `Plan.for_languages_of`."""
        return self._asked.for_languages_of(given.train, named=self._params["encoder"] is not None)

    def learn(self, given: Examples, seed: int = 1, seconds: float = 0.0, plan: Plan[Any] | None = None) -> Self:
        """Train on examples that are read, see `fitting.choice.fit_best`; by default by the plan for them."""
        from boustro.tasks.fitting.choice import fit_best

        self.fitted = fit_best(plan or self.plan_for(given)[0], self._params["head"], given, seed, seconds)
        return self

    def evaluate(self, X: Any, y: Any = None, **reading: Any) -> "Score":
        """Scores on labelled examples, in percent; `value` is the main one.

        `X` and `y` are what `fit` takes. Examples without labels, which do not count, and unknown labels are a warning.
        """
        from boustro.tasks.sets import judged_set

        examples, answers = judged_set(self, X, y, reading)
        for what, count in self.fitted.labelling.unknown(examples).items():
            warnings.warn(f"{data_name(examples)}: {count_of(count, what)}", stacklevel=2)
        return self.fitted.score(examples, answers)

    def answer(self, examples: Iterable[Any], cached: bool = False) -> list[Answer]:
        """Answers, with their probabilities, for examples; those of one sentence may be lists of words. `ValueError`,
        with the place, for a word that is not a string."""
        return self._answer(self.inputs.as_examples(examples), cached)

    def _answer(self, examples: Sequence[Any], cached: bool = False) -> list[Answer]:
        """Return answers for examples that are checked."""
        return self.fitted.answer(examples, cached)

    def answer_inputs(self, inputs: Iterable[Any], first: int = 1) -> list[InputAnswer[Input]]:
        """Answer inputs, each a document of its own; `ValueError` for what is none, with its number from `first` on."""
        assert self.fitted  # is there, before any LM is loaded
        return self.answer_checked(self.inputs.check(inputs, first))

    def answer_checked(self, inputs: Sequence[Any]) -> list[InputAnswer[Input]]:
        """Return the answers for inputs that `as_input` has checked, each a document of its own."""
        split = self.inputs.parts(inputs)
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
        rest, number = iterate(inputs, f"{self.inputs.given} or several"), 0
        while some := list(islice(rest, batch)):
            answers = self.answer_inputs(some, number + 1)
            number += len(some)
            if note := self.language_note():  # before the first answer, behind which `predict` does not go on
                warnings.warn(note, stacklevel=3)
            yield from map(self.result, answers)

    def language_note(self, texts: Iterable[str] = ()) -> str:
        """Return, once, what to say of the languages of the inputs, and of texts that something else reads."""
        return "" if self._foreign is None else self._foreign.say(texts)

    def take_languages(self) -> dict[str, int]:
        """Return the languages of the inputs so far, see `ForeignTexts.take`; for work that several processes share."""
        return {} if self._foreign is None else self._foreign.take()

    @overload
    def predict(self, given: Input) -> Result: ...
    @overload
    def predict(self, given: Iterable[Input]) -> list[Result]: ...
    def predict(self, given: Any) -> Result | list[Result]:
        """Return the answer for an input, or the answers for several.

        Args:
            given: An input, or any iterable of inputs: a list, a generator, a column of a data frame.

        Raises `ValueError`, with the place, for what is no input.
        """
        if self.inputs.is_input(given):
            return next(self.stream([given]))
        found: list[Any] = list(self.stream(given))
        return Labels(found) if found and isinstance(found[0], Label) else found

    def notices(self, cached: bool = False) -> dict[str, int]:
        """Count what happened to the words that this encoder read: cut, not aligned, …; and foreign texts, if many."""
        return dict(+self.encoder(cached).counts) | ({} if self._foreign is None else self._foreign.notices)

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


def read_warning(kind: type[Task[Any, Any]], data: Any, options: DataOptions) -> list[Any]:
    """Read labelled data by options, as `Task.read` does."""
    notes: list[Note] = []
    examples = kind.collect(data, options, notes)
    warn_of(notes, data_name(examples))
    return examples


def _read_by_rule(task: Task[Any, Any]) -> None:
    """Let all that reads texts split them by the rule of words of the plan, where this is not the present one."""
    kind, rule, own = type(task), task.plan.words, vars(task)
    for name in ("read", "collect", "inputs"):
        own.pop(name, None)
    if rule != RULE:
        own["inputs"] = kind.inputs.by_rule(rule)
        own |= {name: partial(by_rule, rule, getattr(kind, name)) for name in ("read", "collect")}
