"""Train many heads at once on one matrix of frozen vectors: the heads that `train_head` would give one by one.

A few-shot study trains hundreds of small heads: every draw, seed, learning rate and dropout. One after another
they spend their time on bookkeeping, and each reads all vectors anew to be judged. Here the backward pass and
the optimiser's step are written out, and heads share whatever they can:

    lane      heads with the same sentences, seed, dropout and length: the same batches, the same dropout numbers,
              one product x · [W₁ … W_k]ᵀ. A search over 10 learning rates is one lane, not 10 runs
    convoy    lanes that take their steps together: one gather, one softmax, one walk through all sentences of
              a CRF for all of them (`convoy`)
    core      one convoy at a time, so that the cores do not wait for each other
    tagging   all heads judge a block of words in one product

Letters: M heads, N words, d width of a vector, C tags; n words of a block.
The numbers are those of `heads.training.train_head` on one stream without a mix: initialisation, order of
sentences, dropout numbers, AdamW, linear decay. On a CPU only; a GPU has `train_head`.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from boustro.heads.crf.chain import best_path, exact
from boustro.heads.crf.layer import make_chain, viterbi
from boustro.heads.crf.transitions import valid_transitions
from boustro.heads.layout import sentence_rows
from boustro.heads.many.groups import Lane, Run, Taught
from boustro.heads.many.lockstep import train_convoy
from boustro.heads.many.losses import CRF_NAMES
from boustro.heads.many.passes import STEPS

__all__ = ["STEPS", "Run", "StackedHeads", "sentence_rows", "train_stacked"]

CONVOY_BYTES = 16 << 20
"""A convoy's parameters, gradients and moments should stay in a core's share of the last cache."""
Item = TypeVar("Item")
Result = TypeVar("Result")
SCORED_WORDS, DECODED_WORDS = 2048, 8192
"""Scored at once, so that scores stay in the cache; decoded at once, so that a time step has many sentences."""


@dataclass(frozen=True, slots=True)
class StackedHeads:
    """M trained heads of one kind over the same tags; `parameters` maps the names in a `TaggingHead` to (M, ...)."""

    kind: str
    labels: tuple[str, ...]
    parameters: dict[str, Tensor]

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def state(self, head: int) -> dict[str, Tensor]:
        """The state of one `TaggingHead`, but for its mixes, which it has none of here."""
        return {name: stack[head].clone() for name, stack in self.parameters.items()}

    def __getitem__(self, head: int) -> "StackedHeads":
        """One of them, as a stack of one."""
        own = {name: stack[head : head + 1] for name, stack in self.parameters.items()}
        return StackedHeads(self.kind, self.labels, own)

    def best_tags(self, vectors: np.ndarray | Tensor, starts: np.ndarray | None = None) -> np.ndarray:
        """(M, N) uint16: the tags of N words by each head, in one pass over vectors (N, d).

        With `starts` (sentences + 1,) the best valid sequence of each sentence, under the CRF if there is one;
        without, the best tag of each word.
        """
        vectors = torch.as_tensor(vectors)
        best = np.empty((len(self), len(vectors)), np.uint16)

        def tag_words(rows: np.ndarray) -> None:
            best[:, rows] = self._scores(vectors, rows).argmax(-1).T.numpy()

        def tag_sentences(sentences: np.ndarray) -> None:
            assert starts is not None
            rows, bounds = sentence_rows(starts, sentences)
            parts = [self._scores(vectors, part) for part in _parts(rows, SCORED_WORDS)]
            best[:, rows] = self._decode(torch.cat(parts), torch.from_numpy(np.diff(bounds)))

        if starts is None:
            _in_parallel(tag_words, _parts(np.arange(len(vectors)), SCORED_WORDS))
        else:
            _in_parallel(tag_sentences, _alike(np.diff(starts)))
        return best

    def _scores(self, vectors: Tensor, rows: np.ndarray) -> Tensor:
        """(n, M, C)"""
        return SCORES[self.kind](self.parameters, vectors[torch.from_numpy(rows)].float())

    def _decode(self, scores: Tensor, lengths: Tensor) -> np.ndarray:
        """(M, n) from scores (n, M, C)."""
        if "crf.starts" not in self.parameters:
            return np.stack([viterbi(own, lengths, self.labels).numpy() for own in scores.unbind(1)])
        valid = valid_transitions(self.labels)
        chains = zip(*(self.parameters[name] for name in CRF_NAMES), strict=True)
        pairs = zip(scores.unbind(1), chains, strict=True)
        return np.stack([best_path(exact(own), lengths, make_chain(valid, *chain)).numpy() for own, chain in pairs])


def _alike(lengths: np.ndarray) -> list[np.ndarray]:
    """Sentences of like length, about so many words at a time: few time steps, many sentences in each."""
    order = np.argsort(lengths, kind="stable")
    blocks = np.cumsum(lengths[order]) // DECODED_WORDS
    return np.split(order, np.flatnonzero(np.diff(blocks)) + 1) if len(order) else []


def _parts(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return np.split(rows, range(size, len(rows), size))


def train_stacked(
    kind: str,
    vectors: np.ndarray | Tensor,
    starts: np.ndarray,
    tags: np.ndarray,
    labels: Sequence[str],
    runs: Sequence[Run],
    hidden: int | None = None,
    crf: bool = False,
) -> StackedHeads:
    """Train a head for each run.

    Args:
        kind: linear or mlp.
        vectors: (N, d), read as float16, as `train_head` does.
        starts: (sentences + 1,) where each sentence begins.
        tags: (N,) numbers of `labels`, the C tags.
        hidden: Width inside the mlp; None for d.
        crf: Learn a CRF on top; the tags must be valid sequences.

    Raises `ValueError` for an unknown kind, for no runs, for a run without sentences, and where the training of a head
    does not stay finite.
    """
    if kind not in STEPS:
        raise ValueError(f"cannot train heads of kind {kind!r} at once: known are {', '.join(STEPS)}")
    if not runs:
        raise ValueError("there is no head to train: `runs` is empty")
    if any(not run.sentences or run.epochs < 1 for run in runs):
        raise ValueError("a run needs at least one sentence to train on and one epoch")
    vectors = torch.as_tensor(vectors).half()
    sizes = [vectors.shape[1], *([hidden or vectors.shape[1]] if kind == "mlp" else []), len(labels)]
    taught = Taught(vectors, starts, tags, labels)
    plan = _convoys(runs, sum((a + 1) * b for a, b in pairwise(sizes)), torch.get_num_threads())
    convoys = [
        [Lane([runs[m] for m in lane], *_initialise(kind, sizes, runs[lane[0]].seed, crf)) for lane in lanes]
        for lanes in plan
    ]
    bar = tqdm(total=sum(r.steps for r in runs), desc="training heads", unit=" steps", disable=None, leave=False)
    with bar:
        trained = _in_parallel(lambda lanes: train_convoy(kind, lanes, taught, bar.update), convoys)
    order = np.argsort([m for lanes in plan for lane in lanes for m in lane]).tolist()
    stack = {name: torch.cat([convoy[name] for convoy in trained])[order] for name in trained[0]}
    if not all(bool(torch.isfinite(parameters).all()) for parameters in stack.values()):
        raise ValueError("the weights of a head are not finite after its training; try a lower --lr")
    return StackedHeads(kind, tuple(labels), stack)


def _convoys(runs: Sequence[Run], num_parameters: int, threads: int) -> list[list[list[int]]]:
    """Numbers of runs: convoys of lanes, those with most steps first, all convoys of about the same work.

    As many convoys as there are threads, or so many times as many that each fits into the cache; a lane is cut
    where a convoy is full.
    """
    lanes: dict[tuple, list[int]] = {}
    for m, run in enumerate(runs):
        lanes.setdefault(run.lane, []).append(m)
    order = sorted(lanes.values(), key=lambda lane: -runs[lane[0]].steps)
    line = np.array([m for lane in order for m in lane], dtype=np.int64)
    work = np.array([len(runs[m].sentences) * runs[m].epochs for m in line])
    count = threads * math.ceil(len(runs) * 16 * num_parameters / (threads * CONVOY_BYTES))
    numbers = ((np.cumsum(work) - work / 2) * count / work.sum()).astype(np.int64)
    parts = np.split(line, np.flatnonzero(np.diff(numbers)) + 1)
    return [[list(lane) for _, lane in groupby(part.tolist(), key=lambda m: runs[m].lane)] for part in parts]


def _initialise(kind: str, sizes: Sequence[int], seed: int, crf: bool) -> tuple[dict[str, Tensor], torch.Generator]:
    """A head's first parameters, and the random numbers that come after them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        maps = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        after = torch.Generator()
        after.set_state(torch.get_rng_state())
    named = {
        f"{place}.{n}": p.detach() for place, m in zip(PLACES[kind], maps, strict=True) for n, p in m.named_parameters()
    }
    if crf:
        tags = sizes[-1]
        named |= dict(zip(CRF_NAMES, map(torch.zeros, ((tags,), (tags, tags), (tags,))), strict=True))
    return named, after


