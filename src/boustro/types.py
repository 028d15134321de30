"""The two things that everything else talks about: a sentence and an entity.

Positions are half-open: `Entity("PER", 0, 2)` covers units 0 and 1. In a sentence of words the
unit is a word; in the answer of `Tagger.predict` it is a character of the text that was given.
"""

import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Direction = Literal["forward", "backward"]
"""Which way a causal LM reads."""
NO_ANSWER = "no answer"
"""The label of a question that its context does not answer."""
NO_LABEL = "(no label)"
"""The name, in scores and reports, of the label "" of a text that fits no label."""


class TypedLabel(str):
    """A label that was given as a number, a boolean or a text in another form, under the name that it has in files.

    Attributes:
        value: As it was given.
    """

    value: bool | int | float | str

    def __new__(cls, value: bool | int | float | str, name: str = "") -> "TypedLabel":
        """Return the label of a value, by default named as Python writes it."""
        made = super().__new__(cls, name or value)
        made.value = float(value) if isinstance(value, float) else value  # a subclass would be another kind of label
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, str(self))


@dataclass(frozen=True, slots=True)
class Entity:
    """A labelled span `[start, end)`; `text` and `score` (a probability) when a tagger made it.

    Entities are sorted as they stand in the text: by their start, then the longer first, then by label.
    """

    label: str
    start: int
    end: int
    text: str = ""
    score: float | None = None

    def __lt__(self, other: "Entity") -> bool:
        return (self.start, -self.end, self.label) < (other.start, -other.end, other.label)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields by name, as JSON can hold them."""
        return asdict(self)


def short_score(score: float | None) -> float:
    """Return a score in eight digits, which are as exact as a float32 and make files half as long as all of them; 0.0
    for none."""
    return float(f"{score or 0.0:.8g}")


class Example:
    """Unit that a head learns from and answers: of a tagger a `Sentence`, of other tasks what these read."""

    __slots__ = ()

    @property
    def parts(self) -> "tuple[Sentence, ...]":
        """Its sentences, which are encoded; as many for each example of a task."""
        assert isinstance(self, Sentence)
        return (self,)

    @property
    def shared(self) -> "tuple[Sentence, ...]":
        """The sentences that tell of its answer what other examples of them have: those stay together where parts are
        left out, or drawn (`tasks.folds`). By default all its parts."""
        return self.parts

    @property
    def is_labelled(self) -> bool:
        """Whether a head learns from it, where it is in a training set. By default it does."""
        return True


@dataclass(frozen=True, slots=True)
class Sentence(Example):
    """Words, with their tags where they are known.

    `spaces[i]` tells whether white space stands before word `i` in running text; `None` means that
    nobody knows (a CoNLL file), and `text.alignment` guesses. Sentences that follow each other and name
    the same `document` belong together; without a name, a sentence stands alone. `where` is `file:line`,
    for messages. `entities`, over words, are there when some overlap, which tags cannot say: the tags then
    hold the outermost. `None` means what the tags say (`tasks.data.schemes.gold_entities` gives either). `label` is
    that of a whole text, whose words are then all here; `labels` are those of a text that may have several or none;
    `score` is its number, and `text` what was given, where other than single spaces stands between words.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    spaces: tuple[bool, ...] | None = None
    document: str = ""
    where: str = ""
    entities: tuple[Entity, ...] | None = None
    label: str | None = None
    labels: tuple[str, ...] | None = None
    score: float | None = None
    text: str | None = None

    def __len__(self) -> int:
        return len(self.words)

    def without(self, word: int) -> "Sentence":
        """Return the text without one of its words; tags and entities, which are of words, go with it."""
        spaces = self.spaces and self.spaces[:word] + self.spaces[word + 1 :]
        words = self.words[:word] + self.words[word + 1 :]
        return replace(self, words=words, spaces=spaces, tags=None, entities=None, text=None)

    def without_each(self) -> Iterator["Sentence"]:
        """Yield the sentence without each of its words."""
        return (self.without(word) for word in range(len(self.words)))

    @property
    def composed(self) -> "Sentence":
        """The sentence in NFC, as encoders read it: a letter and its mark are one character where there is one.

        Files of macOS and texts of PDF files have them apart, which no vocabulary and no list of names has.
        """
        words = tuple(map(compose, self.words))
        return self if words == self.words else replace(self, words=words, text=self.text and compose(self.text))

    @property
    def is_labelled(self) -> bool:
        """Whether anything is known of what its words are; an empty list of entities is knowledge."""
        return any(given is not None for given in (self.tags, self.entities, self.label, self.labels, self.score))


def compose(text: str) -> str:
    """Return a text in NFC."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@dataclass(frozen=True, slots=True)
class Note:
    """One change to the data: its kind (in the plural, for counts), its place, and the detail."""

    what: str
    where: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.detail or self.what}"


def label_set(text: Any) -> tuple[str, ...]:
    """Return the labels of a text, whether it may have several or one."""
    if text.labels is not None:
        return text.labels
    return () if text.label is None else (text.label,)


def is_span_tag(tag: str, prefixes: Collection[str] = "BIES") -> bool:
    """Return whether a tag is `O`, or one of the prefixes, a hyphen and a type."""
    return tag == "O" or (tag[1:2] == "-" and len(tag) > 2 and tag[0] in prefixes)
