"""From scored spans to entities: spans that cross are resolved, and the probability threshold is chosen.

Spans are taken in order of decreasing probability; one that crosses a span already taken is left out. Nested spans
do not cross.

    [0, 3) 0.9   [2, 5) 0.8   [1, 2) 0.7     →  [0, 3) [1, 2)

Whether a span is taken depends on more probable spans only. So one pass over predictions made at a low threshold finds
the threshold of the best F1, exactly; it is mostly below 0.5, about half of that F1 (Lipton et al. 2014).

Source: Jurafsky and Martin, chapter 11.5.2, "a calibrated threshold"; the rule for overlaps is Boustro's.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from boustro.heads.inputs import sentence_starts

FLOOR = 0.01
"""The lowest threshold that calibration considers."""

GoldSpan = tuple[int, int, int]  # start, end, label id; words, half-open
GoldSpans = Sequence[Sequence[GoldSpan]]  # per sentence
FoundSpan = tuple[int, int, int, float]  # and the label's probability


def crosses(first: FoundSpan, second: FoundSpan) -> bool:
    """Return whether they share words without one containing the other; equal spans count as crossing."""
    (a, b), (c, d) = first[:2], second[:2]
    return a < c < b < d or c < a < d < b or (a, b) == (c, d)


def overlaps(first: FoundSpan, second: FoundSpan) -> bool:
    """Return whether they share words."""
    return first[0] < second[1] and second[0] < first[1]


def overlaps_or_joins(first: FoundSpan, second: FoundSpan) -> bool:
    """Return whether two spans overlap, or touch and have one label: in the IO scheme they would be one."""
    touch = first[0] <= second[1] and second[0] <= first[1]
    return (touch and first[2] == second[2]) or overlaps(first, second)


def resolve(spans: Sequence[FoundSpan], conflict: Callable[[FoundSpan, FoundSpan], bool] = crosses) -> list[FoundSpan]:
    """Return the spans of one sentence without those that conflict with a more probable one, in order of position.

    Equally probable spans are taken from left to right, the shorter first.
    """
    taken = []
    for span in sorted(spans, key=lambda s: (-s[3], *s[:3])):
        if not any(conflict(span, other) for other in taken):
            taken.append(span)
    return sorted(taken)


def decode_spans(probabilities: np.ndarray, lengths: np.ndarray, threshold: float) -> list[list[FoundSpan]]:
    """Return the spans of each sentence (S,), from probabilities (N, L, 1 + C) of null and of the labels.

    Those of [i, i + w) are at i, w - 1. A span gets its best label, and is kept if that has at least the probability
    `threshold`; where the threshold is NaN, if it is more probable than null. What runs past its sentence is left out,
    and what crosses a more probable span.
    """
    starts = sentence_starts(lengths)
    best = probabilities[..., 1:].max(-1)
    kept = best > probabilities[..., 0] if math.isnan(threshold) else best.astype(np.float64) >= threshold
    first, longer = np.nonzero(kept)
    sentences = np.searchsorted(starts, first, "right") - 1
    inside = first + longer < starts[sentences + 1]
    first, longer, sentences = first[inside], longer[inside], sentences[inside]
    labels = probabilities[first, longer, 1:].argmax(-1)
    offsets = first - starts[sentences]
    by_sentence: list[list[FoundSpan]] = [[] for _ in lengths]
    columns = (sentences, offsets, offsets + longer + 1, labels, best[first, longer])
    for number, start, stop, label, p in zip(*(column.tolist() for column in columns), strict=True):
        by_sentence[number].append((start, stop, label, p))
    return [resolve(spans) for spans in by_sentence]


def choose_threshold(predicted: Sequence[Sequence[FoundSpan]], gold: Sequence[Sequence[GoldSpan]]) -> float:
    """Return the threshold of the best entity F1, exact over all thresholds, in O(n log n) for n predicted spans.

    `predicted` is per sentence the output of `resolve`, from a threshold below the best one; `gold` has all entities.
    Among equally good thresholds the highest is taken: midway between the last span kept and the first one left out, as
    a float32; 0.5 if no prediction is correct. Raises `ValueError` when the numbers of sentences differ.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"predictions of {len(predicted)} sentences and gold spans of {len(gold)}; give the same ones")
    wanted = [set(spans) for spans in gold]
    pairs = [
        (span[3], span[:3] in gold_spans) for spans, gold_spans in zip(predicted, wanted, strict=True) for span in spans
    ]
    if not any(correct for _, correct in pairs):
        return 0.5  # nothing that was found is right, so no threshold is better than another
    pairs.sort(reverse=True)
    probabilities = np.array([p for p, _ in pairs])
    correct = np.cumsum([c for _, c in pairs])
    f1 = 200 * correct / (sum(map(len, wanted)) + np.arange(1, len(pairs) + 1))
    f1[:-1][probabilities[:-1] == probabilities[1:]] = -1  # no threshold separates equal probabilities
    last = int(f1.argmax())
    kept = float(probabilities[last])
    if last + 1 == len(pairs):
        return kept
    dropped = float(probabilities[last + 1])
    middle = float(np.float32((kept + dropped) / 2))
    return middle if dropped < middle <= kept else kept  # there may be no float32 between them


def count_unreachable(gold: GoldSpans, max_span: int) -> Counter[str]:
    """Return how many gold spans the head can never predict, by reason; empty where it can predict all.

    They are longer than `max_span`, or a second label on one span, or cross other gold spans (as many
    as `resolve` leaves out when all are equally probable).
    """
    counts: Counter[str] = Counter()
    for spans in gold:
        distinct = set(spans)
        short = {span for span in distinct if span[1] - span[0] <= max_span}
        labels = {span[:2]: span for span in sorted(short, reverse=True)}
        resolved = resolve([(*span, 1.0) for span in labels.values()])
        counts[f"gold spans of more than {max_span} words"] += len(distinct) - len(short)
        counts["gold spans with a second label"] += len(short) - len(labels)
        counts["gold spans that cross another one"] += len(labels) - len(resolved)
    return +counts


def propose_max_span(gold: GoldSpans) -> int:
    """Return the length that covers 99.9% of the gold spans, at most 16 (time grows with it); `ValueError` without
    any."""
    widths = sorted(end - start for spans in gold for start, end, _ in spans)
    if not widths:
        raise ValueError("the data have no gold span, so the longest span length is unknown; check the labels")
    return min(16, widths[math.ceil(0.999 * len(widths)) - 1])
