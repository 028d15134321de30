"""Task: labelled examples in, a trained head out; then text in, answers out.

    task = Tagger(encoder="starter", head="mlp")
    task.fit("train.conll", dev="dev.conll", seed=1)
    task.evaluate("dev.conll").value
    task.predict("Jane Villanueva of United Airlines spoke.")
    task.save_pretrained("ner"); Tagger.from_pretrained("ner")

The LMs stay frozen: features are computed once and cached, and only the head is trained and saved. A subclass
says what it reads, how a text is divided into what the head labels, and what its answer for a text is; what the head
learns and what its answers mean is the labelling's (`tasks.labelling`), which the kind of head chooses.
"""

import copy
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np
import torch

from boustro import __version__
from boustro.encoders.base import Encoder
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import exact_spec, load_encoder, with_cache
from boustro.given import as_sentences, as_texts, iterate
from boustro.heads.base import Head
from boustro.heads.registry import head_class, make_head
from boustro.heads.training import Dev, TrainLog, mix_all, predict_mixed, predict_streams, propose_batch, train_head
from boustro.metrics.labels import LabelScore
from boustro.metrics.spans import SpanScore
from boustro.models.hardware import best_device, find_device
from boustro.options import Seed, check_options
from boustro.tasks import TASKS
from boustro.tasks.card import write_card
from boustro.tasks.config import TaskConfig
from boustro.tasks.data import data_name
from boustro.tasks.data.conll import data_fingerprint
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.folder import describe, load_task, save_task, weights_of
from boustro.tasks.hub import upload
from boustro.tasks.labelling import Answer, Labelling, TextAnswer, make_labelling
from boustro.text.words import Placed
from boustro.types import Sentence

PREDICT_TEXTS = 1024
Result = TypeVar("Result")


