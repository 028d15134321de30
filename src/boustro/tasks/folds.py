"""Groups of examples that belong together, and parts of a set that are left out in turn.

    documents a a b b c, two parts               →   left out: a a, then b b c
    texts t u v t, u and v in one document       →   groups t t, u v

Whatever is chosen or judged on examples that were left out parts them here: scores, temperatures, weights, heads,
curves. The sentences of a document stay together, since they repeat its names, and so do examples with a text that is
equal or nearly equal, without case, punctuation and white space: a head that learned a text answers its copy by heart.
What is joined to one of a group is in it.

Texts that stand in many documents would join all of them. Where a group would be much larger than the documents are,
documents alone are the groups, and what has a text of the part left out is not learned either: `Kinship.rest`; unless
half of the examples would not be. Where that leaves no parts, or one with most of the examples, less is kept together,
and `Kinship.divided` says what is not.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from boustro.errors import count_of
from boustro.heads.inputs import Kinship, join
from boustro.text.duplicates import compared, number_alike

FIFTH = 5  # a single part that is left out is a fifth, as one fold of five
NEARLY, EQUAL = 0.8, 1.0  # the least share of their runs of words that two texts have in common (`text.duplicates`)
MOST = 2 / 3
"""Of the examples, the share that one group may have."""
EVEN = 1 / 3
"""The same where it is texts that join documents: parts that are even are worth more."""
UNLEARNED = 1 / 2
"""Of the examples, the share that may have a text which stands in several groups."""


class TooFew(ValueError):
    """Parts of a set cannot be left out, so that nothing can be chosen or judged by them."""


def kin(examples: Sequence[Any], most: float = MOST) -> Kinship:
    """Group what belongs together, where no group has more than a share of the examples; see the module."""
    if len(examples) < 2:
        return Kinship(np.arange(len(examples)))
    sentences = [example.shared for example in examples]
    named = [next((part.document for part in own if part.document), "") for own in sentences]
    owners = np.repeat(np.arange(len(sentences)), [*map(len, sentences)])
    wholes = [[word for part in own for word in part.words] for own in sentences]

    @cache
    def texts(threshold: float) -> np.ndarray:
        return number_alike([part.words for own in sentences for part in own], threshold)

    def documents(threshold: float) -> np.ndarray:
        """Those without a name are texts; whole ones are compared, too."""
        keys = [(name, -1) if name else ("", n) for n, name in enumerate(named)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        homes = np.array([numbers[key] for key in keys], np.int64)
        words: list[list[str]] = [[] for _ in numbers]
        for home, text in zip(homes.tolist(), wholes, strict=True):
            words[home] += text
        return number_alike(words, threshold)[homes]

    def whole(threshold: float) -> np.ndarray:
        return number_alike(wholes, threshold)

    inside = "sentences of one document"
    levels = [(documents, NEARLY, ""), (documents, EQUAL, "nearly equal texts")] if any(named) else []
    levels += [(whole, NEARLY, inside if any(named) else "")]
    levels += [(whole, EQUAL, f"{inside}, and nearly equal texts," if any(named) else "nearly equal texts")]
    for together, threshold, divided in levels:
        groups, pairs = together(threshold), (owners, texts(threshold))
        apart, joined = (Kinship(own, *pairs, divided) for own in (groups, join(groups, *pairs)))
        free = ~apart.strayed
        may = free.mean() >= 1 - UNLEARNED and max(_largest(groups), _largest(groups[free])) <= most
        if (share := _largest(joined.groups)) <= MOST and (not may or share <= max(EVEN, _largest(groups))):
            return joined
        if may:
            return apart
    for threshold in (NEARLY, EQUAL):
        if _largest(groups := whole(threshold)) <= most:
            return Kinship(groups, divided="texts that several examples have")
    return Kinship(np.arange(len(examples)), divided="equal texts")


def firsts(examples: Sequence[Any]) -> Iterator[int]:
    """Yield the numbers of the examples that are no copies of earlier ones: their texts differ in more than case and
    punctuation, or in the places that are marked. Whatever is chosen by a number of examples counts these."""
    seen = set()
    for number, example in enumerate(examples):
        known = len(seen)
        seen.add((tuple(compared(part.words) for part in example.parts), getattr(example, "marks", None)))
        if len(seen) > known:
            yield number


def num_different(examples: Sequence[Any], most: int | None = None) -> int:
    """Count the examples that are no copies, up to `most`."""
    return sum(1 for _ in islice(firsts(examples), most))


def unlearned(learned: Sequence[Any], others: Sequence[Any]) -> np.ndarray:
    """Return (N,) whether each of the others has no text that a learned example has, without case, punctuation and
    space."""
    sentences = [example.shared for example in (*learned, *others)]
    owners = np.repeat(np.arange(len(sentences)), [*map(len, sentences)])
    texts = number_alike([part.words for own in sentences for part in own], EQUAL)
    known = np.isin(texts, texts[owners < len(learned)])
    return ~np.isin(np.arange(len(learned), len(sentences)), owners[known])


def _largest(groups: np.ndarray) -> float:
    """Return the share of the largest group; more than any may have where there is one group alone."""
    sizes = np.bincount(groups)
    return sizes.max() / len(groups) if np.count_nonzero(sizes) > 1 else 2.0


def drawn_together(examples: Sequence[Any]) -> np.ndarray:
    """Return the groups of examples that a bootstrap draws as one: documents, and copies of a text, however many there
    are."""
    return kin(examples, most=1).groups


def left_out(kinship: Kinship, num_folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (learned, left out) numbers of examples, for each of at most `num_folds` parts; 1 leaves out about one
    fifth, once.

    Parts are as even as the groups allow. Raises `TooFew` for fewer than two examples.
    """
    groups = kinship.groups
    if len(groups) < 2:
        few = count_of(len(groups), "training examples")
        raise TooFew(f"{few} cannot be parted, and what was asked for needs parts that are left out")
    sizes = np.bincount(groups)
    loads = np.bincount(groups, ~kinship.strayed).astype(np.int64) * (len(groups) + 1) + sizes
    parts = min(FIFTH if num_folds == 1 else num_folds, len(sizes))
    order = np.random.default_rng(seed).permutation(len(sizes))
    homes, total = np.zeros(len(sizes), np.int64), np.zeros(parts, np.int64)
    for group in order[np.argsort(-loads[order], kind="stable")]:  # the largest first, each to the smallest part
        homes[group] = total.argmin()
        total[homes[group]] += loads[group]
    counts = np.bincount(homes, sizes, parts)
    wanted = range(parts) if num_folds > 1 else [int(np.abs(counts - len(groups) / FIFTH).argmin())]
    for part in wanted:
        outside = homes[groups] == part
        yield np.flatnonzero(kinship.rest(outside)), np.flatnonzero(outside)
