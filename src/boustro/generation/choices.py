"""Which of several continuations belongs to a context: what a forward and a backward LM say, and what needs no LM.

For a context q and a continuation c:

    forward       log p(c | q)                 of the forward LM
    forward-mean  the same, a piece
    forward-pmi   log p(c | q) - log p(c)      how much more likely the context makes it
    backward      log p(q | c)                 of the backward LM, which reads c and then predicts q from its end
    pair          forward + backward
    pair-pmi      forward-pmi + backward       both are the information that q and c share, up to what all c have alike

Controls, to stand beside every result: `length` (the longest continuation) and `prior` (log p(c) without the context).
Sources: Brown et al. 2020, section 2.4, and Holtzman et al. 2021, *Surface Form Competition* (PMI); the backward LM as
a channel model: Li et al. 2016, *A Diversity-Promoting Objective Function*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from boustro.generation.both_ends.reader import Ids, Reader
from boustro.generation.draws import in_order

BATCH_PIECES = 8192


@dataclass(frozen=True)
class Evidence:
    """(N,) sums of log-probabilities, in nats, of N contexts and continuations; None where an LM is lacking."""

    pieces: Tensor
    forward: Tensor | None = None
    greedy: Tensor | None = None
    """Whether each continuation is the one that the forward LM would write."""
    prior: Tensor | None = None
    backward: Tensor | None = None


class Score(NamedTuple):
    """The kinds of evidence that a score adds up, with their signs, and whether it is divided by the pieces."""

    signs: dict[str, int]
    mean: bool = False

    def of(self, evidence: Evidence) -> Tensor:
        """(N,), larger for what fits better."""
        total = sum(sign * getattr(evidence, name) for name, sign in self.signs.items())
        return total / evidence.pieces if self.mean else total  # type: ignore[return-value]


SCORES: dict[str, Score] = {
    "forward": Score({"forward": 1}),
    "forward-mean": Score({"forward": 1}, mean=True),
    "forward-pmi": Score({"forward": 1, "prior": -1}),
    "backward": Score({"backward": 1}),
    "pair": Score({"forward": 1, "backward": 1}),
    "pair-pmi": Score({"forward": 1, "prior": -1, "backward": 1}),
}
CONTROLS: dict[str, Score] = {"length": Score({"pieces": 1}), "prior": Score({"prior": 1})}


def weigh(
    contexts: Sequence[Ids],
    continuations: Sequence[Ids],
    forward: Reader | None,
    backward: Reader | None = None,
    wanted: Sequence[str] = ("forward", "prior", "backward"),
) -> Evidence:
    """The wanted evidence about pairs of pieces in text order; every pair must fit into the LMs' windows."""
    found: dict[str, Tensor] = {}
    if forward is not None and "forward" in wanted:
        found["forward"], found["greedy"] = log_probs(forward, contexts, continuations)
    if forward is not None and "prior" in wanted:
        found["prior"] = log_probs(forward, [()] * len(continuations), continuations)[0]
    if backward is not None and "backward" in wanted:
        reversed_contexts = [list(reversed(context)) for context in contexts]
        found["backward"] = log_probs(backward, continuations, reversed_contexts)[0]
    return Evidence(torch.tensor([float(len(ids)) for ids in continuations]), **found)


def log_probs(reader: Reader, contexts: Sequence[Ids], written: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    """(N,) log-probability of what is written after each context, in the reader's order, and whether it is its choice.

    A context that several rows share is read once.
    """
    number = {context: n for n, context in enumerate(dict.fromkeys(map(tuple, contexts)))}
    order = sorted(range(len(written)), key=lambda n: (number[tuple(contexts[n])], len(written[n])))
    totals, greedy = torch.zeros(len(written)), torch.zeros(len(written), dtype=torch.bool)
    for rows in _batches(order, contexts, written):
        own = list(dict.fromkeys(tuple(contexts[n]) for n in rows))
        read, place = reader.read(own), {context: n for n, context in enumerate(own)}
        found, chosen = read.judge([written[n] for n in rows], [place[tuple(contexts[n])] for n in rows])
        totals[rows], greedy[rows] = found.sum(-1).cpu(), chosen.cpu()
    return totals, greedy


def _batches(order: Sequence[int], contexts: Sequence[Ids], written: Sequence[Ids]) -> Iterator[list[int]]:
    """Rows in order, with at most so many pieces when they are padded to the longest, or one row."""
    batch: list[int] = []
    widest = 0
    for row in order:
        size = len(contexts[row]) + len(written[row]) + 1
        if batch and max(widest, size) * (len(batch) + 1) > BATCH_PIECES:
            yield batch
            batch, widest = [], 0
        batch.append(row)
        widest = max(widest, size)
    if batch:
        yield batch


def best(scores: Tensor, sizes: Sequence[int]) -> list[int]:
    """The choice of each question, the first of equals (`draws`); its choices follow each other, `sizes` of each."""
    return [int(in_order(own[None])[0, 0]) for own in scores.split(list(sizes))]
