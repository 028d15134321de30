"""The file of answers, JSON lines that `boustro fit` reads, complete after every answer; and what a person gives.

    {"text": "Ada left.", "entities": [{"start": 0, "end": 3, "label": "PER"}], "note": "",
     "source": "news.txt:7"}                                                                   an answer: entities
    {"text": "Where is my parcel?", "label": "delivery", "note": "", "source": "mail.txt:7"}   one label of a text
    {"text": "Late, and broken.", "labels": ["delivery", "damage"], …}                         several, or none

Behind these stand the other columns of the row, such as an `id`. In the file the entities of a text are over its
characters, those of words that have no text over words. In memory all are over words.

The file is written anew beside itself and renamed, so that after kill -9 or a full disk it is as it was before the
answer or after it. Beside it lies what a training set has no place for: labels without an entity so far, and skipped
sentences (`labelled.jsonl.session.json`). One session at a time has both.
"""

import contextlib
import errno
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self

from boustro.apps.label.texts import TextToLabel, over, read_to_label, read_whole, whole_sentence
from boustro.choose import choose, lazy
from boustro.errors import shorten
from boustro.heads.registry import head_kind
from boustro.locks import lock
from boustro.options import OptionError
from boustro.output import as_json
from boustro.store import hash_file, read_json, write_file
from boustro.tasks import TASKS, TEXT_KEYS, WORD_KEYS
from boustro.tasks.data.conll import format_conll
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.data.records import SPAN_KEYS, TAG_KEYS
from boustro.tasks.data.schemes import (
    entities_to_bio,
    flatten_entities,
)
from boustro.tasks.data.texts import are_labels, is_label, whole_text
from boustro.tasks.data.units import parse_spans, read_spans, to_words
from boustro.text.documents import read_lines
from boustro.text.rows import parse_record
from boustro.text.separated import json_value
from boustro.text.tables import free_names
from boustro.types import Entity, Sentence

LONGEST_LABEL = 60  # a longer one is a sentence that was pasted into the wrong field
ANSWER_KEYS = frozenset((*TEXT_KEYS, *WORD_KEYS, *TAG_KEYS, *SPAN_KEYS, "spaces", "label", "labels", "score", "answer"))
ANSWER_KEYS |= {"note", "source", "document", "data", "annotations", "responses"}
"""The keys that an answer has, and those that say what a record holds to what reads labelled data: a column of such a
name stands in the answers under another: `label` as row_label."""
NO_ANSWER = "this is not an answer that boustro label wrote; choose another --out, or give the file to --train"


@dataclass(frozen=True)
class Annotation:
    """A text or a sentence as a person labelled it."""

    sentence: Sentence
    entities: tuple[Entity, ...]
    note: str = ""
    text: str = ""
    """As it is written; empty for words of which that is not known."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The other columns of the row that the text is from."""
    fields: ClassVar[frozenset[str]] = frozenset({"text", "words", "spaces", "entities", "note", "source"})
    """Of a record."""

    @classmethod
    def of(cls, text: Any, entities: tuple[Entity, ...], note: str) -> Self:
        """Return the answer for a `texts.TextToLabel`."""
        return cls(text.sentence, entities, note, text.text, text.columns)

    @classmethod
    def parse(cls, record: Any, where: str) -> Self:
        """Return the answer of a record of the file; `ValueError`, with the place, for what is none."""
        if isinstance(record, dict) and "source" in record and isinstance(text := record.get("text"), str):
            entities = tuple(map(_checked(where), _over_words(record.get("entities"), text, where)))
            sentence = whole_sentence(text, str(record["source"]))
            return cls(sentence, entities, str(record.get("note") or ""), text, _columns_of(record))
        words = record.get("words") if isinstance(record, dict) and "source" in record else None
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise ValueError(f"{where}: {NO_ANSWER}")
        spaces = record.get("spaces")
        if spaces is not None and (not isinstance(spaces, list) or len(spaces) != len(words)):
            raise ValueError(f"{where}: spaces must be a list of {len(words)} true or false, one per word")
        entities = map(_checked(where), read_spans(record.get("entities"), len(words), where))
        sentence = Sentence(
            tuple(words), spaces=None if spaces is None else tuple(map(bool, spaces)), where=str(record["source"])
        )
        note = str(record.get("note") or "")
        return cls(sentence, tuple(sorted(entities)), note, columns=_columns_of(record))

    def to_dict(self) -> dict[str, Any]:
        """Return a record of the file."""
        names = free_names(self.columns, ANSWER_KEYS, before="row_")
        return self._said() | {names[key]: value for key, value in self.columns.items()}

    def _said(self) -> dict[str, Any]:
        """Return the record without the other columns of its row."""
        if self.text:
            places = whole_text(self.text).places
            over = [(places[e.start][0], places[e.end - 1][1], e.label) for e in sorted(self.entities)]
            spans = [{"start": start, "end": end, "label": label} for start, end, label in over]
            return {"text": self.text, "entities": spans, "note": self.note, "source": self.sentence.where}
        spans = [{"start": e.start, "end": e.end, "label": e.label} for e in sorted(self.entities)]
        words, spaces = list(self.sentence.words), self.sentence.spaces
        return {
            "words": words,
            **({} if spaces is None else {"spaces": list(spaces)}),
            "entities": spans,
            "note": self.note,
            "source": self.sentence.where,
        }

    @cached_property
    def line(self) -> str:
        """Its line of the file."""
        return as_json(self.to_dict(), default=json_value) + "\n"

    def labelled(self) -> Sentence:
        """For training: BIO tags of the outermost entities, and all of them where some overlap."""
        flat = flatten_entities(self.entities)
        hidden = None if len(flat) == len(self.entities) else tuple(sorted(self.entities))
        tags = entities_to_bio(flat, len(self.sentence))
        return replace(self.sentence, tags=tags, entities=hidden)


