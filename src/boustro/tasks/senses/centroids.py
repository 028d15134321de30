"""Centroids of senses, and the sense whose centroid is nearest.

    score(sense) = cosine(vector, centroid of the sense) + prior · log(count of the sense + 1)

The candidates are the senses of the word's entry (lemma and part of speech). A centroid is the mean of the vectors of a
sense's occurrences, each of length 1. The prior is chosen by leaving out one document at a time: its words are scored
with centroids and counts of the other documents only (`held_out_credit`), because the words of a document share senses.

Sources: Melamud et al. 2016 and Peters et al. 2018 (1-nearest centroid); Loureiro and Jorge 2019.
Letters: N occurrences, S senses, K senses of an entry, d width.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boustro.heads.transforms import unit
from boustro.tasks.senses.inventory import Entry

PRIORS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3)
DEFAULT_PRIOR = 0.1
"""Where no occurrence can be held out."""
BLOCK = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Centroids:
    """Senses sorted by entry and key; those of `entries[e]` are `[start, stop)`."""

    entries: dict[Entry, tuple[int, int]]
    keys: list[str]  # (S,)
    counts: np.ndarray  # (S,)
    vectors: np.ndarray  # (S, d) of length 1, float16

    def rank(self, vector: np.ndarray, entry: Entry, prior: float) -> list[tuple[str, float]]:
        """The senses of a known entry with their scores, the best first; equal scores in the order of the keys."""
        start, stop = self.entries[entry]
        cosines = self.vectors[start:stop].astype(np.float32) @ unit(np.asarray(vector, np.float32))
        scores = cosines + prior * np.log(self.counts[start:stop] + 1)
        return [(self.keys[start + i], float(scores[i])) for i in np.argsort(-scores, kind="stable")]

    def most_frequent(self, entry: Entry) -> str:
        """The sense of a known entry with most occurrences; the first of several by key."""
        start, stop = self.entries[entry]
        return self.keys[start + int(self.counts[start:stop].argmax())]

    def to_dict(self) -> dict[str, Any]:
        """All but the vectors, as JSON can hold it."""
        counts = self.counts.tolist()
        return {
            "senses": [
                [lemma, pos, dict(zip(self.keys[a:b], counts[a:b], strict=True))]
                for (lemma, pos), (a, b) in self.entries.items()
            ]
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], vectors: np.ndarray) -> "Centroids":
        """The same again; `ValueError` where the vectors are not those of these senses."""
        entries, keys, counts = {}, [], []
        for lemma, pos, senses in saved["senses"]:
            entries[lemma, pos] = (len(keys), len(keys) + len(senses))
            keys += senses
            counts += senses.values()
        if vectors.ndim != 2 or len(vectors) != len(keys):
            raise ValueError(f"vectors of shape {vectors.shape} for {len(keys)} senses")
        return cls(entries, keys, np.array(counts, np.int64), vectors)


def group_occurrences(entries: Sequence[Entry], keys: Sequence[Sequence[str]]) -> dict[Entry, dict[str, np.ndarray]]:
    """The rows of every sense, by entry and key, both sorted; an occurrence with several keys is one of each."""
    found: dict[Entry, dict[str, list[int]]] = {}
    for row, (entry, own) in enumerate(zip(entries, keys, strict=True)):
        for key in own:
            found.setdefault(entry, {}).setdefault(key, []).append(row)
    return {e: {key: np.array(senses[key]) for key in sorted(senses)} for e, senses in sorted(found.items())}


def make_centroids(vectors: np.ndarray, grouped: Mapping[Entry, Mapping[str, np.ndarray]]) -> Centroids:
    """The centroids of grouped occurrences; `vectors` (N, d) have length 1."""
    entries, keys, counts = {}, [], []
    for entry, senses in grouped.items():
        entries[entry] = (len(keys), len(keys) + len(senses))
        keys += senses
        counts += [len(rows) for rows in senses.values()]
    centroids = np.empty((len(keys), vectors.shape[1]), np.float16)
    for place, rows in enumerate(rows for senses in grouped.values() for rows in senses.values()):
        centroids[place] = unit(vectors[rows].astype(np.float32).sum(0))
    return Centroids(entries, keys, np.array(counts, np.int64), centroids)


def held_out_credit(
    vectors: np.ndarray,
    grouped: Mapping[Entry, Mapping[str, np.ndarray]],
    documents: np.ndarray,
    priors: Sequence[float] = PRIORS,
) -> tuple[np.ndarray, int]:
    """How many occurrences each prior gets right without their own document, and of how many.

    The credit (priors + 1,) is last that of the most frequent sense, of several the first by key, whatever the vectors.
    Entries with one sense, and occurrences none of whose senses is in another document, are not counted: no prior
    changes what they get. `documents` (N,) are numbers.
    """
    credit, total = np.zeros(len(priors) + 1), 0
    for senses in grouped.values():
        if len(senses) > 1:
            for right, wrong in _held_out(vectors, list(senses.values()), documents, np.array(priors)):
                credit += right
                total += wrong
    return credit, total


def _held_out(
    vectors: np.ndarray, senses: list[np.ndarray], documents: np.ndarray, priors: np.ndarray
) -> Iterator[tuple[np.ndarray, int]]:
    """(number right by prior and by frequency alone, number of occurrences) of one entry, a document at a time."""
    rows, inverse = np.unique(np.concatenate(senses), return_inverse=True)
    gold = np.zeros((len(rows), len(senses)), bool)
    gold[inverse, np.repeat(np.arange(len(senses)), [len(own) for own in senses])] = True
    x = vectors[rows].astype(np.float32)  # (N, d)
    sums, counts = gold.T.astype(np.float32) @ x, gold.sum(0)  # (K, d), (K,)
    order = np.argsort(documents[rows], kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(documents[rows][order])) + 1):
        own = gold[mine]
        left = counts - own.sum(0)
        answerable = (own & (left > 0)).any(1)
        if not answerable.any():
            continue
        centroids = unit(sums - own.T.astype(np.float32) @ x[mine])
        cosines = np.where(left > 0, x[mine] @ centroids.T, -np.inf)[answerable]  # (n, K)
        chosen = (cosines[None] + priors[:, None, None] * np.log(left + 1)).argmax(-1)  # (priors, n)
        chosen = np.vstack([chosen, np.full_like(chosen[:1], left.argmax())])
        yield own[answerable][np.arange(chosen.shape[1]), chosen].sum(1), int(answerable.sum())
