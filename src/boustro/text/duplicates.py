"""Near-duplicates left out of a corpus while it is read, and texts of a data set that are alike.

    NearDuplicates   of documents that share most of their words, the first stays
    number_alike     ["Ada left.", "It rained.", "ADA left"]  →  [0, 1, 0]

In a corpus similarity is the Jaccard similarity of runs of words, estimated by MinHash; locality-sensitive hashing
finds the pairs worth comparing (both by datasketch). Memory: about ten kilobytes for every document that stays. In a
data set it is that of words, found by their rarest ones (Bayardo, Ma and Srikant 2007, section 4, prefix filtering).
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boustro.text.words import plain_words

RUN = 5  # consecutive words that are compared as one; of a shorter document, all its words
RUNS_AT_ONCE = 10_000  # rows of the sketch that are built in one array
HASHES = 128  # hash functions per document: the standard error of a similarity is at most 0.05
HIGHEST_THRESHOLD = 0.95  # the highest similarity that the hash table supports
ERROR_WEIGHTS = 0.1, 0.9  # costs of comparing two documents in vain, and of missing a pair of near-duplicates
LATEST = 50  # texts that are compared for each word they share: a bound where thousands are made from one pattern


@dataclass
class NearDuplicates:
    """Yields documents, except those whose similarity to an earlier one is at least `threshold`."""

    threshold: float
    left_out: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"a similarity must be above 0 and at most 1, not {self.threshold}")
        _datasketch()

    def filter(self, documents: Iterable[str]) -> Iterator[str]:
        """Documents in their order; `left_out` is counted from 0."""
        datasketch = _datasketch()
        self.left_out, kept = 0, list[Any]()
        table = datasketch.MinHashLSH(min(self.threshold, HIGHEST_THRESHOLD), HASHES, weights=ERROR_WEIGHTS)
        for document in documents:
            sketch = _sketch(document, datasketch)
            if any(sketch.jaccard(kept[number]) >= self.threshold for number in table.query(sketch)):
                self.left_out += 1
                continue
            table.insert(len(kept), sketch, check_duplication=False)
            kept.append(sketch)
            yield document


def _sketch(document: str, datasketch: Any) -> Any:
    """Return the MinHash of a document's runs of words, without case, punctuation and white space."""
    words = plain_words(document.lower()) or [document]
    runs = (" ".join(words[start : start + RUN]).encode() for start in range(max(1, len(words) - RUN + 1)))
    sketch = datasketch.MinHash(HASHES)
    while some := list(itertools.islice(runs, RUNS_AT_ONCE)):
        sketch.update_batch(some)
    return sketch


def number_alike(texts: Sequence[Sequence[str]], threshold: float) -> np.ndarray:
    """Return (N,) the group of each text, numbered as they come: alike are those whose words, without case and
    punctuation, are equal or have a Jaccard similarity of at least `threshold`, and what is alike to one of a group is
    in it."""
    plain = [*map(compared, texts)]
    homes: dict[tuple[str, ...], int] = {words: number for number, words in enumerate(dict.fromkeys(plain))}
    roots = list(range(len(homes)))

    def root(number: int) -> int:
        while roots[number] != number:
            roots[number] = number = roots[roots[number]]
        return number

    for first, second in _pairs([*homes], threshold) if threshold < 1 else ():
        roots[root(second)] = root(first)
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(root(homes[words]), len(numbers)) for words in plain], np.int64)


def compared(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a text is compared by: without case and punctuation, unless it has nothing else."""
    return tuple(plain_words(" ".join(words).casefold())) or tuple(words)


def _pairs(texts: Sequence[Sequence[str]], threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs of texts whose bags of words are so similar: they share one of the rarest words of each."""
    counted = [Counter(words) for words in texts]
    bags = [{(word, n) for word, count in counts.items() for n in range(count)} for counts in counted]
    frequency = Counter(token for bag in bags for token in bag)
    holders: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number in sorted(range(len(bags)), key=lambda n: len(bags[n])):
        bag, size = bags[number], len(bags[number])
        rare = sorted(bag, key=lambda token: (frequency[token], token))[: size - math.ceil(threshold * size) + 1]
        near = {other for token in rare for other in holders[token][-LATEST:]}
        for other in sorted(near):
            both = len(bag & bags[other])
            if both >= threshold * (size + len(bags[other]) - both):
                yield other, number
        for token in rare:
            holders[token].append(number)


def _datasketch() -> Any:
    try:
        import datasketch
    except ImportError as error:
        message = "--near-duplicates needs datasketch; install it with: pip install 'boustro[dedup]'"
        raise ImportError(message) from error
    return datasketch
