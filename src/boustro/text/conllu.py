"""CoNLL-U: ten columns, or those that a line `# global.columns = ID FORM …` names, read as they arrive.

Words of CoNLL-U are the syntactic words (integer ids). The line of a multiword token (`1-2`) gives their spaces: none
where the words together spell the token, else one between words, so French `du` is read as `de le`. Empty nodes (`8.1`)
are left out and counted. Source: universaldependencies.org/format.html.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from boustro.choose import suggestion
from boustro.types import Note

UD_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
KEYED = ("feats", "misc")
EMPTY_NODES = "empty nodes left out"
NEW_DOCUMENT = re.compile(r"#\s*(?:begin document|newdoc(?:\s+id\s*=\s*(.*\S))?)")
_GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.*)")
_ID = re.compile(r"(\d+)(?:([-.])(\d+))?")
Arriving = Iterable[tuple[int, str, str] | None]
"""Lines, each with its number and why it cannot be read, and `None` whenever the next one has not arrived yet."""


class MultiwordToken(NamedTuple):
    """A token that CoNLL-U has as several words, the half-open range [start, end)."""

    start: int
    end: int
    form: str
    space_after: bool
    line: int
    cells: Sequence[str]


@dataclass(slots=True)
class ColumnSentence:
    """A sentence as it stands in the file.

    Attributes:
        where: file:line of its first word.
        words: Its words, unchanged.
        rows: All cells of each word.
        lines: The line of each word.
        names: What the file calls its columns; empty where they have no names.
        document: The document that it is of; "" where the file parts none.
        opens: Whether it is the first one of a document.
        spaces: Whether a space is before each word, where the file says it.
        tokens: The multiword tokens.
        problem: Why it cannot be read, with the place.
    """

    where: str = ""
    words: list[str] = field(default_factory=list)
    rows: list[Sequence[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    names: Sequence[str] = ()
    document: str = ""
    opens: bool = False
    spaces: tuple[bool, ...] | None = None
    tokens: list[MultiwordToken] = field(default_factory=list)
    problem: str = ""

    def add(self, where: str, word: str, line: int, row: Sequence[str]) -> None:
        """Append a word."""
        self.begin(where)
        self.words.append(word)
        self.rows.append(row)
        self.lines.append(line)

    def begin(self, where: str, problem: str = "") -> None:
        """Note the place of the first line, and the first problem."""
        self.where, self.problem = self.where or where, self.problem or problem


class ConlluReader:
    """From the lines of a file of CoNLL-U to its sentences; `columns.ColumnReader` has the arguments."""

    def __init__(self, path: str, word_column: int | str | None, expected: str, notes: list[Note]) -> None:
        self.path, self.word_column, self.expected, self.notes = path, word_column, expected, notes
        self._word: tuple[Sequence[str], int] = ((), 0)

    def read(self, lines: Arriving) -> Iterator[ColumnSentence | None]:
        names: Sequence[str] = UD_COLUMNS
        documents, space_after = 0, list[bool]()
        sentence, opens = ColumnSentence(names=names), False
        for item in chain(lines, [(0, "", "")]):
            if item is None:
                yield None
                continue
            number, line, problem = item
            where = f"{self.path}:{number}"
            if not line.strip() and not problem:
                if sentence.where:
                    self._end(sentence, space_after, where if number else f"{self.path}: the last line")
                    yield sentence
                    opens = False
                sentence, space_after = ColumnSentence(names=names, document=sentence.document, opens=opens), []
                continue
            cells = line.split("\t")
            if line.startswith("#") and not problem and (names[0] == "id" or len(cells) != len(names)):
                if plus := _GLOBAL_COLUMNS.match(line):
                    names = sentence.names = plus[1].lower().split() or UD_COLUMNS
                if new := NEW_DOCUMENT.match(line):
                    documents, opens = documents + 1, True
                    sentence.document, sentence.opens = new[1] or f"document {documents}", True
                continue
            if problem := problem or self._add_ud(sentence, space_after, where, number, line, cells):
                sentence.begin(where, problem)

    def _add_ud(
        self, sentence: ColumnSentence, space_after: list[bool], where: str, number: int, line: str, cells: list[str]
    ) -> str:
        """Why a line of CoNLL-U cannot be read; else it is added."""
        names, words = sentence.names, sentence.words
        column = cells[names.index("id")] if "id" in names and len(cells) == len(names) else str(len(words) + 1)
        if len(cells) != len(names) or not (identifier := _ID.fullmatch(column)):
            first = ", first a word's number" if names[0] == "id" else ""
            return f"{where}: expected {len(names)} columns separated by tabs{first}, got {line!r}"
        if names is not self._word[0]:
            word, key = ud_column(self.path, "form" if self.word_column is None else self.word_column, names)
            if key:
                raise ValueError(f"{self.path}: words must be a whole column, not a key in one: {self.word_column}")
            self._word = names, word
        word = self._word[1]
        first, mark, last = identifier.groups()
        space = "misc" not in names or "SpaceAfter=No" not in cells[names.index("misc")].split("|")
        if mark == ".":
            self.notes.append(Note(EMPTY_NODES, where, f"empty node {column} left out"))
        elif int(first) != len(words) + 1 or (mark and int(last) < int(first)):
            return f"{where}: word {column} does not follow word {len(words)}"
        elif mark:
            sentence.begin(where)
            sentence.tokens.append(MultiwordToken(int(first) - 1, int(last), cells[word], space, number, cells))
        elif not cells[word].strip():
            return f"{where}: expected {self.expected}, got {line!r}"
        else:
            if not words:
                sentence.where = where if not sentence.problem else sentence.where
            sentence.add(where, cells[word], number, cells)
            space_after.append(space)
        return ""

    @staticmethod
    def _end(sentence: ColumnSentence, space_after: Sequence[bool], where: str) -> None:
        """Find the spaces of a whole sentence of CoNLL-U, and a token that goes on after it."""
        before = [True, *space_after]
        for start, end, form, after, *_ in sentence.tokens:
            if end > len(sentence.words):
                problem = f"{where}: the sentence ends before the token {start + 1}-{end} {form!r} does"
                sentence.begin(where, problem)
                return
            before[start + 1 : end] = ["".join(sentence.words[start:end]) != form] * (end - start - 1)
            before[end] = after
        sentence.spaces = tuple(before[: len(sentence.words)])


def is_conllu(lines: Iterable[tuple[int, str]]) -> bool:
    """Return whether the first line with a word is one of CoNLL-U, or a line before it names CoNLL-U's columns."""
    for _, line in lines:
        if _GLOBAL_COLUMNS.match(line):
            return True
        cells = line.split("\t")
        # the seventh column of CoNLL-U is the number of the head
        if len(cells) == len(UD_COLUMNS) and cells[6].replace("_", "0").isdigit():
            return _ID.fullmatch(cells[0]) is not None
        if line.strip() and not line.startswith("#"):
            return False
    return False


def ud_column(path: str, wanted: int | str, names: Sequence[str]) -> tuple[int, str | None]:
    """Return the number of a column of CoNLL-U, and the key in it: `feats:Number`; `ValueError` for one that is not
    there."""
    if str(wanted).lower() in names:
        return names.index(str(wanted).lower()), None
    name, _, key = str(wanted).partition(":")
    if name.lstrip("-").isdigit() and -len(names) <= int(name) < len(names):
        return int(name) % len(names), None
    if key and name.lower() in names and name.lower() in KEYED:
        return names.index(name.lower()), key
    hint = "" if name.lower() in names else suggestion(name.lower(), names)
    raise ValueError(f"{path}: no column {wanted!r} (known: {', '.join(names)}, feats:KEY, misc:KEY){hint}")
