"""CoNLL-U with labels (`text.columns`): syntactic words, with any of their columns as tags; by default the universal
part of speech.

    1-2  don't  _    _    …            words  do    n't
    1    do     do   AUX  …            tags   AUX   PART
    2    n't    not  PART …            spaces True  False

A column is named upos, xpos, deprel and so on, by its number, or by a key: `feats:Number`, `misc:NER`. A
`# global.columns` line (CoNLL-U Plus) names other columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from boustro.metrics.spans import is_span_tag
from boustro.tasks.data.reading import DataOptions, Lines, RawData
from boustro.text.columns import ALL_LETTERS, ColumnReader, respell
from boustro.text.conllu import ColumnSentence, ud_column
from boustro.types import Sentence


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
    """The value of each word in a column, or under a key there; raises as `read_conllu`."""
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
    """A cell, or what stands in it under a key: NER=B-PER|SpaceAfter=No → B-PER"""
    if key is None:
        return cells[column]
    pairs = (pair.partition("=") for pair in cells[column].split("|"))
    return next((text for name, _, text in pairs if name == key), None)
