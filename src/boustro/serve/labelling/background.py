"""What a session does beside the person: encode the texts, follow the learning curve, train a tagger at leisure.

    with Background(session, source) as work:     the encoder is loaded and the first sentences are encoded
        work.wait_ready()
        work.answered()                           after every change: is there a point of the curve to measure?
        work.start_finishing()

One thread encodes and measures, another trains. Both take the session's lock only to attach what they made.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from boustro.encoders.base import Encoder
from boustro.errors import reason
from boustro.heads.registry import head_class
from boustro.serve.labelling.answers import Answer
from boustro.serve.labelling.curve import Point, is_due, measure, retrace
from boustro.serve.labelling.session import Session
from boustro.serve.labelling.taggers import Finished, finish, make_tagger
from boustro.studies.fewshot.features import FeatureReader, reading_encoder
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

FIRST_SENTENCES = 256
"""They standardise all vectors, so they do not depend on what has been answered."""
CHUNK_SENTENCES = 256


@dataclass(frozen=True, kw_only=True)
class Source:
    """What reads the texts, and from what the tagger starts."""

    encoder: str = "starter"
    reading: dict[str, Any] = field(default_factory=dict)
    """Options of `load_encoder`, such as pooling."""
    head: str = "mlp"
    """The kind that `finish` trains."""
    training: dict[str, Any] = field(default_factory=dict)
    """Options of that tagger."""
    cache: bool = True
    device: str | None = None
    examples: tuple[Answer, ...] = ()
    tagger: Tagger | None = None
    pool: int = 4000
    """Unanswered sentences that are ready at once; more are encoded as these are answered."""

    def open(self) -> Encoder:
        """The encoder, which reads every sentence by itself."""
        return reading_encoder(self.encoder, (), cache=self.cache, device=self.device, **self.reading)

    def prior(self, sentences: Sequence[Sentence], labels: Sequence[str]) -> np.ndarray | None:
        """(words, labels + 1): what the tagger that the session starts from says of words, as scores."""
        if self.tagger is None:
            return None
        rows = []
        for answer in self.tagger.answer(sentences, cached=True):
            for tag, score in zip(answer.tags, answer.scores, strict=True):
                own = [float(label == tag[2:]) for label in labels]
                rows.append([1 - score, *([1 / len(labels)] * len(labels))] if tag == "O" else [score, *own])
        return np.array(rows, np.float32)


class Background:
    """See the module. `problem` says why nothing is encoded any more, if so."""

    def __init__(self, session: Session, source: Source) -> None:
        self.session, self.source = session, source
        self.reader: FeatureReader | None = None
        self.points: list[Point] = []
        self.finished: Finished | None = None
        self.finishing = self.problem = self.finish_problem = ""
        self._wake, self._stop = threading.Condition(), False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="labelling", daemon=True)
        self._trainer: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self.answered()
        self._thread.join(timeout=60)

    def wait_ready(self, seconds: float | None = None) -> bool:
        """Wait for the first sentences; returns whether there are any. `ValueError` where encoding failed."""
        found = self._ready.wait(seconds)
        if self.problem:
            raise ValueError(self.problem)
        return found

    def answered(self) -> None:
        """The answers have changed."""
        with self._wake:
            self._wake.notify_all()

    def start_finishing(self) -> None:
        """Train a tagger in the background; `ValueError` where one is being trained already."""
        if self.finishing:
            raise ValueError("a tagger is being trained already")
        self.finishing, self.finish_problem = f"training a {self.source.head} head", ""
        self._trainer = threading.Thread(target=self._finish, name="finishing", daemon=True)
        self._trainer.start()

    def live_tagger(self) -> Tagger:
        """The live tagger as an ordinary one; `ValueError` where there is none yet."""
        with self.session.lock:
            live, answers = self.session.tagger, [*self.session.examples.values(), *self.session.answers.values()]
            live = live and live.snapshot()
        if live is None or self.reader is None:
            raise ValueError("the texts are not ready yet")
        return make_tagger(live, self.reader, self.source.encoder, [a.labelled() for a in answers], **self._options())

    def best_tagger(self) -> tuple[Tagger, str]:
        """The one to save, and what it is: the finished one where it was kept."""
        if self.finished is not None and self.finished.better:
            return self.finished.tagger, f"{self.source.head}, trained on {self.finished.sentences} answers"
        return self.live_tagger(), f"live, {len(self.session.answers)} answers"

    def _options(self) -> dict[str, Any]:
        return {"cache": self.source.cache, "device": self.source.device, **self.source.reading}

    def _run(self) -> None:
        try:
            with np.errstate(all="ignore"):
                for _ in self._encode():
                    self._measure()
                    if not self._has_room():
                        break
                while not self._stop:
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
        """Encode and attach: a sample, the answered sentences, the rest."""
        plan, session = self._plan(), self.session
        encoder = self.source.open()
        first, rest = plan[:FIRST_SENTENCES], plan[FIRST_SENTENCES:]
        self.reader = FeatureReader(encoder, [session.texts[n].sentence for n in first])
        answered = [n for n in rest if n in session.answers]
        others = [n for n in rest if n not in session.answers]
        for numbers in (first, *_chunks(answered), *_chunks(others)):
            self._attach(numbers, self.reader)
            if numbers[-1] == (answered or first)[-1]:
                self._learn_examples()
                self._retrace()
                self._ready.set()
            yield numbers

    def _plan(self) -> list[int]:
        """All sentences: in order, or in a random order that is always the same."""
        numbers = np.arange(len(self.session.texts))
        if self.session.order != "in-order":
            numbers = np.random.default_rng(0).permutation(numbers)
        return numbers.tolist()

    def _attach(self, numbers: Sequence[int], reader: FeatureReader) -> None:
        sentences = [self.session.texts[n].sentence for n in numbers]
        vectors = reader.vectors(sentences)
        labels = [*self.session.labels]
        prior = self.source.prior(sentences, labels)
        with self.session.lock:
            if prior is not None and len(self.session.labels) > len(labels):  # added meanwhile
                prior = np.pad(prior, ((0, 0), (0, len(self.session.labels) - len(labels))))
            self.session.attach(numbers, vectors, prior)

    def _learn_examples(self) -> None:
        if self.source.examples:
            vectors = self.reader.vectors([a.sentence for a in self.source.examples])  # type: ignore[union-attr]
            with self.session.lock:
                self.session.add_examples(self.source.examples, vectors)

    def _has_room(self) -> bool:
        """Wait until fewer than `pool` sentences are ready and unanswered; False to stop."""
        while not self._stop:
            with self.session.lock:
                waiting = len(self.session.pool) - len(self.session.answers.keys() | self.session.skipped)
            if waiting < self.source.pool:
                return True
            self._measure()
            with self._wake:
                self._wake.wait(0.5)
        return False

    def _retrace(self) -> None:
        with self.session.lock:
            live = self.session.tagger and self.session.tagger.snapshot()
            answers = {n: a for n, a in self.session.answers.items() if live and n in live.learned}
        if live is not None and answers:
            self.points = [*retrace(live, answers)]

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
            point = measure(live, answers)
            with session.lock:  # whoever sees the point sees its scales
                self.points.append(point)
                session.tagger.scales = live.scales

    def _finish(self) -> None:
        try:
            with self.session.lock:
                live, answers = self.session.tagger, dict(self.session.answers)
                live = live and live.snapshot()
            if live is None:
                raise ValueError("the texts are not ready yet")
            options = {**self._options(), **self.source.training}
            self.finished = finish(self.source.encoder, self.source.head, answers, live, **options)
        except Exception as error:
            self.finish_problem = str(error) if isinstance(error, ValueError) else reason(error)
            if not isinstance(error, (ValueError, OSError)):
                raise
        finally:
            self.finishing = ""


def _chunks(numbers: list[int]) -> list[list[int]]:
    return [numbers[start : start + CHUNK_SENTENCES] for start in range(0, len(numbers), CHUNK_SENTENCES)]


def allows_nested(head: str) -> bool:
    """Whether a kind of head finds entities inside each other; `ValueError` for an unknown kind."""
    return head_class(head).labelling == "spans"
