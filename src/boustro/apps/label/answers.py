"""What is labelled, and the file of answers: JSON lines that `boustro fit` reads, complete after every answer.

    Ada left. It rained.                       texts: a line is a text
    {"text": "Ada left."}                      JSON lines, rows of a table: also with entities; or words with tags
    Ada B-PER                                  CoNLL columns or CoNLL-U: words and gold tags

    {"text": "Ada left.", "entities": [{"start": 0, "end": 3, "label": "PER"}], "note": "",
     "source": "news.txt:7"}                                                                   an answer: entities
    {"text": "Where is my parcel?", "label": "delivery", "note": "", "source": "mail.txt:7"}   one label of a text
    {"text": "Late, and broken.", "labels": ["delivery", "damage"], …}                         several, or none

What is labelled is a whole text, or on request a sentence of it; CoNLL has sentences. In a file the entities of a text
are over its characters, those of words that have no text over words. In memory all are over words, half-open; a label
of a whole text is one that covers all of its words (`tasks.units`), so all else treats both alike. Sentences of one
text follow each other and name it as their document, as do those of a CoNLL document and JSON lines with an equal
`document`. What a file is, is told by its name, and else by its first lines: lines with the same number of columns of
which the last is a tag are CoNLL. Labels in it are kept aside as gold.

The file of answers is written anew beside itself and renamed, so that after kill -9 or a full disk it is as it was
before the answer or after it. Beside it lies what a training set has no place for: labels without an entity so far, and
skipped sentences (`labelled.jsonl.session.json`). One session at a time has both.
"""

import contextlib
import errno
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate, count, groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from boustro.encoders.reading import group_numbers
from boustro.errors import shorten
from boustro.given import tidy_words
from boustro.locks import lock
from boustro.metrics.spans import is_span_tag
from boustro.output import as_json, print_notices
from boustro.store import fingerprint, hash_file, read_json, write_file
from boustro.tasks.data import load_data, read_conllu, sniff
from boustro.tasks.data.conll import format_conll
from boustro.tasks.data.named import under_names
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, Note, missing_file
from boustro.tasks.data.records import SPAN_KEYS, TAG_KEYS, TEXT_KEY, UNLABELLED, WORD_KEYS
from boustro.tasks.data.schemes import (
    ALL_LETTERS,
    WHOLE_WORDS,
    entities_to_bio,
    flatten_entities,
    gold_entities,
    respell,
)
from boustro.tasks.data.texts import TEXT_KEYS, are_labels, is_label, read_texts, suits_labels, whole_text
from boustro.tasks.data.units import parse_spans, read_spans, to_words
from boustro.text.documents import OPENERS, read_lines
from boustro.text.rows import begins_rows, file_ending, parse_record, records_of
from boustro.text.tables import columns_of, is_table, read_table
from boustro.text.words import apart, split_text
from boustro.types import Entity, Sentence, label_set

LONGEST_LABEL = 60
NO_ANSWER = "this is not an answer that boustro label wrote; choose another --out, or give the file to --train"


@dataclass(frozen=True)
class Answer:
    """A text or a sentence as a person labelled it."""

    sentence: Sentence
    entities: tuple[Entity, ...]
    note: str = ""
    text: str = ""
    """As it is written; empty for words of which that is not known."""
    fields: ClassVar[frozenset[str]] = frozenset({"text", "words", "spaces", "entities", "note", "source"})
    """Of a record."""

    @classmethod
    def of(cls, text: Any, entities: tuple[Entity, ...], note: str) -> Self:
        """The answer for a `texts.Text`."""
        return cls(text.sentence, entities, note, text.text)

    @classmethod
    def parse(cls, record: Any, where: str) -> Self:
        """The answer of a record of the file; `ValueError`, with the place, for what is none."""
        if isinstance(record, dict) and "source" in record and isinstance(text := record.get("text"), str):
            entities = tuple(map(_checked(where), _over_words(record.get("entities"), text, where)))
            return cls(_whole_sentence(text, str(record["source"])), entities, str(record.get("note") or ""), text)
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
        return cls(sentence, tuple(sorted(entities)), str(record.get("note") or ""))

    def to_dict(self) -> dict[str, Any]:
        """A record of the file."""
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
        return f"{as_json(self.to_dict())}\n"

    def labelled(self) -> Sentence:
        """For training: BIO tags of the outermost entities, and all of them where some overlap."""
        flat = flatten_entities(self.entities)
        hidden = None if len(flat) == len(self.entities) else tuple(sorted(self.entities))
        tags = entities_to_bio(flat, len(self.sentence))
        return replace(self.sentence, tags=tags, entities=hidden)