@dataclass(frozen=True)
class TopicAnswer(Annotation):
    """A text with the one label that a person gave it."""

    fields = frozenset({"text", "label", "labels", "note", "source"})

    @classmethod
    def parse(cls, record: Any, where: str) -> Self:
        text = record.get("text") if isinstance(record, Mapping) and "source" in record else None
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{where}: {NO_ANSWER}")
        sentence = whole_sentence(text, str(record["source"]))
        labels = [check_label(name, f"{where}: ") for name in cls._labels(record, where)]
        return cls(sentence, over(sentence, labels), str(record.get("note") or ""), text, _columns_of(record))

    @staticmethod
    def _labels(record: Mapping[str, Any], where: str) -> list[str]:
        if not is_label(record.get("label")):
            raise ValueError(f"{where}: no label; a text that has several or none is labelled with --several")
        return [str(record["label"])]

    @property
    def names(self) -> list[str]:
        """Its labels."""
        return sorted(entity.label for entity in self.entities)

    def _said(self) -> dict[str, Any]:
        return {"text": self.text, "label": self.names[0], "note": self.note, "source": self.sentence.where}

    def labelled(self) -> Sentence:
        return replace(self.sentence, label=self.names[0])


class TopicSetAnswer(TopicAnswer):
    """A text with any number of labels."""

    @staticmethod
    def _labels(record: Mapping[str, Any], where: str) -> list[str]:
        labels = record.get("labels", [record["label"]] if "label" in record else None)
        if not are_labels(labels):
            raise ValueError(f"{where}: expected a list of labels under 'labels'")
        return list(dict.fromkeys(map(str, labels)))

    def _said(self) -> dict[str, Any]:
        return {"text": self.text, "labels": self.names, "note": self.note, "source": self.sentence.where}

    def labelled(self) -> Sentence:
        return replace(self.sentence, labels=tuple(self.names))


def _columns_of(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in ANSWER_KEYS}


def _over_words(given: Any, text: str, where: str) -> tuple[Entity, ...]:
    """Entities over characters as entities over words; `ValueError` for one that words cannot hold."""
    notes: list[Note] = []
    for label, start, end, _ in (spans := parse_spans(given, where)):
        if not 0 <= start < end <= len(text):
            raise ValueError(f"{where}: the entity {label} [{start}, {end}) is outside the {len(text)} characters")
    entities = to_words(spans, whole_text(text).places, text, where, notes)
    if notes:
        raise ValueError(f"{notes[0]}; {NO_ANSWER}")
    return entities


def _checked(where: str) -> Callable[[Entity], Entity]:
    """Return an entity whose label can be one."""
    return lambda entity: replace(entity, label=check_label(entity.label, f"{where}: "))


@dataclass(slots=True)
class SessionState:
    """State of a session that is not in the file of answers."""

    labels: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """`TextToLabel.key` of each."""
    groups: list[list[Any]] = field(default_factory=list)
    """What was told of groups of names: a label and names."""
    exported: str = ""
    """SHA-256 of the CoNLL file that was written last, which may be replaced."""


