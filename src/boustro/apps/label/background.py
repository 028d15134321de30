"""Work beside the person who labels: encode the texts, follow the curve, train a tagger; and what a session starts
from.

    source = make_source(encoder, options, …)     labelled sentences, or a tagger, as the options say
    with Background(session, source) as work:     the encoder is loaded and the first sentences are encoded
        work.wait_ready()
        work.answered()                           after every change: is there a point of the curve to measure?
        work.start_finishing()

One thread encodes and measures, another trains. Both take the session's lock only to attach what they made.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np

from boustro.apps.label.answers import SPANS, Annotation, LabelMode
from boustro.apps.label.command import LabellingOptions
from boustro.apps.label.incremental import LiveTopics
from boustro.apps.label.named_types import guess_types
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.taggers import (
    FinishedTagger,
    Point,
    TrainingAnswers,
    finish_training,
    is_due,
    make_classifier,
    make_tagger,
    measure_tagger,
    retrace,
)
from boustro.apps.label.texts import holds_documents
from boustro.apps.label.vectors import VectorReader, WordVectors, reading_context, vector_source
from boustro.apps.serve.http import start_beside
from boustro.encoders.extended import load_names
from boustro.encoders.options import Context, Reads
from boustro.encoders.reading import group_numbers
from boustro.encoders.spec import Spec
from boustro.errors import count_of, reason
from boustro.heads.registry import head_kind
from boustro.names import NAMES, SHIPPED_SENTENCES, SHIPPED_TAGGER
from boustro.options import OptionError, command_line
from boustro.output import RunOptions
from boustro.tasks import DEFAULT_TASK, TASKS, task_class
from boustro.tasks.base import Task
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.label_names import NEAREST, readable_texts
from boustro.tasks.labellings import labelling_class
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

HOW = ("cache", "device")
CHUNK_SENTENCES = 256
"""Encoded at once, and more where a document ends later. The first of them standardise all vectors, so they do not
depend on what has been answered."""


@dataclass(frozen=True, kw_only=True)
class SessionSource:
    """Encoder that reads the texts, and what the tagger starts from."""

    encoder: str
    reading: dict[str, Any] = field(default_factory=dict)
    """Options of `load_encoder`, such as pooling."""
    task: str = DEFAULT_TASK
    """What is labelled, and what `finish` trains."""
    head: str | None = None
    """The kind of head that it trains; by default the task's own."""
    training: dict[str, Any] = field(default_factory=dict)
    """Options of that tagger."""
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
        """Return the options that the encoder of the session and its taggers have in common."""
        words = {"pool_mentions": self.pool_mentions, "spelling": self.spelling}
        return {"cache": self.cache, "device": self.device, **words, "context": context, **self.reading}

    @property
    def reads(self) -> Reads:
        """The part of a sentence encoder that is read: for topics the vectors of texts."""
        return "text" if self.task != DEFAULT_TASK and Spec.parse(self.encoder).is_sentences else "words"

    def model(self, context: Context, head: str | None = None) -> Task[Any, Any]:
        """Return an untrained model that reads as the session does; its head is `head`, or the one to train."""
        made, config = self.options(context), TASKS[self.task].config
        chosen = {name: value for name, value in made.items() if name in (*config.__dataclass_fields__, *HOW)}
        return task_class(self.task)(self.encoder, head or self.head, **chosen, **({} if head else self.training))

    def to_finish(self, context: Context, types: Sequence[str] = ()) -> Task[Any, Any]:
        """Return an untrained model that learns as `boustro fit` does, with the head that was asked for; `types` are
        labels that no answer has."""
        plan = self.model(context).plan
        plan = replace(plan, config=replace(plan.config, types=tuple(types))) if types else plan
        return plan.task.of(plan, head=self.head)

    def prior(self, sentences: Sequence[Sentence], labels: Sequence[str]) -> np.ndarray | None:
        """Return (words, labels + 1): what the tagger that the session starts from says of words, as scores."""
        if self.tagger is None:
            return None
        rows = []
        for answer in self.tagger.answer(sentences, cached=True):
            for tag, score in zip(answer.tags, answer.scores, strict=True):
                one_hot = [float(label == tag[2:]) for label in labels]
                rows.append([1 - score, *([1 / len(labels)] * len(labels))] if tag == "O" else [score, *one_hot])
        return np.array(rows, np.float32)


