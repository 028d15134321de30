"""Tag schemes: found out from the tags, and turned into BIO, which everything inside speaks.

IOB1   I-PER I-PER B-PER   B only where an entity follows another of its type at once
BIO    B-PER I-PER B-PER   B wherever an entity begins (IOB2)
BIOES  B-PER E-PER S-PER   ends and single words are marked as well
IO     PER PER PER         no prefixes: a run of one label is one entity (only when asked for)
"""

from collections.abc import Sequence
from typing import Literal

from boustro.metrics.spans import extract_spans, parse_tag
from boustro.types import Entity, Sentence

Scheme = Literal["auto", "bio", "iob1", "bioes", "io"]
PREFIXES = frozenset("BIOES")


def detect_scheme(sentences: Sequence[Sentence]) -> Scheme:
    """The scheme of tagged sentences; `ValueError`, with file:line, for a tag that no scheme has."""
    begins_with_b = begins_with_i = ends_marked = False
    for sentence in sentences:
        previous, label = "O", ""
        for offset, tag in enumerate(sentence.tags or ()):
            prefix, current = parse_tag(tag)
            if prefix not in PREFIXES or (prefix == "O") != (tag == "O") or (prefix != "O" and not current):
                raise ValueError(
                    f"{word_place(sentence, offset)}: {tag!r} is no tag of IOB1, BIO or BIOES, such as O and B-PER; "
                    "for labels without a prefix say --scheme io"
                )
            ends_marked |= prefix in "ES"
            if prefix == "B" and (previous == "O" or label != current):
                begins_with_b = True
            if prefix == "I" and (previous == "O" or label != current):
                begins_with_i = True
            previous, label = prefix, current
    if ends_marked:
        return "bioes"
    return "iob1" if begins_with_i and not begins_with_b else "bio"


def to_bio(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """One sentence's tags in BIO; sequences that are not valid are read as conlleval reads them."""
    if scheme == "io":
        tags = [tag if tag == "O" else f"I-{tag}" for tag in tags]
    return entities_to_bio(extract_spans(tags), len(tags))


def entities_to_bio(entities: Sequence[Entity], num_words: int) -> tuple[str, ...]:
    """BIO tags of entities that do not overlap, over word positions."""
    tags = ["O"] * num_words
    for entity in entities:
        tags[entity.start] = f"B-{entity.label}"
        for position in range(entity.start + 1, entity.end):
            tags[position] = f"I-{entity.label}"
    return tuple(tags)


def word_place(sentence: Sentence, offset: int) -> str:
    """`file:line` of a word, when the sentence came from a file with one word a line."""
    path, _, line = sentence.where.rpartition(":")
    return f"{path}:{int(line) + offset}" if line.isdigit() else "the given data"


def from_bio(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """BIO tags in another scheme: bio and labels as they stand, io with `I-` only, bioes with ends and single words.

    `B-PER I-PER B-LOC`  →  io `I-PER I-PER I-LOC`, bioes `B-PER E-PER S-LOC`
    """
    if scheme in ("bio", "labels"):
        return tuple(tags)
    if scheme == "io":
        return tuple(tag if tag == "O" else f"I-{parse_tag(tag)[1]}" for tag in tags)
    if scheme != "bioes":
        raise ValueError(f"unknown scheme {scheme!r} to learn: known are bio, io, bioes")
    ending = {e.end - 1 for e in extract_spans(tags)}
    names = {"B": "S", "I": "E"}
    return tuple(names[t[0]] + t[1:] if i in ending else t for i, t in enumerate(tags))


def is_bio(sentences: Sequence[Sentence]) -> bool:
    """Whether all tags are BIO tags; if not, they are labels of words and mark no spans."""
    return all(tag == "O" or tag[:2] in ("B-", "I-") for tag in {t for s in sentences for t in s.tags or ()})
