"""Tags of a CRF and their best sequences, without torch: which tags may follow each other, and the best tags of
sentences and the probabilities of tags, under the chain of `crf.layer`.

A trained head and an exported one decode here. All sentences are processed together, time step by time step, without
padding, in float64.

Source: Rabiner 1989, section III. N words of a batch, end to end; S sentences, `lengths` (S,); C tags.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from boustro.heads.inputs import each_step

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
    """Return the types that tags of any scheme name, sorted."""
    return sorted({label for prefix, label in map(split_tag, tags) if prefix})


def entity_forms(tags: Sequence[str]) -> list[TagForm]:
    """Return one per type of `entity_types`."""
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
    """Return the transitions of a set of tags in any mixture of schemes, from the names of the tags.

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


TINY = 1e-300
"""Instead of 0, so that there is no log 0 and no 0 / 0."""
LOWEST = -1e6
"""Instead of log 0, so that a valid sequence is found even where all have probability 0."""


class Chain(NamedTuple):
    """Scores of first tags (C,), of pairs (C, C; tag, next tag), of last tags (C,); float64, -∞ where not valid.

    Arrays or tensors; of many heads with a first axis of heads.
    """

    starts: Any
    transitions: Any
    ends: Any

    def over(self, temperature: float) -> "Chain":
        """Return all scores divided by a temperature."""
        return self if temperature == 1 else Chain(*(part / temperature for part in self))


def best_path(scores: np.ndarray, lengths: np.ndarray, chain: Chain) -> np.ndarray:
    """Return (N,) the tags of the sequence with the highest score, from scores (N, C); among equals, any."""
    result = np.empty(len(scores), np.int64)
    steps = list(each_step(lengths))
    reached, best, pointers = chain.starts, [], []
    for rows, num_going_on in zip(steps, [*map(len, steps[1:]), 0], strict=False):
        best.append(reached + scores[rows])
        linked = best[-1][:num_going_on, :, None] + chain.transitions
        pointers.append(linked.argmax(1))
        reached = np.take_along_axis(linked, pointers[-1][:, None], 1)[:, 0]
    tags = np.empty(0, np.int64)
    for rows, score, pointer in zip(reversed(steps), reversed(best), reversed(pointers), strict=True):
        earlier = np.take_along_axis(pointer, tags[:, None], 1)[:, 0]
        tags = np.concatenate([earlier, (score[len(earlier) :] + chain.ends).argmax(-1)])
        result[rows] = tags
    return result


def best_valid(scores: np.ndarray, lengths: np.ndarray, tags: Sequence[str]) -> np.ndarray:
    """Return (N,) the best valid sequence of a head without a CRF; a constant added to a word's scores changes
    nothing."""
    valid = valid_transitions(tags)
    free = make_chain(valid, *(np.zeros(allowed.shape) for allowed in valid))
    return best_path(np.maximum(scores.astype(np.float64), LOWEST), lengths, free)


def make_chain(valid: Transitions, starts: np.ndarray, transitions: np.ndarray, ends: np.ndarray) -> Chain:
    """Return the scores where they are valid, -∞ elsewhere, in float64."""
    parts = zip((starts, transitions, ends), valid, strict=True)
    return Chain(*(np.where(allowed, part.astype(np.float64), -np.inf) for part, allowed in parts))


def posteriors(scores: np.ndarray, lengths: np.ndarray, chain: Chain) -> np.ndarray:
    """Return (N, C) the probability of each tag at each word, given the whole sentence."""
    ahead, back = messages(scores, lengths, chain)
    return softmax(ahead + back - scores)


def messages(scores: np.ndarray, lengths: np.ndarray, chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, C) log of the sums over all paths to a tag at a word, from either end; both include the word's own
    score."""
    ends = (chain.starts, chain.transitions, False), (chain.ends, chain.transitions.T, True)
    ahead, back = (_messages(scores, lengths, *end) for end in ends)
    return ahead, back


def _messages(
    scores: np.ndarray, lengths: np.ndarray, edge: np.ndarray, transitions: np.ndarray, backwards: bool
) -> np.ndarray:
    result, reached, links = np.empty_like(scores), edge[None], np.exp(transitions)
    steps = list(each_step(lengths, backwards))
    for rows, num_going_on in zip(steps, [*map(len, steps[1:]), 0], strict=False):
        result[rows] = message = reached + scores[rows]
        message = message[:num_going_on]
        peak = message.max(-1, keepdims=True)
        reached = np.log(np.maximum(np.exp(message - peak) @ links, TINY)) + peak
    return result


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis, in the type of the scores."""
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Along the last axis; -∞ where all are."""
    peak = np.maximum(x.max(-1), np.finfo(x.dtype).min)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - peak[..., None]).sum(-1)) + peak
