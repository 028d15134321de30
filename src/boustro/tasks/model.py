"""A plan of an encoder and a head, and what training gave, which answers inputs; `tasks.base.Task` trains it."""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, overload

from boustro.features.reader import within_memory
from boustro.given import iterate
from boustro.heads.inputs import HeadInputs
from boustro.heads.options import HeadOptions
from boustro.names import is_shipped
from boustro.tasks.answers import Answer, Input, InputAnswer, Label, Labels
from boustro.tasks.contract import Contract, Result
from boustro.tasks.data.reading import Note, warn_of
from boustro.tasks.labellings import Labelling
from boustro.tasks.plan import Fitted, Plan
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


def _by_rule(rule: int, read: Callable[..., Any], *given: Any, **options: Any) -> Any:
    with word_rule(rule):
        return read(*given, **options)


class PlannedModel(Contract[Input, Result]):
    """An encoder and a head, which answer once they are trained.

    Attributes:
        plan: What a training was told, with what it left to the examples; before `fit`, what it will be told.
        fitted: What training gave.
    """

    _params: dict[str, Any]
    """The arguments of `Task.__init__`."""
    _asked: Plan[Any]
    """The plan before examples have changed it."""
    _foreign: ForeignTexts | None = None
    """Inputs in languages that a model of the package does not read, nor has learned from."""

    @classmethod
    def of(cls, plan: Plan, **asked: Any) -> Self:
        """Make a model by a plan; `asked` are arguments of `Task.__init__` that left to the plan what it has."""
        made = cls.__new__(cls)
        made.plan, made._asked, made._fitted = plan, plan, None
        made._read_by_rule()
        how = {"preset": "default", "cache": plan.reader.cache, "device": plan.reader.device}
        made._params = {"encoder": plan.reader.spec, "head": plan.head_kind, **how, **made.settings(), **asked}
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
        said = getattr(fitted.labelling, "english", False), getattr(fitted.labelling, "missed", "")
        self._foreign = ForeignTexts(known, *said) if is_shipped(fitted.plan.reader.spec) else None
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
        return self.fitted.answer(examples, cached)

    def answer_inputs(self, inputs: Iterable[Any], first: int = 1) -> list[InputAnswer[Input]]:
        """Answer inputs, each a document of its own; raises as `checked_inputs`."""
        return self.answer_checked(self.checked_inputs(inputs, first))

    def checked_inputs(self, inputs: Iterable[Any], first: int = 1) -> list[Any]:
        """Return inputs as `answer_checked` takes them.

        Raises `ValueError` for what is none, with its number; that of the first is `first`.
        """
        assert self.fitted  # is there, before any LM is loaded
        what, several = self.given.partition(" ")[2], f"{self.given} or several"
        named = [(f"{what} {n}", item) for n, item in enumerate(iterate(inputs, several), first)]
        if self.offsets is not None:
            notes: list[Note] = []
            named = self.offsets.convert_all(named, notes)
            warn_of(notes, "the given inputs")
        return [self.as_input(item, place) for place, item in named]

    def answer_checked(self, inputs: Sequence[Any]) -> list[InputAnswer[Input]]:
        """Return the answers for inputs that `as_input` has checked, each a document of its own."""
        what = self.given.partition(" ")[2]
        split = [list(self.split(item, f"{what} {number}")) for number, item in enumerate(inputs)]
        examples = [part.example for parts in split for part in parts]
        if self._foreign is not None:
            self._foreign.add(self.running_texts(examples))
        answers: list[Answer] = []
        for some in within_memory(examples, self.parts, self.encoder().bytes_per_word):
            answers += self._answer(some)
        rest = iter(answers)
        return [
            InputAnswer(item, tuple((part, next(rest)) for part in parts))
            for item, parts in zip(inputs, split, strict=True)
        ]

    def stream(self, inputs: Iterable[Any], batch: int = PREDICT_INPUTS) -> Iterator[Result]:
        """Yield the results of `predict`, input by input; only `batch` inputs are in memory at once."""
        return map(self.result, self.stream_answers(inputs, batch))

    def stream_answers(self, inputs: Iterable[Any], batch: int = PREDICT_INPUTS) -> Iterator[InputAnswer[Input]]:
        """Yield the answers of `answer_inputs`, input by input; once, warn of texts in another language."""
        rest, number = iterate(inputs, f"{self.given} or several"), 0
        while some := list(islice(rest, batch)):
            answers = self.answer_checked(self.checked_inputs(some, number + 1))
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

    def notices(self, cached: bool = False) -> dict[str, int]:
        """Count what happened to the words that this encoder read: cut, not aligned, …; and foreign texts, if many."""
        return dict(+self.encoder(cached).counts) | ({} if self._foreign is None else self._foreign.notices)

    def unknown_labels(self, examples: Sequence[Any]) -> dict[str, int]:
        """Gold labels that the head never answers, see `Labelling.unknown`."""
        return self.fitted.labelling.unknown(examples)

    def score_answers(self, examples: Sequence[Any], answers: Sequence[Answer]) -> "Score":
        """Scores of answers, with their signature."""
        return self.fitted.score(examples, answers)

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
