"""Tag schemes: detected from the tags, decoded into entities, and encoded again. All other code uses BIO only.

IOB1   I-PER I-PER B-PER   B only where an entity directly follows another of its type
BIO    B-PER I-PER B-PER   B at the start of every entity (IOB2)
BIOES  B-PER E-PER S-PER   ends and single words are marked as well
BILOU  B-PER L-PER U-PER   the same with other letters
BMES   B-PER E-PER S-PER   the same, M for the middle
IO     PER PER PER         no prefixes: a run of one label is one entity (only on request)
labels PROPN PROPN PUNCT   one label per word, such as parts of speech: no entities

A sequence is valid if encoding its entities gives the same tags. In BIO, `O I-PER` decodes to PER [1, 2), which is
encoded as `O B-PER`, so its second tag is invalid and gets repaired.

Tags in another spelling are read as `text.columns` has it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Literal

from boustro.metrics.spans import extract_spans
from boustro.text.columns import ALL_LETTERS, SPELLINGS, outside_of
from boustro.types import Entity, Sentence, is_span_tag

Scheme = Literal["auto", "bio", "iob1", "bioes", "bilou", "bmes", "io", "labels"]

# The letter of an entity's only word, first word, middle words, and last word.
LETTERS: dict[Scheme, str] = {"bio": "BBII", "bioes": "SBIE", "bilou": "UBIL", "bmes": "SBME", "iob1": "IIII"}
KNOWN: dict[Scheme, frozenset[str]] = {scheme: frozenset(letters) | {"B"} for scheme, letters in LETTERS.items()}
WHOLE_WORDS: frozenset[Scheme] = frozenset({"labels"})
"""Schemes whose tags are labels of words, and not of entities."""
BARE: frozenset[Scheme] = frozenset({"io", *WHOLE_WORDS})
"""Schemes whose tags have no prefix."""
AS_BIOES = {"bilou": {"L": "E", "U": "S"}, "bmes": {"M": "I"}}
WHY = {"B": "begins an entity", "I": "does not follow an entity of its type"}
WHY |= dict.fromkeys("EL", "ends an entity") | dict.fromkeys("SU", "is a one-word entity")
LABELS_ADVICE = (
    "(such as O or B-PER); for labels without prefixes use --scheme io, where a run of one label is an entity, or "
    "--scheme labels, one label per word"
)


def check_scheme(sentences: Sequence[Sentence], scheme: Scheme, place: Callable[[int, int], str]) -> Scheme:
    """Return the given scheme, or for `auto` the detected one; sentences without tags are ignored.

    Raises `ValueError` for a tag outside the scheme, or outside all schemes; `place(i, j)` names word `j` of sentence
    `i` in the message.
    """
    tags = {tag for s in sentences for tag in s.tags or ()}
    inside = tags - outside_of(tags)
    if scheme == "io" and inside and (inside <= with_letters(inside) or all(is_span_tag(t, ALL_LETTERS) for t in tags)):
        first = _first(sentences, inside, place)
        raise ValueError(f"{first} has a prefix; --scheme io is for labels without prefixes")
    if scheme in BARE:
        return scheme
    letters = ALL_LETTERS if scheme == "auto" else KNOWN[scheme]
    if wrong := {tag for tag in tags if not is_span_tag(tag, letters)}:
        if scheme == "auto":
            raise ValueError(_unlike_all(sentences, tags, wrong, place))
        raise ValueError(f"{_first(sentences, wrong, place)} is not a valid {scheme.upper()} tag")
    used = {tag[0] for tag in tags} - {"O"}
    if scheme != "auto":
        return scheme
    for scheme in ("bio", "bioes", "bilou", "bmes"):
        if used <= KNOWN[scheme]:
            return "iob1" if scheme == "bio" and _is_iob1(sentences) else scheme
    shown = ", ".join(_first(sentences, {t for t in tags if t[0] == letter}, place) for letter in sorted(used))
    raise ValueError(f"the tags mix the letters of several schemes: {shown}")


def tags_to_entities(tags: Sequence[str], scheme: Scheme) -> list[Entity]:
    """Return the entities of one sentence; an invalid sequence is read as conlleval reads it."""
    if scheme == "io":
        tags = [tag if tag == "O" else f"I-{tag}" for tag in tags]
    elif scheme in AS_BIOES:
        letters = AS_BIOES[scheme]
        tags = [letters.get(tag[0], tag[0]) + tag[1:] for tag in tags]
    return extract_spans(tags)


def encode_tags(entities: Iterable[Entity], num_words: int, scheme: Scheme) -> tuple[str, ...]:
    """Tags of entities that do not overlap, over words; IO cannot separate neighbours of one type."""
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
    """Return one sentence's tags in BIO; invalid sequences are read as conlleval reads them."""
    return entities_to_bio(tags_to_entities(tags, scheme), len(tags))


