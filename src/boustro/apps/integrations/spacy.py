"""spaCy pipeline components: a tagger's entities on spaCy's own tokens, a classifier's labels, a regressor's numbers.

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("boustro", config={"tagger": "ner"})   # a tagger folder, or a tagger's name on the Hub
    doc = nlp("Ada Brandt flew to Port Lisse.")
    doc.ents                                            # of nested entities the outermost
    doc.spans["boustro"], doc.spans["boustro"].attrs["scores"]   # all entities, and their scores

    nlp.add_pipe("boustro_text", config={"model": "topics"})
    nlp("Rain stops play.").cats                        # {"sport": 0.8, "weather": 0.3}

Sentences are spaCy's if the pipeline has set them, else a document is one sentence. White-space tokens are not words,
and no entity begins or ends with one. What an earlier component found stays, in `doc.ents` and under the same key of
`doc.spans`; of the tagger's entities `doc.ents` has those that overlap none of it.

A saved pipeline contains a copy of the tagger's folder, so it can be moved. It does not contain the LMs; it names them
as a tagger folder does (a shipped one by its name, a local one by its absolute path).
"""

import json
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

try:
    import srsly
    from spacy.language import Language
    from spacy.scorer import Scorer, get_ner_prf
    from spacy.tokens import Doc, Span, SpanGroup
    from spacy.training import Example
except ImportError as error:
    raise ImportError("the spaCy components need spaCy; install it with: pip install 'boustro[spacy]'") from error

from boustro.store import read_json, reading, write_file
from boustro.tasks import task_class, task_of
from boustro.tasks.answers import Label, LabelSet
from boustro.tasks.base import Task
from boustro.tasks.data.schemes import flatten_entities
from boustro.tasks.hub import download
from boustro.tasks.labellings import open_labelling
from boustro.tasks.labellings.texts import LabelSetLabelling
from boustro.tasks.tagger import Tagger
from boustro.types import Entity, Sentence

TAGGER_FOLDER, SETTINGS = "tagger", "settings.json"  # of a saved component
SCORE = "boustro_score"