def _in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The work on each item, on its share of the cores; PyTorch lets go of the interpreter's lock.

    So small are the operations that two cores gain more from two items than from halves of one.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    each = torch.inference_mode()(work)
    if workers <= 1:
        return [each(item) for item in items]
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            return list(pool.map(each, items))
    finally:
        torch.set_num_threads(threads)


def _linear_scores(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """(n, M, C)"""
    weight, bias = parameters["body.1.weight"], parameters["body.1.bias"]
    return torch.addmm(bias.flatten(), x, weight.flatten(0, 1).T).view(len(x), *bias.shape)


def _mlp_scores(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """(n, M, C)"""
    w1, b1, w2, b2 = (parameters[f"body.{place}.{part}"] for place in (1, 4) for part in ("weight", "bias"))
    inner = torch.addmm(b1.flatten(), x, w1.flatten(0, 1).T).relu_().view(len(x), *b1.shape)
    return torch.baddbmm(b2.unsqueeze(1), inner.transpose(0, 1), w2.transpose(1, 2)).transpose(0, 1)


PLACES = {"linear": ("body.1",), "mlp": ("body.1", "body.4")}
"""Where the affine maps stand in a `TaggingHead`, among dropout and ReLU."""
SCORES: dict[str, Callable[[dict[str, Tensor], Tensor], Tensor]] = {"linear": _linear_scores, "mlp": _mlp_scores}
