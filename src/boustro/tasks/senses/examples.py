"""What the sense tagger learns from and answers: sentences with words whose sense is asked for.

sentence = Sentence(("the", "bank", "rose"))
SenseSentence(sentence, (Target(1, "bank", "NOUN", ("bank%1:17:01::",)),))
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from boustro.tasks.senses.inventory import Entry, make_entry
from boustro.types import Sentence


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
    def entry(self) -> Entry:
        """What an inventory is asked for."""
        return make_entry(self.lemma, self.pos)


@dataclass(frozen=True, slots=True)
class SenseSentence:
    """A sentence and those of its words whose sense is asked for."""

    sentence: Sentence
    targets: tuple[Target, ...]


def parts(example: SenseSentence) -> tuple[Sentence]:
    """What is encoded."""
    return (example.sentence,)


@dataclass(frozen=True, slots=True)
class SenseData:
    """What was read, and what was noticed."""

    name: str
    sentences: list[SenseSentence]
    notices: Counter[str] = field(default_factory=Counter)

    def targets(self) -> list[Target]:
        """All targets in order."""
        return [target for item in self.sentences for target in item.targets]

    def positions(self) -> list[int]:
        """The position of each target's word among all words of the sentences, end to end."""
        return [start + target.word for start, item in starts(self.sentences) for target in item.targets]

    def documents(self) -> list[str]:
        """The document of each target; a sentence without one is its own."""
        named = (item.sentence.document or f"sentence {start}" for start, item in starts(self.sentences))
        return [name for name, item in zip(named, self.sentences, strict=True) for _ in item.targets]


def starts(sentences: Iterable[SenseSentence]) -> Iterator[tuple[int, SenseSentence]]:
    """Each sentence with the number of words before it."""
    start = 0
    for item in sentences:
        yield start, item
        start += len(item.sentence)
