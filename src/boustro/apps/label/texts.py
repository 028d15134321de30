"""The sentences to be labelled: from plain text, JSON lines or CoNLL columns; labels in them are kept aside as gold.

    Ada left. It rained.                       text: a line is a document
    {"text": "Ada left."}                      JSON lines: also with entities; or words, with tags or entities
    Ada B-PER                                  CoNLL columns or CoNLL-U: words and gold tags

Sentences of one text follow each other and name it as their document, as do those of a CoNLL document and JSON lines
with an equal `document`. What a file is, is told by its name, and else by its first lines: lines with the same number
of columns of which the last is a tag are CoNLL.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from boustro.apps.label.topics import gold_labels
from boustro.choose import choose
from boustro.encoders.reading import group_numbers
from boustro.errors import shorten
from boustro.given import tidy_words
from boustro.metrics.spans import is_span_tag
from boustro.output import print_notices
from boustro.store import fingerprint
from boustro.tasks.data import load_data, sniff
from boustro.tasks.data.conllu import read_conllu
from boustro.tasks.data.reading import DataOptions, missing_file
from boustro.tasks.data.records import SPAN_KEYS, TAG_KEYS, TEXT_KEY, UNLABELLED, WORD_KEYS
from boustro.tasks.data.schemes import WHOLE_WORDS, gold_entities
from boustro.tasks.data.spellings import ALL_LETTERS, respell
from boustro.tasks.data.texts import TEXT_KEYS, read_texts, suits_labels, whole_text
from boustro.text.documents import OPENERS, read_lines
from boustro.text.rows import begins_rows, records_of
from boustro.text.words import join_words, split_text
from boustro.types import Entity, Sentence

Form = Literal["auto", "text", "jsonl", "conll"]
FORMS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".txt": "auto"}
FORMS |= dict.fromkeys((".conll", ".conllu", ".conllup", ".iob", ".iob2", ".bio", ".tsv"), "conll")
LOOKED_AT = 200  # lines


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence to label, or a whole text, with `where` as file:line, and its gold entities over words where the file
    has them; `text` is a whole text as it is written."""

    sentence: Sentence
    gold: tuple[Entity, ...] | None = None
    text: str = ""

    @property
    def key(self) -> str:
        """A fingerprint of its words, and its place."""
        return f"{fingerprint(self.sentence.words)} {self.sentence.where}"


def read_to_label(path: Path, form: Form, options: DataOptions) -> list[Text]:
    """All sentences of a file that have a word; what was repaired is printed on standard error.

    Raises `FileNotFoundError`, and `ValueError` with file:line for what cannot be read, and for a file without words.
    """
    if not path.is_file():
        raise missing_file(path, "texts to label are expected")
    lines = list(read_lines(path))
    read = choose(form if form != "auto" else _form(path, lines), READERS, "form")
    found = [_refuse_half_characters(text) for text in read(path, lines, options)]
    if not found:
        raise ValueError(f"{path}: there is no text in this file, so there is nothing to label")
    return [*_numbered(_without_lone(found))]


def read_whole(path: Path, form: Form, sentences: bool = False) -> list[Text]:
    """All texts of a file that have a word, each as a whole, or their sentences, each as a text of its own.

    A line of text, or a record of JSON lines with a text, is one. Raises as `read_to_label`, and `ValueError` for
    CoNLL.
    """
    if not path.is_file():
        raise missing_file(path, "texts to label are expected")
    lines = list(read_lines(path))
    read = form if form != "auto" else _form(path, lines)
    if read == "conll":
        raise ValueError(
            f"{path}: whole texts are lines of text or JSON lines with a text, and these are CoNLL columns"
        )
    if read == "jsonl":
        records = [(f"{path}:{number}", record) for number, record in records_of(path, lines)]
    else:
        records = [(f"{path}:{number}", line) for number, line in lines]
    found = [text for where, record in records for text in _whole(record, where, sentences) if len(text.sentence)]
    if not found:
        raise ValueError(f"{path}: there is no text in this file, so there is nothing to label")
    return [*_numbered(map(_refuse_half_characters, found))]


def holds_documents(path: Path, form: Form) -> bool:
    """Whether `boustro fit --documents` can read the file: lines of text, or JSON lines with a text."""
    lines = list(read_lines(path))
    read = form if form != "auto" else _form(path, lines)
    _, first = next(iter(records_of(path, lines)), (0, None)) if read == "jsonl" else (0, None)
    return read == "text" or (isinstance(first, dict) and isinstance(first.get(TEXT_KEY), str))


