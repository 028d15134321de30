"""Names with a label each, found in text: the longest match from left to right, over whole words of one line.

    Port Lisse<tab>LOC      "Ada left Port Lisse."   →   LOC [9, 19)
    Port<tab>ORG

A file has a name and a label with a tab between them on each line, or is JSON or a table with `text` (or `name`) and
`label` (or `type`). A name is split into words as text is; it matches the same words in the same case, or in any case
where that was asked for. A word of the text may have a full stop that the name has not (`Graematter Inc` in "… of
Graematter Inc."), because it also ends sentences there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from boustro.errors import shorten
from boustro.output import print_notices
from boustro.text.files import DataFile
from boustro.text.tables import TableRow
from boustro.text.words import LINE_BREAKS, split_text
from boustro.types import Entity, Note, compose

KEYS = (("text", "name"), ("label", "type"))
"""The keys or columns of a name and of its label, in any case."""
EXPECTED = "a name and a label with a tab between them, or columns text (or name) and label (or type)"
Words = tuple[str, ...]


class FoundName(NamedTuple):
    """A name at the words `[start, end)`; one that crosses begins in the name before it and ends after it."""

    start: int
    end: int
    label: str
    crosses: bool


class Gazetteer:
    """Names by their words; `repeated` counts names that were given again, with another label (the first one stays)."""

    def __init__(self, names: Iterable[tuple[str, str]], ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case
        self._labels: dict[Words, str] = {}
        self.repeated = 0
        given = list(names)
        for name, label in given:
            self.repeated += self._labels.setdefault(self._split(name), label) != label
        self._num_names = len(self._labels)
        for name, label in given:  # U.S.A is two words, and one with a full stop
            if (words := self._split(f"{name}."))[-1] != ".":
                self._labels.setdefault(words, label)
        self._lengths: dict[str, list[int]] = {}
        self._spelled: dict[Words, list[Words]] = {}  # without full stops: as the names have them
        for words in sorted(self._labels, key=len, reverse=True):
            bare = tuple(map(_bare, words))
            self._spelled.setdefault(bare, []).append(words)
            sizes = self._lengths.setdefault(bare[0], [])
            sizes += [] if len(words) in sizes else [len(words)]

    def __len__(self) -> int:
        return self._num_names

    @classmethod
    def read(cls, path: Path, ignore_case: bool = False) -> "Gazetteer":
        """Return a file of names; raises as `read_listed`."""
        return cls(read_listed(path), ignore_case)

    def entities(self, text: str, crossing: list[Entity] | None = None) -> list[Entity]:
        """Return the names in a text, over its characters; names that begin in one and end after it go to
        `crossing`."""
        entities: list[Entity] = []
        for line, places in _lines(text):
            for name in self.find(line):
                begin, end = places[name.start][0], places[name.end - 1][1]
                entity = Entity(name.label, begin, end, text[begin:end])
                if not name.crosses:
                    entities.append(entity)
                elif crossing is not None:
                    crossing.append(entity)
        return entities

    def find(self, given: Sequence[str]) -> Iterator[FoundName]:
        """Yield the names in words that follow each other, from left to right."""
        words, last = self._words(given), 0
        bare = tuple(map(_bare, words))
        for start in range(len(words)):
            name = self._longest(words, bare, start)
            if name and start + len(name) > last:
                found = FoundName(start, start + len(name), self._labels[name], start < last)
                yield found
                last = last if found.crosses else found.end

    def _longest(self, words: Words, bare: Words, start: int) -> Words:
        """Return the longest name that the words have at `start`, one with the same full stops before others; else
        empty."""
        for size in self._lengths.get(bare[start], ()):
            span = words[start : start + size]
            if span in self._labels:
                return span
            for name in self._spelled.get(bare[start : start + size], ()):
                if all(word in (part, f"{part}.") for word, part in zip(span, name, strict=True)):
                    return name
        return ()

    def _split(self, name: str) -> Words:
        return self._words([word for placed in split_text(name) for word in placed.sentence.words])

    def _words(self, words: Sequence[str]) -> Words:
        return tuple(compose(word.casefold() if self._ignore_case else word) for word in words)


def _lines(text: str) -> Iterator[tuple[list[str], list[tuple[int, int]]]]:
    """Yield the words of each line with their places: a name may extend over what looks like the end of a sentence."""
    words: list[str] = []
    places: list[tuple[int, int]] = []
    for placed in split_text(text):
        if places and any(mark in LINE_BREAKS for mark in text[places[-1][1] : placed.places[0][0]]):
            yield words, places
            words, places = [], []
        words.extend(placed.sentence.words)
        places.extend(placed.places)
    yield words, places


def _bare(word: str) -> str:
    return word.removesuffix(".") or word


def _has_head(file: DataFile) -> bool:
    """Return whether the first line of a CSV or TSV file names the columns of names and labels, and is no name
    itself."""
    with suppress(ValueError):  # two equal cells, which are no head
        heads = {key.casefold() for key in file.open(notes=[]).keys}
        return all(heads & {*keys} for keys in KEYS)
    return False


def read_listed(path: Path) -> list[tuple[str, str]]:
    """Return the names and their labels in a file; `ValueError`, with file:line, for a line without a name and a label,
    and for no name."""
    notes, names = list[Note](), list[tuple[str, str]]()
    file = DataFile(path)
    for where, value in file.open("text" if file.is_separated and not _has_head(file) else None, notes=notes):
        if (isinstance(value, str) and not value.strip()) or (isinstance(value, TableRow) and value.is_blank):
            continue
        if isinstance(value, str):
            cells: list[Any] = [*value.partition("\t")[::2]]
        else:
            record = {str(key).casefold(): cell for key, cell in value.items()} if isinstance(value, Mapping) else {}
            cells = [next((record[key] for key in keys if key in record), None) for keys in KEYS]
        if not all(isinstance(cell, str) and cell.strip() for cell in cells):
            raise ValueError(f"{where}: expected {EXPECTED}, got {shorten(value)}")
        names.append((cells[0].strip(), cells[1].strip()))
    if not names:
        raise ValueError(f"{path}: no names; expected {EXPECTED}")
    print_notices(Counter(note.what for note in notes))
    return names
