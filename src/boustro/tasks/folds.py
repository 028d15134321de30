"""What belongs together in a set of examples, and parts of it that are left out in turn.

    documents a a b b c, two parts   →   left out: a a, then b b c

The sentences of a document stay together, since they repeat its names, and so do examples of equal or nearly equal
texts, whole documents compared with whole ones: a head that learned a text answers its copy by heart. Where that would
leave no parts, or one with most of the examples, less is kept together, and `Kinship.divided` says what is not.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from boustro.text.duplicates import number_alike
from boustro.types import Sentence

FIFTH = 5
NEARLY, EQUAL = 0.8, 1.0
MOST = 2 / 3
"""Of the examples, the share that one group may have."""
Shared = Callable[[Any], Sequence[Sentence]]
"""The sentences of an example that no example on the other side may have, see `Contract.shared`."""
LEVELS = (
    (True, NEARLY, ""),
    (True, EQUAL, "nearly equal texts"),
    (False, NEARLY, "sentences of one document"),
    (False, EQUAL, "sentences of one document, and nearly equal texts,"),
)
"""Whether documents are kept together, from which similarity on texts are, and what is divided."""


class Kinship(NamedTuple):
    """(N,) numbers of the groups of examples that belong together, and what had to be divided; else ""."""

    groups: np.ndarray
    divided: str = ""


def kin(examples: Sequence[Any], shared: Shared, most: float = MOST) -> Kinship:
    """What belongs together, where no group has more than a share of the examples; see the module."""
    texts = [[word for part in shared(example) for word in part.words] for example in examples]
    named = [next((part.document for part in shared(example) if part.document), "") for example in examples]
    for whole, threshold, divided in LEVELS if any(named) else LEVELS[:2]:
        keys = [(name, -1) if whole and name else ("", n) for n, name in enumerate(named)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        homes = np.array([numbers[key] for key in keys], np.int64)
        words: list[list[str]] = [[] for _ in numbers]
        for home, text in zip(homes.tolist(), texts, strict=True):
            words[home] += text
        groups = number_alike(words, threshold)[homes]
        sizes = np.bincount(groups)
        if len(sizes) > 1 and sizes.max() <= most * len(examples):
            return Kinship(groups, divided)
    return Kinship(np.arange(len(examples)), "equal texts")


def drawn_together(examples: Sequence[Any], shared: Shared) -> np.ndarray:
    """The groups of examples that a bootstrap draws as one: documents, and copies of a text, however many there are."""
    return kin(examples, shared, most=1).groups


def left_out(
    examples: Sequence[Any], num_folds: int, seed: int, shared: Shared
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(kept, left out) numbers of examples, for each of at most `num_folds` parts; 1 leaves out about one fifth, once.

    Parts are as even as groups of `kin` allow. Raises `ValueError` for fewer than two examples.
    """
    if len(examples) < 2:
        raise ValueError(
            f"{len(examples)} training examples cannot be parted, and what was asked for needs parts that are left out"
        )
    groups = kin(examples, shared).groups
    sizes = np.bincount(groups)
    parts = min(FIFTH if num_folds == 1 else num_folds, len(sizes))
    order = np.random.default_rng(seed).permutation(len(sizes))
    homes, loads = np.zeros(len(sizes), np.int64), np.zeros(parts, np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")]:  # the largest first, each to the smallest part
        homes[group] = loads.argmin()
        loads[homes[group]] += sizes[group]
    wanted = range(parts) if num_folds > 1 else [int(np.abs(loads - len(examples) / FIFTH).argmin())]
    for part in wanted:
        outside = homes[groups] == part
        yield np.flatnonzero(~outside), np.flatnonzero(outside)
