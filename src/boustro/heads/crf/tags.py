"""Tags of a CRF, without torch: their types, the tags of an entity, and which may follow each other."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

PREFIXED = re.compile("[BIES]-.")


class Transitions(NamedTuple):
    """Valid tags to begin a sentence (C,), valid pairs (C, C; tag, next tag), and valid tags to end a sentence (C,)."""

    starts: Any
    pairs: Any
    ends: Any


class TagForm(NamedTuple):
    """The tags of a type, as ids: of a single word, of the first, an inner and the last word of several; -1 for none.

    `continues` is the tag that would continue an entity that could end; `joined`, whether it may not stand before, too.
    """

    single: int
    first: int
    inner: int
    last: int
    continues: int
    joined: bool

    def tags(self, size: int) -> list[int]:
        """Those of an entity of so many words."""
        return [self.single] if size == 1 else [self.first, *[self.inner] * (size - 2), self.last]


def split_tag(tag: str) -> tuple[str, str]:
    """`B-PER` → `("B", "PER")`, `PER` (of the IO scheme) → `("*", "PER")`, `O` → `("", "")`."""
    if PREFIXED.match(tag):
        return tag[0], tag[2:]
    return ("", "") if tag == "O" else ("*", tag)


def entity_types(tags: Sequence[str]) -> list[str]:
    """The types that tags of any scheme name, sorted."""
    return sorted({label for prefix, label in map(split_tag, tags) if prefix})


def entity_forms(tags: Sequence[str]) -> list[TagForm]:
    """One per type of `entity_types`."""
    number = {split_tag(tag): i for i, tag in enumerate(tags)}
    forms = []
    for label in entity_types(tags):
        b, i, e, s, bare = (number.get((prefix, label), -1) for prefix in "BIES*")
        if bare >= 0:
            forms.append(TagForm(bare, bare, bare, bare, bare, joined=True))
        elif e >= 0 or s >= 0:
            forms.append(TagForm(s, b, i, e, -1, joined=False))
        else:
            forms.append(TagForm(b, b, i, i, i, joined=False))
    return forms


def valid_transitions(tags: Sequence[str]) -> Transitions:
    """The transitions of a set of tags in any mixture of schemes, from the names of the tags.

    A tag may open (begin a sentence, or follow a finished tag) or not, and is finished (may end a sentence) or not. An
    unfinished entity is continued by a tag of its own type.

        BIO    B-X and O open, all are finished         O I-X is not valid, B-X I-Y is not valid
        BIOES  B-X, S-X and O open; B-X, I-X are not    B-X O is not valid, S-X I-X is not valid
        IO     all open, all are finished               I-X I-Y is valid

    If there is a B-X, an I-X (or E-X) must be opened by it; if there is an E-X, an entity must be closed by it. Names
    without B-, I-, E- or S- open and are finished. IOB1 is not supported: there I-X may begin an entity although there
    is a B-X. Raises `ValueError` where a sentence of one word has no valid tag.
    """
    parsed = [(tag[0], tag[2:]) if PREFIXED.match(tag) else ("O", tag) for tag in tags]
    known = set(parsed)
    opens = [prefix not in "IE" or ("B", label) not in known for prefix, label in parsed]
    finished = [prefix not in "BI" or ("E", label) not in known for prefix, label in parsed]
    if not any(map(all, zip(opens, finished, strict=True))):
        raise ValueError(
            f"none of the tags {', '.join(tags) or '(none)'} can stand alone: add O, or the missing S- tags"
        )
    pairs = [
        [
            (finished[before] and opens[after]) or (prefix in "BI" and next_prefix in "IE" and label == next_label)
            for after, (next_prefix, next_label) in enumerate(parsed)
        ]
        for before, (prefix, label) in enumerate(parsed)
    ]
    return Transitions(np.array(opens), np.array(pairs), np.array(finished))
