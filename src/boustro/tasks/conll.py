"""CoNLL columns, in and out: one word a line, a blank line between sentences, the tag in the last column.

Columns are parted by tabs where the file has them, else by any run of spaces, so that a word may hold a
no-break space. `-DOCSTART-` lines part documents and are no sentences; in a file without them nobody knows
which sentences belong together, and each stands alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from boustro.store import fingerprint
from boustro.tasks.schemes import Scheme, detect_scheme, to_bio
from boustro.text.documents import read_lines
from boustro.types import Sentence

DOCUMENT_START = "-DOCSTART-"


def read_conll(path: str | Path, scheme: Scheme = "auto") -> list[Sentence]:
    """Tagged sentences in BIO, whatever scheme the file is in.

    Raises `FileNotFoundError`, or `ValueError` with file:line for a line without a tag, a tag of no known
    scheme, bytes that are not UTF-8, and a file without any sentence.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; labelled sentences in CoNLL columns are expected here")
    sentences = read_columns(path)
    if not sentences:
        raise ValueError(f"{path}: the file holds no sentence; expected one word and its tag a line")
    found = detect_scheme(sentences) if scheme == "auto" else scheme
    return [replace(s, tags=to_bio(s.tags or (), found)) for s in sentences]


def read_columns(path: Path) -> list[Sentence]:
    """Sentences with the tags as they stand in the file."""
    sentences, words, tags, first, document = [], [], [], 0, 0
    separator: str | None = None

    def finish() -> None:
        where, name = f"{path}:{first}", f"document {document}" if document else ""
        sentences.append(Sentence(tuple(words), tuple(tags), document=name, where=where))

    for number, line in read_lines(path):
        if line.strip() and not line.startswith(DOCUMENT_START):
            if not sentences and not words:
                separator = "\t" if "\t" in line else " "
            columns = [c for c in line.split(separator) if c] if separator == " " else line.split("\t")
            if len(columns) < 2 or not columns[0].strip() or not columns[-1].strip():
                raise ValueError(f"{path}:{number}: expected a word and a tag, got {line!r}")
            first = first or number
            words.append(columns[0])
            tags.append(columns[-1].strip())
            continue
        if words:
            finish()
            words, tags, first = [], [], 0
        document += line.startswith(DOCUMENT_START)
    if words:
        finish()
    return sentences


def format_conll(sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> str:
    """(words, tags) pairs as `word<TAB>tag` lines, a blank line after each sentence."""
    return "".join("".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)) + "\n" for words, tags in sentences)


def data_fingerprint(sentences: Sequence[Sentence]) -> str:
    """One name for the words, tags and documents of a data set, wherever it lies."""
    return fingerprint([(s.words, s.tags, s.document) for s in sentences])
