"""Span masking: spans of whole words are hidden, and each piece is predicted from the span's boundary too.

    pieces     [8, 3, 4, 6, 5, 1, 9, 7]     a span of three words: pieces 2, 3 and 4, 5
    input_ids  [8, 3, M, M, M, M, 9, 7]     a whole span is masked, replaced or kept
    positions  [2, 3, 4, 5]   targets [4, 6, 5, 1]
    left       [1, 1, 1, 1]   right   [6, 6, 6, 6]     the pieces just outside: x_(s-1) and x_(e+1)
    places     [0, 1, 2, 3]                            i - s, in pieces

Lengths in words are geometric with p = 0.2, from 1 to 10 (the tail is cut off and the rest scaled up, which
gives the mean of 3.8 that the paper reports); starts are uniform among those where the span fits. Spans are drawn
until the share `Masking.rate` of the pieces is reached; the last span is cut at the last word that fits.

Two rules of our own make the boundary objective sound: a span's boundary pieces are in its own document (so a
document's first word is never hidden, unless a special piece comes before it), and at least one word separates two
spans, so that a boundary piece is never hidden itself. Source: SpanBERT, sections 3.1 and 3.2; Jurafsky & Martin,
11.5.1.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from boustro.lab.objectives.examples import IGNORED, document_ids, pad_right
from boustro.lab.objectives.masking import Masking
from boustro.lab.objectives.words import word_bounds


class SpanMasked(NamedTuple):
    """One segment as a masked LM reads it; as `Masked`, with the boundary of each position's span."""

    input_ids: Int[np.ndarray, " T"]
    positions: Int[np.ndarray, " K"]
    targets: Int[np.ndarray, " K"]
    left: Int[np.ndarray, " K"]
    right: Int[np.ndarray, " K"]
    places: Int[np.ndarray, " K"]
    documents: Int[np.ndarray, " T"]


def geometric(p: float = 0.2, longest: int = 10) -> Float[np.ndarray, " N"]:  # SpanBERT's lengths: mean 3.8
    """Probabilities of the lengths 1, 2, …, `longest`."""
    weights = p * (1 - p) ** np.arange(longest)
    return weights / weights.sum()


SPAN_LENGTHS = geometric()


def span(pieces: Int[np.ndarray, " T"], rng: np.random.Generator, masking: Masking) -> SpanMasked:
    """Hide spans of one segment."""
    documents = document_ids(pieces, masking.end_id)
    eligible, budget = masking.eligible(pieces)
    bounds = word_bounds(masking.words(pieces))
    spans = choose_spans(bounds, _inside(bounds, eligible, documents), budget, rng)
    sizes = spans[:, 1] - spans[:, 0]
    groups = np.repeat(np.arange(len(spans)), sizes)
    starts = np.repeat(spans[:, 0], sizes)
    places = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = starts + places
    room = masking.num_predictions(len(pieces))
    return SpanMasked(
        input_ids=masking.hide(pieces, chosen, rng, groups),
        positions=pad_right(chosen, room, 0),
        targets=pad_right(pieces[chosen], room, IGNORED),
        left=pad_right(starts - 1, room, 0),
        right=pad_right(np.repeat(spans[:, 1], sizes), room, 0),
        places=pad_right(places, room, 0),
        documents=documents,
    )


def choose_spans(
    bounds: Int[np.ndarray, " _"],
    inside: Bool[np.ndarray, " W"],
    budget: int,
    rng: np.random.Generator,
    lengths: Float[np.ndarray, " N"] = SPAN_LENGTHS,
) -> Int[np.ndarray, "S 2"]:
    """Spans [start, end) in pieces, in text order, of at most `budget` pieces together.

    `inside` are the words that may be in one, `lengths` the probabilities of 1, 2, … words (or the longest run whole).
    """
    sizes, free, spans = np.diff(bounds), inside.copy(), []
    cumulative, most = np.cumsum(lengths), len(lengths)
    runs, biggest = _runs(free, most), int(sizes.max(initial=0))
    while budget:
        if biggest > budget:
            free &= sizes <= budget
            runs, biggest = _runs(free, most), budget
        longest = int(runs.max(initial=0))
        if not longest:
            break
        length = min(1 + int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")), longest)
        starts = np.flatnonzero(runs >= length)
        first = int(starts[rng.integers(len(starts))])
        fitting = int(np.searchsorted(bounds[first : first + length + 1], bounds[first] + budget, side="right")) - 1
        spans.append((bounds[first], bounds[first + fitting]))
        budget -= int(bounds[first + fitting] - bounds[first])
        low = max(0, first - 1)
        free[low : first + fitting + 1] = False
        runs[low : first + fitting + 1] = 0
        before = runs[max(0, low - most) : low]
        np.minimum(before, np.arange(len(before), 0, -1), out=before)
    return np.array(sorted(spans), np.int64).reshape(-1, 2)


def _inside(
    bounds: Int[np.ndarray, " _"], eligible: Bool[np.ndarray, " T"], documents: Int[np.ndarray, " T"]
) -> Bool[np.ndarray, " W"]:
    """Words without special pieces, and with a neighbour of the same document on either side."""
    starts, ends = bounds[:-1], bounds[1:]
    inside = np.add.reduceat(eligible.astype(np.int64), starts) == ends - starts
    inside[0] = inside[-1] = False
    inside[1:-1] &= documents[starts[1:-1] - 1] == documents[starts[1:-1]]
    inside[1:-1] &= documents[np.minimum(ends[1:-1], len(documents) - 1)] == documents[starts[1:-1]]
    return inside


def _runs(free: Bool[np.ndarray, " W"], most: int) -> Int[np.ndarray, " W"]:
    """Return the number of consecutive free words from each word on, at most `most`: [1, 1, 0, 1] → [2, 1, 0, 1]."""
    places = np.arange(len(free))
    taken = np.where(free, len(free), places)
    return np.minimum(np.minimum.accumulate(taken[::-1])[::-1] - places, most)
