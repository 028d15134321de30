"""The XML of Raganato et al. 2017: texts of sentences of words, of which the instances are to be disambiguated.

    <corpus><text id="d0"><sentence id="d0.s0">
      <wf lemma="the" pos="DET">The</wf> <instance id="d0.s0.t0" lemma="bank" pos="NOUN">bank</instance> …

Read as a stream, with the line of every fault. The gold keys are in a file of their own (`reading`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from boustro.errors import reason, shorten
from boustro.tasks.data.reading import missing_file
from boustro.tasks.sense.examples import Target
from boustro.tasks.sense.inventory import part_of_speech
from boustro.text.documents import read_lines
from boustro.types import Sentence

WORDS = ("wf", "instance")


class _Reader:
    """Collects sentences from the events of the parser."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 0
        self.found: list[tuple[Sentence, list[Target]]] = []
        self.names: set[str] = set()
        self.document = self.where = ""
        self.words: list[str] | None = None  # of the open sentence
        self.targets: list[Target] = []
        self.parts: list[str] | None = None  # of the text of the open word

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        place = f"{self.path}:{self.line}"
        if tag == "text":
            self.document = attributes.get("id", place)
        elif tag == "sentence":
            self.words, self.targets, self.where = [], [], place
        elif tag in WORDS:
            if self.words is None:
                raise ValueError(f"{place}: <{tag}> outside of a <sentence>")
            self.parts = []
            if tag == "instance":
                self.targets.append(self._target(attributes, place))

    def _target(self, attributes: dict[str, str], place: str) -> Target:
        if lost := [name for name in ("id", "lemma", "pos") if not attributes.get(name, "").strip()]:
            raise ValueError(f"{place}: this <instance> has no {lost[0]}")
        if attributes["id"] in self.names:
            raise ValueError(f"{place}: a second instance with the id {shorten(attributes['id'])}")
        try:
            part_of_speech(attributes["pos"])
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        self.names.add(attributes["id"])
        return Target(len(self.words or ()), attributes["lemma"], attributes["pos"], (), attributes["id"])

    def text(self, data: str) -> None:
        if self.parts is not None:
            self.parts.append(data)

    def end(self, tag: str) -> None:
        if tag in WORDS and self.parts is not None and self.words is not None:
            word = " ".join("".join(self.parts).split())
            if not word:
                raise ValueError(f"{self.path}:{self.line}: this <{tag}> has no text")
            self.words.append(word)
            self.parts = None
        elif tag == "sentence" and self.words is not None:
            if self.words:
                self.found.append((Sentence(tuple(self.words), document=self.document, where=self.where), self.targets))
            self.words = None


def parse_corpus(path: Path) -> Iterator[tuple[Sentence, list[Target]]]:
    """Every sentence with its instances, without gold keys; `ValueError` with file:line for malformed XML."""
    reader, parser = _Reader(path), ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    number = 1
    if not path.is_file():
        raise missing_file(path, "expected a corpus with words whose sense is known")
    try:
        for number, line in read_lines(path):
            reader.line = number
            parser.Parse(line + "\n", False)
            yield from reader.found
            reader.found.clear()
        parser.Parse("", True)
    except ExpatError as error:
        raise ValueError(f"{path}:{number}: malformed XML ({reason(error).partition(':')[0]})") from None


def corpus_records(path: Path) -> Iterator[dict[str, Any]]:
    """Every sentence with instances as JSON lines have it, and its place under `where`; errors as `parse_corpus`."""
    for sentence, targets in parse_corpus(path):
        if targets:
            asked = [{"name": t.name, "word": t.word, "lemma": t.lemma, "pos": t.pos} for t in targets]
            own = {"words": list(sentence.words), "senses": asked, "document": sentence.document}
            yield own | {"where": sentence.where}
