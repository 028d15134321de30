"""Entity boundaries and entity types by two small heads, instead of one head over BIO tags.

    inside   scores every word: outside or inside an entity
    type     scores every entity, from the mean of its words' vectors

    words    Bank  of  England  cut  rates
    inside    1     1     1      0     0      →  an entity [0, 3)
    type     of (Bank + of + England) / 3     →  ORG

With BIO every type is learned twice, from B- and from I- words. Here all entities train `inside`, and one informative
word determines the type of the whole name. The disadvantage: adjacent entities become one, unless a CRF over B, I and O
finds the boundaries.

Letters: N words, E entities, d width, T types. `starts` (sentences + 1,) is where each sentence begins.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from boustro.heads.crf import entity_forms, entity_types
from boustro.heads.decoding import LikelyWords, per_sentence
from boustro.heads.inputs import sentence_starts


class Runs(NamedTuple):
    """Entities [first, stop) over the words of all sentences, in order."""

    first: np.ndarray
    stop: np.ndarray

    def per_sentence(self, starts: np.ndarray) -> np.ndarray:
        """Return (sentences + 1,): where the entities of each sentence begin among all entities."""
        return np.searchsorted(self.first, starts)


def find_runs(kinds: np.ndarray, begins: np.ndarray, starts: np.ndarray) -> Runs:
    """Entities from the type of each word (N,), -1 outside; `begins` (N,) and sentences break runs of one type."""
    opens = np.zeros(len(kinds) + 1, bool)
    opens[starts] = True
    first = (kinds >= 0) & (begins | opens[:-1] | (kinds != np.roll(kinds, 1)))
    breaks = np.flatnonzero(np.append(first | (kinds < 0), True) | opens)
    rows = np.flatnonzero(first)
    return Runs(rows, breaks[np.searchsorted(breaks, rows, "right")])


def mean_vectors(vectors: np.ndarray, runs: Runs) -> np.ndarray:
    """Return (E, d) float32: the mean of each entity's words, of vectors (N, d)."""
    lengths = runs.stop - runs.first
    means = np.empty((len(lengths), vectors.shape[1]), np.float32)
    for length in np.unique(lengths):
        has_length = lengths == length
        rows = runs.first[has_length, None] + np.arange(length)
        means[has_length] = vectors[rows].mean(1, dtype=np.float32)
    return means


def read_runs(
    inside: np.ndarray,
    types: Callable[[Runs], np.ndarray],
    labels: Sequence[str],
    lengths: np.ndarray,
    words: LikelyWords | None = None,
) -> list[tuple[np.ndarray, ...]]:
    """Per sentence the ids of its tags (W,), places in `labels`, and their probabilities (W,).

    Args:
        inside: (N, 2) probabilities of outside and inside.
        types: The probabilities (E, T) of the types of entities; there may be more columns behind them, which are 0.
        lengths: (S,) words of each sentence.
        words: Words that are inside although they are unlikely to be.
    """
    starts, forms = sentence_starts(lengths), entity_forms(labels)
    is_inside = inside[:, 1] > inside[:, 0]
    if words is not None:
        is_inside |= inside[:, 1] >= words.least
    counts = np.ones(len(forms), bool) if words is None else words.counts(entity_types(labels))
    # words that are inside for themselves are runs of their own, so that no unlikely word gives them another type
    kinds = np.where(inside[:, 1] > inside[:, 0], 0, np.where(is_inside, 1, -1))
    runs = find_runs(kinds, np.zeros(len(inside), bool), starts)
    ids, chosen = np.full(len(inside), labels.index("O")), inside.max(1)
    own = ids.copy()
    probabilities = types(runs)[:, : len(forms)]
    for first, stop, scores in zip(runs.first.tolist(), runs.stop.tolist(), probabilities, strict=True):
        likely = words is not None and inside[first:stop, 1].max() * scores[counts].sum() >= words.least
        if kinds[first] == 0:
            own[first:stop] = forms[int(scores.argmax())].tags(stop - first)
        elif not likely:  # of a type that does not count
            continue
        kind = int(np.where(counts, scores, -1).argmax() if likely else scores.argmax())
        ids[first:stop] = forms[kind].tags(stop - first)
        chosen[first:stop] = inside[first:stop, 1] * scores[kind]
    return per_sentence(lengths, ids, chosen, *(words.beside(own, ids, labels) if words else ()))


ALIASES = (
    ("PERSON", "PERSONS", "PEOPLE", "PER", "PERS"),
    ("PLACE", "PLACES", "LOCATION", "LOCATIONS", "LOC", "GPE"),
    ("ORGANISATION", "ORGANISATIONS", "ORGANIZATION", "ORGANIZATIONS", "ORG", "COMPANY", "COMPANIES"),
    ("OTHER", "OTHERS", "MISC", "MISCELLANEOUS"),
)
"""What labels of a kind of name are called."""
SPECIFIC = ("COMPANY", "COMPANIES")
"""Names of a kind that mean less than the kind, where types of one's own stand beside each other."""


def aliases(label: str) -> tuple[str, ...]:
    """Return the names of the kind that a label is called by, or its own alone."""
    return next((names for names in ALIASES if label.upper() in names), (label,))


def kind_names(label: str) -> tuple[str, ...]:
    """Return the names of the kind that a type is called by, or its own alone; a company is no kind beside types."""
    return (label,) if label.upper() in SPECIFIC else aliases(label)


def factored_tags(types: list[str]) -> list[str]:
    """Outside, then every type as B- and as I-."""
    return ["O", *(f"B-{t}" for t in types), *(f"I-{t}" for t in types)]
