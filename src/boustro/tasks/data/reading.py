"""What a reader of labelled data returns, and the one way from there to sentences tagged in BIO.

A reader knows a format and nothing of tag schemes: it gives a `Reading`, with the tags as they stand. `label`
finds out the scheme, converts, and writes down what had to be repaired. So every format has the same rules,
and whatever is not taken over as it stands is a `Note` with its place.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from boustro.options import check_options
from boustro.tasks.data.schemes import (
    Scheme,
    detect_scheme,
    encode_tags,
    flatten_entities,
    given_place,
    invalid_tags,
    refuse_strange,
    to_bio,
)
from boustro.types import Sentence

REPAIRED = "tags that do not fit their neighbours, read as conlleval reads them"
OVERLAPPING = "entities inside or across another one; the tags hold the outermost alone"


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """How labelled data is to be read, where its form does not say so itself."""

    scheme: Scheme = "auto"
    """The tag scheme; io and labels (one label a word, no entities) are for tags without a prefix."""
    delimiter: str | None = None
    """What parts CoNLL columns: tab, space (runs of them), or any text; by default tabs where there are any."""
    word_column: int | str | None = None
    """Where the words are: a number from 0 (negative from the end), or a key's or column's name."""
    tag_column: int | str | None = None
    """Where the tags are: the same; for CoNLL-U upos, xpos, deprel, feats:KEY or misc:KEY."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a value that its option does not take."""
        check_options(self)


DEFAULT_OPTIONS = DataOptions()
Lines = Sequence[tuple[int, str]]
"""What a reader of a file is given: the numbers of lines, from 1, and the lines."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was not taken over as it stands: what (in the plural, counted), where, and in detail."""

    what: str
    where: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.detail or self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Sentences with the tags as they stand, or with their entities, or both `None` where nothing is known.

    `lines[i]` holds the line of every word of sentence `i`; it is empty for data that came from no file.
    `fallback` is the scheme of tags that have none, where the format says so (CoNLL-U: labels).
    """

    name: str
    form: str
    sentences: list[Sentence] = field(default_factory=list)
    lines: list[Sequence[int]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    fallback: Scheme | None = None

    def place(self, sentence: int, word: int = 0) -> str:
        """`file:line` of a word."""
        line = self.lines[sentence][word : word + 1] if self.lines else ()
        return f"{self.name}:{line[0]}" if line else given_place(sentence, word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Sentences tagged in BIO (or with labels), the scheme that they had, and the notes."""

    name: str
    form: str
    scheme: Scheme
    sentences: list[Sentence]
    notes: list[Note]

    def counts(self) -> Counter[str]:
        """How many notes there are of each kind."""
        return Counter(note.what for note in self.notes)


def label(reading: Reading, scheme: Scheme = "auto") -> Labelled:
    """Convert to BIO; `ValueError`, with the place, for data without labels and for tags of no known scheme."""
    if not reading.sentences:
        raise ValueError(f"{reading.name} holds no sentence; expected words and their tags")
    for number, sentence in enumerate(reading.sentences):
        where = reading.place(number) if reading.lines else f"sentence {number + 1} of {reading.name}"
        if sentence.entities is None and (sentence.tags is None or len(sentence.tags) != len(sentence.words)):
            found = "no tags" if sentence.tags is None else f"{len(sentence.tags)} tags"
            raise ValueError(f"{where}: {len(sentence.words)} words, but {found}")
        for e in sentence.entities or ():
            if not 0 <= e.start < e.end <= len(sentence):
                raise ValueError(
                    f"{where}: the entity {e.label} [{e.start}, {e.end}) lies outside {len(sentence)} words"
                )
    tagged = [s if s.entities is None else replace(s, tags=None) for s in reading.sentences]
    found = _find_scheme(reading, tagged, scheme)
    notes, sentences = list(reading.notes), []
    for number, sentence in enumerate(reading.sentences):
        if sentence.entities is not None:
            flat = flatten_entities(sentence.entities)
            hidden = [e for e in sentence.entities if e not in flat]
            tags = encode_tags(flat, len(sentence), "bio")
            for entity in hidden if tags != sentence.tags else ():  # tags that know of it were noted before
                words = " ".join(sentence.words[entity.start : entity.end])
                notes.append(Note(OVERLAPPING, reading.place(number, entity.start), f"{entity.label} {words!r}"))
            sentences.append(replace(sentence, tags=tags, entities=sentence.entities if hidden else None))
        elif found == "labels":
            sentences.append(sentence)
        else:
            tags = sentence.tags or ()
            for word, detail in invalid_tags(tags, found):
                notes.append(Note(REPAIRED, reading.place(number, word), detail))
            sentences.append(replace(sentence, tags=to_bio(tags, found)))
    return Labelled(name=reading.name, form=reading.form, scheme=found, sentences=sentences, notes=notes)


def _find_scheme(reading: Reading, tagged: list[Sentence], scheme: Scheme) -> Scheme:
    if scheme != "auto":
        refuse_strange(tagged, scheme, reading.place)
        return scheme
    try:
        return detect_scheme(tagged, reading.place)
    except ValueError:
        if reading.fallback is None:
            raise
        return reading.fallback
