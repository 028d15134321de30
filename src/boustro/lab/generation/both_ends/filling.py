"""Filling of gaps of a known length, piece by piece, from one end or from both.

The text `a b ___ y z`, a gap of three pieces, surer first:

    a b | . . . | y z      forward: x at 40%      backward: w at 25%      the forward LM is surer and writes x
    a b | x . . | y z      forward: v at 30%      backward: w at 25%      it is surer again and writes v
    a b | x v . | y z      the last piece by both: f + b − γ · unigram

What is written at one end is read by the LM of that end only; the last piece brings both together. Pieces that are
drawn are written so (`write`). Without draws `beam_search` keeps several fillings, each of which grows in every step by
a piece at its left or at its right end; the best are those with the highest sum of the log-probabilities of what each
LM wrote:

    ab . .      →  ab v .     ab . w

Two orders of writing that lead to the same pieces are one filling. N rows, V pieces of the vocabulary.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from boustro.lab.generation.both_ends.pair import Ends, LMPair, nearest_left, nearest_right
from boustro.lab.generation.both_ends.reader import Ids
from boustro.lab.generation.draws import draw_pieces
from boustro.lab.generation.options import InfillOptions

BATCH_GAPS = 32  # both LMs' caches of as many contexts are in memory at once


class Gap(NamedTuple):
    """The pieces on both sides of a gap, in text order."""

    left: Ids
    right: Ids
    spaced: bool | None = None
    """Whether its first piece begins with a space; None for either."""
    key: tuple[int, ...] = ()
    """What its random numbers depend on, besides the seed."""


class Filling(NamedTuple):
    """The pieces of a gap, in text order, and two scores in nats.

    `score` ranks the filling: the log-probability of its pieces and of those that follow, in both directions
    (`Ends.around`). `joint` is f + b − γ · u of its own pieces.
    """

    pieces: tuple[int, ...]
    score: float
    joint: float


class Side:
    """Pieces written at one end of some rows, in the order of writing, and its LM's prediction of the next piece."""

    def __init__(self, predict: Callable[[Sequence[Ids], Sequence[int]], Tensor], rows: Sequence[int]) -> None:
        self.written: list[list[int]] = [[] for _ in rows]
        self._predict, self._rows = predict, rows
        self._stale, self._known = list(range(len(rows))), torch.empty(0)

    def write(self, row: int, piece: int) -> None:
        """The next piece of a row."""
        self.written[row].append(piece)
        self._stale.append(row)

    def log_probs(self) -> Tensor:
        """Return (N, V) of the next piece; only rows that were written to are computed anew."""
        if self._stale:
            log_probs = self._predict([self.written[n] for n in self._stale], [self._rows[n] for n in self._stale])
            if len(self._stale) == len(self.written):
                self._known = log_probs
            else:
                self._known[self._stale] = log_probs
            self._stale = []
        return self._known


Choose = Callable[[Tensor], list[int]]
"""(N, V) log-probabilities → a piece for each row."""


def write(ends: Ends, length: int, rows: Sequence[int], choose: Choose, weight: float) -> list[list[int]]:
    """Fill the gaps `rows` with `length` pieces each; the LM whose likeliest piece is likelier writes next."""
    left = Side(ends.ahead, rows)
    right = Side(partial(ends.behind, length=length), rows)
    for step in range(length):
        if step == length - 1:
            forward = [True] * len(rows)
            scores = left.log_probs() + right.log_probs() - weight * ends.pair.unigram
        else:
            forward = (left.log_probs().amax(-1) >= right.log_probs().amax(-1)).tolist()
            scores = of_writers(forward, left, right)
        for row, (at_left, piece) in enumerate(zip(forward, choose(scores), strict=True)):
            (left if at_left else right).write(row, piece)
    return [pieces + other[::-1] for pieces, other in zip(left.written, right.written, strict=True)]


def of_writers(forward: list[bool], left: Side, right: Side) -> Tensor:
    """Return (N, V) of the LM that writes in each row."""
    if all(forward) or not any(forward):
        return (left if forward[0] else right).log_probs()
    chosen = torch.tensor(forward, device=left.log_probs().device)
    return torch.where(chosen[:, None], left.log_probs(), right.log_probs())


def fill_gaps(pair: LMPair, gaps: Sequence[Gap], options: InfillOptions) -> list[list[Filling]]:
    """Return the fillings of each gap, the best first, `options.candidates` of them or fewer where fewer differ.

    A context that does not fit into the window beside the gap loses its furthest pieces. Raises `ValueError` where the
    gap itself does not fit.
    """
    room = context_room(pair, options)
    fillings: list[list[Filling]] = []
    for start in range(0, len(gaps), BATCH_GAPS):
        part = gaps[start : start + BATCH_GAPS]
        contexts = [(nearest_left(gap.left, room), nearest_right(gap.right, room)) for gap in part]
        ends = Ends(pair, contexts, [gap.spaced for gap in part])
        fillings += rank_fillings(ends, find_fillings(ends, part, options), options)
    return fillings


def find_fillings(ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[tuple[int, ...]]]:
    """Return the pieces of every filling of each gap, of all lengths, in no order."""
    fillings: list[set[tuple[int, ...]]] = [set() for _ in gaps]
    for length in options.lengths():
        for row, pieces in _fillings(ends, gaps, length, options):
            fillings[row].add(tuple(pieces))
    return [sorted(middles) for middles in fillings]


