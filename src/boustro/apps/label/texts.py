"""Texts to label: whole texts, or the sentences of them, from every form of file.

    Ada left. It rained.                       a line of text
    {"text": "Ada left."}                      JSON lines, rows of a table: also with entities; or words with tags
    Ada B-PER                                  CoNLL columns or CoNLL-U: words and gold tags

What is labelled is a whole text, or on request a sentence of it; CoNLL has sentences. In memory all labels are entities
over words, half-open; a label of a whole text is one that covers all of its words, so all else treats both alike.
Sentences of one text follow each other and name it as their document, as do those of a CoNLL document and
JSON lines with an equal `document`. What a file is, is told by its name, and else by its first lines: lines with the
same number of columns of which the last is a tag are CoNLL. Labels in it are kept aside as gold.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any, Literal

from boustro.encoders.reading import group_numbers
from boustro.errors import shorten
from boustro.given import tidy_words
from boustro.output import print_notices
from boustro.store import fingerprint
from boustro.tasks import TASKS, TEXT_KEYS, WORD_KEYS
from boustro.tasks.data import load_data
from boustro.tasks.data.named import no_column, under_names
from boustro.tasks.data.reading import DEFAULT_OPTIONS, SHOWN_COLUMN, DataOptions, Note, missing_file
from boustro.tasks.data.records import SPAN_KEYS, TAG_KEYS, TEXT_KEY, UNLABELLED
from boustro.tasks.data.schemes import WHOLE_WORDS, gold_entities
from boustro.tasks.data.tables import find_words, rows_of_words, sentences_of
from boustro.tasks.data.texts import is_label, read_texts, whole_text
from boustro.text import files
from boustro.text.separated import cell_text
from boustro.text.tables import TableRow
from boustro.text.words import apart, join_words, split_text
from boustro.types import Entity, Sentence, label_set

TextForm = Literal["auto", "text", "jsonl", "conll"]
FILES: dict[TextForm, files.Form | None] = {"auto": None, "text": "text", "jsonl": "json", "conll": "conll"}
"""What `files` calls these forms."""
WITHOUT_WORD = "records without a word, which are not shown"


@dataclass(frozen=True, slots=True)
class TextToLabel:
    """A whole text to label, or a sentence, with `where` as file:line, and its gold entities over words where the file
    has them; `text` is how it is written, where that is known, and `columns` are the others of its row."""

    sentence: Sentence
    gold: tuple[Entity, ...] | None = None
    text: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A fingerprint of its words, and its place."""
        return f"{fingerprint(self.sentence.words)} {self.sentence.where}"

    @property
    def written(self) -> str:
        """Its text, or its words in a row."""
        return self.text or join_words(self.sentence.words, self.sentence.spaces)

    @property
    def gaps(self) -> list[str]:
        """Characters before each word."""
        if not self.text:
            return [" " * space for space in self.sentence.spaces or apart(self.sentence.words)]
        places = whole_text(self.text).places
        return [self.text[end:start] for (_, end), (start, _) in pairwise(((0, 0), *places))]


def whole_sentence(text: str, where: str) -> Sentence:
    return replace(whole_text(text).sentence, where=where)


def over(sentence: Sentence, labels: Iterable[str]) -> tuple[Entity, ...]:
    """Labels of a whole text as entities over its words."""
    return tuple(Entity(label, 0, len(sentence)) for label in sorted(set(labels)))


def gold_labels(sentence: Sentence) -> tuple[Entity, ...] | None:
    """Return the labels that a text has in a file; `None` where it has none."""
    return over(sentence, label_set(sentence)) if sentence.is_labelled else None


def read_to_label(path: Path, form: TextForm, options: DataOptions, sentences: bool = False) -> list[TextToLabel]:
    """Return all texts of a file that have a word, or their sentences; what was repaired is printed on standard error.

    Raises `FileNotFoundError`, and `ValueError` with file:line for what cannot be read, and for a file without words.
    """
    kind, records, others = _open(path, form, options)
    keys = {*TAG_KEYS, *SPAN_KEYS} if options.tag_column is None else {str(options.tag_column)}
    labelled = kind == "json" and bool(records) and all(_has_gold(record, keys, options) for _, record in records)
    if kind == "conll" or labelled:
        given = {} if sentences else {where: _text_of(record, options) for where, record in records}
        texts = _labelled(path, options, given)
    else:
        texts = _counted(records, lambda record, where: _unlabelled(record, where, sentences))
    some = _some([_with(text, others) for text in texts], path)
    return [*_numbered(_without_lone(some, not sentences))]


def read_whole(
    path: Path, form: TextForm, options: DataOptions = DEFAULT_OPTIONS, sentences: bool = False
) -> list[TextToLabel]:
    """Return all texts of a file that have a word, each as a whole, or their sentences, each as a text of its own.

    A line of text, a record of JSON lines with a text, or a row of a table is one. Raises as `read_to_label`, and
    `ValueError` for CoNLL.
    """
    _, records, others = _open(path, form, options, words=False)
    texts = [*_counted(records, lambda record, where: _whole(record, where, options, sentences))]
    return [*_numbered(_with(text, others) for text in _some(texts, path))]