class AnswerFile:
    """The two files; hold `open` around their use."""

    def __init__(self, path: Path, kind: type[Annotation] = Annotation) -> None:
        """`kind` is the form of its answers."""
        self.path, self.kind = path, kind
        self.beside_path = path.with_name(f"{path.name}.session.json")
        self._known: tuple[int, int] | None = None
        self._beside = SessionState()

    @contextlib.contextmanager
    def open(self) -> Iterator["AnswerFile"]:
        """Be the only session with this file; `BlockingIOError` where another has it, `OSError` for a bad path."""
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file", str(self.path))
        held = contextlib.ExitStack()
        with held:
            try:
                held.enter_context(lock(self.path.with_name(f"{self.path.name}.session"), wait=False))
            except BlockingIOError as error:
                message = "another boustro label has this file open; end it first, or choose another --out"
                raise BlockingIOError(errno.EAGAIN, message, str(self.path)) from error
            yield self

    def read(self) -> list[Annotation]:
        """Return the answers so far; none where there is no file. `ValueError` with file:line for what is no answer."""
        self._known = self._stamp()
        if not self.path.exists():
            return []
        lines = ((f"{self.path}:{n}", line) for n, line in read_lines(self.path) if line.strip())
        return [self._parse(parse_record(line, where), where) for where, line in lines]

    def _parse(self, record: Any, where: str) -> Annotation:
        answer = self.kind.parse(record, where)
        if others := sorted((record.keys() & ANSWER_KEYS) - self.kind.fields):
            raise ValueError(f"{where}: has {others[0]!r}, which boustro label does not write; choose another --out")
        return answer

    def read_beside(self) -> SessionState:
        """Return the labels and the skipped sentences; `ValueError` where the file is damaged."""
        if not self.beside_path.exists():
            return SessionState()
        record = read_json(self.beside_path)
        labels, skipped = (record.get(name) if isinstance(record, dict) else None for name in ("labels", "skipped"))
        groups = record.get("groups", []) if isinstance(record, dict) else None
        pairs = groups if isinstance(groups, list) else [None]
        told = [pair if isinstance(pair, list) and len(pair) == 2 else ["", None] for pair in pairs]
        for names in (labels, skipped, [label for label, _ in told], *(names for _, names in told)):
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{self.beside_path}: damaged; remove it (the answers are in {self.path.name})")
        exported = str(record.get("exported") or "")
        self._beside = SessionState([check_label(name) for name in labels or ()], list(skipped or ()), told, exported)
        return self._beside

    def write(self, answers: Sequence[Annotation]) -> None:
        """Replace the file; when this returns, it is on the disk.

        `ValueError` where another program has changed it since it was read or written: its lines would be lost.
        """
        if self._stamp() not in (self._known, None):
            raise ValueError(f"{self.path} was changed by another program; end this session, and start it again")
        write_file(self.path, "".join(answer.line for answer in answers))
        self._known = self._stamp()

    def _stamp(self) -> tuple[int, int] | None:
        """Return the size of the file and when it was written; `None` where there is none."""
        if not self.path.exists():
            return None
        facts = self.path.stat()
        return facts.st_size, facts.st_mtime_ns

    def write_beside(self, beside: SessionState) -> None:
        """Replace the other file, but for what it says of the CoNLL file."""
        beside = replace(beside, exported=beside.exported or self._beside.exported)
        write_file(self.beside_path, json.dumps(asdict(beside), indent=1) + "\n")
        self._beside = beside

    def export_conll(self, answers: Sequence[Annotation]) -> tuple[Path, list[Note]]:
        """Write CoNLL columns beside the file; returns where, and the overlapping entities that they cannot hold.

        A file of another origin is kept: labelled.conll, else labelled-2.conll, … Raises `ValueError` for a word that
        columns cannot hold.
        """
        names = (self.path.with_name(f"{self.path.stem}{f'-{n}' * (n > 1)}.conll") for n in count(1))
        path = next(candidate for candidate in names if not candidate.exists() or self._has_written(candidate))
        notes = []
        for answer in answers:
            flat = flatten_entities(answer.entities)
            notes += [Note("overlapping entities left out", answer.sentence.where)] * (len(answer.entities) - len(flat))
        sentences = [answer.labelled() for answer in answers]
        write_file(path, format_conll((s.words, s.tags or ()) for s in sentences))
        self.write_beside(replace(self._beside, exported=hash_file(path)))
        return path, notes

    def _has_written(self, path: Path) -> bool:
        return path.is_file() and hash_file(path) == self._beside.exported


def check_label(name: str, where: str = "") -> str:
    """A label as it can be written in every format; `ValueError` for another one."""
    bare = name.strip()
    if not bare or len(bare) > LONGEST_LABEL or bare == "O" or not bare.isprintable():
        raise ValueError(f"{where}{name!r} is no label: it has 1 to {LONGEST_LABEL} printable characters, and is not O")
    return bare


LEARNS = "boustro.apps.label.incremental"
POOLED = lazy(f"{LEARNS}:pool_texts")