class Background:
    """Threads that encode, measure and train. `problem` says why nothing is encoded any more, if so."""

    def __init__(self, session: LabellingSession, source: SessionSource, text_column: Sequence[str] = ()) -> None:
        """`text_column` names that of the texts, for the folder that is saved to read tables by."""
        self.session, self.source, self.text_column = session, source, list(text_column)
        self.context: Context = reading_context(session.sentences, source.context)
        self.reader: VectorReader | None = None
        self.points: list[Point] = []
        self.finished: FinishedTagger | None = None
        self.finishing = self.problem = self.finish_problem = ""
        self._wake, self._stop = threading.Condition(), False
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._named: list[str] = []
        self._texts: WordVectors | None = None

    def __enter__(self) -> Self:
        self._thread = start_beside(self._run, "labelling")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self.answered()
        if self._thread:
            self._thread.join(timeout=60)

    @property
    def head(self) -> str:
        """The kind of head that is trained when training is finished."""
        return self.source.head or TASKS[self.source.task].config.default_head

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

    def start_finishing(self) -> None:
        """Train a tagger in the background; `ValueError` where one is being trained already."""
        if self.finishing:
            raise ValueError("a tagger is being trained already")
        self.finishing, self.finish_problem = "training", ""
        start_beside(self._finish, "finishing")

    def live_tagger(self) -> Task[Any, Any]:
        """Return the live tagger as an ordinary one; `ValueError` where there is none yet.

        What learns topics from vectors of words has no folder of its own: a head is trained on the answers, in seconds.
        """
        with self.session.lock:
            live, answers = self.session.tagger, [*self.session.examples.values(), *self.session.answers.values()]
            live = live and live.snapshot()
        if live is None or self.reader is None:
            raise ValueError("the texts are not ready yet")
        train, options = [a.labelled() for a in answers], self.source.options(self.context)
        if self.session.manner.whole and not answers:
            raise ValueError("there is nothing to save yet: answer a text first")
        if isinstance(live, LiveTopics) and self.reader.of_texts:
            return make_classifier(live, self.source.model(self.context, NEAREST), train)
        if kind := self.session.manner.saved_head:
            return self.source.model(self.context, kind).fit(train)
        return make_tagger(live, self.reader, self.source.encoder, train, **options)

    def best_tagger(self) -> tuple[Task[Any, Any], str]:
        """Return the one to save, and what it is: the finished one where it was kept. Its record names the file of
        answers."""
        if self.finished is not None and self.finished.better:
            tagger = self.finished.tagger
            what = f"{tagger.plan.head_kind}, trained on {count_of(self.finished.sentences, 'answers')}"
        else:
            tagger = self.live_tagger()
            head = None if self.reader and self.reader.of_texts else self.session.manner.saved_head
            what = f"{head or 'live'}, {count_of(len(self.session.answers), 'answers')}"
        named = {"train": tagger.record["train"] | {"name": str(self.session.file.path)}}
        tagger.fitted = replace(tagger.fitted, record=tagger.record | named)
        tagger.fitted = tagger.fitted.with_columns({"text_column": self.text_column})
        return tagger, what

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
        first = next(_chunks(documents))
        rest = [*documents]
        answered = [document for document in rest if not session.answers.keys().isdisjoint(document)]
        others = [document for document in rest if session.answers.keys().isdisjoint(document)]
        how = self.source.options(self.context)
        source = vector_source(self.source.encoder, sentences, reads=self.source.reads, **how)
        reader = self.reader = VectorReader(source, [sentences[n] for n in first])
        early = [first, *_chunks(answered)]
        for place, numbers in enumerate((*early, *_chunks(others)), start=1):
            chunk = [sentences[n] for n in numbers]
            vectors = reader.train_vectors(np.arange(len(chunk))) if place == 1 else reader.vectors(chunk)
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
        prior = self.source.prior(sentences, labels)
        start = self.reader.start if self.reader and prior is None and not self.session.manner.whole else None
        if start is not None and self.session.tagger is None:
            start = guess_types(start, vectors, sentences, labels, self.source.device)
        if self._texts is None and self.reader and self.reader.of_texts:
            read = [n for n, s in enumerate(sentences) if not self.session.english or readable_texts([s])]
            self._texts = WordVectors(vectors.words[read], np.arange(len(read) + 1))
            start = self._read_names(labels)
        with self.session.lock:
            if prior is not None and len(self.session.labels) > len(labels):  # added meanwhile
                prior = np.pad(prior, ((0, 0), (0, len(self.session.labels) - len(labels))))
            self.session.attach(numbers, vectors, prior, start)

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
        if self._texts is not None and (labels := [*self.session.labels]) != self._named:
            names = self._read_names(labels)
            with self.session.lock:
                self.session.begin(names)

    def _learn_examples(self) -> None:
        if self.source.examples:
            vectors = self.reader.vectors([a.sentence for a in self.source.examples])  # type: ignore[union-attr]
            with self.session.lock:
                self.session.add_examples(self.source.examples, self._pooled(vectors))

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

    def _finish(self) -> None:
        try:
            with self.session.lock:
                live, answers = self.session.tagger, dict(self.session.answers)
                live, types = live and live.snapshot(), unseen_types(self.session)
            if live is None:
                raise ValueError("the texts are not ready yet")
            self.finished = finish_training(
                self.source.to_finish(self.context, types), answers, live, self._given(answers)
            )
        except Exception as error:
            self.finish_problem = str(error) if isinstance(error, ValueError) else reason(error)
            if not isinstance(error, (ValueError, OSError)):
                raise
        finally:
            self.finishing = ""