def holds_documents(path: Path, form: TextForm, options: DataOptions) -> bool:
    """Return whether `boustro fit --documents` can read the file: lines of text, or rows with a text."""
    kind, records, _ = _open(path, form, options)
    _, first = next(iter(records), ("", None))
    return kind == "text" or (isinstance(first, dict) and isinstance(first.get(TEXT_KEY), str))


def find_texts(sentences: Sequence[Sentence], wanted: Sequence[tuple[tuple[str, ...], str]]) -> list[int | None]:
    """Return the numbers of the sentences with these words, each for one alone: that at this place, else the first that
    is left.

    A place is a line of a file of some name, from whatever folder the file is read.
    """
    at, left = defaultdict[Any, list[int]](list), defaultdict[Any, list[int]](list)
    for number in reversed(range(len(sentences))):
        at[sentences[number].words, Path(sentences[number].where).name].append(number)
    places = [at.get((words, Path(where).name)) for words, where in wanted]
    matches = [numbers.pop() if numbers else None for numbers in places]
    for (words, _), numbers in at.items():
        left[words] += numbers
    for remaining in left.values():
        remaining.sort(reverse=True)
    rest = ((number, left.get(words)) for number, (words, _) in zip(matches, wanted, strict=True))
    return [number if number is not None or not spare else spare.pop() for number, spare in rest]


def text_beside(sentences: Sequence[Sentence], number: int, by: int) -> str:
    """Return the text of the sentence before or after one in its document; empty where there is none."""
    sentence, place = sentences[number], number + by
    if not sentence.document or not 0 <= place < len(sentences):
        return ""
    other = sentences[place]
    return join_words(other.words, other.spaces) if other.document == sentence.document else ""


def _with(text: TextToLabel, others: Mapping[str, Mapping[str, Any]]) -> TextToLabel:
    return replace(text, columns=others[text.sentence.where]) if text.sentence.where in others else text


def _other_columns(rows: Iterable[tuple[str, Any]], options: DataOptions) -> dict[str, dict[str, Any]]:
    """Return the fields of rows beside the text or the words that are shown, by the rows' places."""
    found: dict[str, dict[str, Any]] = {}
    for where, row in rows:
        keys = options.text_column or next(((key,) for key in (*TEXT_KEYS, *WORD_KEYS) if key in row), ())
        if isinstance(row, Mapping) and keys:
            names = row.padded if isinstance(row, TableRow) else {}
            found[where] = {names.get(key, key): value for key, value in row.items() if key not in keys}
            found[where] |= {SHOWN_COLUMN: keys[0]} if options.text_column else {}
    return found


def _open(
    path: Path, form: TextForm, options: DataOptions, words: bool = True
) -> tuple[str, list[tuple[str, Any]], dict[str, dict[str, Any]]]:
    """Return the form of a file, (place, record or line) of all that it holds, the text under its own key, and what
    else its rows have."""
    if not path.is_file():
        raise missing_file(path, "texts to label are expected")
    notes: list[Note] = []
    file = files.DataFile(path)
    tabular = form == "auto" and file.form(words=words) in files.TABULAR
    if tabular and not options.text_column and (rows := rows_of_words(file, options, notes)):
        found = find_words(rows, options, tagged=False)
        if found is not None and found.tag is not None:
            return "conll", [], {}
        if found is not None:
            print_notices(Counter(note.what for note in notes))
            read = sentences_of(rows, found, str(path))
            return "table", [(s.where, {"words": [*s.words], "document": s.document}) for s in read], {}
        notes.clear()
    opened = file.open(FILES[form], options.delimiter, notes, words=words)
    if words and opened.form in files.IN_COLUMNS:
        return "conll", [], {}
    if not opened.is_table:
        records = [*opened]
        print_notices(Counter(note.what for note in notes))
        if opened.form == "text":
            return "text", records, {}
        lines = Counter(place.partition(", item ")[0] for place, _ in records)
        records = [(line if lines[line := p.partition(", item ")[0]] == 1 else p, record) for p, record in records]
        named = under_names(records, options, TEXT_KEYS[:1], "label") if options.text_column else records
        return "json", named, _other_columns(records, options)
    rows = [(where, record) for where, record in opened if not record.is_blank]
    print_notices(Counter(note.what for note in notes))
    named = under_names(rows, options, TEXT_KEYS[:1], "label")
    if named and not any(key in named[0][1] for key in (*TEXT_KEYS, *WORD_KEYS)):
        raise no_column(str(path), [TEXT_KEY], (row for _, row in rows))
    return "table", [(where, _plain(record)) for where, record in named], _other_columns(rows, options)


