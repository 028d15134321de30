"""Which sentences a K-shot study trains on: reproducible random draws, and the paper's filter.

`draw_all` takes sentences in a random order: each one that contains a type which fewer than K taken sentences contain,
until every type has K:

    K = 1, in this order:  [LOC] taken   [LOC] skipped   [LOC, PER] taken   → every type has one

The order comes from a hash of the draw's number and the sentence, so a draw does not depend on the order of the file
and can be reproduced anywhere. Within a draw, the sentences of a smaller K are always among those of a larger one: as
long as a type has fewer than the smaller K, both take every sentence that contains it.

`draw_in_all` takes the first K of any task's examples in such an order.

`paper_draw` is section 3.4 of the backward-LM paper, as in its code: for each type X, the first K sentences of the
file whose tags are exactly {O, B-X, I-X}. There is only one such draw.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from boustro.metrics.spans import parse_tag
from boustro.tasks.data.reading import data_fingerprint
from boustro.types import Sentence


def draw_all(sentences: Sequence[Sentence], shots: Iterable[int], num_draws: int) -> dict[int, list[np.ndarray]]:
    """For every K the draws 1, 2, …: ascending indices of sentences, at least K of them for each type.

    A type that fewer sentences contain gets all of them, see `short_types`. `ValueError` for a K below 1.
    """
    shots = _checked(shots)
    held, keys = [sentence_types(s) for s in sentences], _keys(sentences)
    orders = [_random_order(keys, draw) for draw in range(1, num_draws + 1)]
    return {k: [_walk(held, order, k) for order in orders] for k in shots}


def paper_draw(sentences: Sequence[Sentence], shots: Iterable[int], num_draws: int = 1) -> dict[int, list[np.ndarray]]:
    """For every K the paper's set; there is only one, for all draws."""
    drawn: dict[int, list[np.ndarray]] = {}
    for k in _checked(shots):
        left = dict.fromkeys(types_of(sentences), k)
        taken = []
        for index, sentence in enumerate(sentences):
            types = sentence_types(sentence)
            if len(types) == 1:
                (label,) = types
                if left[label] and set(sentence.tags or ()) == {"O", f"B-{label}", f"I-{label}"}:
                    left[label] -= 1
                    taken.append(index)
        drawn[k] = [np.array(taken, np.int64)] * num_draws
    return drawn


def types_of(sentences: Sequence[Sentence]) -> list[str]:
    """Return the types of tagged sentences, sorted."""
    return sorted(set().union(*map(sentence_types, sentences)))


def sentence_types(sentence: Sentence) -> set[str]:
    """Return the types that a sentence contains."""
    if sentence.label is not None:
        return {sentence.label}
    return {parse_tag(tag)[1] for tag in sentence.tags or () if tag != "O"}


def short_types(sentences: Sequence[Sentence], chosen: np.ndarray, shots: int) -> dict[str, int]:
    """Types that fewer than `shots` of the chosen sentences contain, with the number that do."""
    counts = Counter(label for index in chosen for label in sentence_types(sentences[index]))
    return {label: counts[label] for label in types_of(sentences) if counts[label] < shots}


def draw_in_all(examples: Sequence[Any], shots: Iterable[int], num_draws: int) -> dict[int, list[np.ndarray]]:
    """For every K the draws 1, 2, …: ascending numbers of K examples in all, of any task."""
    contents = [data_fingerprint([example]) for example in examples]
    keys = [hashlib.sha256(f"{c} {n}".encode()).digest() for c, n in zip(contents, _occurrences(contents), strict=True)]
    orders = [_random_order(keys, draw) for draw in range(1, num_draws + 1)]
    return {k: [np.array(sorted(order[:k]), np.int64) for order in orders] for k in _checked(shots)}


DRAWS: dict[str, Callable[[Sequence[Any], Iterable[int], int], dict[int, list[np.ndarray]]]] = {
    "sound": draw_all,
    "own": draw_in_all,
    "paper": paper_draw,
}


def _walk(held: Sequence[set[str]], order: Sequence[int], shots: int) -> np.ndarray:
    """Return the sentences that are taken in this order."""
    counts = Counter(label for types in held for label in types)
    missing = {label: min(shots, count) for label, count in counts.items()}
    taken = []
    for index in order:
        wanted = missing.keys() & held[index]
        if wanted:
            taken.append(index)
        for label in wanted:
            missing[label] -= 1
            if not missing[label]:
                del missing[label]
        if not missing:
            break
    return np.array(sorted(taken), np.int64)


def _keys(sentences: Sequence[Sentence]) -> list[bytes]:
    """Return a hash of each sentence: its words and tags, and how many equal ones come before it."""
    labels = [s.tags or () if s.label is None else (s.label,) for s in sentences]
    contents = [(s.words, tags, s.label) for s, tags in zip(sentences, labels, strict=True)]
    keys = []
    for (words, tags, _), number in zip(contents, _occurrences(contents), strict=True):
        text = "\x1f".join((str(number), *words, "\x1e", *tags))
        keys.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return keys


def _occurrences(contents: Sequence[Hashable]) -> Iterator[int]:
    """Of each content the how many-th of its equals it is, from 1."""
    seen: Counter[Hashable] = Counter()
    for content in contents:
        seen[content] += 1
        yield seen[content]


def _random_order(keys: Sequence[bytes], draw: int) -> list[int]:
    """Return the numbers of all examples in the order of a draw."""
    salt = f"boustro draw {draw}".encode()
    hashes = [hashlib.sha256(salt + key).digest() for key in keys]
    return sorted(range(len(keys)), key=hashes.__getitem__)


def _checked(shots: Iterable[int]) -> list[int]:
    shots = list(shots)
    if any(k < 1 for k in shots):
        raise ValueError(f"K = {min(shots)}: at least 1 sentence per entity type is needed")
    return shots
