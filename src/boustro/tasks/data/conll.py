"""CoNLL columns, read and written: one word per line, a blank line between sentences.

    EU NNP B-NP B-ORG        the first column is the word and the last the tag, unless options name others
    rejects VBZ B-VP O

Columns are separated as Excel's first line `sep=;` says, by tabs where the file has tabs, else by runs of spaces (no
other white space, so a word may contain a no-break space). All lines have the same number of columns.
`-DOCSTART-` lines (and `#begin document`, `# newdoc`) separate documents; in a file without them every sentence is its
own document. A line that starts with `#` and white space is a comment only before a sentence's first word and with
another number of columns than the words.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from boustro.metrics.spans import is_span_tag
from boustro.tasks.data.reading import DataOptions, Lines, Note, RawData, note_unread
from boustro.text.rows import SEPARATORS, after_declaration
from boustro.types import Sentence

DOCUMENT_START = "-DOCSTART-"
COMMENT = re.compile(r"#(\s|begin document|end document)")
NEW_DOCUMENT = re.compile(r"#\s*(begin document|newdoc)")


def read_columns(path: Path, options: DataOptions, lines: Lines) -> RawData:
    """Sentences with their tags unchanged; `ValueError` with file:line for a line without a word or a tag."""
    declared, rest = after_declaration(lines)
    lines = list(rest)
    full = [(n, line) for n, line in lines if line.strip() and not line.startswith(DOCUMENT_START)]
    if not full:
        raise ValueError(f"{path}: the file has no sentences; expected one word and its tag per line")
    first, line = next((pair for pair in full if not pair[1].startswith("#")), full[0])  # gives the number of columns
    if options.delimiter == "":
        raise ValueError("--delimiter is empty; give tab, space, or the text that separates the columns")
    wanted = options.delimiter or declared or ("tab" if "\t" in line else "space")
    delimiter = SEPARATORS.get(wanted, wanted)
    num_columns = len(_split(line, delimiter))
    if num_columns < 2:
        raise ValueError(f"{path}:{first}: expected a word and a tag, got {line!r}")
    word = _column(path, "word", options.word_column, 0, num_columns)
    tag = _column(path, "tag", options.tag_column, -1, num_columns)
    if word == tag:
        raise ValueError(f"{path}: words and tags cannot both be in column {word}")
    raw = RawData(name=str(path), form="CoNLL columns")
    others: dict[int, set[str]] = {n: set() for n in range(num_columns) if n not in (word, tag)}
    words: list[str] = []
    tags: list[str] = []
    document, start = 0, first

    for number, line in (*lines, (0, "")):
        columns = _split(line, delimiter)
        begins_document = line.startswith(DOCUMENT_START) or columns[word:][:1] == [DOCUMENT_START]
        is_comment = not words and len(columns) != num_columns and bool(COMMENT.match(line))
        if begins_document or is_comment or not line.strip():
            if words:
                name = f"document {document}" if document else ""
                raw.sentences.append(Sentence(tuple(words), tuple(tags), document=name, where=f"{path}:{start}"))
                raw.lines.append(range(start, start + len(words)))
                words, tags = [], []
            document += begins_document or (is_comment and bool(NEW_DOCUMENT.match(line)))
            if is_comment:
                raw.notes.append(Note("comment lines", f"{path}:{number}", f"comment: {line}"))
            continue
        if len(columns) > 1 and len(columns) != num_columns:
            shown = {"\t": "tabs", " ": "spaces"}.get(delimiter, repr(delimiter))
            separated = f"separated by {shown}; see --delimiter"
            expected = f"{len(columns)} columns, but line {first} has {num_columns}"
            raise ValueError(f"{path}:{number}: {expected} ({separated}): {line!r}")
        if len(columns) < 2 or not columns[word].strip() or not columns[tag].strip():
            raise ValueError(f"{path}:{number}: expected a word and a tag, got {line!r}")
        start = start if words else number
        words.append(columns[word])
        tags.append(columns[tag].strip())
        for other, values in others.items():
            values.add(columns[other].strip())
    left = [f"column {n}" for n, values in others.items() if values - {"O"} and all(map(is_span_tag, values))]
    note_unread(((sentence.where, left) for sentence in raw.sentences), raw.notes)
    return raw


def format_conll(sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> str:
    """(words, tags) pairs as `word<TAB>tag` lines, a blank line after each sentence.

    Raises `ValueError` for a word or a tag that could not be read again: a blank one, one with a tab or a line break,
    and a word that starts a document.
    """
    blocks = []
    for words, tags in sentences:
        for part in (*words, *tags):
            if not part.strip() or any(mark in part for mark in "\t\r\n") or part.startswith(DOCUMENT_START):
                raise ValueError(f"{part!r} cannot be written in CoNLL columns; use JSON lines, which allow any text")
        blocks.append("".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)) + "\n")
    return "".join(blocks)


def format_document(sentences: Sequence[tuple[Sequence[str], Sequence[str]]]) -> str:
    """The same, as one document; empty without sentences."""
    return f"{DOCUMENT_START}\tO\n\n{format_conll(sentences)}" if sentences else ""


def _split(line: str, delimiter: str) -> list[str]:
    return [c for c in line.split(" ") if c] if delimiter == " " else line.split(delimiter)


def _column(path: Path, name: str, given: int | str | None, default: int, num_columns: int) -> int:
    """The index of a column, from 0."""
    known = f"0 to {num_columns - 1}"
    try:
        number = default if given is None else int(given)
    except ValueError:
        raise ValueError(f"{path}: --{name}-column {given!r}: CoNLL columns are numbered, {known}") from None
    if not -num_columns <= number < num_columns:
        raise ValueError(f"{path}: no column {number}: the lines have {num_columns} columns, {known}")
    return number % num_columns