def _chunks(documents: Iterable[list[int]]) -> Iterator[list[int]]:
    """Whole documents, as few as have enough sentences."""
    chunk: list[int] = []
    for document in documents:
        chunk += document
        if len(chunk) >= CHUNK_SENTENCES:
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
) -> SessionSource:
    """Choose the encoder, and what the tagger starts from; `examples` are those of `--train`, `means` says what labels
    mean.

    Raises `OptionError` for both a tagger and another encoder, for a head that is not the task's, and for options of
    entities with whole texts; and what opening them raises.
    """
    task = options.task or DEFAULT_TASK
    config = TASKS[task].config
    training = {} if options.epochs is None else {"epochs": options.epochs}
    head = options.head or config.default_head
    config.check_head(head, next(iter(training), None))
    common: dict[str, Any] = {"cache": run.cache, "device": run.device, "head": options.head, "pool": options.pool}
    common |= {"task": task, "training": training, "examples": examples, "means": means or {}}
    if manner.whole:
        for name, is_given in (("--tagger", options.tagger is not None), ("--spelling", options.spelling)):
            if is_given:
                raise OptionError(f"{name} is for entities, and these are labels of whole texts; remove it")
        common |= {"pool_mentions": False, "context": "sentence", "reading": {"pooling": config().pooling}}
    else:
        common |= {"context": options.context, "pool_mentions": options.pool_mentions}
    if options.tagger is None:
        by_default = SHIPPED_SENTENCES if manner.whole else SHIPPED_TAGGER
        spec = by_default if encoder is None else encoder
        Spec.parse(spec).check()
        return SessionSource(encoder=spec, spelling=options.spelling, **common)
    tagger = Tagger.from_pretrained(options.tagger, cache=run.cache, device=run.device)
    if encoder not in (None, tagger.plan.reader.spec):
        raise OptionError("--tagger has an encoder of its own; remove --encoder")
    if not tagger.fitted.labelling.units.has_spans:
        raise ValueError(f"{options.tagger} labels every word; boustro label is for entities")
    kept = {name: getattr(tagger.config, name) for name in ("pooling", "spacing", "start_piece", "prefix", "dtype")}
    if options.context == "sentence":
        tagger.fitted = replace(tagger.fitted, plan=tagger.plan.reading_alone())
    read = {name: value for name, value in kept.items() if value is not None}
    spelling = options.spelling or tagger.config.spelling
    return SessionSource(encoder=tagger.plan.reader.spec, spelling=spelling, tagger=tagger, reading=read, **common)


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


def unseen_types(session: LabellingSession) -> list[str]:
    """Topics that no answer has, which stay topics of what is trained."""
    counts = session.counts()
    return [label for label in session.labels if not counts[label]] if session.manner.whole else []


def training_command(
    texts: Path, options: LabellingOptions, reading: DataOptions, session: LabellingSession, work: Background
) -> str:
    """Return the command that trains on the answers as the session read them; `reading` is how the texts were read."""
    source, out = work.source, session.file.path
    parts = work.context == "document" and options.sentences and holds_documents(texts, options.form, reading)
    apart = work.context == "sentence" and not session.manner.whole and any(text.text for text in session.texts)
    config = TASKS[source.task].config
    how = {
        "documents": texts if parts else None,
        "context": "sentence" if apart and not options.sentences else None,
        "pool_mentions": (source.pool_mentions and work.context == "document") or None,
        "spelling": source.spelling or None,
        "head": work.head if work.head != config.default_head else None,
        "encoder": source.encoder if source.encoder != config().default_encoder() else None,
        "types": tuple(unseen_types(session)) or None,
    }
    return command_line("fit", train=out, **how, **source.training, out=folder_beside(out, source.task))