@dataclass(frozen=True, kw_only=True)
class LabelMode:
    """Kind of answer that a person gives on the page, by what the heads of a task learn:

        tags, spans    entities in sentences                  `SPANS`
        class          a label of a whole text, or several    `TOPIC`, `TOPICS`

    A task whose heads learn something else has no page. The session, the page and what runs beside them are the same
    for all.
    """

    live: Callable[..., Any]
    """What learns from every answer at once; it is imported, and torch with it, when it is made."""
    answer: type[Annotation] = Annotation
    """The form of answers in the file."""
    vectors: Callable[[Any], Any] = lambda vectors: vectors
    """From vectors of words to those of what has a score of its own."""
    whole: bool = False
    """Whether a text has labels, and not its words."""
    several: bool = True
    """Whether there may be any number of labels; else there is one."""
    metric: str = "F1"
    """What the curve shows."""

    @property
    def read(self) -> Callable[..., list[TextToLabel]]:
        """Reads a file of texts: `read_whole`, or `read_to_label`."""
        return read_whole if self.whole else read_to_label

    def examples(self, path: Path, reading: DataOptions) -> tuple[Annotation, ...]:
        """Labelled sentences or texts as answers; `ValueError` where they have no labels."""
        texts = self.read(path, "auto", reading)
        if any(text.gold is None for text in texts):
            raise ValueError(f"{path}: --train needs labelled sentences; these have no labels")
        return tuple(self.answer.of(text, text.gold or (), "") for text in texts)

    def entities(self, given: Iterable[Any], size: int, labels: Sequence[str], nested: bool) -> tuple[Entity, ...]:
        """Return entities, or dicts with start, end and label, of a text of `size` words as they are kept; `ValueError`
        for those that cannot be."""
        entities = set()
        for item in given:
            one = item if isinstance(item, Entity) else Entity(item["label"], item["start"], item["end"])
            if not 0 <= one.start < one.end <= size:
                raise ValueError(f"the entity {one.label} [{one.start}, {one.end}) is outside the {size} words")
            if one.label not in labels:
                raise ValueError(f"there is no label {one.label!r}; add it first")
            entities.add(Entity(one.label, one.start, one.end))
        if self.whole:
            if any((e.start, e.end) != (0, size) for e in entities):
                raise ValueError("labels are of the whole text here, and not of some words")
            if not self.several and len(entities) != 1:
                rest = ", and not several" if entities else ", or skip it"
                raise ValueError(f"choose one label for this text{rest}")
        elif not nested and len(flatten_entities(entities)) < len(entities):
            raise ValueError("entities overlap, which only a session with --head span allows")
        return tuple(sorted(entities))


SPANS = LabelMode(live=lazy(f"{LEARNS}:LiveTagger"))
TOPIC = LabelMode(
    answer=TopicAnswer,
    live=lazy(f"{LEARNS}:LiveTopics"),
    vectors=POOLED,
    whole=True,
    several=False,
    metric="accuracy",
)
TOPICS = LabelMode(answer=TopicSetAnswer, live=lazy(f"{LEARNS}:LiveTopicSets"), vectors=POOLED, whole=True)
MANNERS: dict[str, tuple[LabelMode, LabelMode]] = {
    "tags": (SPANS, SPANS),
    "spans": (SPANS, SPANS),
    "class": (TOPIC, TOPICS),
}
"""By what heads learn: with one label, and with several."""


def _learned(task: str) -> str:
    return head_kind(TASKS[task].config.default_head).labelling


def held_task(out: Path) -> tuple[str | None, bool]:
    """Return the task of the answers that a file holds already, `None` where it has none yet, and whether a text has
    several labels.

    Raises `ValueError`, with what it is, for a file that holds something else.
    """
    lines = read_lines(out) if out.is_file() else []
    number, first = next(((number, line) for number, line in lines if line.strip()), (0, "null"))
    record = parse_record(first, where := f"{out}:{number}")
    if record is None:
        return None, False
    kinds = {"entities": "tags", "label": "class", "labels": "class"}
    learned = next((kind for key, kind in kinds.items() if isinstance(record, dict) and key in record), None)
    if learned is None or "source" not in record:
        what = f"an object with {', '.join(map(str, record))}" if isinstance(record, dict) else shorten(record)
        raise ValueError(f"{where}: {what}: {NO_ANSWER}")
    task = next(name for name in TASKS if MANNERS.get(_learned(name)) == MANNERS[learned])
    return task, "labels" in record


def manner_of(task: str, several: bool, out: Path) -> LabelMode:
    """Return the mode of a task, and of the answers that are in the file already.

    Raises `ValueError` for a task that has no page, and where the file holds answers of another one, `OptionError` for
    several labels of one that has no texts.
    """
    held, many_held = held_task(out)
    pages = {name: MANNERS[learned] for name in TASKS if (learned := _learned(name)) in MANNERS}
    one, many = choose(task, pages, "task")
    if several and one is many:
        raise OptionError("--several is for labels of whole texts; remove it")
    if held is not None and MANNERS[_learned(held)] != pages[task]:
        raise ValueError(f"{out} holds answers of --task {held}, and not of --task {task}; choose another --out")
    return many if several or many_held else one
