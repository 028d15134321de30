"""Near-duplicates left out of a corpus as it streams by: of documents that share most of their words, the first stays.

How much two documents share is the Jaccard similarity of their runs of words, estimated by MinHash; a table of bands
finds those worth comparing (both by datasketch). Memory: about ten kilobytes for every document that stays.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

RUN = 5
"""Words in a row that are compared as one; of a shorter document, all its words."""
RUNS_AT_ONCE = 10_000
HASHES = 128
"""Functions a document's runs are hashed by: the standard error of a similarity is a twentieth at most."""
ALMOST_THE_SAME = 0.95
"""The highest similarity that the table can be laid out for."""
RATHER_COMPARE = 0.1, 0.9
"""How bad it is to compare two documents in vain, and to miss two that are alike."""


@dataclass
class NearDuplicates:
    """Passes documents on, but for those whose similarity to one that was passed on is `threshold` or more."""

    threshold: float
    left_out: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"a similarity lies above 0 and at most at 1, not at {self.threshold}")
        _datasketch()

    def filter(self, documents: Iterable[str]) -> Iterator[str]:
        """Documents in their order; `left_out` counts anew."""
        datasketch = _datasketch()
        self.left_out, kept = 0, list[Any]()
        table = datasketch.MinHashLSH(min(self.threshold, ALMOST_THE_SAME), HASHES, weights=RATHER_COMPARE)
        for document in documents:
            sketch = _sketch(document, datasketch)
            if any(sketch.jaccard(kept[number]) >= self.threshold for number in table.query(sketch)):
                self.left_out += 1
                continue
            table.insert(len(kept), sketch, check_duplication=False)
            kept.append(sketch)
            yield document


def _sketch(document: str, datasketch: Any) -> Any:
    """The MinHash of a document's runs of words, whatever their case and what stands between them."""
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
        raise ImportError(
            "--near-duplicates needs datasketch; install it with: pip install 'boustro[dedup]'"
        ) from error
    return datasketch