@Language.factory(
    "boustro",
    default_config={"encoder": None, "device": None, "spans_key": "boustro"},
    assigns=["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type"],
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_component(
    nlp: Language, name: str, tagger: str, encoder: str | None, device: str | None, spans_key: str
) -> "TaggerComponent":
    """Return the factory that `nlp.add_pipe("boustro", config={"tagger": ...})` calls.

    Args:
        tagger: A tagger folder, or a tagger's name on the Hub.
        encoder: The spec of the tagger's LMs, if they have moved.
        device: cpu, cuda or mps; default: the best available.
        spans_key: The key in `doc.spans` for the entities with their scores.
    """
    return TaggerComponent(tagger, encoder, device, spans_key)


@Language.factory(
    "boustro_text",
    default_config={"encoder": None, "device": None},
    assigns=["doc.cats"],
    default_score_weights={"cats_score": 1.0},
)
def make_text_component(
    nlp: Language, name: str, model: str, encoder: str | None, device: str | None
) -> "TextComponent":
    """Return the factory that `nlp.add_pipe("boustro_text", config={"model": ...})` calls.

    Args:
        model: The folder of a classifier or a regressor, or its name on the Hub.
        encoder: The spec of its LMs, if they have moved.
        device: cpu, cuda or mps; default: the best available.
    """
    return TextComponent(model, encoder, device)


class Component(ABC):
    """A trained folder in a pipeline: opened at the first document, saved with the pipeline."""

    takes: ClassVar[tuple[str, ...]]
    """The tasks whose folders it takes."""

    def __init__(self, source: str, encoder: str | None, device: str | None) -> None:
        """Loads nothing yet. `source` is a folder or a name on the Hub."""
        self.source, self.encoder, self.device = source, encoder, device
        self._task: Task[Any, Any] | None = None

    @property
    def task(self) -> Any:
        """The trained task; raises `FileNotFoundError` or `ValueError` if it cannot be loaded."""
        if self._task is None:
            self._open(self.source, self.encoder)
        return self._task

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the task; empty if it is neither loaded nor a local folder."""
        if self._task is not None:
            return tuple(self._task.types)
        if not (Path(self.source) / "config.json").is_file():  # spaCy asks before it calls from_disk
            return ()
        with reading(self.source, "save it again"):
            return open_labelling(**read_json(Path(self.source) / "config.json")["labelling"]).types

    @abstractmethod
    def annotate(self, docs: list[Doc]) -> None:
        """Write what the task says into documents; they are read together."""

    def __call__(self, doc: Doc) -> Doc:
        self.annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """Annotate and yield documents in order, `batch_size` at a time."""
        remaining = iter(stream)
        while docs := list(islice(remaining, batch_size)):
            self.annotate(docs)
            yield from docs

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the task's folder, and the `encoder` setting that this folder already contains."""
        self.task.save_pretrained(Path(path) / TAGGER_FOLDER)
        write_file(Path(path) / SETTINGS, json.dumps({"encoder": self.encoder}))

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_disk` wrote; an `encoder` setting that has changed since then names the LMs."""
        path = Path(path)
        if path.exists():  # else the pipeline was saved without it: the settings name the folder
            with reading(path, "save the pipeline again"):
                known = read_json(path / SETTINGS)["encoder"]
            self._open(path / TAGGER_FOLDER, self.encoder if self.encoder != known else None)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the files of `to_disk` as one object."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder)
            files = [file for file in sorted(Path(folder).rglob("*")) if file.is_file()]
            return srsly.msgpack_dumps({file.relative_to(folder).as_posix(): file.read_bytes() for file in files})

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Load the result of `to_bytes`."""
        with tempfile.TemporaryDirectory() as folder:
            files: Any = srsly.msgpack_loads(data)  # name → bytes
            for name, content in files.items():
                write_file(Path(folder) / name, content)
            return self.from_disk(folder)

    def _open(self, source: str | Path, encoder: str | None) -> None:
        folder = download(source)
        name = task_of(folder)
        if folder.path.exists() and name not in self.takes:
            takes = " and ".join(self.takes)
            raise ValueError(f"{source}: a folder of the task {name}; the component takes {takes}")
        self._task = task_class(name if name in self.takes else self.takes[0]).from_pretrained(
            folder, encoder=encoder, device=self.device
        )


class TaggerComponent(Component):
    """Sets the entities of documents."""

    takes = ("tag",)

    def __init__(self, source: str, encoder: str | None, device: str | None, spans_key: str) -> None:
        """Open the tagger; the arguments are those of `make_component`."""
        super().__init__(source, encoder, device)
        self.spans_key = spans_key

    @property
    def tagger(self) -> Tagger:
        """The tagger; raises `FileNotFoundError` or `ValueError` if it cannot be loaded."""
        return self.task

    def annotate(self, docs: list[Doc]) -> None:
        """Set the entities; the sentences of all documents are encoded together."""
        split = [doc.sents if doc.has_annotation("SENT_START") else [doc[:]] for doc in docs]
        read = [(i, *read_sentence(part, f"document {i}")) for i, parts in enumerate(split) for part in parts]
        by_doc: list[list[Entity]] = [[] for _ in docs]
        if note := self.tagger.language_note(doc.text for doc in docs):
            warnings.warn(note, stacklevel=2)
        answers = self.tagger.answer([sentence for _, sentence, _ in read])
        for answer, (i, _, tokens) in zip(answers, read, strict=True):
            by_doc[i] += [
                Entity(e.label, tokens[e.start].i, tokens[e.end - 1].i + 1, score=e.score) for e in answer.entities
            ]
        for doc, entities in zip(docs, by_doc, strict=True):
            new = {(e.start, e.end, e.label) for e in entities}
            before: Any = doc.spans.get(self.spans_key, ())
            attributes = dict(getattr(before, "attrs", {}))
            scored = zip(before, [*attributes.get("scores", ()), *[np.nan] * len(before)], strict=False)
            kept = [(span, score) for span, score in scored if (span.start, span.end, span.label_) not in new]
            group = SpanGroup(doc, name=self.spans_key, spans=[s for s, _ in kept] + [_span(doc, e) for e in entities])
            scores = np.array([s for _, s in kept] + [e.score for e in entities], np.float32)
            group.attrs = attributes | {"scores": scores}
            doc.spans[self.spans_key] = group
            taken = [token.ent_iob_ in ("B", "I") for token in doc]  # B without a type: where none may be
            free = [e for e in entities if not any(taken[e.start : e.end])]
            blocked = [doc[t.i : t.i + 1] for t in doc if t.ent_iob_ == "B" and not t.ent_type]
            doc.set_ents([*doc.ents, *(_span(doc, e) for e in flatten_entities(free))], blocked=blocked)

    def score(self, examples: Iterable[Example], **_: Any) -> dict[str, Any]:
        """spaCy's scores of `doc.ents`, from 0 to 1, and of `doc.spans` where the reference has them."""
        examples, key = list(examples), self.spans_key
        spans = Scorer.score_spans(
            examples,
            f"spans_{key}",
            getter=lambda doc, _: doc.spans.get(key, []),
            has_annotation=lambda doc: key in doc.spans,
            allow_overlap=True,
        )
        return {**get_ner_prf(examples), **spans}


class TextComponent(Component):
    """Sets `doc.cats` to the probability of every label, or `doc._.boustro_score` to the number of a regressor."""

    takes = ("classify", "regress")

    def __init__(self, source: str, encoder: str | None, device: str | None) -> None:
        """Open the classifier; the arguments are those of `make_text_component`."""
        super().__init__(source, encoder, device)
        Doc.set_extension(SCORE, default=None, force=True)

    def annotate(self, docs: list[Doc]) -> None:
        """Set labels or numbers; a document is a text, whatever its sentences."""
        for doc, result in zip(docs, self.task.predict([doc.text for doc in docs]), strict=True):
            if isinstance(result, (Label, LabelSet)):
                doc.cats.update(result.probabilities)
            else:
                doc._.set(SCORE, result)

    def score(self, examples: Iterable[Example], **_: Any) -> dict[str, Any]:
        """spaCy's scores of `doc.cats`, from 0 to 1."""
        several = isinstance(self.task.fitted.labelling, LabelSetLabelling)
        return Scorer.score_cats(list(examples), "cats", labels=list(self.labels), multi_label=several)


def read_sentence(part: Span, document: str) -> tuple[Sentence, list]:
    """Return the words of a part of a document, with the spaces before them, and the token of each word."""
    tokens = [token for token in part if not token.is_space]
    spaces = tuple(t.i == 0 or bool(t.nbor(-1).whitespace_) or t.nbor(-1).is_space for t in tokens)
    return Sentence(tuple(t.text for t in tokens), spaces=spaces, document=document), tokens


def _span(doc: Doc, entity: Entity) -> Span:
    return Span(doc, entity.start, entity.end, label=entity.label)