def context_room(pair: LMPair, options: InfillOptions) -> int:
    """Most pieces of one side that are read; `ValueError` where a gap leaves no room for any."""
    room = pair.window - options.lengths()[-1] - options.read_on
    if room < 1:
        raise ValueError(
            f"a gap of {options.lengths()[-1]} pieces and {options.read_on} pieces read on leave no room for a "
            f"context: the pair reads {pair.window} pieces; lower --tokens-per-gap or --read-on"
        )
    return room


def _fillings(ends: Ends, gaps: Sequence[Gap], length: int, options: InfillOptions) -> Sequence[tuple[int, Ids]]:
    """Return (gap's number, pieces) of every filling of this length."""
    if options.temperature == 0:
        return beam_search(ends, length, options.beam, options.unigram_weight)
    rows = [row for row in range(len(gaps)) for _ in range(options.candidates)]
    keys = [(*gaps[row].key, length, n % options.candidates) for n, row in enumerate(rows)]
    written = write(ends, length, rows, _chooser(keys, options), options.unigram_weight)
    return list(zip(rows, written, strict=True))


def _chooser(keys: Sequence[tuple[int, ...]], options: InfillOptions) -> Choose:
    """Draws a piece for each row, by random numbers that depend on the seed and the row's key only."""
    generators = [np.random.default_rng((options.seed, *key)) for key in keys]

    def choose(log_probs: Tensor) -> list[int]:
        uniforms = torch.tensor([generator.random() for generator in generators], device=log_probs.device)
        return draw_pieces(log_probs, options.temperature, options.top_p, uniforms).tolist()

    return choose


def rank_fillings(ends: Ends, middles: list[list[tuple[int, ...]]], options: InfillOptions) -> list[list[Filling]]:
    """Return the best fillings of each gap, scored and in order."""
    flat = [middle for gap_middles in middles for middle in gap_middles]
    rows = [row for row, gap_middles in enumerate(middles) for _ in gap_middles]
    joint = ends.joint(flat, rows, options.unigram_weight)
    scores = ends.around(flat, rows, options.read_on)
    fillings: list[list[Filling]] = [[] for _ in middles]
    for row, middle, score, log_prob in zip(rows, flat, scores.tolist(), joint.tolist(), strict=True):
        fillings[row].append(Filling(middle, score, log_prob))
    return [sorted(gap_fillings, key=lambda filling: -filling.score)[: options.candidates] for gap_fillings in fillings]


WrittenIds = tuple[int, ...]
Hypothesis = tuple[WrittenIds, WrittenIds]
"""What is written at the left, and at the right from right to left."""
Key = TypeVar("Key")


def beam_search(ends: Ends, length: int, size: int, unigram_weight: float) -> list[tuple[int, WrittenIds]]:
    """Return (gap's number, pieces in text order): at most `size` fillings of each gap, in no order."""
    left = _Memory(ends.ahead)
    right = _Memory(partial(ends.behind, length=length))
    beams: list[dict[Hypothesis, float]] = [{((), ()): 0.0} for _ in ends.contexts]
    for _ in range(length - 1):
        left.prepare((gap, hypothesis[0]) for gap, beam in enumerate(beams) for hypothesis in beam)
        right.prepare((gap, hypothesis[1]) for gap, beam in enumerate(beams) for hypothesis in beam)
        for gap, beam in enumerate(beams):
            grown: dict[Hypothesis, float] = {}
            for (before, after), score in beam.items():
                for piece, log_prob in _likeliest(left[gap, before], size):
                    _keep(grown, ((*before, piece), after), score + log_prob)
                for piece, log_prob in _likeliest(right[gap, after], size):
                    _keep(grown, (before, (*after, piece)), score + log_prob)
            beams[gap] = _best(grown, size)
    left.prepare((gap, hypothesis[0]) for gap, beam in enumerate(beams) for hypothesis in beam)
    right.prepare((gap, hypothesis[1]) for gap, beam in enumerate(beams) for hypothesis in beam)
    fillings = []
    for gap, beam in enumerate(beams):
        closed: dict[WrittenIds, float] = {}
        for (before, after), score in beam.items():
            both = left[gap, before] + right[gap, after] - unigram_weight * ends.pair.unigram
            for piece, log_prob in _likeliest(both, size):
                _keep(closed, (*before, piece, *after[::-1]), score + log_prob)
        fillings += [(gap, pieces) for pieces in _best(closed, size)]
    return fillings


class _Memory:
    """The predictions after what is written in a gap; fillings that share an end share them."""

    def __init__(self, predict: Callable[..., Tensor]) -> None:
        self._predict, self._known = predict, {}

    def prepare(self, keys) -> None:
        """Compute, together, those of the (gap, written) that are not known yet."""
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            log_probs = self._predict([written for _, written in new], [gap for gap, _ in new])
            self._known.update(zip(new, log_probs, strict=True))

    def __getitem__(self, key: tuple[int, WrittenIds]) -> Tensor:
        return self._known[key]


def _likeliest(log_probs: Tensor, size: int) -> list[tuple[int, float]]:
    """Return the likeliest pieces that may stand there, with their scores."""
    values, pieces = log_probs.topk(min(size, len(log_probs)))
    return [(p, v) for p, v in zip(pieces.tolist(), values.tolist(), strict=True) if v > float("-inf")]


def _keep(scores: dict[Key, float], key: Key, score: float) -> None:
    scores[key] = max(scores.get(key, float("-inf")), score)


def _best(scores: dict[Key, float], size: int) -> dict[Key, float]:
    return dict(sorted(scores.items(), key=lambda item: -item[1])[:size])
