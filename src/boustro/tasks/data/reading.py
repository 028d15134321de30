"""Raw data of readers of labelled data, and the one way from there to sentences tagged in BIO.

A reader knows a format and no tag scheme: it returns `RawData`, with the tags unchanged. `label_words` detects the
scheme, converts to BIO and records each repair, so all formats follow the same rules. Whatever differs from the file is
a `Note` with its place. `data_fingerprint` is of a data set's content, wherever it is stored.
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from boustro.errors import count_of, shorten
from boustro.given import is_missing, refuse_half_characters, tidy_words
from boustro.options import Given, OptionError, Share, Where, check_options
from boustro.store import fingerprint
from boustro.tasks.data.schemes import (
    BARE,
    WHOLE_WORDS,
    Scheme,
    check_scheme,
    encode_tags,
    flatten_entities,
    invalid_tags,
    to_bio,
)
from boustro.text.columns import respell
from boustro.text.files import DataFile
from boustro.text.places import Corpus, DataPlace, missing
from boustro.text.rows import Lines as Lines
from boustro.types import Note as Note
from boustro.types import Sentence, compose

T = TypeVar("T")
PREFIX = "hf:"
"""Of the name of a data set of the Hugging Face Hub, or of a saved one."""
RESPELLED = "tags in another spelling than B-PER and O, each counted once"
REPAIRED = "tags that do not fit their neighbours, read as conlleval reads them"
PADDED = "words with white space around them, read without it"
PADDED_TAGS = "sentences with white space around tags or labels, read without it"
NOT_READ = "records with fields that this task does not read: {}"
ABOUT = re.compile(
    r"_.*|(.*_)?(u?id|hash|index|idx|number)|meta(data)?|doc(ument)?|file(name)?|source|url|title|date|time(stamp)?|"
    r"lang(uage)?|split|author|annotator|user(name)?|where|text_column",
    re.IGNORECASE,
)
"""Names of fields that say where a record is from, and nothing that could be learned."""
ANSWER_KEY, LEFT_ANSWERS = "answer", ("reject", "ignore")
ACCEPT, OFFERED = "accept", ("options", "config")
REJECTED = "records that their annotator rejected or ignored, left out"
OVERLAPPING = "entities that overlap another one; the tags contain only the outermost"


Unlabelled = Literal[False, True, "outside"]
"""True: a text that has no label yet. outside: a text that fits no label, and has the label "". Data that are learned
from never have these, and data that are judged on where the model may answer none."""

OUTSIDE_TEXTS: dict[str, Any] = {"unlabelled": "outside"}
"""The option that lets texts fit no label."""


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """How to read labelled data, where its format does not say."""

    scheme: Scheme = "auto"
    """Tag scheme; use io or labels (one label per word, no entities) for tags without a prefix."""
    delimiter: str | None = None
    """Separator of CoNLL columns, and of the cells of CSV and TSV files: tab, space (runs of spaces), comma, semicolon,
    or any text. By default what the file has."""
    word_column: int | str | None = None
    """Column of the words: a number from 0 (negative: from the end), or the name of a key or column."""
    tag_column: int | str | None = None
    """Column of the tags, as for the words; for CoNLL-U upos, xpos, deprel, feats:KEY or misc:KEY."""
    text_column: tuple[str, ...] = ()
    """Column or key of a labelled text, or the two of a pair of texts. By default text or sentence, sentence1 and
    sentence2, and so on."""
    label_column: str | None = None
    """Column or key of the label or the score of a text or a pair. By default label, labels or score."""
    unlabelled: Unlabelled = field(default=False, metadata={"option": False})
    """Whether the label of a text may be null, or its cell empty, and what such a text is."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a value outside its option's range."""
        check_options(self)


DEFAULT_OPTIONS = DataOptions()


