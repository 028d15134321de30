"""The file of answers: JSON lines that `boustro fit` reads, complete on the disk after every answer.

    {"words": ["Ada", "left"], "spaces": [true, true], "entities": [{"start": 0, "end": 1, "label": "PER"}],
     "note": "", "source": "news.txt:7"}

Entities are over words, half-open. The whole file is written anew beside itself and renamed, so that after kill -9 or
a full disk it is as it was before the answer or after it. Beside it lies what a training set has no place for: labels
without an entity so far, and skipped sentences (`labelled.jsonl.session.json`). One session at a time has both.
"""

import contextlib
import errno
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self

from boustro.locks import lock
from boustro.output import as_json
from boustro.store import hash_file, read_json, write_file
from boustro.tasks.data.conll import format_conll
from boustro.tasks.data.offsets import read_spans
from boustro.tasks.data.reading import Note
from boustro.tasks.data.schemes import entities_to_bio, flatten_entities
from boustro.text.documents import read_lines
from boustro.text.rows import parse_record
from boustro.types import Entity, Sentence

LONGEST_LABEL = 60
NO_ANSWER = "this is not an answer that boustro label wrote; choose another --out, or give the file to --train"


@dataclass(frozen=True)
class Answer:
    """A sentence as a person labelled it."""

    sentence: Sentence
    entities: tuple[Entity, ...]
    note: str = ""
    fields: ClassVar[frozenset[str]] = frozenset({"words", "spaces", "entities", "note", "source"})
    """Of a record."""

    @classmethod
    def of(cls, text: Any, entities: tuple[Entity, ...], note: str) -> Self:
        """The answer for a `texts.Text`."""
        return cls(text.sentence, entities, note)

    @classmethod
    def parse(cls, record: Any, where: str) -> Self:
        """The answer of a record of the file; `ValueError`, with the place, for what is none."""
        words = record.get("words") if isinstance(record, dict) and "source" in record else None
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise ValueError(f"{where}: {NO_ANSWER}")
        spaces = record.get("spaces")
        if spaces is not None and (not isinstance(spaces, list) or len(spaces) != len(words)):
            raise ValueError(f"{where}: spaces must be a list of {len(words)} true or false, one per word")
        entities = read_spans(record.get("entities"), len(words), where)
        for entity in entities:
            check_label(entity.label, f"{where}: ")
        sentence = Sentence(
            tuple(words), spaces=None if spaces is None else tuple(map(bool, spaces)), where=str(record["source"])
        )
        return cls(sentence, tuple(sorted(entities)), str(record.get("note") or ""))

    def to_dict(self) -> dict[str, Any]:
        """A record of the file."""
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
        return f"{as_json(self.to_dict())}\n"

    def labelled(self) -> Sentence:
        """For training: BIO tags of the outermost entities, and all of them where some overlap."""
        flat = flatten_entities(self.entities)
        hidden = None if len(flat) == len(self.entities) else tuple(sorted(self.entities))
        tags = entities_to_bio(flat, len(self.sentence))
        return replace(self.sentence, tags=tags, entities=hidden)


@dataclass(slots=True)
class Beside:
    """What is not in the file of answers."""

    labels: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """`Text.key` of each."""
    exported: str = ""
    """SHA-256 of the CoNLL file that was written last, which may be replaced."""


class AnswerFile:
    """The two files; hold `open` around their use."""

    def __init__(self, path: Path, kind: type[Answer] = Answer) -> None:
        """`kind` is the form of its answers."""
        self.path, self.kind = path, kind
        self.beside_path = path.with_name(f"{path.name}.session.json")
        self._known: tuple[int, int] | None = None
        self._beside = Beside()

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

    def read(self) -> list[Answer]:
        """The answers so far; none where there is no file. `ValueError` with file:line for what is no answer."""
        self._known = self._stamp()
        if not self.path.exists():
            return []
        lines = ((f"{self.path}:{n}", line) for n, line in read_lines(self.path) if line.strip())
        return [self._parse(parse_record(line, where), where) for where, line in lines]

    def _parse(self, record: Any, where: str) -> Answer:
        answer = self.kind.parse(record, where)
        if others := sorted(record.keys() - self.kind.fields):
            raise ValueError(f"{where}: has {others[0]!r}, which boustro label does not write; choose another --out")
        return answer

    def read_beside(self) -> Beside:
        """The labels and the skipped sentences; `ValueError` where the file is damaged."""
        if not self.beside_path.exists():
            return Beside()
        found = read_json(self.beside_path)
        labels, skipped = (found.get(name) if isinstance(found, dict) else None for name in ("labels", "skipped"))
        for names in (labels, skipped):
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{self.beside_path}: damaged; remove it (the answers are in {self.path.name})")
        exported = str(found.get("exported") or "")
        self._beside = Beside([check_label(name) for name in labels or ()], list(skipped or ()), exported)
        return self._beside

    def write(self, answers: Sequence[Answer]) -> None:
        """Replace the file; when this returns, it is on the disk.

        `ValueError` where another program has changed it since it was read or written: its lines would be lost.
        """
        if self._stamp() not in (self._known, None):
            raise ValueError(f"{self.path} was changed by another program; end this session, and start it again")
        write_file(self.path, "".join(answer.line for answer in answers))
        self._known = self._stamp()

    def _stamp(self) -> tuple[int, int] | None:
        """The size of the file and when it was written; `None` where there is none."""
        if not self.path.exists():
            return None
        found = self.path.stat()
        return found.st_size, found.st_mtime_ns

    def write_beside(self, beside: Beside) -> None:
        """Replace the other file, but for what it says of the CoNLL file."""
        beside = replace(beside, exported=beside.exported or self._beside.exported)
        write_file(self.beside_path, json.dumps(asdict(beside), indent=1) + "\n")
        self._beside = beside

    def export_conll(self, answers: Sequence[Answer]) -> tuple[Path, list[Note]]:
        """Write CoNLL columns beside the file; returns where, and the overlapping entities that they cannot hold.

        A file of another origin is kept: labelled.conll, else labelled-2.conll, … Raises `ValueError` for a word that
        columns cannot hold.
        """
        names = (self.path.with_name(f"{self.path.stem}{f'-{n}' * (n > 1)}.conll") for n in count(1))
        path = next(own for own in names if not own.exists() or self._has_written(own))
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
