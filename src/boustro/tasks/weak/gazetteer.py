"""Names with a label each, found in text: the longest match from left to right, over whole words of one line.

    Port Lisse<tab>LOC      "Ada left Port Lisse."   →   LOC [9, 19)
    Port<tab>ORG

A file has a name and a label with a tab between them on each line, or JSON lines with `text` and `label`. A name is
split into words as text is; it matches the same words in the same case, or in any case where that was asked for. A
word of the text may have a full stop that the name has not (`Graematter Inc` in "… of Graematter Inc."), because it
also ends sentences there.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from boustro.text.documents import read_lines
from boustro.text.rows import parse_record
from boustro.text.words import LINE_BREAKS, split_text
from boustro.types import Entity

Words = tuple[str, ...]
Places = list[tuple[int, int]]


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
            own = self._lengths.setdefault(bare[0], [])
            own += [] if len(words) in own else [len(words)]

    def __len__(self) -> int:
        return self._num_names

    @classmethod
    def read(cls, path: Path, ignore_case: bool = False) -> "Gazetteer":
        """A file of names; `ValueError`, with file:line, for a line without a name and a label, and for no name."""
        made = cls(_read(path), ignore_case)
        if not len(made):
            raise ValueError(f"{path}: no names; expected a name and a label with a tab between them on each line")
        return made

    def entities(self, text: str, crossing: list[Entity] | None = None) -> list[Entity]:
        """The names in a text, over its characters; names that begin in one and end after it go to `crossing`."""
        found: list[Entity] = []
        for line, places in _lines(text):
            words, last = self._words(line), 0
            bare = tuple(map(_bare, words))
            for start in range(len(words)):
                name = self._longest(words, bare, start)
                if name and start + len(name) > last:
                    begin, end = places[start][0], places[start + len(name) - 1][1]
                    entity = Entity(self._labels[name], begin, end, text[begin:end])
                    if start >= last:
                        found.append(entity)
                        last = start + len(name)
                    elif crossing is not None:
                        crossing.append(entity)
        return found

    def _longest(self, words: Words, bare: Words, start: int) -> Words:
        """The longest name that the words have at `start`, one with the same full stops before others; else empty."""
        for size in self._lengths.get(bare[start], ()):
            own = words[start : start + size]
            if own in self._labels:
                return own
            for name in self._spelled.get(bare[start : start + size], ()):
                if all(word in (part, f"{part}.") for word, part in zip(own, name, strict=True)):
                    return name
        return ()

    def _split(self, name: str) -> Words:
        return self._words([word for placed in split_text(name) for word in placed.sentence.words])

    def _words(self, words: Sequence[str]) -> Words:
        return tuple(word.casefold() for word in words) if self._ignore_case else tuple(words)


def _lines(text: str) -> Iterator[tuple[list[str], Places]]:
    """The words of each line with their places: a name may extend over what looks like the end of a sentence."""
    words: list[str] = []
    places: Places = []
    for placed in split_text(text):
        if places and any(mark in LINE_BREAKS for mark in text[places[-1][1] : placed.places[0][0]]):
            yield words, places
            words, places = [], []
        words.extend(placed.sentence.words)
        places.extend(placed.places)
    yield words, places


def _bare(word: str) -> str:
    return word.removesuffix(".") or word


def _read(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        if line.lstrip().startswith("{"):
            record = parse_record(line, where)
            name, label = record.get("text"), record.get("label")
        else:
            name, _, label = (part.strip() for part in line.partition("\t"))
        if not all(isinstance(part, str) and part.strip() for part in (name, label)):
            raise ValueError(f"{where}: expected a name and a label with a tab between them, got {line!r}")
        yield name, label