@dataclass(frozen=True, kw_only=True)
class TrainDataOptions(DataOptions):
    """Options of training data: how it is read, what stands around the examples, and silver-labelled ones."""

    documents: tuple[Corpus, ...] = ()
    """Text in which sentences of a tagger's training set stand: text files with one document per line, or JSONL files
    and tables with a text in each row, under --text-column. What an LM reads around a sentence is then its document.
    For a classifier of texts: texts without a label, like those that will be asked."""
    weak: DataPlace | None = None
    """Examples with silver labels, which the head learns from before it learns from the training set."""
    weak_weight: Annotated[Share | None, Where("weak", Given())] = None
    """How much the loss of a silver-labelled example counts. By default 0, 0.1, 0.3 or 1, whichever is best on parts of
    the training set that were left out."""


DEFAULT_TRAIN_DATA = TrainDataOptions()


def named_columns(
    text_column: str | Sequence[str] = (), label_column: str | None = None, unlabelled: Unlabelled = False
) -> DataOptions:
    """Return the options that name the columns of labelled texts and pairs."""
    texts = (text_column,) if isinstance(text_column, str) else tuple(text_column)
    return DataOptions(text_column=texts, label_column=label_column, unlabelled=unlabelled)


COLUMN_OPTIONS = ("scheme", "delimiter", "word_column", "tag_column", "text_column", "label_column")
"""Those that say how the columns of data are read, which a trained folder keeps."""

SHOWN_COLUMN = "text_column"
"""Where an answer on the labelling page says which column its text is from."""

KEPT = "columns"
"""Where the record of a trained folder has them."""


