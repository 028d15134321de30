"""Work beside the person who labels: encode the texts, follow the curve, train a model; and what a session starts from.

    source = choose_source(encoder, options, …)   labelled sentences, or a tagger, as the options say
    with Background(session, source) as work:     the encoder is loaded and the first sentences are encoded
        work.wait_ready()
        work.answered()                           after every change: is there a point of the curve to measure?
        work.start_training()                     the model of `work.command`

One thread encodes and measures, another trains. Both take the session's lock only to attach what they made. What is
suggested between two answers is learned in milliseconds, over an encoder that reads fast; the model that is kept is
what `boustro fit` makes of the file of answers with the options of the command that is printed at the end.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Self

import numpy as np

from boustro.apps.label.answers import SPANS, Annotation, LabelMode
from boustro.apps.label.command import LabellingOptions
from boustro.apps.label.curve import Point, TrainingAnswers, is_due, measure_tagger, retrace
from boustro.apps.label.named_types import open_namer, prior_scores
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import TextToLabel, holds_documents
from boustro.apps.label.vectors import Start, VectorReader, WordVectors, reading_context, vector_source
from boustro.apps.serve.http import start_beside
from boustro.encoders.extended import load_names
from boustro.encoders.options import Context, Reads
from boustro.encoders.reading import group_numbers
from boustro.encoders.spec import Spec
from boustro.errors import reason
from boustro.heads.registry import head_kind
from boustro.names import NAMES, SHIPPED_SENTENCES, SHIPPED_TAGGER, is_shipped
from boustro.options import OptionError, command_line
from boustro.output import RunOptions, as_json
from boustro.store import write_file
from boustro.tasks import DEFAULT_TASK, TASKS, task_class
from boustro.tasks.base import Task
from boustro.tasks.classifier import MOST_FEW
from boustro.tasks.config import CROSS_VALIDATE, TaskConfig
from boustro.tasks.data.reading import DataOptions, TrainDataOptions
from boustro.tasks.fitting.estimate import KEY
from boustro.tasks.label_names import readable_texts
from boustro.tasks.labellings import labelling_class
from boustro.tasks.sets import read_sets
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

CHUNK_SENTENCES = 256
"""Encoded at once, and more where a document ends later. The first of them standardise all vectors, so they do not
depend on what has been answered."""
SOON = 32
"""Sentences whose names are read by their types before the first is shown."""


@dataclass(frozen=True, kw_only=True)
class SessionSource:
    """Encoder that reads the texts, and what the tagger starts from."""

    encoder: str
    reading: dict[str, Any] = field(default_factory=dict)
    """Options of `load_encoder`, such as pooling."""
    task: str = DEFAULT_TASK
    """What is labelled."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Options of `boustro fit` that were asked for."""
    documents: Path | None = None
    """File of the texts, where `fit` learns from those without an answer, or reads answers in them."""
    descriptions: Path | None = None
    """File of what topics mean, where `fit` reads it."""
    context: Context = "document"
    """What is read together; where no text has several sentences, each by itself."""
    pool_mentions: bool = True
    """Read words by their mentions in the document, too."""
    spelling: bool = False
    """Read words by their letters, too."""
    cache: bool = True
    device: str | None = None
    examples: tuple[Annotation, ...] = ()
    tagger: Tagger | None = None
    means: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of labels."""
    pool: int = 4000
    """Unanswered sentences that are ready at once; more are encoded as these are answered."""

    def options(self, context: Context) -> dict[str, Any]:
        """Return the options of `vector_source`."""
        words = {"pool_mentions": self.pool_mentions, "spelling": self.spelling}
        return {"cache": self.cache, "device": self.device, **words, "context": context, **self.reading}

    @property
    def reads(self) -> Reads:
        """The part of a sentence encoder that is read: for topics the vectors of texts."""
        return "text" if self.task != DEFAULT_TASK and Spec.parse(self.encoder).is_sentences else "words"

    @property
    def knows_types(self) -> bool:
        """Whether types may be suggested by what labels are called: the encoder reads English, and is a tagger's."""
        return self.task == DEFAULT_TASK and self.tagger is None and is_shipped(self.encoder)


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model, and the answers that it learned."""

    model: Task[Any, Any]
    answers: dict[int, Annotation]

    @property
    def head(self) -> str:
        """Its kind of head."""
        return self.model.plan.head_kind

    @property
    def estimate(self) -> Mapping[str, Any]:
        """Facts of its cross-validation, see `fitting.estimate`."""
        return self.model.record.get(KEY, {})


class Background:
    """Threads that encode, measure and train. `problem` says why nothing is encoded any more, if so."""

    def __init__(self, session: LabellingSession, source: SessionSource, folder: Path | None = None) -> None:
        """`folder` is where models are written, by default a new one beside the answers."""
        self.session, self.source, self.folder = session, source, folder
        self.context: Context = reading_context(session.sentences, source.context)
        self.reader: VectorReader | None = None
        self.points: list[Point] = []
        self.trained: TrainedModel | None = None
        self.training, self.problem, self.training_problem = False, "", ""
        self._training = threading.Lock()
        self._wake, self._stop = threading.Condition(), False
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._named: list[str] | None = None
        """The labels whose names have been read."""
        self._namer = source.tagger
        """What is said of words before they are learned."""
        self._texts: WordVectors | None = None

    def __enter__(self) -> Self:
        self._thread = start_beside(self._run, "labelling")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self.answered()
        if self._thread:
            self._thread.join(timeout=60)

    def wait_ready(self, seconds: float | None = None) -> bool:
        """Wait for the first sentences; returns whether there are any. `ValueError` where encoding failed."""
        ready = self._ready.wait(seconds)
        if self.problem:
            raise ValueError(self.problem)
        return ready

    def answered(self) -> None:
        """The answers have changed."""
        with self._wake:
            self._wake.notify_all()

    @property
    def next_folder(self) -> Path:
        """Where the next model is written: over the last one, or where there is nothing."""
        return self.folder or folder_beside(self.session.file.path, self.source.task)

    @property
    def command(self) -> str:
        """The command that trains on the answers."""
        answers, documents = self.session.file.path, self.source.documents
        out = folder_beside(answers, self.source.task)
        return command_line("fit", train=answers, documents=documents, **self._fit_options(), out=out)

    def _fit_options(self) -> dict[str, Any]:
        """Return the options of `boustro fit` for the answers so far: what was asked for, and what is known of topics
        that no answer has, or few have."""
        session, counts = self.session, self.session.counts()
        unseen = tuple(label for label in session.labels if session.manner.whole and not counts[label])
        few = len(session.answers) <= MOST_FEW * len(session.labels) and self.source.reads == "text"
        own = {"types": unseen, "describe": self.source.descriptions if few else None}
        return {**self.source.asked, **{name: value for name, value in own.items() if value}}

    def start_training(self) -> None:
        """Train in the background; `ValueError` where a model is being trained already."""
        if self.training:
            raise ValueError("a model is being trained already")
        self.training, self.training_problem = True, ""
        start_beside(self._train, "training")

    @property
    def is_trained(self) -> bool:
        """Whether there is a model that has learned these very answers."""
        return self.trained is not None and self.trained.answers == self.session.answers

    def train(self) -> TrainedModel:
        """Train what `command` does, and write it; what has learned these very answers is there already."""
        source, path = self.source, self.session.file.path
        kind, documents = task_class(source.task), source.documents
        with self._training:
            with self.session.lock:  # the file is not written meanwhile
                answers, options = dict(self.session.answers), self._fit_options()
                if self.trained and self.is_trained:
                    return self.trained
                model = kind(**options, cache=source.cache, device=source.device)
                reading = TrainDataOptions(documents=() if documents is None else (str(documents),))
                given = read_sets(kind, path, None, reading, model.config)
            model.learn(given, seconds=CROSS_VALIDATE)
            model.save_pretrained(folder := self.next_folder)
            self.folder, self.trained = folder, TrainedModel(model, answers)
            return self.trained

    def _run(self) -> None:
        try:
            with np.errstate(all="ignore"):
                for _ in self._encode():
                    self._begin_anew()
                    self._measure()
                    if not self._has_room():
                        break
                while not self._stop:
                    self._begin_anew()
                    self._measure()
                    with self._wake:
                        self._wake.wait(0.5)
        except Exception as error:  # shown on the page and by `wait_ready`
            self.problem = f"the texts cannot be read: {reason(error)}"
            if not isinstance(error, (ValueError, OSError, ImportError)):
                raise
        finally:
            self._ready.set()

    def _encode(self) -> Iterator[Sequence[int]]:
        """Encode and attach: a sample, documents with answered sentences, the rest."""
        session, sentences = self.session, self.session.sentences
        documents = iter(self._plan())
        named = self.source.knows_types and not session.answers
        soon = next(_chunks(documents, SOON if named else CHUNK_SENTENCES))
        parts = [soon, *islice(_chunks(documents, CHUNK_SENTENCES - SOON), int(named))]
        rest = [*documents]
        answered = [document for document in rest if not session.answers.keys().isdisjoint(document)]
        others = [document for document in rest if session.answers.keys().isdisjoint(document)]
        how = self.source.options(self.context)
        source = vector_source(self.source.encoder, sentences, reads=self.source.reads, **how)
        reader = self.reader = VectorReader(source, [sentences[n] for part in parts for n in part])
        early, ends = [soon, *_chunks(answered, CHUNK_SENTENCES)], np.cumsum([0, *map(len, parts)])
        for place, numbers in enumerate((*early, *parts[1:], *_chunks(others, CHUNK_SENTENCES)), start=1):
            chunk = [sentences[n] for n in numbers]
            own = [np.arange(*ends[n : n + 2]) for n, part in enumerate(parts) if part is numbers]
            vectors = reader.train_vectors(own[0]) if own else reader.vectors(chunk)
            self._attach(numbers, chunk, self._pooled(vectors))
            if place == len(early):
                self._learn_examples()
                self._retrace()
                self._ready.set()
            yield numbers

    def _plan(self) -> list[list[int]]:
        """Return groups of texts that are read together, in order, or in a random order that is always the same.

        A document with more sentences than the pool is read in parts, which are all that must be in memory.
        """
        groups, most = group_numbers(self.session.sentences, self.context), self.source.pool
        documents = [group[start : start + most] for group in groups for start in range(0, len(group), most)]
        if self.session.order == "in-order":
            return documents
        return [documents[n] for n in np.random.default_rng(0).permutation(len(documents))]

    def _attach(self, numbers: Sequence[int], sentences: Sequence[Sentence], vectors: WordVectors) -> None:
        labels = [*self.session.labels]
        start: Start | Mapping[str, np.ndarray] | None = None
        if self._named is None:
            if self.reader and self.reader.of_texts:
                read = [n for n, s in enumerate(sentences) if not self.session.english or readable_texts([s])]
                self._texts = WordVectors(vectors.words[read], np.arange(len(read) + 1))
                start = self._read_names(labels)
            elif not self.session.manner.whole:
                start = self._open_namer(labels)
        prior = self._prior(sentences, labels)
        with self.session.lock:
            self.session.attach(numbers, vectors, prior, start)

    def _open_namer(self, labels: list[str]) -> Start | None:
        """Return what is known of names, once that which reads them by their types is open, if anything does."""
        self._named, start = labels, self.reader.start if self.reader and self.source.tagger is None else None
        if start is not None and self.source.knows_types:
            said = {label: self.source.means.get(label, label) for label in labels}
            self._namer, start = open_namer(said, start, self.source.device)
        return start

    def _prior(self, sentences: Sequence[Sentence], labels: Sequence[str]) -> np.ndarray | None:
        return self._namer and prior_scores(self._namer, sentences, labels, self.source.cache)

    def _pooled(self, vectors: WordVectors) -> WordVectors:
        """Vectors of what has a score of its own."""
        return vectors if self.reader and self.reader.of_texts else self.session.manner.vectors(vectors)

    def _read_names(self, labels: list[str]) -> dict[str, np.ndarray]:
        """Return what the names of topics say; the first texts move them, whatever is answered."""
        assert self.reader and self._texts
        self._named, said = labels, {label: self.source.means.get(label, label) for label in labels}
        return self.reader.read_names(said, self._texts, self.session.manner.several)

    def _begin_anew(self) -> None:
        """Read the names of labels again where there are others."""
        if (labels := [*self.session.labels]) == self._named:
            return
        if self._texts is not None:
            names = self._read_names(labels)
            with self.session.lock:
                self.session.begin(names)
        elif self.source.knows_types:
            before, start = self._namer, self._open_namer(labels)
            if before or self._namer:
                sentences, chunks = self.session.sentences, [*self.session.pool.chunks]
                priors = [self._prior([sentences[n] for n in chunk.numbers], labels) for chunk in chunks]
                with self.session.lock:
                    self.session.begin_anew(priors, start)
                if self._ready.is_set():
                    self._learn_examples()

    def _learn_examples(self) -> None:
        if self.source.examples:
            sentences = [a.sentence for a in self.source.examples]
            vectors = self._pooled(self.reader.vectors(sentences))  # type: ignore[union-attr]
            prior = self._prior(sentences, [*self.session.labels])
            with self.session.lock:
                self.session.add_examples(self.source.examples, vectors, prior)

    def _has_room(self) -> bool:
        """Wait until fewer than `pool` sentences are ready and unanswered; False to stop."""
        while not self._stop:
            with self.session.lock:
                waiting = len(self.session.pool) - len(self.session.answers.keys() | self.session.skipped)
            if waiting < self.source.pool:
                return True
            self._begin_anew()
            self._measure()
            with self._wake:
                self._wake.wait(0.5)
        return False

    def _retrace(self) -> None:
        with self.session.lock:
            live = self.session.tagger and self.session.tagger.snapshot()
            answers = {n: a for n, a in self.session.answers.items() if live and n in live.learned}
        if live is not None and answers:
            self.points = [*retrace(live, answers, self._given)]

    def _measure(self) -> None:
        """The next point of the curve, if it is due; the live tagger takes over the scales."""
        session = self.session
        with session.lock:
            self.points = [point for point in self.points if point.sentences <= len(session.answers)]
            if session.tagger is None or not is_due(self.points, session.words_answered, len(session.answers)):
                return
            live = session.tagger.snapshot()
            answers = {n: a for n, a in session.answers.items() if n in live.learned}
        if answers:
            point = measure_tagger(live, answers, self._given(answers))
            with session.lock:  # whoever sees the point sees its scales
                self.points.append(point)
                session.tagger.scales = live.scales

    def _given(self, answers: Mapping[int, Annotation]) -> TrainingAnswers:
        """Return the answers as `boustro fit` reads them."""
        return TrainingAnswers.of(self.source.task, answers, self.session.sentences, self.context)

    def _train(self) -> None:
        try:
            self.train()
        except Exception as error:
            self.training_problem = str(error) if isinstance(error, ValueError) else reason(error)
            if not isinstance(error, (ValueError, OSError)):
                raise
        finally:
            self.training = False


def _chunks(documents: Iterable[list[int]], size: int) -> Iterator[list[int]]:
    """Whole documents, as few as have enough sentences."""
    chunk: list[int] = []
    for document in documents:
        chunk += document
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def allows_nested(head: str) -> bool:
    """Return whether a kind of head finds entities inside each other; `ValueError` for an unknown kind."""
    return labelling_class(head_kind(head).labelling).nested


def choose_source(
    encoder: str | None,
    options: LabellingOptions,
    run: RunOptions,
    manner: LabelMode = SPANS,
    examples: tuple[Annotation, ...] = (),
    means: Mapping[str, str] | None = None,
    documents: Path | None = None,
    descriptions: Path | None = None,
) -> SessionSource:
    """Choose the encoder, and what the tagger starts from; `examples` are those of `--train`, `means` says what labels
    mean; for the files see `SessionSource`.

    Raises `OptionError` for both a tagger and another encoder, for a head that is not the task's, and for options of
    entities with whole texts; and what opening them raises.
    """
    task = options.task or DEFAULT_TASK
    config = TASKS[task].config
    config.check_head(options.head or config.default_head, "epochs" if options.epochs else None)
    asked: dict[str, Any] = {"head": options.head, "epochs": options.epochs, "encoder": encoder}
    common: dict[str, Any] = {"cache": run.cache, "device": run.device, "pool": options.pool, "documents": documents}
    common |= {"task": task, "examples": examples, "means": means or {}, "descriptions": descriptions}
    if manner.whole:
        for name, is_given in (("--tagger", options.tagger is not None), ("--spelling", options.spelling)):
            if is_given:
                raise OptionError(f"{name} is for entities, and these are labels of whole texts; remove it")
        common |= {"pool_mentions": False, "context": "sentence", "reading": {"pooling": config().pooling}}
    else:
        common |= {"context": options.context, "pool_mentions": options.pool_mentions}
        asked |= {"context": options.context, "spelling": options.spelling}
    if options.tagger is None:
        by_default = SHIPPED_SENTENCES if manner.whole else SHIPPED_TAGGER
        spec = by_default if encoder is None else encoder
        Spec.parse(spec).check()
        return SessionSource(encoder=spec, spelling=options.spelling, asked=_unlike(config(), asked), **common)
    tagger = Tagger.from_pretrained(options.tagger, cache=run.cache, device=run.device)
    if encoder not in (None, tagger.plan.reader.spec):
        raise OptionError("--tagger has an encoder of its own; remove --encoder")
    if not tagger.fitted.labelling.units.has_spans:
        raise ValueError(f"{options.tagger} labels every word; boustro label is for entities")
    kept = {name: getattr(tagger.config, name) for name in ("pooling", "spacing", "start_piece", "prefix", "dtype")}
    if options.context == "sentence":
        tagger.fitted = replace(tagger.fitted, plan=tagger.plan.reading_alone())
    common |= {"spelling": options.spelling or tagger.config.spelling, "encoder": tagger.plan.reader.spec}
    asked = _unlike(config(), {**asked, **kept, "spelling": common["spelling"], "encoder": common["encoder"]})
    read = {name: value for name, value in kept.items() if value is not None}
    return SessionSource(tagger=tagger, reading=read, asked=asked, **common)


def documents_of(
    path: Path, texts: Sequence[TextToLabel], options: LabellingOptions, manner: LabelMode, reading: DataOptions
) -> Path | None:
    """Return the file of the texts if `boustro fit` reads more there than in the answers: texts of topics without an
    answer, or what stands around sentences."""
    around = options.sentences and options.context == "document" and any(text.sentence.document for text in texts)
    more = not options.sentences if manner.whole else around
    return path if more and holds_documents(path, options.form, reading) else None


def write_meanings(answers: Path, means: Mapping[str, str], manner: LabelMode) -> Path | None:
    """Write what topics mean beside the answers, for `boustro fit`, which reads it where a text has one."""
    described = {label: text for label, text in means.items() if text != label}
    if not described or not manner.whole or manner.several:
        return None
    write_file(path := answers.with_name(f"{answers.name}.labels.json"), as_json(described) + "\n")
    return path


def _unlike(config: TaskConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not as `boustro fit` has them by default."""
    own = {**vars(config), "encoder": config.default_encoder()}
    return {name: value for name, value in given.items() if value not in (None, own.get(name))}


def starting_labels(given: Iterable[str], source: SessionSource) -> list[str]:
    """Those that were given, then those of the tagger and of the examples."""
    used = {e.label for answer in source.examples for e in answer.entities}
    types = source.tagger.types if source.tagger else []
    return list(dict.fromkeys([*given, *types, *sorted(used)]))


def offered_labels(source: SessionSource) -> list[str]:
    """Return the kinds of names that are known without any label; none where a tagger, examples or whole texts are
    given."""
    first, *others = Spec.parse(source.encoder).parts
    if source.tagger or source.examples or source.task != DEFAULT_TASK or others:
        return []
    return load_names(folder)[1]["kinds"] if (folder := first.place).kind == NAMES else []


def folder_beside(answers: Path, task: str) -> Path:
    """Return a folder for what was learned, which does not exist: labelled.jsonl → labelled-tagger, labelled-tagger-2,
    …"""
    stem = answers.name.partition(".")[0] or answers.name
    names = (f"{stem}-{TASKS[task].folder}{f'-{n}' * (n > 1)}" for n in count(1))
    return next(place for name in names if not (place := answers.with_name(name)).exists())
