"""Plan of a training, the data that it learns from, and its outcome.

    Plan            the task, its options, the kind of head, the reader, the device; what stands beside the head
    Examples        the training set, weak examples, a development set
    TrainingSet     these with their features
    Fitted          the labels, the trained head, the record; the plan as training completed it
    Companion       what stands beside a head: a memory, words, a temperature, a promise of recall

`fitting.training.fit_head` makes the last of the first and of `Examples`.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from boustro.heads.inputs import HeadInputs, Kinship, NamedLabels
from boustro.heads.options import HeadOptions
from boustro.heads.registry import head_kind
from boustro.names import SHIPPED_SENTENCES, is_shipped
from boustro.store import Artefact
from boustro.tasks import TASKS
from boustro.tasks.answers import Answer
from boustro.tasks.config import TaskConfig
from boustro.tasks.data.reading import KEPT, data_fingerprint
from boustro.tasks.labellings import Labelling
from boustro.text.languages import ForeignTexts, foreign_note, said, sentence_encoder
from boustro.text.words import RULE, join_words
from boustro.version import __version__

if TYPE_CHECKING:
    import torch

    from boustro.features.reader import Reader
    from boustro.heads.base import Head
    from boustro.heads.training import Dev, TrainLog
    from boustro.metrics.score import Score

Config = TypeVar("Config", bound=TaskConfig)


@dataclass(frozen=True)
class Plan(Generic[Config]):
    """Everything that decides a training but its examples and its seed.

    Attributes:
        task: The class of the task, a `Task`; what differs from task to task is asked of it.
        config: Its options, a `TaskConfig`.
        head_kind: The kind of head.
        head_options: What is chosen about it, of its own class.
        reader: From examples to features.
        device: Where the head is trained, and answers.
        words: The rule by which texts are split into words (`text.words`).
    """

    task: Any
    config: Config
    head_kind: str
    head_options: HeadOptions
    reader: "Reader"
    device: "torch.device"
    words: int = RULE

    @property
    def companions(self) -> "tuple[Companion, ...]":
        """Companions of the head, in the order of training."""
        return self.config.companions()

    def settings(self) -> dict[str, Any]:
        """Return the values of all options, those of the head too."""
        return {**asdict(self.config), **asdict(self.head_options)}

    def on_device(self) -> "Plan[Config]":
        """Return the plan on the device that its reader names, where it was copied to."""
        from boustro.hardware import find_device

        return replace(self, device=find_device(self.reader.device))

    def running_texts(self, examples: Iterable[Any]) -> Iterator[str]:
        """Yield the texts of examples, each with all its parts; sentences of one document that follow each other are
        one."""

        def document(numbered: tuple[int, Any]) -> str | int:
            return next((part.document for part in numbered[1].parts if part.document), numbered[0])

        for _, group in groupby(enumerate(examples), document):
            yield " ".join(join_words(part.words) for _, example in group for part in example.parts)

    def suited_to(self, train: Sequence[Any]) -> "Plan[Config]":
        """Reading single sentences where the training set has no documents: later the head reads what it was trained
        on."""
        named = any(part.document for example in train for part in example.parts)
        return self if named else self.reading_alone()

    def for_languages_of(self, examples: Sequence[Any], named: bool) -> tuple["Plan[Config]", str]:
        """Return the plan that is `suited_to` examples, with the encoder of many languages where nobody `named` one and
        that of the package does not read them; and what is said of their languages."""
        spec, texts = self.reader.spec, self.running_texts(examples)
        if named or spec != SHIPPED_SENTENCES:
            return self.suited_to(examples), foreign_note(texts) if is_shipped(spec) else ""
        chosen, notices = sentence_encoder(texts)
        how = {"cache": self.reader.cache, "device": self.reader.device}
        plan = plan_of(self.task, chosen, self.head_kind, self.config, self.head_options, **how)
        return (self if chosen == spec else plan).suited_to(examples), said(notices)

    def reading_alone(self) -> "Plan[Config]":
        """Return the plan that reads each sentence by itself, not in its document."""
        if self.config.context == "sentence":
            return self
        return replace(self, config=replace(self.config, context="sentence"), reader=self.reader.alone())


def make_plan(
    task: Any,
    encoder: str | None,
    head: str | None,
    *,
    preset: str = "default",
    cache: bool | str | Path = True,
    device: str | None = None,
    **options: Any,
) -> Plan[Any]:
    """Return the plan of a class of tasks; for the other arguments and for errors see `Task`."""
    config = TASKS[task.name].config
    kind = head or config.default_head
    return plan_of(task, encoder, kind, *config.choose(kind, preset, options), cache=cache, device=device)


def plan_of(
    task: Any,
    encoder: str | None,
    kind: str,
    config: TaskConfig,
    head_options: HeadOptions,
    *,
    cache: bool | str | Path = True,
    device: str | None = None,
) -> Plan:
    """Make a plan from options that are made already; those of the head are of its own class."""
    from boustro.features.reader import Reader
    from boustro.hardware import find_device

    config.check_head(kind)
    for other in config.companions():
        other.check(kind)
    place = find_device(device)
    spec = config.default_encoder() if encoder is None else encoder
    reader = Reader(
        spec,
        config.reading_of(spec),
        widening=config.widening(),
        reads=head_kind(kind).reads or config.reads,
        cache=cache,
        device=device,
    )
    return Plan(task, config, kind, head_options, reader, place)


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Examples to learn from: labelled ones, a development set, and weak ones, of which `weight` is how much their loss
    counts; `None` is to be chosen. `columns` are names of the columns that they were read from (`reading.named_of`)."""

    train: Sequence[Any]
    dev: Sequence[Any] = ()
    weak: Sequence[Any] = ()
    weight: float | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def labelled(self) -> list[Any]:
        """The examples of the training set that have labels; the others are context."""
        return [example for example in self.train if example.is_labelled]