@dataclass(frozen=True)
class TopicAnswer(Answer):
    """A text with the one label that a person gave it."""

    fields = frozenset({"text", "label", "labels", "note", "source"})

    @classmethod
    def parse(cls, record: Any, where: str) -> Self:
        text = record.get("text") if isinstance(record, Mapping) and "source" in record else None
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{where}: {NO_ANSWER}")
        sentence = _whole_sentence(text, str(record["source"]))
        labels = [check_label(name, f"{where}: ") for name in cls._labels(record, where)]
        return cls(sentence, over(sentence, labels), str(record.get("note") or ""), text)

    @staticmethod
    def _labels(record: Mapping[str, Any], where: str) -> list[str]:
        if not is_label(record.get("label")):
            raise ValueError(f"{where}: no label; a text that has several or none is labelled with --several")
        return [str(record["label"])]

    @property
    def names(self) -> list[str]:
        """Its labels."""
        return sorted(entity.label for entity in self.entities)

    def to_dict(self) -> dict[str, Any]:
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

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "labels": self.names, "note": self.note, "source": self.sentence.where}

    def labelled(self) -> Sentence:
        return replace(self.sentence, labels=tuple(self.names))


def _whole_sentence(text: str, where: str) -> Sentence:
    return replace(whole_text(text).sentence, where=where)


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
    """An entity whose label can be one."""
    return lambda entity: replace(entity, label=check_label(entity.label, f"{where}: "))


def over(sentence: Sentence, labels: Iterable[str]) -> tuple[Entity, ...]:
    """Labels of a whole text as entities over its words."""
    return tuple(Entity(label, 0, len(sentence)) for label in sorted(set(labels)))


def gold_labels(sentence: Sentence) -> tuple[Entity, ...] | None:
    """The same of the labels that a text has in a file; `None` where it has none."""
    return over(sentence, label_set(sentence)) if sentence.is_labelled else None


@dataclass(slots=True)
class Beside:
    """What is not in the file of answers."""

    labels: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """`Text.key` of each."""
    groups: list[list[Any]] = field(default_factory=list)
    """What was told of groups of names: a label and names."""
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
        record = read_json(self.beside_path)
        labels, skipped = (record.get(name) if isinstance(record, dict) else None for name in ("labels", "skipped"))
        groups = record.get("groups", []) if isinstance(record, dict) else None
        pairs = groups if isinstance(groups, list) else [None]
        told = [pair if isinstance(pair, list) and len(pair) == 2 else ["", None] for pair in pairs]
        for names in (labels, skipped, [label for label, _ in told], *(names for _, names in told)):
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{self.beside_path}: damaged; remove it (the answers are in {self.path.name})")
        exported = str(record.get("exported") or "")
        self._beside = Beside([check_label(name) for name in labels or ()], list(skipped or ()), told, exported)
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
        facts = self.path.stat()
        return facts.st_size, facts.st_mtime_ns

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


Form = Literal["auto", "text", "jsonl", "conll"]
FORMS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".txt": "auto"}
FORMS |= dict.fromkeys((".conll", ".conllu", ".conllup", ".iob", ".iob2", ".bio", ".tsv"), "conll")
LOOKED_AT = 200  # lines


@dataclass(frozen=True, slots=True)
class Text:
    """A whole text to label, or a sentence, with `where` as file:line, and its gold entities over words where the file
    has them; `text` is how it is written, where that is known."""

    sentence: Sentence
    gold: tuple[Entity, ...] | None = None
    text: str = ""

    @property
    def key(self) -> str:
        """A fingerprint of its words, and its place."""
        return f"{fingerprint(self.sentence.words)} {self.sentence.where}"

    @property
    def gaps(self) -> list[str]:
        """What stands before each word."""
        if not self.text:
            return [" " * space for space in self.sentence.spaces or apart(self.sentence.words)]
        places = whole_text(self.text).places
        return [self.text[end:start] for (_, end), (start, _) in pairwise(((0, 0), *places))]


def read_to_label(path: Path, form: Form, options: DataOptions, sentences: bool = False) -> list[Text]:
    """All texts of a file that have a word, or their sentences; what was repaired is printed on standard error.

    Raises `FileNotFoundError`, and `ValueError` with file:line for what cannot be read, and for a file without words.
    """
    kind, records = _open(path, form, options)
    keys = {*TAG_KEYS, *SPAN_KEYS} if options.tag_column is None else {str(options.tag_column)}
    labelled = kind == "json" and bool(records) and all(isinstance(r, dict) and keys & r.keys() for _, r in records)
    if kind == "conll" or labelled:
        given = {} if sentences else {where: _text_of(record, options) for where, record in records}
        texts = _labelled(path, options, given)
    else:
        texts = (text for where, record in records for text in _unlabelled(record, where, sentences))
    return [*_numbered(_without_lone(_some([_refuse_half_characters(text) for text in texts], path), not sentences))]


