"""Beam search from both ends: in each step every filling grows by a piece at its left or at its right end.

    ab . .      →  ab v .     ab . w      the best by the sum of the log-probabilities of what each LM wrote

The last piece is chosen by both LMs. Two orders of writing that lead to the same pieces are one filling.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from torch import Tensor

from boustro.generation.both_ends.pair import Ends

Pieces = tuple[int, ...]
Hypothesis = tuple[Pieces, Pieces]
"""What is written at the left, and at the right from right to left."""
Key = TypeVar("Key")


def beam_search(ends: Ends, length: int, size: int, unigram_weight: float) -> list[tuple[int, Pieces]]:
    """(gap's number, pieces in text order): at most `size` fillings of each gap, in no order."""
    left = _Memory(ends.ahead)
    right = _Memory(partial(ends.behind, length=length))
    beams: list[dict[Hypothesis, float]] = [{((), ()): 0.0} for _ in ends.contexts]
    for _ in range(length - 1):
        left.prepare((gap, hypothesis[0]) for gap, beam in enumerate(beams) for hypothesis in beam)
        right.prepare((gap, hypothesis[1]) for gap, beam in enumerate(beams) for hypothesis in beam)
        for gap, beam in enumerate(beams):
            grown: dict[Hypothesis, float] = {}
            for (before, after), score in beam.items():
                for piece, own in _likeliest(left[gap, before], size):
                    _keep(grown, ((*before, piece), after), score + own)
                for piece, own in _likeliest(right[gap, after], size):
                    _keep(grown, (before, (*after, piece)), score + own)
            beams[gap] = _best(grown, size)
    left.prepare((gap, hypothesis[0]) for gap, beam in enumerate(beams) for hypothesis in beam)
    right.prepare((gap, hypothesis[1]) for gap, beam in enumerate(beams) for hypothesis in beam)
    found = []
    for gap, beam in enumerate(beams):
        closed: dict[Pieces, float] = {}
        for (before, after), score in beam.items():
            both = left[gap, before] + right[gap, after] - unigram_weight * ends.pair.unigram
            for piece, own in _likeliest(both, size):
                _keep(closed, (*before, piece, *after[::-1]), score + own)
        found += [(gap, pieces) for pieces in _best(closed, size)]
    return found


class _Memory:
    """The predictions after what is written in a gap; fillings that share an end share them."""

    def __init__(self, predict: Callable[..., Tensor]) -> None:
        self._predict, self._known = predict, {}

    def prepare(self, keys) -> None:
        """Compute, together, those of the (gap, written) that are not known yet."""
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            found = self._predict([written for _, written in new], [gap for gap, _ in new])
            self._known.update(zip(new, found, strict=True))

    def __getitem__(self, key: tuple[int, Pieces]) -> Tensor:
        return self._known[key]


def _likeliest(log_probs: Tensor, size: int) -> list[tuple[int, float]]:
    """The likeliest pieces that may stand there, with their scores."""
    values, pieces = log_probs.topk(min(size, len(log_probs)))
    return [(p, v) for p, v in zip(pieces.tolist(), values.tolist(), strict=True) if v > float("-inf")]


def _keep(scores: dict[Key, float], key: Key, score: float) -> None:
    scores[key] = max(scores.get(key, float("-inf")), score)


def _best(scores: dict[Key, float], size: int) -> dict[Key, float]:
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:size])
