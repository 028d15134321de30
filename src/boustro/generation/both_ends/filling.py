"""Filling of gaps of a known length, piece by piece, from one end or from both.

The text `a b ___ y z`, a gap of three pieces, surer first:

    a b | . . . | y z      forward: x at 40%      backward: w at 25%      the forward LM is surer and writes x
    a b | x . . | y z      forward: v at 30%      backward: w at 25%      it is surer again and writes v
    a b | x v . | y z      the last piece by both: f + b − γ · unigram

What is written at one end is read by the LM of that end only; the last piece brings both together. `VARIANTS` differ in
who writes next. `beam_search` keeps several fillings, each of which grows in every step by a piece at its left or at
its right end; the best are those with the highest sum of the log-probabilities of what each LM wrote:

    ab . .      →  ab v .     ab . w

Two orders of writing that lead to the same pieces are one filling. N rows, V pieces of the vocabulary.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from boustro.generation.both_ends.pair import Ends, Pair, nearest_left, nearest_right
from boustro.generation.both_ends.reader import Ids
from boustro.generation.draws import draw_pieces
from boustro.generation.options import InfillOptions

BATCH_GAPS = 32


class Gap(NamedTuple):
    """The pieces on both sides of a gap, in text order."""

    left: Ids
    right: Ids
    spaced: bool | None = None
    """Whether its first piece begins with a space; None for either."""
    key: tuple[int, ...] = ()
    """What its random numbers depend on, besides the seed."""


class Filling(NamedTuple):
    """The pieces of a gap, in text order; the score that ranks it and `joint`, f + b − γ · u, both in nats."""

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
        """(N, V) of the next piece; only rows that were written to are computed anew."""
        if self._stale:
            log_probs = self._predict([self.written[n] for n in self._stale], [self._rows[n] for n in self._stale])
            if len(self._stale) == len(self.written):
                self._known = log_probs
            else:
                self._known[self._stale] = log_probs
            self._stale = []
        return self._known


Turn = Callable[[int, Side, Side], list[bool]]
"""(step, left, right) → for each row whether the forward LM writes, at the left."""
Choose = Callable[[Tensor], list[int]]
"""(N, V) log-probabilities → a piece for each row."""
Close = Callable[[Tensor, Sequence[Ids], Sequence[Ids]], Tensor]
"""(f + b − γ · u (N, V), pieces at the left, pieces at the right from right to left) → what chooses the last piece."""


def surer(step: int, left: Side, right: Side) -> list[bool]:
    """The LM whose likeliest piece is likelier writes."""
    return (left.log_probs().amax(-1) >= right.log_probs().amax(-1)).tolist()


def alternate(step: int, left: Side, right: Side) -> list[bool]:
    """Forward, backward, forward, …"""
    return [step % 2 == 0] * len(left.written)


def always(forward: bool, step: int, left: Side, right: Side) -> list[bool]:
    """Choose one LM for every step."""
    return [forward] * len(left.written)


def write(
    ends: Ends,
    length: int,
    rows: Sequence[int],
    choose: Choose,
    weight: float,
    turn: Turn,
    closed: bool,
    close: Close | None = None,
) -> list[list[int]]:
    """Fill the gaps `rows` with `length` pieces each; where `closed`, both LMs choose the last one, or `close` does."""
    left = Side(ends.ahead, rows)
    right = Side(partial(ends.behind, length=length), rows)
    for step in range(length):
        if closed and step == length - 1:
            forward = [True] * len(rows)
            scores = left.log_probs() + right.log_probs() - weight * ends.pair.unigram
            scores = scores if close is None else close(scores, left.written, right.written)
        else:
            forward = turn(step, left, right)
            scores = _of_writers(forward, left, right)
        for row, (at_left, piece) in enumerate(zip(forward, choose(scores), strict=True)):
            (left if at_left else right).write(row, piece)
    return [pieces + other[::-1] for pieces, other in zip(left.written, right.written, strict=True)]


def _of_writers(forward: list[bool], left: Side, right: Side) -> Tensor:
    """(N, V) of the LM that writes in each row."""
    if all(forward) or not any(forward):
        return (left if forward[0] else right).log_probs()
    chosen = torch.tensor(forward, device=left.log_probs().device)
    return torch.where(chosen[:, None], left.log_probs(), right.log_probs())


class Variant(NamedTuple):
    """Who writes next, and whether both LMs choose the last piece; `turn` None is the beam search."""

    turn: Turn | None
    closed: bool = True


VARIANTS: dict[str, Variant] = {
    "surer-first": Variant(surer),
    "alternate": Variant(alternate),
    "forward-closed": Variant(partial(always, True)),
    "backward-closed": Variant(partial(always, False)),
    "forward": Variant(partial(always, True), closed=False),
    "backward": Variant(partial(always, False), closed=False),
    "beam": Variant(None),
}


def _rank_joint(joint: Tensor, sizes: Tensor, around: Callable[[], Tensor]) -> Tensor:
    return joint


def _rank_mean(joint: Tensor, sizes: Tensor, around: Callable[[], Tensor]) -> Tensor:
    return joint / sizes


def _rank_around(joint: Tensor, sizes: Tensor, around: Callable[[], Tensor]) -> Tensor:
    return around()


RANKINGS = {"joint": _rank_joint, "mean": _rank_mean, "around": _rank_around}
"""(joint scores, numbers of pieces, scores with the text around) → what fillings are compared by."""


def fill_gaps(pair: Pair, gaps: Sequence[Gap], options: InfillOptions) -> list[list[Filling]]:
    """The fillings of each gap, the best first, `options.candidates` of them or fewer where fewer differ.

    A context that does not fit into the window beside the gap loses its furthest pieces. Raises `ValueError` where the
    gap itself does not fit.
    """
    room = context_room(pair, options)
    fillings: list[list[Filling]] = []
    for start in range(0, len(gaps), BATCH_GAPS):
        part = gaps[start : start + BATCH_GAPS]
        contexts = [(nearest_left(gap.left, room), nearest_right(gap.right, room)) for gap in part]
        fillings += fill_between(Ends(pair, contexts, [gap.spaced for gap in part]), part, options)
    return fillings


def fill_between(ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[Filling]]:
    """Fill gaps whose contexts have been read."""
    return rank_fillings(ends, find_fillings(ends, gaps, options), options)


def find_fillings(ends: Ends, gaps: Sequence[Gap], options: InfillOptions) -> list[list[tuple[int, ...]]]:
    """The pieces of every filling of each gap, of all lengths, in no order."""
    fillings: list[set[tuple[int, ...]]] = [set() for _ in gaps]
    for length in options.lengths():
        for row, pieces in _fillings(ends, gaps, length, options):
            fillings[row].add(tuple(pieces))
    return [sorted(middles) for middles in fillings]


def context_room(pair: Pair, options: InfillOptions) -> int:
    """Most pieces of one side that are read; `ValueError` where a gap leaves no room for any."""
    read_on = options.read_on if options.ranking == "around" else 0
    room = pair.window - options.lengths()[-1] - read_on
    if room < 1:
        raise ValueError(
            f"a gap of {options.lengths()[-1]} pieces{f' and {read_on} pieces read on' if read_on else ''} leave no "
            f"room for a context: the pair reads {pair.window} pieces; lower --tokens-per-gap or --read-on"
        )
    return room


def _fillings(ends: Ends, gaps: Sequence[Gap], length: int, options: InfillOptions) -> Sequence[tuple[int, Ids]]:
    """(gap's number, pieces) of every filling of this length."""
    variant, weight = VARIANTS[options.variant], options.unigram_weight
    if variant.turn is None:
        return beam_search(ends, length, options.beam, weight)
    samples = options.candidates if options.temperature > 0 else 1
    rows = [row for row in range(len(gaps)) for _ in range(samples)]
    keys = [(*gaps[row].key, length, n % samples) for n, row in enumerate(rows)]
    written = write(ends, length, rows, _chooser(keys, options), weight, variant.turn, variant.closed)
    return list(zip(rows, written, strict=True))


def _chooser(keys: Sequence[tuple[int, ...]], options: InfillOptions) -> Choose:
    """Draws a piece for each row, by random numbers that depend on the seed and the row's key only."""
    if options.temperature == 0:
        return lambda log_probs: draw_pieces(log_probs).tolist()
    generators = [np.random.default_rng((options.seed, *key)) for key in keys]

    def choose(log_probs: Tensor) -> list[int]:
        uniforms = torch.tensor([generator.random() for generator in generators], device=log_probs.device)
        return draw_pieces(log_probs, options.temperature, options.top_p, uniforms).tolist()

    return choose


def rank_fillings(ends: Ends, middles: list[list[tuple[int, ...]]], options: InfillOptions) -> list[list[Filling]]:
    """The best fillings of each gap, scored and in order."""
    flat = [middle for gap_middles in middles for middle in gap_middles]
    rows = [row for row, gap_middles in enumerate(middles) for _ in gap_middles]
    joint = ends.joint(flat, rows, options.unigram_weight)
    sizes = torch.tensor([len(middle) for middle in flat], device=joint.device)
    scores = RANKINGS[options.ranking](joint, sizes, lambda: ends.around(flat, rows, options.read_on))
    fillings: list[list[Filling]] = [[] for _ in middles]
    for row, middle, score, log_prob in zip(rows, flat, scores.tolist(), joint.tolist(), strict=True):
        fillings[row].append(Filling(middle, score, log_prob))
    return [sorted(gap_fillings, key=lambda filling: -filling.score)[: options.candidates] for gap_fillings in fillings]


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
                for piece, log_prob in _likeliest(left[gap, before], size):
                    _keep(grown, ((*before, piece), after), score + log_prob)
                for piece, log_prob in _likeliest(right[gap, after], size):
                    _keep(grown, (before, (*after, piece)), score + log_prob)
            beams[gap] = _best(grown, size)
    left.prepare((gap, hypothesis[0]) for gap, beam in enumerate(beams) for hypothesis in beam)
    right.prepare((gap, hypothesis[1]) for gap, beam in enumerate(beams) for hypothesis in beam)
    fillings = []
    for gap, beam in enumerate(beams):
        closed: dict[Pieces, float] = {}
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
