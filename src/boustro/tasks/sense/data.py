"""Sentences with words whose sense is asked for, and their gold keys where they are known.

    corpus.data.xml + corpus.gold.key.txt                                     the format of Raganato et al. 2017
    {"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NN", ["bank%1:17:01::"]]], "document": "d1"}
                                                                              JSON lines; also "tokens", "file"

An item of `senses` is the position of a word, its lemma, its part of speech, and its keys, if they are known; or an
object with word, lemma, pos, keys and the name of the word in the data. Where a key is WordNet's, the part of speech is
the key's own.

The XML of Raganato et al. 2017: texts of sentences of words, of which the instances are to be disambiguated.

    <corpus><text id="d0"><sentence id="d0.s0">
      <wf lemma="the" pos="DET">The</wf> <instance id="d0.s0.t0" lemma="bank" pos="NOUN">bank</instance> …

Read as a stream, with the line of every fault. The gold keys are in a file of their own (`reading`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from boustro.errors import reason, shorten
from boustro.given import tidy_words
from boustro.tasks import DOCUMENT_KEYS, TASKS, WORD_KEYS
from boustro.tasks.data.named import RecordReader
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, Note, missing_file, name_of
from boustro.tasks.sense.examples import SenseData, SenseSentence, Target, make_entry, part_of_speech, pos_of_key
from boustro.text.documents import OPENERS, read_lines
from boustro.types import Sentence

WORD_ELEMENTS = ("wf", "instance")


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
        elif tag in WORD_ELEMENTS:
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
        if tag in WORD_ELEMENTS and self.parts is not None and self.words is not None:
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
    """Yield every sentence with its instances, without gold keys; `ValueError` with file:line for malformed XML."""
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
    """Yield every sentence with instances as JSON lines have it, and its place under `where`; errors as
    `parse_corpus`."""
    for sentence, targets in parse_corpus(path):
        if targets:
            asked = [{"name": t.name, "word": t.word, "lemma": t.lemma, "pos": t.pos} for t in targets]
            record = {"words": list(sentence.words), "senses": asked, "document": sentence.document}
            yield record | {"where": sentence.where}


NO_GOLD = "no word has a gold key; the keys of CORPUS.data.xml stand beside it, in CORPUS.gold.key.txt"
NO_KEY = "words without a gold key; not scored, and nothing is learned from them"


def read_senses(data: Any, keys: str | Path | None = None, options: DataOptions = DEFAULT_OPTIONS) -> SenseData:
    """Sentences of an XML or a JSON lines file, or of Python objects (`SenseSentence`s, dicts).

    Args:
        data: A path, or the objects.
        keys: Gold keys of an XML file; by default CORPUS.gold.key.txt beside CORPUS.data.xml, if it is there.

    Raises `FileNotFoundError`, and `ValueError` with file:line for what cannot be read.
    """
    if isinstance(data, SenseData):
        return data
    SENSES.check(data, options)
    name = name_of(data)
    if [suffix for suffix in Path(name).suffixes if suffix not in OPENERS][-1:] != [".xml"]:
        notes: list[Note] = []
        return _checked(name, SENSES.read(data, options, notes), notes)
    path = Path(name)
    return _checked(name, _with_keys(parse_corpus(path), path, Path(keys) if keys else key_file(path)))


def key_file(path: Path) -> Path | None:
    """Return the gold keys beside an XML file, where they are."""
    stem = path.name.partition(".xml")[0].removesuffix(".data")
    keys = path.with_name(f"{stem}.gold.key.txt")
    return keys if keys.is_file() else None


def read_keys(path: Path) -> dict[str, tuple[str, ...]]:
    """Keys by the name of their instance, of lines `name key …`; `ValueError` with file:line for another line."""
    by_name: dict[str, tuple[str, ...]] = {}
    for number, line in read_lines(path):
        name, *keys = line.split() or [""]
        if name and not keys:
            raise ValueError(f"{path}:{number}: {shorten(name)} has no key; expected a name and one key or several")
        if name in by_name:
            raise ValueError(f"{path}:{number}: {shorten(name)} has keys above already")
        if name:
            by_name[name] = tuple(keys)
    return by_name


def _with_keys(parsed: Iterable[tuple[Sentence, list[Target]]], path: Path, keys: Path | None) -> list[SenseSentence]:
    gold = read_keys(keys) if keys else {}
    tagged, names = [], set()
    for sentence, targets in parsed:
        tagged.append(SenseSentence(sentence, tuple(_keyed(t, gold.get(t.name, ()), sentence.where) for t in targets)))
        names |= {target.name for target in targets}
    if lost := next((name for name in gold if name not in names), None):
        raise ValueError(f"{keys}: {shorten(lost)} is no instance of {path}; name its own file as keys")
    return tagged


def _checked(name: str, sentences: Sequence[SenseSentence], notes: Sequence[Note] = ()) -> SenseData:
    if not any(sentence.targets for sentence in sentences):
        raise ValueError(f"{name}: no word whose sense is asked for")
    without = sum(not target.keys for sentence in sentences for target in sentence.targets)
    return SenseData(name, list(sentences), Counter({NO_KEY: without}) + Counter(note.what for note in notes))


def _keyed(target: Target, keys: tuple[str, ...], where: str) -> Target:
    """Return the target with its keys, and the part of speech that they state."""
    pos = next((pos for key in keys if (pos := pos_of_key(key))), target.pos)
    try:
        make_entry(target.lemma, pos)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return Target(target.word, target.lemma, pos, keys, target.name)


def sense_sentence(record: Any, where: str) -> SenseSentence:
    """Return a sentence of a record; `ValueError`, with the place, for what is none."""
    if isinstance(record, SenseSentence):
        return record
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: expected an object with words and senses, got {shorten(record)}")
    words = next((record[key] for key in WORD_KEYS if key in record), None)
    if not isinstance(words, (list, tuple)) or not words:
        raise ValueError(f"{where}: no list under {' or '.join(WORD_KEYS)} (found: {', '.join(map(str, record))})")
    words = tidy_words(words, f"{where}, word")
    items = record.get("senses")
    if not isinstance(items, (list, tuple)):
        raise ValueError(f"{where}: no list under 'senses' (found: {', '.join(map(str, record))})")
    document = str(next((record[key] for key in DOCUMENT_KEYS if record.get(key)), ""))
    targets = tuple(_target(item, len(words), f"{where}, sense {n}") for n, item in enumerate(items, start=1))
    return SenseSentence(Sentence(words, document=document, where=where), targets)


def _target(item: Any, num_words: int, where: str) -> Target:
    name = ""
    if isinstance(item, Mapping):
        name = str(item.get("name", ""))
        item = [item.get(key) for key in ("word", "lemma", "pos")] + [item.get("keys", ())]
    expected = "expected the position of a word, its lemma, its part of speech and its keys"
    if not isinstance(item, (list, tuple)) or not 3 <= len(item) <= 4:
        raise ValueError(f"{where}: {expected}, got {shorten(item)}")
    word, lemma, pos, *rest = item
    keys = rest[0] if rest else ()
    if isinstance(word, bool) or not isinstance(word, int) or not 0 <= word < num_words:
        raise ValueError(f"{where}: the word is {shorten(word)}; expected a position from 0 to {num_words - 1}")
    if not isinstance(lemma, str) or not lemma.strip() or not isinstance(pos, str):
        raise ValueError(f"{where}: {expected}, got {shorten(item)}")
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) and key.strip() for key in keys):
        raise ValueError(f"{where}: the keys are {shorten(keys)}; expected a list of texts")
    return _keyed(Target(word, lemma, pos, (), name), tuple(keys), where)


SENSES = RecordReader(
    what="sentence",
    make=lambda record, where, notes: sense_sentence(record, where),
    fields=TASKS["sense"].suits,
    has_columns=False,
)