def read_whole(path: Path, form: Form, options: DataOptions = DEFAULT_OPTIONS, sentences: bool = False) -> list[Text]:
    """All texts of a file that have a word, each as a whole, or their sentences, each as a text of its own.

    A line of text, a record of JSON lines with a text, or a row of a table is one. Raises as `read_to_label`, and
    `ValueError` for CoNLL.
    """
    kind, records = _open(path, form, options)
    if kind == "conll":
        raise ValueError(
            f"{path}: whole texts are lines of text or JSON lines with a text, and these are CoNLL columns"
        )
    texts = [t for where, record in records for t in _whole(record, where, options, sentences) if len(t.sentence)]
    return [*_numbered(map(_refuse_half_characters, _some(texts, path)))]


def holds_documents(path: Path, form: Form, options: DataOptions) -> bool:
    """Whether `boustro fit --documents` can read the file: lines of text, or JSON lines with a text."""
    kind, records = _open(path, form, options)
    _, first = next(iter(records), ("", None))
    return kind == "text" or (kind == "json" and isinstance(first, dict) and isinstance(first.get(TEXT_KEY), str))


def _open(path: Path, form: Form, options: DataOptions) -> tuple[str, list[tuple[str, Any]]]:
    """The form of a file, and (place, record or line) of all that it holds, the text under its own key."""
    if not path.is_file():
        raise missing_file(path, "texts to label are expected")
    if form == "auto" and _is_table(path, options):
        notes: list[Note] = []
        rows = list(read_table(path, options.delimiter, notes))
        print_notices(Counter(note.what for note in notes))
        named = under_names(rows, options, TEXT_KEYS[:1], "label")
        columns = [*next((row for _, row in rows), {})]
        if named and not any(key in named[0][1] for key in (*TEXT_KEYS, *WORD_KEYS)):
            advice = f"name the column of the texts, such as --text-column {columns[-1]}"
            raise ValueError(f"{path}: no column {TEXT_KEY!r} (found: {', '.join(columns)}); {advice}")
        return "table", [(where, _plain(record)) for where, record in named]
    lines = list(read_lines(path))
    kind = _form(path, lines) if form == "auto" else form
    if kind == "jsonl":
        records = [(f"{path}:{number}", record) for number, record in records_of(path, lines)]
        return "json", under_names(records, options, TEXT_KEYS[:1], "label") if options.text_column else records
    return kind, [(f"{path}:{number}", line) for number, line in lines]


