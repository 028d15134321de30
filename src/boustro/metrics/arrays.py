"""`metrics.spans` on arrays: entities counted from tag ids, for studies that score thousands of predictions.

    tags O B-PER I-PER, ids [0 2 2 1], one sentence  →  PER [1, 3), PER [3, 4)

The rules are those of `spans.extract_spans` for the prefixes B, I and O (an `I-X` after `O` begins an entity); other
prefixes are converted to these when data are read. 50,000 words take about a millisecond.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boustro.metrics.spans import SpanCounts, parse_tag


@dataclass(frozen=True, slots=True)
class SpanArrays:
    """Entities of all sentences end to end: word `first[i]` up to `stop[i]` has `labels[label[i]]`."""

    first: np.ndarray
    stop: np.ndarray
    label: np.ndarray
    labels: tuple[str, ...]

    def per_label(self, mask: np.ndarray | None = None) -> np.ndarray:
        """(labels,) the number of entities, of those in `mask` if it is given."""
        return np.bincount(self.label if mask is None else self.label[mask], minlength=len(self.labels))


def find_spans(ids: np.ndarray, tags: Sequence[str], starts: np.ndarray, labels: Sequence[str]) -> SpanArrays:
    """Entities of `ids` (words,), which index `tags`; `starts` (sentences + 1,) is where each sentence begins.

    Raises `ValueError` for a tag with a prefix other than B, I and O, or with a label that is not in `labels`.
    """
    number = {label: i for i, label in enumerate(labels)}
    for tag in tags:
        prefix, label = parse_tag(tag)
        if prefix not in "BIO" or (prefix != "O" and label not in number):
            raise ValueError(f"{tag!r} cannot be counted: expected O, or B- or I- before one of {', '.join(labels)}")
    of_tag = np.array([number.get(parse_tag(tag)[1], -1) for tag in tags])
    begins = np.array([parse_tag(tag)[0] == "B" for tag in tags])[ids]
    label = of_tag[ids]
    opens = np.zeros(len(ids) + 1, bool)
    opens[starts] = True
    before = np.concatenate([[-1], label[:-1]]) if len(ids) else label
    first = (label >= 0) & (begins | (before != label) | opens[:-1])
    breaks = np.flatnonzero(np.concatenate([first | (label < 0), [True]]) | opens)
    rows = np.flatnonzero(first)
    stop = breaks[np.searchsorted(breaks, rows, side="right")]
    return SpanArrays(rows, stop, label[rows], tuple(labels))


def compare_spans(gold: SpanArrays, predicted: SpanArrays) -> dict[str, SpanCounts]:
    """Counts per label, as in `spans.score_spans`."""
    _, mine, theirs = np.intersect1d(gold.first, predicted.first, assume_unique=True, return_indices=True)
    same = (gold.stop[mine] == predicted.stop[theirs]) & (gold.label[mine] == predicted.label[theirs])
    columns = zip(gold.per_label(), predicted.per_label(), gold.per_label(mine[same]), strict=True)
    return {label: SpanCounts(*map(int, row)) for label, row in zip(gold.labels, columns, strict=True)}
