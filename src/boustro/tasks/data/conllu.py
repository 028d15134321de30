"""CoNLL-U: syntactic words, with any of their columns as tags; by default the universal part of speech.

    1-2  don't  _    _    …            words  do    n't
    1    do     do   AUX  …            tags   AUX   PART
    2    n't    not  PART …            spaces True  False

Words are the syntactic words (integer ids). The line of a multiword token (`1-2`) gives their spaces: none where the
words together spell the token, as above; else one between words, so French `du` is read as `de le`. Empty nodes (`8.1`)
are left out and counted.

A column is named upos, xpos, deprel and so on, by its number, or by a key: `feats:Number`, `misc:NER`. A
`# global.columns` line (CoNLL-U Plus) names other columns. Source: universaldependencies.org/format.html.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from boustro.choose import suggestion
from boustro.metrics.spans import is_span_tag
from boustro.tasks.data.reading import DataOptions, Lines, Note, RawData
from boustro.tasks.data.schemes import ALL_LETTERS, respell
from boustro.types import Sentence

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
KEYED = ("feats", "misc")
ID = re.compile(r"(\d+)(?:([-.])(\d+))?")
NEW_DOCUMENT = re.compile(r"#\s*newdoc(?:\s+id\s*=\s*(.*\S))?")
GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.*)")


@dataclass(slots=True)
class _SentenceLines:
    """The lines of one sentence."""

    document: str
    lines: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    values: list[str | None] = field(default_factory=list)
    space_after: list[bool] = field(default_factory=list)
    tokens: list[tuple[int, int, str, bool]] = field(default_factory=list)
    """Multiword tokens: [start, end) over words, form, and whether a space follows."""

    def spaces(self) -> tuple[bool, ...]:
        before = [True, *self.space_after]
        for start, end, form, space_after in self.tokens:
            before[start + 1 : end] = ["".join(self.words[start:end]) != form] * (end - start - 1)
            before[end] = space_after
        return tuple(before[: len(self.words)])


def read_conllu(path: Path, options: DataOptions, lines: Lines) -> RawData:
    """Sentences with one column as tags, unchanged, and with documents and spaces where the file has them.

    Raises `ValueError` with file:line for a line that is not CoNLL-U, an id out of order, and an unknown column or key.
    """
    raw = RawData(name=str(path), form="CoNLL-U", fallback="labels")
    is_keyed = ":" in str(options.tag_column)
    blocks = [block for block in _read_blocks(path, options, lines, raw.notes) if block.words]
    present = {value for block in blocks for value in block.values if value is not None}
    if blocks and not present - {"_"}:
        raise ValueError(f"{path}: no word has {options.tag_column or 'upos'}; name another column with --tag-column")
    # Without its key, a word is outside all entities; a missing label is _, as in CoNLL-U.
    is_respelled = is_keyed and bool(respell(present | {"O"}))
    missing = "O" if is_respelled or all(is_span_tag(value, ALL_LETTERS) for value in present) else "_"
    for block in blocks:
        tags = tuple(missing if value is None else value for value in block.values)
        where = f"{path}:{block.lines[0]}"
        raw.sentences.append(Sentence(tuple(block.words), tags, block.spaces(), block.document, where))
        raw.lines.append(block.lines)
    return replace(raw, fallback=None) if is_respelled else raw


def _read_blocks(path: Path, options: DataOptions, lines: Lines, notes: list[Note]) -> Iterator[_SentenceLines]:
    names: Sequence[str] = COLUMNS
    columns: tuple[int, int, str | None] | None = None
    num_documents, block = 0, _SentenceLines("")
    for number, line in (*lines, (0, "")):
        if not line.strip():
            for start, end, form, _ in block.tokens:
                if end > len(block.words):
                    where = f"{path}:{number}" if number else f"{path}: the last line"
                    raise ValueError(f"{where}: the sentence ends before the token {start + 1}-{end} {form!r} does")
            yield block
            block = _SentenceLines(block.document)
            continue
        if line.startswith("#"):
            if plus := GLOBAL_COLUMNS.match(line):
                names, columns = plus[1].lower().split(), None
            if new := NEW_DOCUMENT.match(line):
                num_documents += 1
                block.document = new[1] or f"document {num_documents}"
            continue
        cells = line.split("\t")
        if len(cells) != len(names) or not (identifier := ID.fullmatch(cells[0])):
            expected = f"expected {len(names)} columns separated by tabs, first a word's number"
            raise ValueError(f"{path}:{number}: {expected}, got {line!r}")
        if not columns:
            word, word_key = _column(path, "form" if options.word_column is None else options.word_column, names)
            if word_key:
                raise ValueError(f"{path}: words must be a whole column, not a key in one: {options.word_column}")
            columns = (word, *_column(path, "upos" if options.tag_column is None else options.tag_column, names))
        word, tag, key = columns
        first, mark, last = identifier.groups()
        value = cells[tag]
        if key:  # NER=B-PER|SpaceAfter=No → B-PER
            pairs = (pair.partition("=") for pair in value.split("|"))
            value = next((text for name, _, text in pairs if name == key), None)
        space_after = "misc" not in names or "SpaceAfter=No" not in cells[names.index("misc")].split("|")
        if mark == ".":
            notes.append(Note("empty nodes left out", f"{path}:{number}", f"empty node {cells[0]} left out"))
        elif int(first) != len(block.words) + 1 or (mark and int(last) < int(first)):
            raise ValueError(f"{path}:{number}: word {cells[0]} does not follow word {len(block.words)}")
        elif mark and key and value is not None:
            raise ValueError(f"{path}:{number}: {key} is on the token {cells[word]!r}; it belongs on its words")
        elif mark:
            block.tokens.append((int(first) - 1, int(last), cells[word], space_after))
        elif not cells[word].strip() or not (value is None or value.strip()):
            raise ValueError(f"{path}:{number}: expected a word and its {names[tag]}, got {line!r}")
        else:
            block.lines.append(number)
            block.words.append(cells[word])
            block.values.append(value)
            block.space_after.append(space_after)


def _column(path: Path, wanted: int | str, names: Sequence[str]) -> tuple[int, str | None]:
    if str(wanted).lower() in names:
        return names.index(str(wanted).lower()), None
    name, _, key = str(wanted).partition(":")
    if name.lstrip("-").isdigit() and -len(names) <= int(name) < len(names):
        return int(name) % len(names), None
    if key and name.lower() in names and name.lower() in KEYED:
        return names.index(name.lower()), key
    hint = "" if name.lower() in names else suggestion(name.lower(), names)
    raise ValueError(f"{path}: no column {wanted!r} (known: {', '.join(names)}, feats:KEY, misc:KEY){hint}")