def _whole(record: Any, where: str, sentences: bool) -> Iterator[Text]:
    given = record if isinstance(record, dict) else {TEXT_KEY: record}
    text = next((given[key] for key in TEXT_KEYS if isinstance(given.get(key), str)), None)
    if text is None:
        raise ValueError(f"{where}: no {TEXT_KEY} in {shorten(record)}")
    if sentences:
        for sentence in _sentences(text, where):
            yield Text(replace(sentence, document=""), None, join_words(sentence.words, sentence.spaces))
        return
    gold = None
    if suits_labels(given) or given.get("labels") == []:
        gold = gold_labels(read_texts([given])[0])
    yield Text(replace(whole_text(text).sentence, where=where), gold, text)


def _without_lone(texts: Sequence[Text]) -> Iterator[Text]:
    """The same; a document of one sentence has no name, as there is nothing to read around it."""
    for numbers in group_numbers([text.sentence for text in texts], "document"):
        for text in (texts[n] for n in numbers):
            yield text if len(numbers) > 1 else replace(text, sentence=replace(text.sentence, document=""))


def _numbered(texts: Iterable[Text]) -> Iterator[Text]:
    """The same; of equal sentences in one line, from the second on, with a number behind their place."""
    seen = Counter[tuple[str, tuple[str, ...]]]()
    for text in texts:
        place = text.sentence.where, text.sentence.words
        seen[place] += 1
        own = f"{place[0]} ({seen[place]})"
        yield text if seen[place] == 1 else replace(text, sentence=replace(text.sentence, where=own))


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


def _from_text(path: Path, lines: Sequence[tuple[int, str]], options: DataOptions) -> Iterator[Text]:
    for number, line in lines:
        yield from map(Text, _sentences(line, f"{path}:{number}"))


def _from_conll(path: Path, lines: Sequence[tuple[int, str]], options: DataOptions) -> Iterator[Text]:
    yield from _labelled(path, options)


def _from_jsonl(path: Path, lines: Sequence[tuple[int, str]], options: DataOptions) -> Iterator[Text]:
    records = list(records_of(path, lines))
    keys = {*TAG_KEYS, *SPAN_KEYS} if options.tag_column is None else {str(options.tag_column)}
    if records and all(isinstance(record, dict) and keys & record.keys() for _, record in records):
        yield from _labelled(path, options)
        return
    for number, record in records:
        yield from map(Text, _unlabelled(record, f"{path}:{number}"))


def _unlabelled(record: Any, where: str) -> Iterator[Sentence]:
    """The sentences of a record: a text, or an object with a text or with words."""
    given = record if isinstance(record, dict) else {TEXT_KEY: record}
    document = "" if given.get("document") is None else str(given["document"])
    words = next((given[key] for key in WORD_KEYS if isinstance(given.get(key), list)), None)
    if words is not None:
        words = tidy_words(words, f"{where}, word")
        yield from [Sentence(words, document=document, where=where)] if words else []
    elif isinstance(text := given.get(TEXT_KEY), str):
        yield from _sentences(text, where, document)
    else:
        raise ValueError(f"{where}: no {TEXT_KEY} and no words in {shorten(record)}")


def _sentences(text: str, where: str, document: str = "") -> Iterator[Sentence]:
    """Those of a text, which is their document unless that is named."""
    return (replace(placed.sentence, where=where) for placed in split_text(text, document or where))


def _refuse_half_characters(text: Text) -> Text:
    """JSON can contain half of a surrogate pair, which no file can hold."""
    for word in text.sentence.words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ValueError(f"{text.sentence.where}: {shorten(word)} contains half a character")
    return text


def _labelled(path: Path, options: DataOptions) -> Iterator[Text]:
    data = load_data(path, options)
    counts = {what: count for what, count in data.counts().items() if what != UNLABELLED}  # these are to be labelled
    print_notices({f"{what} ({path}; boustro check lists them)": n for what, n in counts.items()})
    if data.scheme in WHOLE_WORDS:
        raise ValueError(f"{path}: its tags label every word, and not entities; with --scheme io they are types")
    for sentence in data.sentences:
        if sentence.words:
            gold = gold_entities(sentence) if sentence.is_labelled else None
            yield Text(replace(sentence, tags=None, entities=None), gold)


READERS = {"text": _from_text, "jsonl": _from_jsonl, "conll": _from_conll}
