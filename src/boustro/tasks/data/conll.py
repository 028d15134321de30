"""CoNLL columns with tags, read (`text.columns`) and written: one word per line, a blank line between sentences.

    EU NNP B-NP B-ORG        the first column is the word and the last the tag, unless a head or options say others
    1 Nina B-PER O           of two columns with tags, outer and inner ones, the outer

A column of tags is an inner one where it stands beside the outer, right after the words, and has entities of the same
types only within those of the outer.

CoNLL-U with labels: syntactic words, with any of their columns as tags; by default the universal part of speech.

    1-2  don't  _    _    …            words  do    n't
    1    do     do   AUX  …            tags   AUX   PART
    2    n't    not  PART …            spaces True  False

A column is named upos, xpos, deprel and so on, by its number, or by a key: `feats:Number`, `misc:NER`. A
`# global.columns` line (CoNLL-U Plus) names other columns.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from boustro.metrics.spans import is_span_tag, parse_tag
from boustro.tasks.data.reading import DataOptions, Lines, RawData, note_unread
from boustro.text.columns import ALL_LETTERS, COUNTED, DOCUMENT_START, ColumnLayout, ColumnReader, respell
from boustro.text.conllu import ColumnSentence, ud_column
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
    """Return whether the last of two columns of tags has the inner entities of the first; without any, where words are
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
    """Return (words, tags) pairs as `word<TAB>tag` lines, a blank line after each sentence.

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


def read_conllu(path: Path, options: DataOptions, lines: Lines) -> RawData:
    """Sentences with one column as tags, unchanged, and with documents and spaces where the file has them.

    Raises `ValueError` with file:line for a line that is not CoNLL-U, an id out of order, and an unknown column or key.
    """
    raw = RawData(name=str(path), form="CoNLL-U", fallback="labels")
    wanted = "upos" if options.tag_column is None else options.tag_column
    reader = ColumnReader(str(path), "conllu", None, options.word_column, f"a word and its {wanted}", tagged=True)
    read = [sentence for sentence in reader.read((*line, "") for line in lines) if sentence]
    raw.notes.extend(reader.notes)
    rows = [list(_values(path, sentence, wanted)) for sentence in read]
    present = {value for row in rows for value in row if value is not None}
    if read and not present - {"_"}:
        raise ValueError(f"{path}: no word has {wanted}; name another column with --tag-column")
    # Without its key, a word is outside all entities; a missing label is _, as in CoNLL-U.
    is_respelled = ":" in str(options.tag_column) and bool(respell(present | {"O"}))
    missing = "O" if is_respelled or all(is_span_tag(value, ALL_LETTERS) for value in present) else "_"
    for sentence, row in zip(read, rows, strict=True):
        tags = tuple(missing if value is None else value for value in row)
        words, document = tuple(sentence.words), sentence.document
        raw.sentences.append(Sentence(words, tags, sentence.spaces, document, sentence.where))
        raw.lines.append(sentence.lines)
    return replace(raw, fallback=None) if is_respelled else raw


def _values(path: Path, sentence: ColumnSentence, wanted: int | str) -> Iterator[str | None]:
    """Yield the value of each word in a column, or under a key there; raises as `read_conllu`."""
    column, key = ud_column(str(path), wanted, sentence.names)
    for token in sentence.tokens:
        if key and _value(token.cells, column, key) is not None:
            raise ValueError(f"{path}:{token.line}: {key} is on the token {token.form!r}; it belongs on its words")
    if sentence.problem:
        raise ValueError(sentence.problem)
    for line, cells in zip(sentence.lines, sentence.rows, strict=True):
        value = _value(cells, column, key)
        if value is not None and not value.strip():
            expected = f"expected a word and its {sentence.names[column]}"
            raise ValueError(f"{path}:{line}: {expected}, got {chr(9).join(cells)!r}")
        yield value


def _value(cells: Sequence[str], column: int, key: str | None) -> str | None:
    """Return a cell, or what stands in it under a key: NER=B-PER|SpaceAfter=No → B-PER"""
    if key is None:
        return cells[column]
    pairs = (pair.partition("=") for pair in cells[column].split("|"))
    return next((text for name, _, text in pairs if name == key), None)
