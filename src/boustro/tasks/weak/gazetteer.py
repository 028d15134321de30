"""Names with a label each, found in text: the longest match from left to right, over whole words.

    Port Lisse<tab>LOC      "Ada left Port Lisse."   →   LOC [9, 19)
    Port<tab>ORG

A file has a name and a label with a tab between them on each line, or JSON lines with `text` and `label`. A name is
split into words as text is; it matches the same words in the same case, or in any case where that was asked for.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from boustro.text.documents import parse_record, read_lines
from boustro.text.words import split_text
from boustro.types import Entity

Words = tuple[str, ...]


class Gazetteer:
    """Names by their words; `repeated` counts names that were given again, with another label (the first one stays)."""

    def __init__(self, names: Iterable[tuple[str, str]], ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case
        self._labels: dict[Words, str] = {}
        self.repeated = 0
        for name, label in names:
            words = self._words([word for placed in split_text(name) for word in placed.sentence.words])
            self.repeated += self._labels.setdefault(words, label) != label
        self._lengths: dict[str, list[int]] = {}
        for words in sorted(self._labels, key=len, reverse=True):
            own = self._lengths.setdefault(words[0], [])
            own += [] if len(words) in own else [len(words)]

    def __len__(self) -> int:
        return len(self._labels)

    @classmethod
    def read(cls, path: Path, ignore_case: bool = False) -> "Gazetteer":
        """A file of names; `ValueError`, with file:line, for a line without a name and a label, and for no name."""
        made = cls(_read(path), ignore_case)
        if not len(made):
            raise ValueError(f"{path}: no names; expected a name and a label with a tab between them on each line")
        return made

    def entities(self, text: str) -> list[Entity]:
        """The names in a text, over its characters."""
        found = []
        for placed in split_text(text):
            words, start = self._words(placed.sentence.words), 0
            while start < len(words):
                own = self._longest(words[start:])
                if own:
                    begin, end = placed.places[start][0], placed.places[start + len(own) - 1][1]
                    found.append(Entity(self._labels[own], begin, end, text[begin:end]))
                start += len(own) or 1
        return found

    def _longest(self, words: Words) -> Words:
        """The longest name that the words begin with; empty for none."""
        names = (words[:size] for size in self._lengths.get(words[0], ()))
        return next((name for name in names if name in self._labels), ())

    def _words(self, words: Sequence[str]) -> Words:
        return tuple(word.casefold() for word in words) if self._ignore_case else tuple(words)


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