def entities_to_bio(entities: Sequence[Entity], num_words: int) -> tuple[str, ...]:
    """BIO tags of entities that do not overlap, over words."""
    return encode_tags(entities, num_words, "bio")


def invalid_tags(tags: Sequence[str], scheme: Scheme) -> list[tuple[int, str]]:
    """Return (word, the reason and the repair) of every tag that its scheme does not allow there."""
    valid = encode_tags(tags_to_entities(tags, scheme), len(tags), scheme)
    return [
        (position, f"{tag} {WHY[right[0]]}; read as {right}")
        for position, (tag, right) in enumerate(zip(tags, valid, strict=True))
        if tag != right
    ]


def flatten_entities(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    """Entities that do not overlap, in order: the longest first (the outermost of nested ones), then the earliest."""
    kept: list[Entity] = []
    for entity in sorted(entities, key=lambda e: (e.start - e.end, e)):
        if all(entity.end <= other.start or other.end <= entity.start for other in kept):
            kept.append(entity)
    return tuple(sorted(kept))


def gold_entities(sentence: Sentence) -> tuple[Entity, ...]:
    """Return a sentence's entities, over words: those that it names, overlapping or not, else what its BIO tags say.

    Each label of a text is an entity that covers it.
    """
    if sentence.label is not None or sentence.labels is not None:
        labels = sentence.labels or (() if sentence.label is None else (sentence.label,))
        return tuple(Entity(label, 0, len(sentence)) for label in labels)
    return sentence.entities if sentence.entities is not None else tuple(extract_spans(sentence.tags or ()))


def _is_iob1(sentences: Sequence[Sentence]) -> bool:
    """Return whether every entity that does not follow one of its own type begins with I."""
    pairs = (pair for s in sentences for pair in pairwise(("O", *(s.tags or ()))))
    return {tag[0] for before, tag in pairs if tag != "O" and before[2:] != tag[2:]} == {"I"}


def _unlike_all(
    sentences: Sequence[Sentence], tags: set[str], wrong: set[str], place: Callable[[int, int], str]
) -> str:
    """Why tags are outside all schemes, and what to do."""
    prefixed = with_letters(tags)
    first = f"{_first(sentences, (wrong - prefixed) or wrong, place)} is not a valid IOB1, BIO or BIOES tag"
    if are_bracketed(tags):
        return f"{first}: tags in brackets are not read; convert them to BIO"
    if prefixed:
        return f"{first}, unlike {min(prefixed)!r}; correct the tags, so that all have one spelling"
    return f"{first} {LABELS_ADVICE}"


def _first(sentences: Sequence[Sentence], tags: set[str], place: Callable[[int, int], str]) -> str:
    """`file:line: 'tag'` of the first of these tags, and how many more there are."""
    places = [(i, j, tag) for i, s in enumerate(sentences) for j, tag in enumerate(s.tags or ()) if tag in tags]
    i, j, tag = places[0]
    return f"{place(i, j)}: {tag!r}" + (f" (and {len(places) - 1:,} more like it)" if len(places) > 1 else "")


BRACKETED = re.compile(r"(?:\([^()*]+)+\*?\)*|\*\)*")


def with_letters(tags: Collection[str]) -> set[str]:
    """Return the tags that look as if they had a letter of a scheme, in any spelling; also where others have none."""
    prefixed = set()
    for spelling in SPELLINGS:
        matches = {tag: m["letter"].upper() for tag in tags if (m := spelling.fullmatch(tag.strip()))}
        lettered = {tag for tag, letter in matches.items() if letter in ALL_LETTERS}
        letters = {matches[tag] for tag in lettered}
        is_first = spelling is SPELLINGS[0] and letters & {"B", "I"}
        prefixed |= lettered if is_first or ("B" in letters and letters & set("IMEL")) else set()
    return prefixed


def are_bracketed(tags: Collection[str]) -> bool:
    """Return whether the tags of a file are those of CoNLL-2012: `(PER*`, `*`, `*)`."""
    return any(tag.startswith("(") for tag in tags) and all(BRACKETED.fullmatch(tag) for tag in tags)
