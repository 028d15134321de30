"""The options of each task, and their presets. torch is not imported here: command lines list these options."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from boustro.choose import suggestion, unknown
from boustro.encoders.options import Context, ReadingOptions, Reads, Widening
from boustro.heads.options import HeadOptions, PoolingOptions, Transformed
from boustro.heads.registry import AUTO_POOL, HEADS, HeadKind, head_kind, owners
from boustro.names import FAST, LARGE, SHIPPED_SENTENCES, SHIPPED_TABLE
from boustro.options import OptionError, PresetOptions, Range, Where, check_options, unread
from boustro.store import Artefact
from boustro.text.places import TextFile

if TYPE_CHECKING:
    from boustro.tasks.plan import Companion, Plan

AUTO = "auto"
"""In a study of few examples: the kind of head that measurement favoured at that number, see `TaskConfig.few_head`."""
CROSS_VALIDATE = 120.0
"""Seconds that `boustro fit`, and the labelling page, may take to say how good a model is."""


def refuse_documents(reading: ReadingOptions) -> None:
    """`OptionError` for options of whole texts that would have documents around them read."""
    if reading.context == "document":
        raise OptionError("context must be sentence where whole texts are read, which stand in no document")


def refuse_weights(name: str) -> None:
    """`OptionError` for the weights of examples, as scikit-learn calls them."""
    if name == "sample_weight":
        raise OptionError(f"{name} is not read, as every example counts alike; repeat those that count more")


@dataclass(frozen=True, kw_only=True)
class TaskConfig(PresetOptions, ReadingOptions):
    """The options that all tasks share; those of the head and its training are the head's own (`heads.options`).

    Presets have values for both.
    """

    labellings: ClassVar[tuple[str, ...]] = ()
    """What the heads of the task may learn, see `heads.registry.HeadKind`."""
    default_head: ClassVar[str] = ""
    taught_head: ClassVar[str | None] = None
    """The kind that learns from a teacher whose own is solved at once."""
    few_heads: ClassVar[tuple[tuple[int, str], ...]] = ()
    """(fewest examples of each label, kind of head): what `auto` means in a study of few examples (docs/log.md)."""
    in_documents: ClassVar[bool] = False
    """Whether its examples stand in documents; else they are whole texts, with nothing around them."""
    reads: ClassVar[Reads] = "words"
    """What it reads of a folder of sentence-transformers."""

    context: Context = "sentence"
    """What an LM reads: a text is a whole, so it is the text alone."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range, and for one that the task does not read."""
        super().__post_init__()
        if not self.in_documents:
            refuse_documents(self)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        "few": {"mix_epochs": 0},  # many heads for few examples are then trained at once (`heads.solve`)
    }

    @classmethod
    def of_folder(cls, path: Artefact, saved: Mapping[str, Any]) -> Self:
        """Return the options that a trained folder names; `ValueError` where its LM was read in fewer bits, as earlier
        versions did."""
        options = dict(saved)
        if bits := options.pop("quantise", None):
            raise ValueError(
                f"{path}: its LM was read with --quantise {bits}, which this version does not have; train it anew, "
                "over the LM as it is or what boustro pack makes of it"
            )
        return cls.make(**options)

    @classmethod
    def few_head(cls, shots: int | None) -> str:
        """Return the head that `auto` means with so many examples of each label."""
        return next((kind for fewest, kind in cls.few_heads if shots is not None and shots >= fewest), cls.default_head)

    @classmethod
    def named_heads(cls, named: Sequence[str]) -> list[str]:
        """Return the kinds that these are, `auto` being several."""
        few = list(dict.fromkeys([*(kind for _, kind in cls.few_heads), cls.default_head]))
        return list(dict.fromkeys(kind for name in named for kind in (few if name == AUTO else [name])))

    @classmethod
    def heads(cls) -> list[str]:
        """Return the kinds of heads that the task may have."""
        return [kind for kind, made in HEADS.items() if made.labelling in cls.labellings]

    @classmethod
    def check_head(cls, kind: str, option: str | None = None) -> HeadKind:
        """Return a kind of head; `OptionError` for one that is not the task's, and for an option that only others have.

        Raises `ValueError` for an unknown one, with those of this task.
        """
        if kind not in HEADS:
            raise ValueError(unknown(kind, cls.heads(), "head"))
        made = head_kind(kind)
        if made.labelling not in cls.labellings:
            raise OptionError(f"a {kind} head is not for this task, whose heads are {', '.join(cls.heads())}")
        if option and not made.has(option) and (others := owners(option, cls.heads())):
            have = "have" if len(others) > 1 else "has"
            raise OptionError(f"{option} is not an option of a {kind} head; {', '.join(others)} {have} it")
        return made

    @classmethod
    def choose(cls, kind: str, preset: str, chosen: Mapping[str, Any]) -> tuple[Self, HeadOptions]:
        """Return the options of the task and of its head: a preset, and the chosen ones over it.

        Raises `OptionError` for a head or an option that the task does not have, and for an option of another head. A
        preset is for all heads: each takes what it has.
        """
        made = cls.check_head(kind)
        of_head = {name: value for name, value in chosen.items() if made.has(name)}
        rest = {name: value for name, value in chosen.items() if name not in of_head}
        for name in rest:
            refuse_weights(name)
            cls.check_head(kind, name)
            if name not in (own_names := [field.name for field in fields(cls)]):
                known = [*own_names, *made.option_names()]
                raise OptionError(f"unknown option {name!r}{suggestion(name, known)}")
        of_preset = {n: v for n, v in cls.preset(preset).items() if made.has(n)}
        without = unread(made.options, {**of_preset, **of_head}).keys() - of_head
        of_preset = {name: value for name, value in of_preset.items() if name not in without}
        return cls.make(preset, **rest), made.options(**{**of_preset, **of_head})

    def default_encoder(self) -> str:
        """Return the spec of the encoder where none is given."""
        return "starter"

    def reading_of(self, spec: str) -> ReadingOptions:
        """Return how an encoder is read: as the options say. Where these are the task's own, a memory of words is read
        as it was made, which is at the highest layer and where its LMs are read by default."""
        from boustro.encoders.spec import Spec

        reading, own = self.reading(), type(self)()
        with contextlib.suppress(ValueError):  # which is raised when the encoder is opened
            if Spec.parse(spec).reads_as_made:
                pooling = None if reading.pooling == own.pooling else reading.pooling
                layers = "last" if reading.layers == own.layers == "0" else reading.layers
                return replace(reading, layers=layers, pooling=pooling)
        return reading

    def widening(self) -> Widening:
        """Vectors that words are read by besides the encoder's."""
        return Widening()

    def companions(self) -> "tuple[Companion, ...]":
        """Return the companions of the head with these options, in the order of training."""
        from boustro.tasks.beside import Thresholds

        return (Thresholds(),)

    def settled(self, plan: "Plan[Any]", train: Sequence[Any], weak: bool) -> "Plan[Any]":
        """Return the plan with what these options of it leave to the labelled examples, and to whether there are weak
        ones. By default nothing."""
        return plan


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions:
    """Whether the probabilities of answers are calibrated, see `tasks.calibrate`."""

    calibrate: Annotated[int, Range(0, 20)] = 0
    """Calibrate probabilities by a temperature: leave out each of so many parts of the training set in turn, which
    costs as many more trainings; 1 leaves out one fifth, once. 0 is no calibration. Answers stay the same."""

    def companions(self) -> "tuple[Companion, ...]":
        others: tuple[Companion, ...] = super().companions()  # type: ignore[misc]  # of the task
        if not self.calibrate:
            return others
        from boustro.tasks.calibrate import Temperature

        return (Temperature(self.calibrate), *others)


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(CalibrationOptions, TaskConfig):
    """Options of a Tagger; the defaults are what measurement favoured (docs/results.md)."""

    labellings: ClassVar[tuple[str, ...]] = ("tags", "spans")
    default_head: ClassVar[str] = "mlp"
    few_heads = ((64, "mlp"), (0, "ridge"))
    in_documents: ClassVar[bool] = True

    context: Context = "document"
    """What an LM reads: the sentence alone, or the document around it, up to the LM's window. Training data without
    document boundaries make it the sentence."""

    pool_mentions: bool = False
    """Read a word also by the mean vector of its mentions in the document. It needs training data with document
    boundaries, and changes nothing without them."""
    memory: bool = False
    """Read a word also by the mean vector of its mentions in the training data, labelled or not. The means are kept in
    the tagger's folder."""
    spelling: bool = False
    """Read a word also by its letters: character n-grams and shape. For LMs that have read little of the language."""

    live: bool = False
    """Train for text that arrives: in training a backward LM reads only some of the words behind each word, and the
    head is told how many, so that one tagger serves every delay (see: boustro help streaming)."""
    types: tuple[str, ...] = ()
    """Types besides those of the training sentences, for a ridge head over an encoder with names (starter-large): such
    as person, place or organisation, which are known from other people's labels."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **TaskConfig.presets,
        "paper": {  # backward-LM paper, section 3.2
            "layers": "last",
            "pooling": "first",
            "spacing": "always",
            "context": "sentence",
            "standardise": False,
            "crf": False,
            "decode": "argmax",
            "hidden": None,
            "dropout": 0.1,
            "epochs": 20,
            "lr": 1e-3,
            "batch_sentences": 32,
        },
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_blank(self.types)
        if self.live and self.memory:
            raise OptionError("live is not for taggers with memory; remove one of them")

    def companions(self) -> "tuple[Companion, ...]":
        from boustro.tasks.beside import Cut, Memory, Promises

        reading = (*([Memory()] if self.memory else []), *([Cut()] if self.live else []))
        return (*reading, *super().companions(), Promises())

    def widening(self) -> Widening:
        return Widening(mentions=self.pool_mentions, spelling=self.spelling)

    def default_encoder(self) -> str:
        """Return all of the package for words; for text that arrives the pair with its memory only, and the pair alone
        where the options read other vectors than the memory has."""
        as_remembered = self.pooling is None and self.spacing == "natural" and self.start_piece == self.prefix == "auto"
        known = as_remembered and self.layers in ("auto", "all", "last")
        return super().default_encoder() if not known else FAST if self.live else LARGE


@dataclass(frozen=True, kw_only=True)
class TextConfig(TaskConfig):
    """Options of the tasks that read whole texts; the defaults are what measurement favoured (docs/texts.md)."""

    reads: ClassVar[Reads] = "both"

    layers: str = "0,50%,last"
    """Layers to read, as for a tagger. By default the embeddings, the layer in the middle and the last."""
    pooling: str | None = "mean"
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(CalibrationOptions, TextConfig):
    """Options of a Classifier."""

    labellings: ClassVar[tuple[str, ...]] = ("class",)
    default_head: ClassVar[str] = AUTO_POOL
    taught_head: ClassVar[str | None] = "mlp-pool"

    types: tuple[str, ...] = ()
    """Labels besides those of the texts, one after another: they are known by their names, or descriptions, alone. Read
    as --describe is."""
    describe: TextFile | Mapping[str, str] | None = None
    """Descriptions of labels: a table or JSON lines with label and description, or lines such as payment: invoices,
    cards. The others are known by their names. Read by lda-pool over the vector of a text (starter-texts)."""
    none: Annotated[float, Range(0, 1, without_high=True)] = 0.0
    """Share of texts that get no label, those that fit each of them least, as texts that were left out show. By default
    every text has one."""
    words: bool | None = None
    """Put what the words say beside the encoder, TF-IDF of words and word pairs and their vectors in a table, weighed
    on parts of the training set left out. By default it does, unless the head is ridge-pool, labels are weak, or texts
    may have none."""
    table: Annotated[str, Where("words", (None, True))] = "auto"
    """With words: a table of words, as boustro lab distill-words makes them, whose vectors of a text are read too; none
    for no table. By default that of the package beside its own LMs."""

    def default_encoder(self) -> str:
        """Return the sentence encoder of the package."""
        return SHIPPED_SENTENCES

    def companions(self) -> "tuple[Companion, ...]":
        from boustro.tasks.classifier import NoLabel, WordModelCompanion

        none = [NoLabel(self.none)] if self.none else []
        return (*([WordModelCompanion()] if self.words else []), *none, *super().companions())

    def settled(self, plan: "Plan[Any]", train: Sequence[Any], weak: bool) -> "Plan[Any]":
        """With few texts of each label a head in closed form, else an MLP; and words beside it unless it was said."""
        from boustro.tasks.classifier import settled

        return settled(plan, train, weak)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.words and self.calibrate:
            raise OptionError("calibrate is not for --words, whose weights are chosen on parts left out already")
        if self.none and (self.words or self.calibrate):
            raise OptionError(f"none is not for --{'words' if self.words else 'calibrate'}; remove one of them")
        _refuse_blank(self.types)
        if self.describe is not None:
            from boustro.tasks.data.texts import read_meanings

            object.__setattr__(self, "describe", read_meanings(self.describe))


@dataclass(frozen=True, kw_only=True)
class RegressionConfig(TextConfig):
    """Options of a TextRegressor."""

    labellings: ClassVar[tuple[str, ...]] = ("score",)
    default_head: ClassVar[str] = "score-pool"


@dataclass(frozen=True, kw_only=True)
class QuestionConfig(TaskConfig):
    """Options of a QuestionAnswerer; the defaults are what measurement favoured (docs/pairs.md)."""

    labellings: ClassVar[tuple[str, ...]] = ("answers",)
    default_head: ClassVar[str] = "answer"


@dataclass(frozen=True, kw_only=True)
class PairConfig(TaskConfig):
    """Options of a PairClassifier."""

    labellings: ClassVar[tuple[str, ...]] = ("pair",)
    default_head: ClassVar[str] = "pair"
    reads: ClassVar[Reads] = "both"


@dataclass(frozen=True, kw_only=True)
class SimilarityConfig(PairConfig):
    """Options of a PairRegressor."""

    labellings: ClassVar[tuple[str, ...]] = ("pair-score",)
    default_head: ClassVar[str] = "pair-score"

    def default_encoder(self) -> str:
        """Return the pair of the package and its table of words."""
        return f"starter+{SHIPPED_TABLE}"


@dataclass(frozen=True, kw_only=True)
class RelationConfig(CalibrationOptions, TaskConfig):
    """Options of a RelationClassifier; the defaults are what measurement favoured (docs/results.md)."""

    labellings: ClassVar[tuple[str, ...]] = ("relation",)
    default_head: ClassVar[str] = "relation"

    layers: str = "50%,last"
    """Layers to read, as for a tagger. By default the layer in the middle and the last."""

    no_relation_label: str | None = None
    """The label of two places without a relation, which the score counts for none. By default any of Other, None, NA,
    no_relation and the like, in any spelling."""


@dataclass(frozen=True, kw_only=True)
class SenseConfig(TaskConfig):
    """Options of a SenseTagger."""

    labellings: ClassVar[tuple[str, ...]] = ("senses",)
    default_head: ClassVar[str] = "centroids"
    in_documents: ClassVar[bool] = True

    layers: str = "last"
    """Layers to read, side by side: last, all, or a list such as 0,4,-1 or 25%,50%,last (0 is the embeddings, -1 the
    last layer)."""
    context: Context = "sentence"
    """What an LM reads: the sentence alone, or the document around it, up to the LM's window."""