def named_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `COLUMN_OPTIONS` that are given, as JSON holds them."""
    given = {name: options[name] for name in COLUMN_OPTIONS if options.get(name) not in (None, [])}
    return {n: list(v) if isinstance(v, tuple) else v for n, v in given.items() if v != getattr(DEFAULT_OPTIONS, n)}


def named_in(data: Any) -> dict[str, Any]:
    """Return the column that the texts of a file of answers of `boustro label` are from (`SHOWN_COLUMN`), as
    `named_of`."""
    with suppress(TypeError, ValueError, AttributeError):
        for _, line in DataFile.of(data).source.look(1) if Path(data).is_file() else ():
            column = json.loads(line).get(SHOWN_COLUMN)
            return {"text_column": [column]} if isinstance(column, str) else {}
    return {}


def refuse_tag_options(options: DataOptions) -> None:
    """`OptionError` where options are given that only data with tags have."""
    _refuse(options, ("scheme", "word_column", "tag_column"), "are for tags")


def refuse_text_options(options: DataOptions) -> None:
    """`OptionError` where options are given that only labelled texts and pairs have."""
    _refuse(options, ("text_column", "label_column"), "are for labelled texts and pairs")


def refuse_delimiter(options: DataOptions, data: Any) -> None:
    """`OptionError` where a separator is given for a file that has no columns."""
    if options.delimiter is not None:
        raise OptionError(f"--delimiter is not read with {name_of(data)}, which has no separated columns; remove it")


def _refuse(options: DataOptions, names: Sequence[str], why: str) -> None:
    if any(getattr(options, name) != getattr(DEFAULT_OPTIONS, name) for name in names):
        *flags, last = [f"--{name.replace('_', '-')}" for name in names]
        raise OptionError(f"{', '.join(flags)} and {last} {why}; remove them")


def name_of(data: Any) -> str:
    """Return what data are called in messages: their file, or a name for what is given from Python."""
    return str(data) if isinstance(data, (str, PathLike)) else "the given data"


def as_dict(record: Any, *parts: Sequence[str]) -> Any:
    """Return a tuple as the record that it stands for, where it has as many values as one of these rows of keys."""
    keys = next((keys for keys in parts if len(keys) == len(record)), ()) if isinstance(record, (list, tuple)) else ()
    return dict(zip(keys, record, strict=True)) if keys else record


def missing_file(path: Path, expected: str) -> FileNotFoundError:
    """Return the error for a file that does not exist, with the most similar name in its folder."""
    return missing(str(path), "file", expected)


class GoldFault(ValueError):
    """A label or a score that is none; its message names the column that it stands in, see `under`."""

    def __init__(self, where: str, what: str, columns: Iterable[str], value: Any, expected: str) -> None:
        self.parts = where, what, value, expected
        names = " or ".join(map(repr, columns))
        advice = f"; {'label it' if what == 'label' else 'give it one'}, or remove it" * self.is_missing
        super().__init__(f"{where}: the {what} under {names} is {shorten(value)}; expected {expected}{advice}")

    @property
    def is_missing(self) -> bool:
        """Whether nothing stands there."""
        value = self.parts[2]
        return is_missing(value) or (isinstance(value, str) and not value.strip())

    def under(self, column: str) -> "GoldFault":
        """Return the same fault of a column of another name."""
        where, what, value, expected = self.parts
        return GoldFault(where, what, (column,), value, expected)


def accepted(
    records: Iterable[tuple[T, Any]],
    notes: list[Note],
    columns: Collection[Any] = (),
    place: Callable[[T], str] = str,
) -> list[tuple[T, Any]]:
    """Records without those that their annotator rejected or ignored, as Prodigy says it under `answer`, which are
    noted; all where `answer` is one of the chosen `columns`.

    Raises `ValueError`, with the place, for half a character, and where no record is left.
    """
    kept, left = [], 0
    for number, record in records:
        refuse_half_characters(record, place(number))
        facts = record[1] if isinstance(record, (list, tuple)) and len(record) == 2 else record
        said = facts.get(ANSWER_KEY) if isinstance(facts, Mapping) and ANSWER_KEY not in columns else None
        if isinstance(said, str) and said in LEFT_ANSWERS:
            notes.append(Note(REJECTED, place(number), f"the annotator's answer is {said!r}; left out"))
            left += 1
        else:
            kept.append((number, record))
    if left and not kept:
        raise ValueError(f"{notes[-1].where}: all {left:,} {REJECTED}, so nothing is labelled")
    return kept


def with_accepted(records: Sequence[tuple[T, Any]]) -> list[tuple[T, Any]]:
    """Records of texts with the options that their annotator chose, as Prodigy says it under `accept`, as their label;
    as their labels where some have several of them or none."""
    chosen = {
        number: record[ACCEPT]
        for number, (_, record) in enumerate(records)
        if isinstance(record, Mapping) and isinstance(record.get(ACCEPT), list) and OFFERED[0] in record
    }
    several = any(len(names) != 1 for names in chosen.values())
    plain = list(records)
    for number, names in chosen.items():
        place, record = plain[number]
        rest = {name: value for name, value in record.items() if name not in (ACCEPT, *OFFERED)}
        plain[number] = place, ({"labels": names} if several else {"label": names[0]}) | rest
    return plain


def unread_fields(record: Mapping[Any, Any], reads: Collection[str]) -> list[str]:
    """Return the names of what a record says and a task does not read, but for what is about the record (`ABOUT`)."""
    rest = ((str(name), value) for name, value in record.items() if name not in reads)
    rest = ((name, value) for name, value in rest if (name, value) != (ANSWER_KEY, "accept"))
    full = (name for name, value in rest if value is not None and (not isinstance(value, Sized) or len(value)))
    return [name for name in full if not ABOUT.fullmatch(name)]


def document_of(record: Mapping[Any, Any]) -> str:
    """Return the document that a record is of; "" where it names none."""
    named = record.get("document")
    return "" if named is None else str(named)


def note_unread(given: Iterable[tuple[str, Sequence[str]]], notes: list[Note]) -> None:
    """A note for each record, with its place, of which names were not read; of one kind, which lists all names."""
    unread_names = [(where, names) for where, names in given if names]
    what = NOT_READ.format(", ".join(dict.fromkeys(name for _, names in unread_names for name in names)))
    notes += [Note(what, where, f"not read: {', '.join(names)}") for where, names in unread_names]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawData:
    """Sentences with unchanged tags, or with entities, or with neither where the data has no labels.

    `lines[i]` has the line of each word of sentence `i`; it is empty for data that is not from a file. `fallback` is
    the scheme of tags that fit no scheme, where the format names one (CoNLL-U: labels).
    """

    name: str
    form: str
    sentences: list[Sentence] = field(default_factory=list)
    lines: list[Sequence[int]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    fallback: Scheme | None = None

    def place(self, sentence: int, word: int = 0) -> str:
        """`file:line` of a word."""
        line = self.lines[sentence][word : word + 1] if self.lines else ()
        return f"{self.name}:{line[0]}" if line else f"sentence {sentence + 1} of the given data, word {word + 1}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Labelled examples of any task, and what was changed or left out. Of sentences, which are tagged in BIO (or with
    labels), also the form of the data and their original scheme."""

    examples: list[Any]
    notes: list[Note]
    name: str = ""
    form: str = ""
    scheme: Scheme | None = None

    @property
    def sentences(self) -> list[Sentence]:
        """The examples of a tagger."""
        return self.examples

    def counts(self) -> Counter[str]:
        """Return the number of notes of each kind."""
        return Counter(note.what for note in self.notes)


