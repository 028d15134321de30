"""From scored spans to entities: which may stand together, and from which probability on.

Spans are taken in the order of falling probability, and one that clashes with a span already taken is left
out. What clashes is named: `nested` forbids spans that cross, `flat` any that share a word.

    [0, 3) 0.9   [2, 5) 0.8   [1, 2) 0.7     nested → [0, 3) [1, 2)     flat → [0, 3)

Whether a span is taken depends on more probable ones only. So the answer at a threshold is the answer at
any lower threshold, cut off there: one pass over predictions made at a low threshold finds the threshold of
the best F1, exactly. On calibrated probabilities it lies near half of that F1 (Lipton et al. 2014), hence
mostly below one half. Source: chapter 11.5.2, "a calibrated threshold"; the overlap rules are ours.

What this does not do: choose labels (`heads/span.py` gives each span its best one) or score tags
(`metrics/spans.py`).
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

GoldSpan = tuple[int, int, int]  # start, end, label id; words, half-open
FoundSpan = tuple[int, int, int, float]  # and the label's probability


def crosses(first: FoundSpan, second: FoundSpan) -> bool:
    """Whether they share words without one holding the other; the same span twice counts as crossing."""
    (a, b), (c, d) = first[:2], second[:2]
    return a < c < b < d or c < a < d < b or (a, b) == (c, d)


def overlaps(first: FoundSpan, second: FoundSpan) -> bool:
    """Whether they share a word."""
    return first[0] < second[1] and second[0] < first[1]


OVERLAP: dict[str, Callable[[FoundSpan, FoundSpan], bool]] = {"nested": crosses, "flat": overlaps}


def clash_rule(overlap: str) -> Callable[[FoundSpan, FoundSpan], bool]:
    """The rule of that name; `ValueError` for an unknown one."""
    if overlap not in OVERLAP:
        near = difflib.get_close_matches(overlap, OVERLAP, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown overlap {overlap!r}: known are {', '.join(OVERLAP)}{hint}")
    return OVERLAP[overlap]


def resolve(found: Sequence[FoundSpan], overlap: str = "nested") -> list[FoundSpan]:
    """The spans of one sentence that may stand together, in order of position.

    Equally probable ones are taken from left to right, the shorter first. `ValueError` for an unknown `overlap`.
    """
    clash, taken = clash_rule(overlap), []
    for span in sorted(found, key=lambda s: (-s[3], *s[:3])):
        if not any(clash(span, other) for other in taken):
            taken.append(span)
    return sorted(taken)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The threshold chosen, and what it gives on the sentences that chose it: entity F1 in percent."""

    threshold: float
    f1: float
    num_gold: int
    num_predicted: int
    num_correct: int


def choose_threshold(found: Sequence[Sequence[FoundSpan]], gold: Sequence[Sequence[GoldSpan]]) -> Calibration:
    """The threshold of the best entity F1, exact over all of them, in O(n log n) for n predicted spans.

    Args:
        found: Per sentence what `resolve` left, from a threshold low enough to lie below the best one.
        gold: Per sentence all entities, also those that no span can reach.

    Among equally good thresholds the highest is taken. It lies midway between the last span kept and the
    first one left out, as a float32. Where no prediction is right, every threshold gives 0, and it is 0.5.
    `ValueError` when the numbers of sentences differ.
    """
    if len(found) != len(gold):
        raise ValueError(f"predictions of {len(found)} sentences and gold spans of {len(gold)}; give the same ones")
    wanted = [set(spans) for spans in gold]
    num_gold = sum(map(len, wanted))
    pairs = [
        (span[3], span[:3] in gold_spans) for spans, gold_spans in zip(found, wanted, strict=True) for span in spans
    ]
    if not any(correct for _, correct in pairs):
        return Calibration(0.5, 0.0, num_gold, sum(p >= 0.5 for p, _ in pairs), 0)
    pairs.sort(reverse=True)
    probabilities = np.array([p for p, _ in pairs])
    correct = np.cumsum([c for _, c in pairs])
    f1 = 200 * correct / (num_gold + np.arange(1, len(pairs) + 1))
    f1[:-1][probabilities[:-1] == probabilities[1:]] = -1  # no threshold parts equal probabilities
    last = int(f1.argmax())
    threshold = kept = float(probabilities[last])
    if last + 1 < len(pairs):
        dropped = float(probabilities[last + 1])
        middle = float(np.float32((kept + dropped) / 2))
        threshold = middle if dropped < middle <= kept else kept  # neighbours have nothing between them
    return Calibration(threshold, float(f1[last]), num_gold, last + 1, int(correct[last]))