class Task(ABC, Generic[Result]):
    """An encoder and a trained head; the parts of a subclass come first.

    Attributes:
        config: The options, a `TaskConfig`.
        types: The labels that the trained head can answer.
        record: What training recorded: data, scores on the development set, losses, seconds, notices.
    """

    name: ClassVar[str]
    """As in `TASKS`."""
    labellings: ClassVar[tuple[str, ...]]
    """What its heads may learn, see `heads.base.Head.labelling`."""
    formats: ClassVar[tuple[str, ...]] = ("text", "jsonl", "html")
    """How `boustro predict` can print its answers."""

    @staticmethod
    @abstractmethod
    def read(data: Any, **options: Any) -> list[Sentence]:
        """Labelled examples of a file, a data set or Python lists; raises `ValueError` with file:line for bad data."""

    @staticmethod
    @abstractmethod
    def read_counted(data: Any, options: DataOptions) -> tuple[list[Sentence], Mapping[str, int]]:
        """The same, and what was repaired or left out, counted."""

    @staticmethod
    @abstractmethod
    def split(text: str, document: str) -> Iterable[Placed]:
        """A running text as the examples that the head labels, with the place of each word."""

    @abstractmethod
    def result(self, answer: TextAnswer) -> Result:
        """What `predict` returns for a text."""

    @abstractmethod
    def show(self, answer: TextAnswer, form: str, colour: bool = False) -> Any:
        """The answer for a text, printable, in one of `formats`; jsonl is a dict."""

    # What follows is common to all tasks.

    def __init__(
        self,
        encoder: str = "starter",
        head: str | None = None,
        *,
        preset: str = "default",
        cache: bool | str | Path = True,
        device: str | None = None,
        **options: Any,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            encoder: Spec of the encoder, see `boustro.load_encoder`.
            head: Kind of head; by default the task's own.
            preset: Name of a set of options.
            cache: Keep the features of training and development data on disk (a folder says where).
            device: cpu, cuda or mps; by default the best available.
            options: Fields of the task's config, over the preset's.

        Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.
        """
        check_options(Task.__init__, locals())
        entry = TASKS[self.name]
        self.config: TaskConfig = entry.config.make(preset, **options)
        self.head_kind = head or entry.config.default_head
        learns = head_class(self.head_kind).labelling  # an unknown kind is refused before anything is encoded
        if learns not in self.labellings:
            raise ValueError(f"a {self.head_kind} head cannot {self.name}: it answers {learns}")
        self.encoder_spec = encoder
        self.cache, self._wanted_device = cache, device
        self.device = find_device(device) if device else best_device()
        self.labelling: Labelling | None = None
        self.head: Head | None = None
        self.record: dict[str, Any] = {}
        self._encoders: dict[bool, Encoder] = {}
        self._trained_on: list[Any] | None = None
        """The LMs that the encoder must consist of, where it is not open yet."""

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the encoders, which a copy opens again when it needs them."""
        state = {**self.__dict__, "_encoders": {}}
        if self.head is not None:
            state["head"] = copy.deepcopy(self.head).cpu()
            if self._encoders:
                identity = self.encoder().identity()
                state["_trained_on"] = weights_of(identity)
                state["encoder_spec"] = exact_spec(self.encoder_spec, identity)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.device = find_device(self._wanted_device) if self._wanted_device else best_device()
        if self.head is not None:
            self.head.to(self.device)

    def __repr__(self) -> str:
        state = f"types={self.types}" if self.head is not None else "trained=False"
        return f"{type(self).__name__}(encoder={self.encoder_spec!r}, head={self.head_kind!r}, {state})"

    @property
    def types(self) -> list[str]:
        """The labels that the trained head can answer, in alphabetical order; empty before `fit`."""
        return list(self.labelling.types) if self.labelling else []

    def encoder(self, cached: bool = False) -> Encoder:
        """The encoder, loaded on first use; `cached` puts the feature cache before it.

        Raises `ValueError` where the LMs are not those that the head was trained on.
        """
        cached = cached and bool(self.cache)
        if cached not in self._encoders:
            options = {f.name: getattr(self.config, f.name) for f in fields(ReadingOptions)}
            if options["sentinel"] is None:
                del options["sentinel"]
            made = (
                with_cache(self.encoder(), self.cache)  # the LMs are loaded once for both
                if cached
                else load_encoder(self.encoder_spec, device=str(self.device), **options)
            )
            if self._trained_on is not None and self._trained_on != weights_of(made.identity()):
                raise ValueError(
                    f"the model at {self.encoder_spec!r} is not the one that this head was trained on; "
                    "name the right one with --encoder, or train again"
                )
            self._encoders[cached] = made
        return self._encoders[cached]

    def fit(self, train: Any, dev: Any | None = None, seed: Seed = 1, *how: Any, **reading: Any) -> Self:
        """Train the head; with `dev`, keep the epoch with the best score there.

        Args:
            train: Labelled examples, in any form that `read` takes.
            dev: The same; without it the last epoch is kept.
            seed: Of the head's weights, the order of examples and dropout.
            how, reading: Options of `read`, such as scheme.

        Raises `ValueError` with file:line for bad data, and for a training set without labels.
        """
        check_options(Task.fit, {"seed": seed})
        started = time.monotonic()
        train = self.read(train, *how, **reading)
        dev = self.read(dev, *how, **reading) if dev is not None else None
        if not any(sentence.document for sentence in train):  # later the head reads what it was trained on
            self.config = replace(self.config, context="sentence")
            self._encoders.clear()
        c = self.config
        labelling = self.labelling = make_labelling(self.head_kind, train, c)
        self._trained_on = None
        encoder = self.encoder(cached=True)
        features = encoder.encode_all(train)
        dev_features = encoder.encode_all(dev) if dev else None
        encoded = time.monotonic()
        batch_sentences = c.batch_sentences or propose_batch(len(train))
        torch.manual_seed(seed)
        head = self.head = make_head(
            self.head_kind,
            replace(c, max_span=c.max_span or labelling.longest(train)),
            streams=tuple((s.num_layers, s.width) for s in encoder.streams),
            labels=labelling.labels,
        )

        def dev_score(answers: list[Any]) -> float:
            assert dev is not None
            return self.score(dev, self._read(answers, [len(s) for s in dev])).value

        log = train_head(
            head,
            features.streams,
            features.lengths,
            labelling.targets(train),
            c,
            seed=seed,
            batch_sentences=batch_sentences,
            dev=Dev(dev_features.streams, dev_features.lengths, dev_score) if dev_features else None,
            device=self.device,
        )
        dev_scores = None
        if dev and dev_features:
            mixed = mix_all(head, dev_features.streams)
            head.eval().calibrate(mixed.float(), torch.from_numpy(dev_features.lengths), labelling.gold(dev))
            answers = predict_mixed(head, mixed, dev_features.lengths)
            dev_scores = self.score(dev, self._read(answers, dev_features.lengths)).to_dict()
        self.record = {
            "seed": seed,
            "batch_sentences": batch_sentences,
            "train": describe(train),
            "dev": describe(dev) if dev else None,
            "encode_seconds": round(encoded - started, 2),
            "train_seconds": round(time.monotonic() - encoded, 2),
            "dev_scores": dev_scores,
            "notices": {**+encoder.counts, **labelling.unpredictable(train, dev or [], head.options.max_span or 0)},
            **_facts(encoder, head, log),
        }
        return self

    def answer(self, sentences: Iterable[Sentence | Sequence[str]], cached: bool = False) -> list[Answer]:
        """Answers, with their probabilities, for examples that are split into words already.

        Raises `ValueError`, with the place, for a word that is not a string.
        """
        head = self.trained_head()
        features = self.encoder(cached).encode_all(as_sentences(sentences))
        return self._read(predict_streams(head, features.streams, features.lengths), features.lengths)

    def answer_texts(self, texts: Iterable[str], first: int = 1) -> list[TextAnswer]:
        """Answers for running texts, each a document of its own.

        Raises `ValueError` for what is not a string, with its number; that of the first text is `first`.
        """
        texts = as_texts(texts, first)
        split = [list(self.split(text, f"text {number}")) for number, text in enumerate(texts)]
        answers = iter(self.answer([placed.sentence for parts in split for placed in parts]))
        return [
            TextAnswer(text, tuple((placed, next(answers)) for placed in parts))
            for text, parts in zip(texts, split, strict=True)
        ]

    def stream(self, texts: Iterable[str], batch: int = PREDICT_TEXTS) -> Iterator[Result]:
        """What `predict` returns, text by text; only `batch` texts are in memory at once."""
        rest = iterate(texts, "a text or several")
        number = 0
        while some := list(islice(rest, batch)):
            yield from map(self.result, self.answer_texts(some, number + 1))
            number += len(some)

    @overload
    def predict(self, text: str) -> Result: ...
    @overload
    def predict(self, text: Iterable[str]) -> list[Result]: ...
    def predict(self, text: str | Iterable[str]) -> Result | list[Result]:
        """The answer for a text, or the answers for several.

        Args:
            text: A string, or any iterable of strings: a list, a generator, a column of a data frame.

        Raises `ValueError`, with the place, for what is not a string.
        """
        return next(self.stream([text])) if isinstance(text, str) else list(self.stream(text))

    def evaluate(self, data: Any, *how: Any, **reading: Any) -> SpanScore | LabelScore:
        """Scores on labelled examples, in percent; `value` is the main one.

        Gold labels that the head does not know are a warning.
        """
        sentences = self.read(data, *how, **reading)
        for what, count in self.unknown_labels(sentences).items():
            warnings.warn(f"{data_name(sentences)}: {count:,} {what}", stacklevel=2)
        return self.score(sentences, self.answer(sentences, cached=True))

    def unknown_labels(self, sentences: Sequence[Sentence]) -> dict[str, int]:
        """Gold labels that the head never answers, see `Labelling.unknown`."""
        self.trained_head()
        assert self.labelling is not None
        return self.labelling.unknown(sentences)

    def score(self, sentences: Sequence[Sentence], answers: Sequence[Answer]) -> SpanScore | LabelScore:
        """Scores of answers, with their signature."""
        assert self.labelling is not None
        signature = {"data": data_fingerprint(sentences), "version": f"boustro {__version__}"}
        return self.labelling.score(sentences, answers, signature)

    def save_pretrained(self, path: str | Path) -> None:
        """Write a folder with the head, its labels, and which encoder it belongs to; atomic."""
        check_options(Task.save_pretrained, locals())
        save_task(self, path)

    def push_to_hub(
        self, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
    ) -> str:
        """Save and upload, see `tasks.hub.upload`; returns the address of the commit."""
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
    ) -> Self:
        """Open a saved folder, or a folder of the hub by its name.

        Args:
            path: A folder, or owner/name on the hub.
            revision: A branch, tag or commit of the hub.
            encoder: Where the encoder is now, if it has moved.
            cache: As for the constructor.
            device: As for the constructor.

        Raises `FileNotFoundError` or `ValueError` when the folder is missing, incomplete, damaged or of another task,
        or when the LMs are not the ones that the head was trained on.
        """
        check_options(Task.from_pretrained, locals())
        return load_task(cls, path, revision=revision, encoder=encoder, cache=cache, device=device)

    def _read(self, answers: Sequence[Any], lengths: Sequence[int] | np.ndarray) -> list[Answer]:
        assert self.labelling is not None
        return [self.labelling.read(answer, int(n)) for answer, n in zip(answers, lengths, strict=True)]

    def trained_head(self) -> Head:
        """The head; `ValueError` before `fit`."""
        if self.head is None:
            name = type(self).__name__
            raise ValueError(f"this {name} is not trained yet; call fit first, or open one with {name}.from_pretrained")
        return self.head


def _facts(encoder: Encoder, head: Head, log: TrainLog) -> dict[str, Any]:
    """What a record says of the trained head."""
    shapes = zip(encoder.streams, head.mixes, strict=True)
    return {
        "encoder_parameters": encoder.num_parameters,
        "head_parameters": sum(p.numel() for p in head.parameters()),
        "best_epoch": log.best_epoch,
        "losses": [round(x, 5) for x in log.losses],
        "dev_curve": [round(x, 3) for x in log.scores],
        "layer_weights": {stream.name: mix.layer_weights() for stream, mix in shapes},  # type: ignore[operator]
    }
