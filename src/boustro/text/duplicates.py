"""Near-duplicates left out of a corpus while it is read: of documents that share most of their words, the first stays.

Similarity is the Jaccard similarity of runs of words, estimated by MinHash; locality-sensitive hashing finds the pairs
worth comparing (both by datasketch). Memory: about ten kilobytes for every document that stays.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

RUN = 5  # consecutive words that are compared as one; of a shorter document, all its words
RUNS_AT_ONCE = 10_000
HASHES = 128  # hash functions per document: the standard error of a similarity is at most 0.05
HIGHEST_THRESHOLD = 0.95  # the highest similarity that the hash table supports
ERROR_WEIGHTS = 0.1, 0.9  # costs of comparing two documents in vain, and of missing a pair of near-duplicates


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
    """The MinHash of a document's runs of words, without case, punctuation and white space."""
    words = re.findall(r"\w+", document.lower()) or [document]
    runs = (" ".join(words[start : start + RUN]).encode() for start in range(max(1, len(words) - RUN + 1)))
    sketch = datasketch.MinHash(HASHES)
    while some := list(itertools.islice(runs, RUNS_AT_ONCE)):
        sketch.update_batch(some)
    return sketch


def _datasketch() -> Any:
    try:
        import datasketch
    except ImportError as error:
        message = "--near-duplicates needs datasketch; install it with: pip install 'boustro[dedup]'"
        raise ImportError(message) from error
    return datasketch
