"""Tag schemes: found out from the tags, read into entities, and written again. Inside, everything speaks BIO.

IOB1   I-PER I-PER B-PER   B only where an entity follows another of its type at once
BIO    B-PER I-PER B-PER   B wherever an entity begins (IOB2)
BIOES  B-PER E-PER S-PER   ends and single words are marked as well
BILOU  B-PER L-PER U-PER   the same in other letters
BMES   B-PER E-PER S-PER   the same, M for the middle
IO     PER PER PER         no prefixes: a run of one label is one entity (only when asked for)
labels PROPN PROPN PUNCT   one label a word, such as parts of speech: no entities at all

A sequence is valid when writing its entities again gives the same tags: in BIO, `O I-PER` is read as PER [1, 2),
which is written `O B-PER`, so its second tag is not valid and was repaired.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from boustro.metrics.spans import extract_spans, is_span_tag
from boustro.types import Entity, Sentence

Scheme = Literal["auto", "bio", "iob1", "bioes", "bilou", "bmes", "io", "labels"]
Place = Callable[[int, int], str]
"""Where word `j` of sentence `i` stands, as messages say it."""

# The letter of an entity's only word, first word, words between, and last word.
LETTERS: dict[Scheme, str] = {"bio": "BBII", "bioes": "SBIE", "bilou": "UBIL", "bmes": "SBME", "iob1": "IIII"}
KNOWN: dict[Scheme, frozenset[str]] = {scheme: frozenset(letters) | {"B"} for scheme, letters in LETTERS.items()}
ALL_LETTERS = frozenset().union(*KNOWN.values())
AS_BIOES = {"bilou": {"L": "E", "U": "S"}, "bmes": {"M": "I"}}
WHY = {
    "B": "begins an entity",
    "I": "does not follow an entity of its type",
    "E": "ends an entity",
    "L": "ends an entity",
    "S": "is an entity by itself",
    "U": "is an entity by itself",
}


def given_place(sentence: int, word: int) -> str:
    """The place of a word in data that came from no file."""
    return f"sentence {sentence + 1} of the given data, word {word + 1}"


def detect_scheme(sentences: Sequence[Sentence], place: Place = given_place) -> Scheme:
    """The scheme of tagged sentences; `ValueError`, with the place, for tags that no scheme has.

    Sentences without tags have no say.
    """
    found = {tag for s in sentences for tag in s.tags or ()}
    strange = {tag for tag in found if not is_span_tag(tag, ALL_LETTERS)}
    if strange:
        raise ValueError(
            f"{_first(sentences, strange, place)} is no tag of IOB1, BIO or BIOES, such as O and B-PER; for labels "
            "without a prefix say --scheme io (a run of one label is an entity) or --scheme labels (a label a word)"
        )
    letters = {tag[0] for tag in found} - {"O"}
    if letters <= KNOWN["bio"]:
        return "iob1" if _is_iob1(sentences) else "bio"
    for scheme in ("bioes", "bilou", "bmes"):
        if letters <= KNOWN[scheme]:
            return scheme
    shown = ", ".join(_first(sentences, {t for t in found if t[0] == letter}, place) for letter in sorted(letters))
    raise ValueError(f"the tags mix the letters of several schemes: {shown}")


def refuse_strange(sentences: Sequence[Sentence], scheme: Scheme, place: Place = given_place) -> None:
    """`ValueError`, with the place, for tags that the scheme which was asked for does not have."""
    found = {tag for s in sentences for tag in s.tags or ()}
    if scheme in KNOWN:
        strange = {tag for tag in found if not is_span_tag(tag, KNOWN[scheme])}
        if strange:
            raise ValueError(f"{_first(sentences, strange, place)} is no tag of the scheme {scheme.upper()}")
    elif scheme == "io" and found - {"O"} and all(is_span_tag(tag, ALL_LETTERS) for tag in found):
        first = _first(sentences, found - {"O"}, place)
        raise ValueError(f"{first} has a prefix; --scheme io is for labels without one, so leave it out")


def tags_to_entities(tags: Sequence[str], scheme: Scheme) -> list[Entity]:
    """The entities of one sentence; a sequence that is not valid is read as conlleval reads it."""
    if scheme == "io":
        tags = [tag if tag == "O" else f"I-{tag}" for tag in tags]
    elif scheme in AS_BIOES:
        letters = AS_BIOES[scheme]
        tags = [letters.get(tag[0], tag[0]) + tag[1:] for tag in tags]
    return extract_spans(tags)


def encode_tags(entities: Iterable[Entity], num_words: int, scheme: Scheme) -> tuple[str, ...]:
    """Tags of entities that do not overlap, over word positions; IO cannot part neighbours of one type."""
    tags, ends = ["O"] * num_words, {}
    for entity in sorted(entities):
        length = entity.end - entity.start
        if scheme == "io":
            tags[entity.start : entity.end] = [entity.label] * length
            continue
        single, first, middle, last = LETTERS[scheme]
        letters = [single] if length == 1 else [first, *middle * (length - 2), last]
        if scheme == "iob1" and ends.get(entity.start) == entity.label:
            letters[0] = "B"
        tags[entity.start : entity.end] = [f"{letter}-{entity.label}" for letter in letters]
        ends[entity.end] = entity.label
    return tuple(tags)


def to_bio(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """One sentence's tags in BIO; sequences that are not valid are read as conlleval reads them."""
    return entities_to_bio(tags_to_entities(tags, scheme), len(tags))


