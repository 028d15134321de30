"""Which tag may follow which: derived from the names of the tags, for any mixture of schemes.

A tag may open (begin a sentence, or follow a finished tag) or not, and is finished (may end a sentence) or not. An
unfinished entity is continued by a tag of its own type.

    BIO    B-X and O open, all are finished         O I-X is not valid, B-X I-Y is not valid
    BIOES  B-X, S-X and O open; B-X, I-X are not    B-X O is not valid, S-X I-X is not valid
    IO     all open, all are finished               I-X I-Y is valid

The rules of a type follow from its own tags: an I-X (or E-X) must be opened by a B-X if there is a B-X, and
an entity must be closed by an E-X if there is an E-X. Names without B-, I-, E- or S- (O, plain labels, parts
of speech) open and are finished. IOB1 is not supported: there I-X may begin an entity although there is a B-X.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

PREFIXED = re.compile("[BIES]-.")


class Transitions(NamedTuple):
    """Valid tags to begin a sentence, valid pairs (tag, next tag), and valid tags to end a sentence."""

    starts: Bool[Tensor, " C"]
    pairs: Bool[Tensor, "C C"]
    ends: Bool[Tensor, " C"]


def valid_transitions(tags: Sequence[str]) -> Transitions:
    """The transitions of a set of tags; `ValueError` where a sentence of one word has no valid tag."""
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
    return Transitions(torch.tensor(opens), torch.tensor(pairs), torch.tensor(finished))
