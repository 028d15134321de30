"""What sentence embeddings read: texts that stay in order, neighbouring sentences. (`tasks.data.pairs` reads pairs.)

texts.txt       a text a line; an empty line is a text without words
texts.jsonl     {"text": "Ada left."} a line
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path

from boustro.errors import shorten
from boustro.tasks.data.jsonl import records_of
from boustro.tasks.data.reading import missing_file
from boustro.tasks.data.texts import TEXT_KEYS
from boustro.text.documents import read_lines
from boustro.text.words import split_text
from boustro.types import Sentence


def read_rows(file: str | Path) -> Iterator[str]:
    """The texts of a file in their order, empty ones too: lines, or the texts of JSON lines.

    Raises `FileNotFoundError`, and `ValueError` with file:line for a record without a text.
    """
    path = Path(file)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a text file, one text a line")
    if str(path) != "-" and not path.exists():
        raise missing_file(path, "texts are expected, one a line, or JSON lines")
    lines = read_lines(path)
    if ".jsonl" not in path.suffixes and ".json" not in path.suffixes:
        yield from (line for _, line in lines)
        return
    for number, record in records_of(path, lines):
        text = record
        if isinstance(record, Mapping):
            text = next((record[key] for key in TEXT_KEYS if key in record), None)
        if not isinstance(text, str):
            raise ValueError(f"{path}:{number}: no text under {' or '.join(TEXT_KEYS)}, got {shorten(record)}")
        yield text


def neighbours(documents: Iterable[str], least: int = 4, most: int | None = None) -> list[tuple[Sentence, Sentence]]:
    """Sentences that follow each other in a document, each in one pair at most.

    Args:
        least: Words that both sentences have at least.
        most: Pairs, taken from the beginning.

    Raises `ValueError` where there is no pair.
    """
    pairs = list(islice((pair for document in documents for pair in _pairs_of(document, least)), most))
    if not pairs:
        raise ValueError("the documents hold no two neighbouring sentences; each needs at least two, of four words")
    return pairs


def _pairs_of(document: str, least: int) -> Iterator[tuple[Sentence, Sentence]]:
    sentences = [placed.sentence for placed in split_text(document)]
    taken = -1
    for number, (first, second) in enumerate(pairwise(sentences)):
        if number > taken and min(len(first), len(second)) >= least:
            taken = number + 1
            yield first, second