def warn_of(notes: Sequence[Note], name: str) -> None:
    """A warning for each kind of note, with its number and the first, for the caller of the caller."""
    for what, count in Counter(note.what for note in notes).items():
        first = next(note for note in notes if note.what == what)
        warnings.warn(f"{name}: {count_of(count, what)}; the first: {first}", stacklevel=3)


def label_words(raw: RawData, scheme: Scheme = "auto") -> Loaded:
    """Convert to BIO; sentences without labels stay as they are.

    Raises `ValueError`, with the place, for data without any labels and for tags outside every scheme.
    """
    if not raw.sentences:
        raise ValueError(f"{raw.name} has no sentences; expected words and their tags")
    if not any(sentence.is_labelled for sentence in raw.sentences):
        raise ValueError(f"{raw.name}: no sentence has labels; expected words and their tags")
    raw = _tidy(raw)
    raw = _respelled(raw) if scheme not in BARE and raw.fallback is None else raw
    tagged = [s if s.entities is None else replace(s, tags=None) for s in raw.sentences]
    try:
        chosen = check_scheme(tagged, scheme, raw.place)
    except ValueError:
        if scheme != "auto" or raw.fallback is None:
            raise
        chosen = raw.fallback
    notes, sentences = list(raw.notes), []
    for number, sentence in enumerate(raw.sentences):
        if sentence.entities is not None:
            flat = flatten_entities(sentence.entities)
            hidden = [e for e in sentence.entities if e not in flat]
            tags = encode_tags(flat, len(sentence), "bio")
            for entity in hidden if tags != sentence.tags else ():  # else they were noted when first read
                words = " ".join(sentence.words[entity.start : entity.end])
                notes.append(Note(OVERLAPPING, raw.place(number, entity.start), f"{entity.label} {words!r}"))
            sentences.append(replace(sentence, tags=tags, entities=sentence.entities if hidden else None))
        elif chosen in WHOLE_WORDS or sentence.tags is None:
            sentences.append(sentence)
        else:
            for word, detail in invalid_tags(sentence.tags, chosen):
                notes.append(Note(REPAIRED, raw.place(number, word), detail))
            sentences.append(replace(sentence, tags=to_bio(sentence.tags, chosen)))
    return Loaded(sentences, notes, raw.name, raw.form, chosen)