def _counted(
    records: Iterable[tuple[str, Any]], texts_of: Callable[[Any, str], Iterable[TextToLabel]]
) -> Iterator[TextToLabel]:
    """Yield the texts of records that have a word; a note counts the records without one, and no blank line of a
    text."""
    num_empty = 0
    for where, record in records:
        texts = [text for text in texts_of(record, where) if len(text.sentence)]
        num_empty += not texts and not isinstance(record, str)
        yield from texts
    print_notices({WITHOUT_WORD: num_empty})


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose text may be empty, or look like a number; an empty label is none."""
    cells = {key: cell_text(record[key]) for key in TEXT_KEYS if key in record}
    return {key: value for key, value in {**record, **cells}.items() if key != "label" or value not in (None, "")}


def _has_gold(record: Any, keys: set[str], options: DataOptions) -> bool:
    """Return whether it has entities or tags under one of these keys, and not the topic of its text."""
    found = [record[key] for key in keys & record.keys()] if isinstance(record, dict) else []
    return any(options.tag_column is not None or not is_label(value) for value in found)


def _some(texts: list[TextToLabel], path: Path) -> list[TextToLabel]:
    if not texts:
        raise ValueError(f"{path}: there is no text in this file, so there is nothing to label")
    return texts


def _whole(record: Any, where: str, options: DataOptions, sentences: bool) -> Iterator[TextToLabel]:
    given = record if isinstance(record, dict) else {TEXT_KEY: record}
    text = next((given[key] for key in TEXT_KEYS if isinstance(given.get(key), str)), None)
    if text is None:
        raise ValueError(f"{where}: no {TEXT_KEY} in {shorten(record)}; name it with --text-column")
    if sentences:
        yield from (replace(part, sentence=replace(part.sentence, document="")) for part in _sentences(text, where))
        return
    gold = None
    if TASKS["classify"].suits(given) or given.get("labels") == []:
        gold = gold_labels(read_texts([given])[0])
    yield TextToLabel(whole_sentence(text, where), gold, text)


def _without_lone(texts: Sequence[TextToLabel], whole: bool) -> Iterator[TextToLabel]:
    """Yield texts without the name of their document where it has one sentence, as there is nothing to read around it;
    a whole text keeps it."""
    for numbers in group_numbers([text.sentence for text in texts], "document"):
        for text in (texts[n] for n in numbers):
            yield (
                text
                if len(numbers) > 1 or (whole and text.text)
                else replace(text, sentence=replace(text.sentence, document=""))
            )


def _numbered(texts: Iterable[TextToLabel]) -> Iterator[TextToLabel]:
    """Yield texts with a number behind the place of equal sentences in one line, from the second on."""
    seen = Counter[tuple[str, tuple[str, ...]]]()
    for text in texts:
        place = text.sentence.where, text.sentence.words
        seen[place] += 1
        where = f"{place[0]} ({seen[place]})"
        yield text if seen[place] == 1 else replace(text, sentence=replace(text.sentence, where=where))


def _unlabelled(record: Any, where: str, sentences: bool) -> Iterator[TextToLabel]:
    """Yield the text of a record or a line, or the words of a record; or its sentences."""
    given = record if isinstance(record, dict) else {TEXT_KEY: record}
    document = "" if given.get("document") is None else str(given["document"])
    words = next((given[key] for key in WORD_KEYS if isinstance(given.get(key), list)), None)
    text = next((given[key] for key in TEXT_KEYS if isinstance(given.get(key), str)), None)
    if words is not None:
        words = tidy_words(words, f"{where}, word")
        yield from [TextToLabel(Sentence(words, document=document, where=where))] if words else []
    elif text is None:
        raise ValueError(f"{where}: no {TEXT_KEY} and no words in {shorten(record)}; name it with --text-column")
    elif sentences:
        yield from _sentences(text, where, document)
    elif len(whole := whole_text(text, document or where).sentence):
        yield TextToLabel(replace(whole, where=where), None, text)


def _sentences(text: str, where: str, document: str = "") -> Iterator[TextToLabel]:
    """Those of a text, which is their document unless that is named."""
    for placed in split_text(text, document or where):
        written = text[placed.places[0][0] : placed.places[-1][1]]
        yield TextToLabel(replace(placed.sentence, where=where), None, written)


def _labelled(path: Path, options: DataOptions, texts: Mapping[str, str | None]) -> Iterator[TextToLabel]:
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
                yield TextToLabel(replace(whole, where=where), tuple(gold) if known else None, text)
                continue
        for sentence in sentences:
            gold = gold_entities(sentence) if sentence.is_labelled else None
            yield TextToLabel(replace(sentence, tags=None, entities=None), gold)


def _text_of(record: Any, options: DataOptions) -> str | None:
    """Return the text of a record that has no words of its own."""
    key = TEXT_KEY if options.word_column is None else str(options.word_column)
    has_words = isinstance(record, dict) and any(isinstance(record.get(name), list) for name in WORD_KEYS)
    return record[key] if isinstance(record, dict) and isinstance(record.get(key), str) and not has_words else None
