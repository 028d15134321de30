"""CoNLL columns with tags, read (`text.columns`) and written: one word per line, a blank line between sentences.

    EU NNP B-NP B-ORG        the first column is the word and the last the tag, unless a head or options say others
    1 Nina B-PER O           of two columns with tags, outer and inner ones, the outer

A column of tags is an inner one where it stands beside the outer, right after the words, and has entities of the same
types only within those of the outer.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from boustro.metrics.spans import is_span_tag, parse_tag
from boustro.tasks.data.reading import DataOptions, Lines, RawData, note_unread
from boustro.text.columns import COUNTED, DOCUMENT_START, ColumnLayout, ColumnReader
from boustro.text.conllu import ColumnSentence
from boustro.types import Sentence


def read_columns(path: Path, options: DataOptions, lines: Lines) -> RawData:
    """Sentences with their tags unchanged; `ValueError` with file:line for a line without a word or a tag."""
    expected = "a word and a tag"
    reader = ColumnReader(str(path), "conll", options.delimiter, options.word_column, expected, tagged=True)
    read = [sentence for sentence in reader.read((*line, "") for line in lines) if sentence]
    layout = reader.layout
    if layout is None:
        raise ValueError(f"{path}: the file has no sentences; expected one word and its tag per line")
    if layout.num_columns < 2:
        line = layout.sentences[0][0][0]
        raise ValueError(f"{path}:{layout.first}: expected {expected}, got {line!r}")
    for sentence in read:
        if sentence.problem:
            raise ValueError(sentence.problem)
    word = layout.column(str(path), "word", options.word_column, layout.word)
    counted = any(note.what == COUNTED for note in reader.notes)
    outer = layout.tag - 1 if _is_inner(read, layout, word, counted) else layout.tag
    tag = layout.column(str(path), "tag", options.tag_column, outer)
    if word == tag and counted:
        only = f"column {word - 1} counts the words, and no column of tags is left beside column {word}"
        raise ValueError(f"{path}: {only}; --word-column {word - 1} reads the numbers as words")
    if word == tag:
        raise ValueError(f"{path}: words and tags cannot both be in column {word}")
    raw = RawData(name=str(path), form="CoNLL columns", notes=reader.notes)
    others: dict[int, set[str]] = {n: set() for n in range(layout.num_columns) if n not in (word, tag)}
    for sentence in read:
        for line, row in zip(sentence.lines, sentence.rows, strict=True):
            if not row[tag].strip():
                raise ValueError(f"{path}:{line}: expected {expected}, got {layout.delimiter.join(row)!r}")
            for other, values in others.items():
                values.add(row[other].strip())
        tags = tuple(row[tag].strip() for row in sentence.rows)
        raw.sentences.append(Sentence(tuple(sentence.words), tags, document=sentence.document, where=sentence.where))
        raw.lines.append(sentence.lines)
    left = [f"column {n}" for n, values in others.items() if values - {"O"} and all(map(is_span_tag, values))]
    note_unread(((sentence.where, left) for sentence in raw.sentences), raw.notes)
    return raw


def _is_inner(sentences: Sequence[ColumnSentence], layout: ColumnLayout, word: int, counted: bool) -> bool:
    """Whether the last of two columns of tags has the inner entities of the first; without any, where words are
    counted, as in GermEval's files."""
    outer, inner = word + 1, word + 2
    if layout.names or layout.num_columns != inner + 1:
        return False
    pairs = {(row[outer].strip(), row[inner].strip()) for sentence in sentences for row in sentence.rows}
    types = [{parse_tag(tag)[1] for tag in tags} - {""} for tags in zip(*pairs, strict=True)]
    are_tags = all(map(is_span_tag, (tag for pair in pairs for tag in pair)))
    within = all(a != "O" or b == "O" for a, b in pairs)
    return are_tags and within and bool(types) and types[1] <= types[0] and bool(types[1] or (counted and types[0]))


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
    """Write sentences as one document; empty without sentences."""
    return f"{DOCUMENT_START}\tO\n\n{format_conll(sentences)}" if sentences else ""