def _respelled(raw: RawData) -> RawData:
    """Spell tags as `B-PER`; each of another spelling is noted, where it is first."""
    tags = [sentence.tags or () if sentence.entities is None else () for sentence in raw.sentences]
    spelled = respell({tag for row in tags for tag in row})
    if not spelled:
        return raw
    places = {tag: raw.place(i, j) for i, row in reversed([*enumerate(tags)]) for j, tag in reversed([*enumerate(row)])}
    notes = [Note(RESPELLED, places[t], f"{t} is read as {new}") for t, new in spelled.items() if t != new]
    sentences = [
        replace(sentence, tags=tuple(spelled[tag] for tag in row)) if row else sentence
        for sentence, row in zip(raw.sentences, tags, strict=True)
    ]
    return replace(raw, sentences=sentences, notes=[*raw.notes, *notes])


def _tidy(raw: RawData) -> RawData:
    """Remove white space around words, tags and labels, and note it.

    Raises `ValueError`, with the place, for a blank one, and for tags and entities that do not fit the words.
    """
    sentences, notes = [], list(raw.notes)
    for number, sentence in enumerate(raw.sentences):
        where = raw.place(number) if raw.lines else f"sentence {number + 1} of {raw.name}"
        tidy = replace(sentence, words=tidy_words(sentence.words, f"{where}, word"))
        if sentence.tags is not None:
            tidy = replace(tidy, tags=tidy_words(sentence.tags, f"{where}, tag"))
        if sentence.entities is not None:
            labels = tidy_words([entity.label for entity in sentence.entities], f"{where}, the label of entity")
            pairs = zip(sentence.entities, labels, strict=True)
            tidy = replace(tidy, entities=tuple(replace(entity, label=label) for entity, label in pairs))
        _check_sentence(tidy, where)
        padded = (word for word, (a, b) in enumerate(zip(sentence.words, tidy.words, strict=True)) if a != b)
        notes += [Note(PADDED, raw.place(number, word), shorten(sentence.words[word])) for word in padded]
        if (tidy.tags, tidy.entities) != (sentence.tags, sentence.entities):
            notes.append(Note(PADDED_TAGS, where))
        sentences.append(_with_composed_labels(tidy))
    return replace(raw, sentences=sentences, notes=notes)


def _with_composed_labels(sentence: Sentence) -> Sentence:
    entities = sentence.entities and tuple(replace(e, label=compose(e.label)) for e in sentence.entities)
    return replace(sentence, tags=sentence.tags and tuple(map(compose, sentence.tags)), entities=entities)


def _check_sentence(sentence: Sentence, where: str) -> None:
    size = len(sentence)
    if sentence.entities is None and sentence.tags is not None and len(sentence.tags) != size:
        raise ValueError(f"{where}: {count_of(size, 'words')}, but {count_of(len(sentence.tags), 'tags')}")
    for e in sentence.entities or ():
        if not 0 <= e.start < e.end <= size:
            raise ValueError(
                f"{where}: the entity {e.label} [{e.start}, {e.end}) is outside the {count_of(size, 'words')}"
            )


def data_fingerprint(examples: Sequence[Any]) -> str:
    """Of sentences: words, tags, documents and, where they are known, overlapping entities, the spaces between words
    and the labels or the score of a text. Of other examples: all their fields except `where`."""
    return fingerprint([_facts(example) for example in examples])


def _facts(value: Any) -> Any:
    if isinstance(value, Sentence):
        return _sentence_facts(value)
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _facts(getattr(value, f.name)) for f in fields(value) if f.name != "where"}
    return [_facts(item) for item in value] if isinstance(value, (tuple, list)) else value


def _sentence_facts(s: Sentence) -> list[Any]:
    facts: list[Any] = [s.words, s.tags, s.document]
    if s.entities is not None:
        facts.append([(e.label, e.start, e.end) for e in s.entities])
    if s.spaces is not None:
        facts.append("".join(" " if space else "_" for space in s.spaces))
    if s.label is not None:
        facts.append({"label": s.label})
    if s.labels is not None:
        facts.append({"labels": sorted(s.labels)})
    if s.score is not None:
        facts.append({"score": s.score})
    if s.text is not None:
        facts.append({"text": s.text})
    return facts
