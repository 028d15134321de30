"""What the sense tagger learns from and answers: sentences with words whose sense is asked for.

sentence = Sentence(("the", "bank", "rose"))
SenseSentence(sentence, (Target(1, "bank", "NOUN", ("bank%1:17:01::",)),))
"""

from collections import Counter
from dataclasses import dataclass, field

from boustro.tasks.sense.inventory import Entry, make_entry
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
class Occurrence:
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
        """What tells the words of a sentence apart that are asked for."""
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
    """What was read, and what was noticed."""

    name: str
    sentences: list[SenseSentence]
    notices: Counter[str] = field(default_factory=Counter)

    def occurrences(self) -> list[Occurrence]:
        """An example for each target, in order; a sentence of a document without any is one, for its context."""
        return [
            Occurrence(item.sentence, target)
            for item in self.sentences
            for target in item.targets or ((None,) if item.sentence.document else ())
        ]