def _is_table(path: Path, options: DataOptions) -> bool:
    """Whether the columns have names; a .tsv file may be CoNLL's."""
    if file_ending(path) != ".tsv":
        return is_table(path)
    return bool({*options.text_column, *TEXT_KEYS} & {*columns_of(path, options.delimiter)})


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose text may be empty, or look like a number; an empty label is none."""
    cells = {key: "" if record[key] is None else str(record[key]) for key in TEXT_KEYS if key in record}
    return {key: value for key, value in {**record, **cells}.items() if key != "label" or value not in (None, "")}


def _some(texts: list[Text], path: Path) -> list[Text]:
    if not texts:
        raise ValueError(f"{path}: there is no text in this file, so there is nothing to label")
    return texts


def _whole(record: Any, where: str, options: DataOptions, sentences: bool) -> Iterator[Text]:
    given = record if isinstance(record, dict) else {TEXT_KEY: record}
    text = next((given[key] for key in TEXT_KEYS if isinstance(given.get(key), str)), None)
    if text is None:
        raise ValueError(f"{where}: no {TEXT_KEY} in {shorten(record)}; name it with --text-column")
    if sentences:
        yield from (replace(part, sentence=replace(part.sentence, document="")) for part in _sentences(text, where))
        return
    gold = None
    if suits_labels(given) or given.get("labels") == []:
        gold = gold_labels(read_texts([given])[0])
    yield Text(_whole_sentence(text, where), gold, text)


def _without_lone(texts: Sequence[Text], whole: bool) -> Iterator[Text]:
    """The same; a document of one sentence has no name, as there is nothing to read around it; a whole text has."""
    for numbers in group_numbers([text.sentence for text in texts], "document"):
        for text in (texts[n] for n in numbers):
            yield (
                text
                if len(numbers) > 1 or (whole and text.text)
                else replace(text, sentence=replace(text.sentence, document=""))
            )


def _numbered(texts: Iterable[Text]) -> Iterator[Text]:
    """The same; of equal sentences in one line, from the second on, with a number behind their place."""
    seen = Counter[tuple[str, tuple[str, ...]]]()
    for text in texts:
        place = text.sentence.where, text.sentence.words
        seen[place] += 1
        where = f"{place[0]} ({seen[place]})"
        yield text if seen[place] == 1 else replace(text, sentence=replace(text.sentence, where=where))


def _form(path: Path, lines: Sequence[tuple[int, str]]) -> str:
    suffix = next((s.lower() for s in reversed(path.suffixes) if s not in OPENERS), "")
    named = FORMS.get(suffix, "auto")
    if named != "auto":
        return named
    full = [line for _, line in lines[:LOOKED_AT] if line.strip() and not line.startswith(("-DOCSTART-", "#"))]
    if full and (full[0].startswith("{") or begins_rows(full[0].strip())):
        return "jsonl"
    rows = [line.split("\t") if "\t" in line else line.split() for line in full]
    columns = {len(row) for row in rows}
    tags = {row[-1].strip() for row in rows}
    are_tags = all(is_span_tag(tag, ALL_LETTERS) for tag in tags) or ("O" in tags and respell(tags))
    tagged = len(columns) == 1 and min(columns) > 1 and are_tags
    return "conll" if tagged or sniff(lines) is read_conllu else "text"


def _unlabelled(record: Any, where: str, sentences: bool) -> Iterator[Text]:
    """The text of a record or a line, or the words of a record; or its sentences."""
    given = record if isinstance(record, dict) else {TEXT_KEY: record}
    document = "" if given.get("document") is None else str(given["document"])
    words = next((given[key] for key in WORD_KEYS if isinstance(given.get(key), list)), None)
    text = next((given[key] for key in TEXT_KEYS if isinstance(given.get(key), str)), None)
    if words is not None:
        words = tidy_words(words, f"{where}, word")
        yield from [Text(Sentence(words, document=document, where=where))] if words else []
    elif text is None:
        raise ValueError(f"{where}: no {TEXT_KEY} and no words in {shorten(record)}; name it with --text-column")
    elif sentences:
        yield from _sentences(text, where, document)
    elif len(whole := whole_text(text, document or where).sentence):
        yield Text(replace(whole, where=where), None, text)


def _sentences(text: str, where: str, document: str = "") -> Iterator[Text]:
    """Those of a text, which is their document unless that is named."""
    for placed in split_text(text, document or where):
        written = text[placed.places[0][0] : placed.places[-1][1]]
        yield Text(replace(placed.sentence, where=where), None, written)


def _refuse_half_characters(text: Text) -> Text:
    """JSON can contain half of a surrogate pair, which no file can hold."""
    for word in text.sentence.words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"{text.sentence.where}: {shorten(word)} contains half a character")
    return text


def _labelled(path: Path, options: DataOptions, texts: Mapping[str, str | None]) -> Iterator[Text]:
    """Sentences with their gold, or where the text of a place is given, the whole of it."""
    data = load_data(path, options)
    counts = {what: count for what, count in data.counts().items() if what != UNLABELLED}  # these are to be labelled
    print_notices({f"{what} ({path}; boustro check lists them)": n for what, n in counts.items()})
    if data.scheme in WHOLE_WORDS:
        raise ValueError(f"{path}: its tags label every word, and not entities; with --scheme io they are types")
    for (where, _), group in groupby(data.sentences, key=lambda s: (s.where, s.document)):
        sentences = [s for s in group if s.words]
        text = texts.get(where)
        if text is not None and sentences:
            words = tuple(word for s in sentences for word in s.words)
            starts = accumulate(map(len, sentences), initial=0)
            gold = [
                replace(e, start=e.start + n, end=e.end + n)
                for n, s in zip(starts, sentences, strict=False)
                for e in gold_entities(s)
            ]
            whole = whole_text(text, sentences[0].document).sentence
            if whole.words == words:
                known = all(s.is_labelled for s in sentences)
                yield Text(replace(whole, where=where), tuple(gold) if known else None, text)
                continue
        for sentence in sentences:
            gold = gold_entities(sentence) if sentence.is_labelled else None
            yield Text(replace(sentence, tags=None, entities=None), gold)


def _text_of(record: Any, options: DataOptions) -> str | None:
    """The text of a record that has no words of its own."""
    key = TEXT_KEY if options.word_column is None else str(options.word_column)
    has_words = isinstance(record, dict) and any(isinstance(record.get(name), list) for name in WORD_KEYS)
    return record[key] if isinstance(record, dict) and isinstance(record.get(key), str) and not has_words else None