def entities_to_bio(entities: Sequence[Entity], num_words: int) -> tuple[str, ...]:
    """BIO tags of entities that do not overlap, over word positions."""
    return encode_tags(entities, num_words, "bio")


def invalid_tags(tags: Sequence[str], scheme: Scheme) -> list[tuple[int, str]]:
    """(word, what was made of its tag) of every tag that its scheme does not allow there."""
    valid = encode_tags(tags_to_entities(tags, scheme), len(tags), scheme)
    return [
        (position, f"{tag} {WHY[right[0]]}; read as {right}")
        for position, (tag, right) in enumerate(zip(tags, valid, strict=True))
        if tag != right
    ]


def flatten_entities(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    """Entities that do not overlap, in order: the longest first, so the outermost of nested ones; then the earliest."""
    kept: list[Entity] = []
    for entity in sorted(entities, key=lambda e: (e.start - e.end, e)):
        if all(entity.end <= other.start or other.end <= entity.start for other in kept):
            kept.append(entity)
    return tuple(sorted(kept))


def gold_entities(sentence: Sentence) -> tuple[Entity, ...]:
    """A sentence's entities, over words: those that it names, overlapping or not, else what its BIO tags say.

    The label of a text is an entity that covers it.
    """
    if sentence.label is not None:
        return (Entity(sentence.label, 0, len(sentence)),)
    return sentence.entities if sentence.entities is not None else tuple(extract_spans(sentence.tags or ()))


def _is_iob1(sentences: Sequence[Sentence]) -> bool:
    """Whether entities begin with I, and none that could do so begins with B."""
    begins = set()
    for sentence in sentences:
        previous = "O"
        for tag in sentence.tags or ():
            if tag != "O" and previous[2:] != tag[2:]:
                begins.add(tag[0])
            previous = tag
    return begins == {"I"}


def _first(sentences: Sequence[Sentence], tags: set[str], place: Place) -> str:
    """`file:line: 'tag'` of the first of these tags, and how many more there are."""
    places = [(i, j, tag) for i, s in enumerate(sentences) for j, tag in enumerate(s.tags or ()) if tag in tags]
    i, j, tag = places[0]
    return f"{place(i, j)}: {tag!r}" + (f" (and {len(places) - 1:,} more like it)" if len(places) > 1 else "")