NEIGHBOURS = "neighbours:"
"""Before the name of a file of texts: its neighbouring sentences are the pairs."""


@dataclass(frozen=True, kw_only=True)
class TextReading(ReadingOptions):
    """How a text is read; the defaults are what measurement favoured (docs/texts.md)."""

    layers: str = "0"
    """Layers to read, joined: all, last, or a list such as 0,4,-1 or 25%,50%,last (0 is the embeddings, -1 the last
    layer)."""
    pooling: str | None = "exit"
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""
    context: Context = "sentence"
    """What an LM reads: a text is a whole, so it is the text alone."""


@dataclass(frozen=True, kw_only=True)
class VectorOptions(PoolingOptions, TextReading):
    """How a text becomes a vector without training."""

    transform: Transformed | None = None
    """What is done to the vectors of texts, by statistics of your own ones; raw does nothing. By default whitened; raw
    for a table of words and for a folder of sentence-transformers."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)
        refuse_documents(self)

    @property
    def needs_texts(self) -> bool:
        """Whether statistics of texts are needed before the first vector."""
        return self.text_pooling == "sif" or self.transform != "raw"


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(TextReading, TaskConfig):
    """Options of a SentenceEncoder."""

    labellings: ClassVar[tuple[str, ...]] = ("vectors", "pair-vectors")
    default_head: ClassVar[str] = "embedding"
    reads: ClassVar[Reads] = "text"

    def default_encoder(self) -> str:
        """Return the table of words of the package."""
        return SHIPPED_TABLE

    def settled(self, plan: "Plan[Any]", train: Sequence[Any], weak: bool) -> "Plan[Any]":
        """With the pooling and the transform that suit the encoder."""
        from boustro.encoders.spec import Spec

        assert isinstance(plan.head_options, PoolingOptions)
        vectors = Spec.parse(plan.reader.spec).gives_vectors
        return replace(plan, head_options=plan.head_options.for_vectors(vectors))


def _refuse_blank(types: Sequence[str]) -> None:
    """`OptionError` for a type without a name."""
    if not all(name.strip() for name in types):
        raise OptionError("types has a label without a name; remove it")