@dataclass(frozen=True)
class TrainingFeatures:
    """The features of training examples, and the reader of what is answered later.

    Where examples are read by what others of them are, `without` gives the features if those with some numbers came
    later.
    """

    reader: "Reader"
    inputs: HeadInputs
    notices: Mapping[str, int] = field(default_factory=dict)
    without: Callable[[np.ndarray], HeadInputs] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """The gold examples, then weak ones, with the features of all; and how heads learn from them.

    Attributes:
        inputs: Of all examples, in this order.
        kin: Gives which gold examples, or those with the numbers given, belong together; see `tasks.folds`.
        seed: Of the head's weights, the order of examples and dropout.
        weight: How much the loss of weak examples counts.
        dev: What chooses the epoch.
        named: What the labels are called, where the head learns that.
        reread: The features where the gold examples with some numbers are later ones, if that makes a difference.
    """

    gold: Sequence[Any]
    inputs: HeadInputs
    kin: Callable[..., Kinship]
    seed: int
    weak: Sequence[Any] = ()
    weight: float = 0.0
    dev: "Dev | None" = None
    named: NamedLabels | None = None
    reread: Callable[[np.ndarray], HeadInputs] | None = None

    def learning(self, some: np.ndarray) -> "TrainingSet":
        """Return the set as it is read where the gold examples with these numbers alone are known: no memory has
        others."""
        return self if self.reread is None else replace(self, inputs=self.reread(np.setdiff1d(self.numbers, some)))

    def parts(self, num_folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (learned, left out) numbers of gold examples, see `folds.left_out`. Of copies that are left out the
        first one alone is asked: whatever is judged on these examples would count their text so many times."""
        from boustro.tasks.folds import firsts, left_out

        for kept, left in left_out(self.kin(), num_folds, self.seed):
            yield kept, left[[*firsts([self.gold[n] for n in left])]]

    @cached_property
    def examples(self) -> list[Any]:
        """All, in the order of `inputs`."""
        return [*self.gold, *self.weak]

    @property
    def numbers(self) -> np.ndarray:
        """Of the gold examples."""
        return np.arange(len(self.gold))

    @property
    def weak_numbers(self) -> np.ndarray:
        """Of the weak examples."""
        return np.arange(len(self.examples) - len(self.weak), len(self.examples))


@dataclass(frozen=True)
class Fitted:
    """A trained model.

    Attributes:
        plan: By which it was trained, and reads.
        labelling: What its outputs mean.
        head: The trained head.
        record: What training recorded.
        extras: What was learned beside the head, by the name of its `Companion`.
    """

    plan: Plan[Any]
    labelling: Labelling
    head: "Head"
    record: dict[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)

    def packed(self) -> "Fitted":
        """Return what can be copied to another process: a head that shares nothing, and the very LMs that were read."""
        return replace(
            self, plan=replace(self.plan, reader=self.plan.reader.pinned()), head=copy.deepcopy(self.head).cpu()
        )

    def with_columns(self, named: Mapping[str, Any]) -> "Fitted":
        """Keep the names of the columns of labelled data, which the folder then reads data by (`data.kept_for`)."""
        return replace(self, record=self.record | {KEPT: named}) if named else self

    def refuse_exported(self, what: str) -> None:
        """Raise `ValueError` for an exported folder, which only answers."""
        if self.head.is_exported:
            raise ValueError(f"an exported folder {what}; use the folder that it was exported from")

    def foreign_texts(self) -> ForeignTexts | None:
        """Return a count of texts in languages that a model of the package does not read, nor has learned from."""
        said = getattr(self.labelling, "english", False), getattr(self.labelling, "missed", "")
        return ForeignTexts(self.record.get("languages", ()), *said) if is_shipped(self.plan.reader.spec) else None

    def inputs(self, examples: Sequence[Any], cached: bool = False) -> HeadInputs:
        """Return the features of examples; a sentence that several examples share is encoded once."""
        return self.plan.reader.read(examples, cached, self.labelling.side(examples))

    def outputs(self, examples: Sequence[Any], cached: bool = False, candidates: bool = False) -> list[Any]:
        """Return the head's outputs for examples; with `candidates`, what it is calibrated on instead."""
        return self.head.outputs(self.inputs(examples, cached), candidates)

    def answer(self, examples: Sequence[Any], cached: bool = False) -> list[Answer]:
        """Return answers for examples that are checked."""
        return self.answers(self.outputs(examples, cached), examples)

    def complete(self, outputs: Sequence[Any], examples: Sequence[Any]) -> Sequence[Any]:
        """Return the head's outputs for examples, with what stands beside the head."""
        for other in self.plan.companions:
            outputs = other.answer(self, outputs, examples)
        return outputs

    def answers(self, outputs: Sequence[Any], examples: Sequence[Any]) -> list[Answer]:
        """Return the head's outputs for examples, as answers."""
        answered = zip(self.complete(outputs, examples), examples, strict=True)
        return [self.labelling.read(output, example) for output, example in answered]

    def score(self, examples: Sequence[Any], answers: Sequence[Answer]) -> "Score":
        """Scores of answers, with their signature."""
        signature = {"data": data_fingerprint(examples), "version": f"boustro {__version__}"}
        return self.labelling.score(examples, answers, signature)


Then = Callable[[Fitted, TrainingSet, float], Mapping[str, Any]]
"""What is asked of a trained model and of what it learned, knowing the seconds that this took: for its record."""


class DevSet:
    """A development set with its features, and what a trained head says of it, which is asked for once.

    Attributes:
        unlearned: The examples that something may be chosen by, or promised: those without a text that was learned, and
            no copies of others.
    """

    def __init__(self, examples: Sequence[Any], inputs: HeadInputs, unlearned: np.ndarray) -> None:
        """`unlearned` (N,) says of which examples no text was learned, see `folds.unlearned`."""
        self.examples, self.inputs = examples, inputs
        self._numbers = np.flatnonzero(unlearned).tolist()
        self.unlearned = [examples[n] for n in self._numbers]
        self._said: dict[bool, list[Any]] = {}
        self._mixed: Any = None

    def ask(self, head: "Head", candidates: bool = False, again: bool = False) -> list[Any]:
        """Return the outputs of a head that changes no more, or what it is calibrated on; with `again`, anew."""
        from boustro.heads.training import mix_all, predict_mixed

        if self._mixed is None:
            self._mixed = mix_all(head, self.inputs.streams)
        if again or candidates not in self._said:
            said = predict_mixed(head, self._mixed, self.inputs, candidates=candidates)
            return said if again else self._said.setdefault(candidates, said)
        return self._said[candidates]

    def ask_unlearned(self, head: "Head", candidates: bool = False) -> list[Any]:
        """Ask for the outputs of the unlearned examples alone."""
        outputs = self.ask(head, candidates)
        return [outputs[n] for n in self._numbers]


PROMISE = "promise"
"""Where `Fitted.extras` has what recall can be promised."""


class Companion:
    """A companion of a head: it may read the training set in its own way, learn after the head, answer with it, and
    have files in the folder. The options of a task list those that they ask for (`TaskConfig.companions`); each does
    some of this."""

    name: ClassVar[str] = ""
    """Of what it learned, in `Fitted.extras`."""
    learns_left_out: ClassVar[bool] = False
    """Whether it learns from the training set, by heads that learned parts of it."""
    takes_weak: ClassVar[bool] = True
    """Whether it can stand beside a head that learned weak examples."""

    def check(self, kind: str) -> None:
        """`ValueError` for a kind of head that it cannot stand beside."""

    def read(
        self, plan: Plan[Any], labelling: Labelling, examples: Sequence[Any], unread: Sequence[Any], seed: int
    ) -> TrainingFeatures | None:
        """Return the features of the training examples, where they are read in another way than what is answered later;
        `unread` are sentences without labels that none of them needs."""
        return None

    def train(self, fitted: Fitted, data: TrainingSet | None, held: DevSet | None) -> tuple[Fitted, Mapping[str, Any]]:
        """Return the trained model with it, and what the record says of that; `data` are there where it
        `learns_left_out`."""
        return fitted, {}

    def answer(self, fitted: Fitted, outputs: Sequence[Any], examples: Sequence[Any]) -> Sequence[Any]:
        """Return the head's outputs for examples, with what it says of them."""
        return outputs

    def save(self, fitted: Fitted, folder: Path) -> None:
        """Write what it learned into the folder of the task."""

    def load(self, plan: Plan[Any], folder: Artefact) -> tuple[Plan[Any], Any]:
        """Read it: the plan that was fitted, and what stands in `Fitted.extras`, or `None`."""
        return plan, None


def save_companions(fitted: Fitted, folder: Path) -> None:
    """Write all that stands beside a head."""
    for other in fitted.plan.companions:
        other.save(fitted, folder)


def load_companions(plan: Plan[Any], folder: Artefact) -> tuple[Plan[Any], dict[str, Any]]:
    """Read it: the plan that was fitted, and `Fitted.extras`."""
    extras = {}
    for other in plan.companions:
        plan, extra = other.load(plan, folder)
        if extra is not None:
            extras[other.name] = extra
    return plan, extras


def head_facts(encoder: Any, head: "Head", log: "TrainLog") -> dict[str, Any]:
    """Return the part of a record about the trained head."""
    shapes = zip(encoder.streams, head.mixes, strict=True)
    return {
        "batch_sentences": log.batch_sentences,
        "encoder_parameters": encoder.num_parameters,
        "head_parameters": sum(p.numel() for p in head.parameters()),
        "best_epoch": log.best_epoch,
        "losses": [round(x, 5) for x in log.losses],
        "dev_curve": [round(x, 3) for x in log.scores],
        **head.facts(),
        "layer_weights": {stream.name: _learned_shares(mix) for stream, mix in shapes},
    }


def _learned_shares(mix: Any) -> list[float]:
    """Return the shares of the layers in a mix; none of a mix that did not learn, whose shares are equal."""
    shares = mix.layer_weights()
    return shares if len({*shares}) > 1 else []


def untrained_record(
    encoder: Any, head: "Head", train: Mapping[str, Any], notices: Mapping[str, int]
) -> dict[str, Any]:
    """Return the record of a head whose weights were written down, and not learned; `train` is where they are from."""
    from boustro.heads.training import TrainLog

    record = {"seed": 0, "encode_seconds": 0.0, "train_seconds": 0.0, "notices": notices, "dev": None}
    return record | {"dev_scores": None, "train": train} | head_facts(encoder, head, TrainLog([0.0], [], 1, 1))
