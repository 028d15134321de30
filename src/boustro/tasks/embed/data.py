"""Training data of sentence embeddings: texts alone, pairs of texts with or without a score, neighbouring sentences.

    texts.txt               a text a line; an empty line is a text without words
    texts.jsonl, texts.csv  {"text": "Ada left."} a line, or a row; all tables of `text.files`
    pairs.jsonl             {"sentence1": "It rained.", "sentence2": "Rain fell.", "score": 4.6} a line; also CSV, TSV
    neighbours:texts.txt    sentences that follow each other in a text: pairs without a score, which belong together

An example is a `TextPair`; of a text `Alone` the second text has no word.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from os import PathLike
from pathlib import Path
from typing import Any

from boustro.errors import shorten
from boustro.given import as_text
from boustro.tasks import PAIR_KEYS, TASKS, TEXT_KEYS
from boustro.tasks.config import NEIGHBOURS
from boustro.tasks.data.named import RecordReader, no_column
from boustro.tasks.data.reading import DEFAULT_OPTIONS, PREFIX, DataOptions, Note, missing_file
from boustro.tasks.data.texts import SCORE_KEY, as_score, whole_text
from boustro.tasks.pairs import TextPair, make_pair
from boustro.text.columns import LOOKED_AT
from boustro.text.files import DataFile, Rows
from boustro.text.words import split_text
from boustro.types import Sentence

EMPTY = Sentence(())
LEAST_WORDS = 4  # shorter neighbours are headings and page numbers, which say nothing of each other


@dataclass(frozen=True, slots=True)
class Alone(TextPair):
    """A text without another one."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the text."""
        return self.first.words


def alone(text: str, where: str = "") -> Alone:
    """Return the example of a text."""
    return Alone(whole_text(text).sentence, EMPTY, (text, ""), where=where)


def read_vectors(data: Any, options: DataOptions = DEFAULT_OPTIONS, notes: list[Note] | None = None) -> list[TextPair]:
    """Texts and pairs of a file or of Python objects: texts, (text, text) or (text, text, score), dicts, `TextPair`s.

    Raises `FileNotFoundError`, and `ValueError` with file:line for a record that is neither.
    """
    name = str(data) if isinstance(data, (str, PathLike)) else ""
    if name.startswith(NEIGHBOURS):
        return neighbours(read_texts_in_order(name.removeprefix(NEIGHBOURS), notes=notes), where=name)
    if name and not name.startswith(PREFIX) and (rows := _open(data, notes)).form == "text":
        return [alone(text, place) for place, text in rows]
    return EMBEDDED.read(data, options, notes)


def _text_or_pair(record: Any, where: str, notes: list[Note]) -> TextPair:
    if isinstance(record, Mapping) and not any(key in record for keys in PAIR_KEYS for key in keys):
        record = next((record[key] for key in TEXT_KEYS if key in record), record)
    if not isinstance(record, (Mapping, list, tuple)):
        return alone(as_text(record, where), where)
    pair = make_pair(record, where)
    if not isinstance(record, Mapping) or SCORE_KEY not in record:
        return pair
    return replace(pair, score=as_score(record[SCORE_KEY], where))


EMBEDDED = RecordReader(what="text or pair", make=_text_or_pair, fields=TASKS["embed"].suits, kind=TextPair)


def read_texts_in_order(
    file: str | Path, column: str | None = None, notes: list[Note] | None = None, kept: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the texts of a file in their order, empty ones too: lines, or the texts of JSON lines or of rows of a
    table.

    Args:
        column: The key or column of the text; by default text or sentence.
        notes: What to say of how the file was read.
        kept: The column that a trained folder keeps: read where it is there and no other is asked for.

    Raises `FileNotFoundError`, and `ValueError` with file:line for a record without a text.
    """
    keys = (column,) if column else (*kept, *TEXT_KEYS)
    rows = _open(file, notes, keys)
    rest = iter(rows)
    for place, text in rest:
        given = text
        if isinstance(text, Mapping):
            key = next((key for key in keys if key in text), None)
            if key is None:
                others = (other for _, other in islice(rest, LOOKED_AT) if isinstance(other, Mapping))
                raise no_column(place, [column or TEXT_KEYS[0]], [text, *others])
            text = text[key]
            if rows.is_table and not isinstance(text, (str, list)):
                text = "" if text is None else str(text)
        if not isinstance(text, str):
            raise ValueError(f"{place}: no text under {' or '.join(TEXT_KEYS)}, got {shorten(given)}")
        yield text


def _open(data: "str | PathLike[str]", notes: list[Note] | None, keys: Sequence[str] = TEXT_KEYS) -> Rows:
    path = (file := DataFile.of(data)).path
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a text file, one text a line")
    if str(path) != "-" and not path.exists():
        raise missing_file(path, "texts are expected, one a line, or JSON lines")
    return file.open(notes=notes, keys=(*keys, *chain(*PAIR_KEYS)))


def neighbours(documents: Iterable[str], where: str = "") -> list[TextPair]:
    """Sentences that follow each other in a document, each in one pair at most; `ValueError` where there is no pair."""
    candidates = (pair for document in documents for pair in _pairs_of(document))
    pairs = [replace(pair, where=f"{where}:{n}" if where else "") for n, pair in enumerate(candidates, start=1)]
    if not pairs:
        raise ValueError("the documents hold no two neighbouring sentences; each needs at least two, of four words")
    return pairs


def _pairs_of(document: str) -> Iterator[TextPair]:
    placed = list(split_text(document))
    taken = -1
    for number, (first, second) in enumerate(pairwise(placed)):
        if number > taken and min(len(first.sentence), len(second.sentence)) >= LEAST_WORDS:
            taken = number + 1
            texts = [document[sentence.places[0][0] : sentence.places[-1][1]] for sentence in (first, second)]
            yield TextPair(first.sentence, second.sentence, (texts[0], texts[1]))
