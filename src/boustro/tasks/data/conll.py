"""CoNLL columns, in and out: one word a line, a blank line between sentences.

    EU NNP B-NP B-ORG        the word is the first column and the tag the last, unless another is named
    rejects VBZ B-VP O

Columns are parted by tabs where the file has them, else by runs of spaces (and no other white space, so that a
word may hold a no-break space). All lines have the same number of columns. `-DOCSTART-` lines (and `#begin
document`, `# newdoc`) part documents and are no sentences; in a file without them nobody knows which sentences
belong together, and each stands alone. A line that starts with `#` and white space is a comment only where a
sentence may begin and where it has another number of columns than the others: `#` is a word, too.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from boustro.store import fingerprint
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, Lines, Note, Reading, label
from boustro.tasks.data.schemes import Scheme
from boustro.text.documents import read_lines
from boustro.types import Sentence

DOCUMENT_START = "-DOCSTART-"
COMMENT = re.compile(r"#(\s|begin document|end document)")
NEW_DOCUMENT = re.compile(r"#\s*(begin document|newdoc)")
DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
SHOWN_DELIMITERS = {"\t": "tabs", " ": "spaces"}


def read_conll(path: str | Path, scheme: Scheme = "auto") -> list[Sentence]:
    """Tagged sentences in BIO, whatever scheme the file is in.

    Raises `FileNotFoundError`, or `ValueError` with file:line for a line without a tag, a tag of no known
    scheme, bytes that are not UTF-8, and a file without any sentence.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; labelled sentences are expected here")
    return label(read_columns(path, DEFAULT_OPTIONS, list(read_lines(path))), scheme).sentences


def read_columns(path: Path, options: DataOptions, lines: Lines) -> Reading:
    """Sentences with the tags as they stand in the file."""
    reading = Reading(name=str(path), form="CoNLL columns")
    if (found := _first_word(lines)) is None:
        raise ValueError(f"{path}: the file holds no sentence; expected one word and its tag a line")
    number, line = found
    delimiter = find_delimiter(line, options.delimiter)
    num_columns = len(_split(line, delimiter))
    if num_columns < 2:
        raise ValueError(f"{path}:{number}: expected a word and a tag, got {line!r}")
    word, tag = (
        _column(path, name, given, default, num_columns)
        for name, given, default in (("word", options.word_column, 0), ("tag", options.tag_column, -1))
    )
    if word == tag:
        raise ValueError(f"{path}: words and tags cannot both be in column {word}")
    words: list[str] = []
    tags: list[str] = []
    document, first = 0, number

    def finish() -> None:
        name = f"document {document}" if document else ""
        reading.sentences.append(Sentence(tuple(words), tuple(tags), document=name, where=f"{path}:{first}"))
        reading.lines.append(range(first, first + len(words)))
        words.clear()
        tags.clear()

    for number, line in lines:
        columns = _split(line, delimiter)
        begins_document = line.startswith(DOCUMENT_START) or columns[word:][:1] == [DOCUMENT_START]
        is_comment = not words and len(columns) != num_columns and bool(COMMENT.match(line))
        if begins_document or is_comment or not line.strip():
            if words:
                finish()
            document += begins_document or (is_comment and bool(NEW_DOCUMENT.match(line)))
            if is_comment:
                reading.notes.append(Note("comment lines", f"{path}:{number}", f"comment: {line}"))
            continue
        if len(columns) < 2:
            raise ValueError(f"{path}:{number}: expected a word and a tag, got {line!r}")
        if len(columns) != num_columns:
            parted = SHOWN_DELIMITERS.get(delimiter, repr(delimiter))
            raise ValueError(
                f"{path}:{number}: {len(columns)} columns, but line {found[0]} has {num_columns} "
                f"(they are parted by {parted}; --delimiter says otherwise): {line!r}"
            )
        if not columns[word].strip() or not columns[tag].strip():
            raise ValueError(f"{path}:{number}: expected a word and a tag, got {line!r}")
        first = first if words else number
        words.append(columns[word])
        tags.append(columns[tag].strip())
    if words:
        finish()
    return reading


def find_delimiter(line: str, wanted: str | None) -> str:
    """What parts the columns of a line: what was asked for, else tabs where there are any, else spaces."""
    if wanted is None:
        return "\t" if "\t" in line else " "
    if not wanted:
        raise ValueError("--delimiter is empty; name tab, space, or any text that parts the columns")
    return DELIMITERS.get(wanted, wanted)


def format_conll(sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> str:
    """(words, tags) pairs as `word<TAB>tag` lines, a blank line after each sentence.

    Raises `ValueError` for a word or a tag that would not be read back: a blank one, a tab or a line break in
    it, and a word that marks a document.
    """
    blocks = []
    for words, tags in sentences:
        for part in (*words, *tags):
            if not part.strip() or any(mark in part for mark in "\t\r\n") or part.startswith(DOCUMENT_START):
                raise ValueError(f"{part!r} cannot be written in CoNLL columns; JSONL holds any text")
        blocks.append("".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)) + "\n")
    return "".join(blocks)


def format_document(sentences: Sequence[tuple[Sequence[str], Sequence[str]]]) -> str:
    """The same, as a document of its own; nothing where there is no sentence."""
    return f"{DOCUMENT_START}\tO\n\n{format_conll(sentences)}" if sentences else ""


def data_fingerprint(sentences: Sequence[Sentence]) -> str:
    """One name for what a data set holds, wherever it lies: words, tags, documents, and, where they are known,
    overlapping entities, the spaces between words, and the label of a text."""
    return fingerprint([(s.words, s.tags, s.document, *_overlapping(s), *_spaces(s), *_label(s)) for s in sentences])


def _overlapping(sentence: Sentence) -> list[list[tuple[str, int, int]]]:
    return [[(e.label, e.start, e.end) for e in sentence.entities]] if sentence.entities is not None else []


def _spaces(sentence: Sentence) -> list[str]:
    return ["".join(" " if space else "_" for space in sentence.spaces)] if sentence.spaces is not None else []


def _label(sentence: Sentence) -> list[dict[str, str]]:
    return [{"label": sentence.label}] if sentence.label is not None else []


def _first_word(lines: Lines) -> tuple[int, str] | None:
    """The first line that shows the shape of the others: no document start and, if there is another, none with `#`."""
    full = [(n, line) for n, line in lines if line.strip() and not line.startswith(DOCUMENT_START)]
    plain = ((n, line) for n, line in full if not line.startswith("#"))
    return next(plain, full[0] if full else None)


def _split(line: str, delimiter: str) -> list[str]:
    return [c for c in line.split(" ") if c] if delimiter == " " else line.split(delimiter)


def _column(path: Path, name: str, given: int | str | None, default: int, num_columns: int) -> int:
    """The place of a column, counted from 0."""
    try:
        number = default if given is None else int(given)
    except ValueError:
        raise ValueError(
            f"{path}: --{name}-column {given!r}: the columns of a CoNLL file have numbers, 0 to {num_columns - 1}"
        ) from None
    if not -num_columns <= number < num_columns:
        raise ValueError(f"{path}: there is no column {number}: the lines have {num_columns}, 0 to {num_columns - 1}")
    return number % num_columns
