"""Examples of the sense tagger: sentences with words whose sense is asked for, and the senses that a word can have.

sentence = Sentence(("the", "bank", "rose"))
SenseSentence(sentence, (Target(1, "bank", "NOUN", ("bank%1:17:01::",)),))

An inventory lists senses by lemma and part of speech; WordNet's files are one:

    inventory = read_wordnet("/usr/share/wordnet")       # index.sense of WordNet 3.0
    inventory.senses("bank", "NOUN")                     # ("bank%1:17:01::", "bank%1:14:00::", …), first sense first

A line of index.sense is `key offset number count`. The key is `lemma%type:…`, where type 1 is a noun, 2 a verb, 3 an
adjective, 4 an adverb, 5 a satellite adjective. Source: WordNet 3.0, senseidx(5WN).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from boustro.choose import unknown
from boustro.store import fingerprint
from boustro.text.documents import read_lines
from boustro.types import Example, Sentence

INDEX = "index.sense"
POS_OF_TYPE = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
POS_OF_LETTER = {"n": "NOUN", "v": "VERB", "a": "ADJ", "s": "ADJ", "r": "ADV"}
POS_OF_PENN = {"NN": "NOUN", "VB": "VERB", "JJ": "ADJ", "RB": "ADV"}
POS = ("NOUN", "VERB", "ADJ", "ADV")
LemmaEntry = tuple[str, str]
"""A lemma, in lower case and with _ for spaces, and one of `POS`."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Sense keys by entry, the most frequent sense first."""

    entries: dict[LemmaEntry, tuple[str, ...]]
    name: str = ""

    def senses(self, lemma: str, pos: str) -> tuple[str, ...]:
        """Return the keys of an entry, none where it is not there."""
        return self.entries.get(make_entry(lemma, pos), ())

    def fingerprint(self) -> str:
        """Of its entries, wherever they were read from."""
        return fingerprint(sorted((*entry, *keys) for entry, keys in self.entries.items()))


def make_entry(lemma: str, pos: str) -> LemmaEntry:
    """`("Take place", "VB")` → `("take_place", "VERB")`; `ValueError` for an unknown part of speech."""
    return lemma.strip().lower().replace(" ", "_"), part_of_speech(pos)


def part_of_speech(tag: str) -> str:
    """Return one of `POS` for a universal tag, a Penn Treebank tag or WordNet's letter; `ValueError` for another."""
    pos = tag if tag in POS else POS_OF_LETTER.get(tag.lower()) or POS_OF_PENN.get(tag[:2])
    if pos is None:
        raise ValueError(unknown(tag, (*POS, *POS_OF_PENN, *POS_OF_LETTER), "part of speech"))
    return pos


def pos_of_key(key: str) -> str | None:
    """Return the part of speech that a WordNet key states; `None` for a key of another inventory."""
    return POS_OF_TYPE.get(key.partition("%")[2].partition(":")[0])


def read_wordnet(path: str | Path) -> Inventory:
    """Return the inventory of a WordNet folder, or of its index.sense.

    Raises `FileNotFoundError` where there is none, and `ValueError` with file:line for a line of another form.
    """
    path = Path(path)
    file = path / INDEX if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; name a folder with WordNet's {INDEX}, or that file")
    numbered: dict[LemmaEntry, list[tuple[int, str]]] = {}
    for entry, number, key in _index_lines(file):
        numbered.setdefault(entry, []).append((number, key))
    if not numbered:
        raise ValueError(f"{file}: no sense; expected lines of a key, an offset, a sense number and a count")
    return Inventory({entry: tuple(key for _, key in sorted(keys)) for entry, keys in numbered.items()}, str(path))


def _index_lines(file: Path) -> Iterator[tuple[LemmaEntry, int, str]]:
    for number, line in read_lines(file):
        fields = line.split()
        pos = pos_of_key(fields[0]) if len(fields) == 4 else None
        if pos is None or not fields[2].isdigit():
            raise ValueError(f"{file}:{number}: not a line of {INDEX} (key, offset, sense number, count)")
        yield (fields[0].partition("%")[0], pos), int(fields[2]), fields[0]


@dataclass(frozen=True, slots=True)
class Target:
    """A word of a sentence whose sense is asked for; `keys` are the gold keys, none where they are unknown."""

    word: int
    lemma: str
    pos: str
    keys: tuple[str, ...] = ()
    name: str = ""
    """Its id in the data."""

    @property
    def entry(self) -> LemmaEntry:
        """Key of an inventory: lemma and part of speech."""
        return make_entry(self.lemma, self.pos)


@dataclass(frozen=True, slots=True)
class Occurrence(Example):
    """A word in its sentence: what the task learns from. Without a target, a sentence that others are read with."""

    sentence: Sentence
    target: Target | None

    @property
    def keys(self) -> tuple[str, ...]:
        """The gold keys of the word."""
        return self.target.keys if self.target else ()

    @property
    def is_labelled(self) -> bool:
        """Whether there is a gold key."""
        return bool(self.keys)

    @property
    def marks(self) -> tuple[int, str, str] | None:
        """Position, lemma and part of speech, which tell the words of a sentence apart that are asked for."""
        return self.target and (self.target.word, self.target.lemma, self.target.pos)

    @property
    def parts(self) -> tuple[Sentence, ...]:
        """The sentence."""
        return (self.sentence,)

    @property
    def words(self) -> tuple[str, ...]:
        """All words of the sentence."""
        return self.sentence.words

    @property
    def where(self) -> str:
        """file:line, or the number of the sentence."""
        return self.sentence.where

    @property
    def document(self) -> str:
        """The document of the sentence."""
        return self.sentence.document

    def __len__(self) -> int:
        return len(self.sentence)


@dataclass(frozen=True, slots=True)
class SenseSentence:
    """A sentence and those of its words whose sense is asked for: an input of `predict`."""

    sentence: Sentence
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class SenseData:
    """Sentences that were read, and notices."""

    name: str
    sentences: list[SenseSentence]
    notices: Counter[str] = field(default_factory=Counter)

    def occurrences(self) -> list[Occurrence]:
        """Return an example for each target, in order; a sentence of a document without any is one, for its context."""
        return [
            Occurrence(item.sentence, target)
            for item in self.sentences
            for target in item.targets or ((None,) if item.sentence.document else ())
        ]
