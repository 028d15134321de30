"""Train many heads at once on one matrix of frozen vectors: the heads that `train_head` would give one by one.

A few-shot study trains hundreds of small heads: every draw, seed, learning rate and dropout. One after another
they spend their time on bookkeeping, and each reads all vectors anew to be judged. Here the backward pass and
the optimiser's step are written out, heads are trained side by side, one a core, and all of them judge a block
of words in one matrix product.

Heads with the same sentences, seed, dropout and length see the same batches and the same dropout numbers:
they form a *lane*, whose gather, dropout and matrix product are shared. A search over 10 learning rates is
one lane, not 10 runs:

    x (n, d), drawn once  →  x · [W₁ … W_k]ᵀ (n, k·C)  →  k gradients, k steps of AdamW

A CRF on top has its expected counts for gradients (`heads.chain`), and no autograd either.

Nothing is padded: lanes whose batches differ in words run apart. (Stacked into one padded product they
were no faster: on a CPU a batched product is a loop over its members, and padding adds 40% to it.)

Letters: M heads, N words, d width of a vector, h hidden width, C tags; in a lane k heads, n words of a batch.
The numbers are those of `heads.training.train_head` on one stream without a mix: initialisation, order of
sentences, dropout numbers, AdamW, linear decay. On a CPU only; a GPU has `train_head`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from boustro.heads.chain import best_path, exact, expectations
from boustro.heads.crf import make_chain, viterbi
from boustro.heads.dropout import draw_kept, kept_scale
from boustro.heads.layout import edges
from boustro.heads.transitions import valid_transitions

LANE_BYTES = 8 << 20
"""A lane's parameters, gradients and moments should stay in a core's share of the cache."""
BLOCK_WORDS = 2048
BETAS, EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One head: what it is trained on (indices of sentences) and how; the fields are `TrainConfig`'s."""

    sentences: tuple[int, ...]
    seed: int = 1
    lr: float = 1e-3
    weight_decay: float = 0.01
    dropout: float = 0.1
    epochs: int = 20
    batch_sentences: int = 32


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

    @torch.inference_mode()
    def best_tags(self, vectors: np.ndarray | Tensor, starts: np.ndarray | None = None) -> np.ndarray:
        """(M, N) uint16: the tags of N words by each head, in one pass over vectors (N, d).

        With `starts` (sentences + 1,) the best valid sequence of each sentence, under the CRF if there is one;
        without, the best tag of each word.
        """
        vectors = torch.as_tensor(vectors)
        best = np.empty((len(self), len(vectors)), np.uint16)
        for rows, lengths in _blocks(len(vectors), starts):
            scores = SCORES[self.kind](self.parameters, vectors[rows].float())
            best[:, rows] = scores.argmax(-1).T.numpy() if lengths is None else self._decode(scores, lengths)
        return best

    def _decode(self, scores: Tensor, lengths: Tensor) -> np.ndarray:
        """(M, n) from scores (n, M, C)."""
        if "crf.starts" not in self.parameters:
            return np.stack([viterbi(own, lengths, self.labels).numpy() for own in scores.unbind(1)])
        valid = valid_transitions(self.labels)
        chains = zip(*(self.parameters[name] for name in CRF_NAMES), strict=True)
        pairs = zip(scores.unbind(1), chains, strict=True)
        return np.stack([best_path(exact(own), lengths, make_chain(valid, *chain)).numpy() for own, chain in pairs])


def _blocks(num_words: int, starts: np.ndarray | None) -> Iterator[tuple[slice, Tensor | None]]:
    """Rows of about so many words at a time; where sentences begin is given, whole ones and their lengths."""
    if starts is None:
        yield from ((slice(a, min(a + BLOCK_WORDS, num_words)), None) for a in range(0, num_words, BLOCK_WORDS))
        return
    lengths = np.diff(starts)
    parts = np.flatnonzero(np.diff((starts[1:] - 1) // BLOCK_WORDS)) + 1
    for chosen in np.split(np.arange(len(lengths)), parts) if len(lengths) else []:
        yield slice(int(starts[chosen[0]]), int(starts[chosen[-1] + 1])), torch.from_numpy(lengths[chosen])


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

    Raises `ValueError` for an unknown kind, and for a run without sentences.
    """
    if kind not in STEPS:
        raise ValueError(f"cannot train heads of kind {kind!r} at once: known are {', '.join(STEPS)}")
    if any(not run.sentences or run.epochs < 1 for run in runs):
        raise ValueError("a run needs at least one sentence to train on and one epoch")
    vectors = torch.as_tensor(vectors)
    width, threads = vectors.shape[1], torch.get_num_threads()
    sizes = [width, *([hidden or width] if kind == "mlp" else []), len(labels)]
    num_parameters = sum((a + 1) * b for a, b in pairwise(sizes))
    lanes = _lanes(runs, most=max(1, min(LANE_BYTES // (16 * num_parameters), math.ceil(len(runs) / threads))))
    begun = [_initialise(kind, sizes, runs[lane[0]].seed, crf) for lane in lanes]

    def train(number: int) -> dict[str, Tensor]:
        return _train_lane(kind, vectors, starts, tags, labels, [runs[m] for m in lanes[number]], *begun[number])

    trained = _in_parallel(train, len(lanes), threads)
    order = np.argsort(np.concatenate(lanes)).tolist()
    stack = {name: torch.cat([lane[name] for lane in trained])[order] for name in trained[0]}
    return StackedHeads(kind, tuple(labels), stack)


def sentence_rows(starts: np.ndarray, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the words of these sentences, one sentence after the other, and where each begins among them."""
    first = starts[sentences]
    own = np.concatenate([[0], np.cumsum(starts[sentences + 1] - first)])
    return np.arange(own[-1]) + np.repeat(first - own[:-1], np.diff(own)), own


def _lanes(runs: Sequence[Run], most: int) -> list[list[int]]:
    """Runs that may share their batches and dropout numbers, at most so many together; the longest first."""
    groups: dict[tuple, list[int]] = {}
    for m, run in enumerate(runs):
        groups.setdefault((run.sentences, run.seed, run.dropout, run.epochs, run.batch_sentences), []).append(m)
    lanes = [group[i : i + most] for group in groups.values() for i in range(0, len(group), most)]
    return sorted(lanes, key=lambda lane: -len(runs[lane[0]].sentences) * runs[lane[0]].epochs)


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


def _in_parallel(work: Callable[[int], dict[str, Tensor]], count: int, threads: int) -> list[dict[str, Tensor]]:
    """work(0) … work(count - 1), each on its share of the cores; PyTorch lets go of the interpreter's lock."""
    workers = min(threads, count)
    each = torch.inference_mode()(work)
    bar = {"total": count, "desc": "training heads", "unit": " lanes", "disable": None, "leave": False}
    if workers == 1:
        return [each(number) for number in tqdm(range(count), **bar)]
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            return list(tqdm(pool.map(each, range(count)), **bar))
    finally:
        torch.set_num_threads(threads)


def _train_lane(
    kind: str,
    vectors: Tensor,
    starts: np.ndarray,
    tags: np.ndarray,
    labels: Sequence[str],
    runs: Sequence[Run],
    first: dict[str, Tensor],
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """Parameters (k, ...) by name, after the last step."""
    run = runs[0]
    words, bounds = sentence_rows(starts, np.array(run.sentences))
    local = vectors[torch.from_numpy(words)].half().view(torch.int16)  # (words of the lane, d)
    optimizer = _AdamW(first, runs, steps=run.epochs * -(-len(run.sentences) // run.batch_sentences))
    slope = (_CRFSlope if "crf.starts" in first else _SoftmaxSlope)(optimizer, labels, tags[words], bounds)
    most = int(np.sort(np.diff(bounds))[-run.batch_sentences :].sum())
    step = STEPS[kind](optimizer, slope, run.dropout, generator, most, vectors.shape[1])
    order, rows_of = np.random.default_rng(run.seed), [np.arange(a, b) for a, b in pairwise(bounds)]
    for _ in range(run.epochs):
        permuted = order.permutation(len(run.sentences))
        for start in range(0, len(permuted), run.batch_sentences):
            chosen = permuted[start : start + run.batch_sentences]
            rows = torch.from_numpy(np.concatenate([rows_of[sentence] for sentence in chosen]))
            step(local, Batch(rows, chosen))
            optimizer.step()
    return optimizer.parameters


class _AdamW:
    """k heads' parameters (k, ...), and AdamW with a learning rate and weight decay a head and linear decay."""

    def __init__(self, first: dict[str, Tensor], runs: Sequence[Run], steps: int) -> None:
        self.parameters = {name: p.expand(len(runs), *p.shape).clone() for name, p in first.items()}
        self.gradients = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        moments = [{name: torch.zeros_like(p) for name, p in self.parameters.items()} for _ in range(2)]
        kept = (self.parameters, self.gradients, *moments)
        self._heads = [[[p[m] for p in stack.values()] for stack in kept] for m in range(len(runs))]
        self._runs, self._steps = runs, steps
        self._done = torch.zeros(())
        self._counts = [self._done] * len(first)

    def step(self) -> None:
        """PyTorch's fused kernel, called without `torch.optim`'s bookkeeping, which takes several times as long."""
        decay = max(0.0, 1 - self._done.item() / self._steps)
        self._done += 1
        for run, (parameters, gradients, means, squares) in zip(self._runs, self._heads, strict=True):
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                parameters,
                gradients,
                means,
                squares,
                [],
                self._counts,
                lr=run.lr * decay,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=run.weight_decay,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )


class Batch(NamedTuple):
    """Rows (n,) of a lane's words, and which of its sentences they are."""

    rows: Tensor
    sentences: np.ndarray


class _SoftmaxSlope:
    """The gradient of the cross-entropy, mean over words, by the scores (n, k, C) of k heads."""

    def __init__(self, optimizer: _AdamW, labels: Sequence[str], tags: np.ndarray, bounds: np.ndarray) -> None:
        self._onehot = torch.eye(len(labels))[torch.from_numpy(tags)]

    def __call__(self, scores: Tensor, batch: Batch) -> Tensor:
        onehot = self._onehot.index_select(0, batch.rows)
        return scores.softmax(-1).sub_(onehot.unsqueeze(1)).div_(len(scores))


class _CRFSlope:
    """The same of a CRF's negative log-likelihood; writes the gradients of the CRF's own parameters as well."""

    def __init__(self, optimizer: _AdamW, labels: Sequence[str], tags: np.ndarray, bounds: np.ndarray) -> None:
        self._valid, self._num_tags = valid_transitions(labels), len(labels)
        self._tags, self._lengths = torch.from_numpy(tags), np.diff(bounds)
        self._parameters = [optimizer.parameters[name] for name in CRF_NAMES]
        self._gradients = [optimizer.gradients[name] for name in CRF_NAMES]

    def __call__(self, scores: Tensor, batch: Batch) -> Tensor:
        tags, lengths = self._tags[batch.rows], torch.from_numpy(self._lengths[batch.sentences])
        at, count = edges(lengths, len(tags)), self._num_tags
        pairs = tags[at.followed] * count + tags[at.followed + 1]
        used = (
            torch.bincount(tags[at.first], minlength=count),
            torch.bincount(pairs, minlength=count**2).view(count, count),
            torch.bincount(tags[at.last], minlength=count),
        )
        onehot, slope = torch.eye(count)[tags], torch.empty_like(scores)
        for head in range(scores.shape[1]):
            chain = make_chain(self._valid, *(p[head] for p in self._parameters))
            expected = expectations(exact(scores[:, head]), lengths, chain)
            slope[:, head] = expected.tags - onehot
            for gradient, mean, own in zip(self._gradients, expected[2:], used, strict=True):
                gradient[head] = (mean - own) / len(tags)
        return slope.div_(len(tags))


class _Step:
    """Writes the gradients of a batch's loss: `rows` (n,) of int16 bits of float16 (words, d).

    Memory for the largest batch is held from step to step: fetched anew each time, it would cost more than the work.
    """

    def __init__(
        self,
        optimizer: _AdamW,
        slope: _SoftmaxSlope | _CRFSlope,
        dropout: float,
        generator: torch.Generator,
        most: int,
        width: int,
    ) -> None:
        self.parameters, self.gradients = (
            {name: p for name, p in named.items() if name.startswith("body.")}
            for named in (optimizer.parameters, optimizer.gradients)
        )
        self.slope = slope
        self.dropout, self.scale, self._generator = dropout, kept_scale(dropout), generator
        self._bits, self._x = torch.empty(most, width, dtype=torch.int16), torch.empty(most, width)
        widest = max(width, *(p.shape[1] for p in self.parameters.values()))
        self._drawn = torch.empty(-(-most * widest // 4), dtype=torch.int64)

    def keep(self, numel: int) -> Tensor:
        """(numel,) int16, 1 where an element stays; valid until the next call."""
        return draw_kept(numel, self.dropout, self._generator, self._drawn)

    def drop(self, local: Tensor, rows: Tensor) -> Tensor:
        """(n, d) float32 with some elements 0 (unscaled: the scale goes into the products)."""
        bits = torch.index_select(local, 0, rows, out=self._bits[: len(rows)])
        if self.dropout:
            bits.mul_(self.keep(bits.numel()).view_as(bits))  # times 0 or 1: the bits of 0, or unchanged
        return self._x[: len(rows)].copy_(bits.view(torch.float16))


class _LinearStep(_Step):
    def __call__(self, local: Tensor, batch: Batch) -> None:
        x = self.drop(local, batch.rows)
        weight, bias = self.parameters["body.1.weight"], self.parameters["body.1.bias"]  # (k, C, d), (k, C)
        logits = torch.addmm(bias.flatten(), x, weight.flatten(0, 1).T, alpha=self.scale)
        slope = self.slope(logits.view(len(x), *bias.shape), batch)  # (n, k, C)
        gradient = self.gradients["body.1.weight"].flatten(0, 1)
        torch.addmm(gradient, slope.flatten(1).T, x, beta=0, alpha=self.scale, out=gradient)
        torch.sum(slope, 0, out=self.gradients["body.1.bias"])


class _MlpStep(_Step):
    def __call__(self, local: Tensor, batch: Batch) -> None:
        x = self.drop(local, batch.rows)
        w1, b1, w2, b2 = self.parameters.values()  # (k, h, d), (k, h), (k, C, h), (k, C)
        d1, db1, d2, db2 = self.gradients.values()
        inner = torch.addmm(b1.flatten(), x, w1.flatten(0, 1).T, alpha=self.scale).relu_()
        inner = inner.view(len(x), *b1.shape)  # (n, k, h)
        if self.dropout:
            inner.mul_(self.keep(len(x) * b1.shape[1]).view(len(x), 1, -1).float())
        by_head = inner.transpose(0, 1)  # (k, n, h)
        logits = torch.baddbmm(b2.unsqueeze(1), by_head, w2.transpose(1, 2), alpha=self.scale)
        slope = self.slope(logits.transpose(0, 1), batch).transpose(0, 1)  # (k, n, C)
        torch.baddbmm(d2, slope.transpose(1, 2), by_head, beta=0, alpha=self.scale, out=d2)
        torch.sum(slope, 1, out=db2)
        back = torch.bmm(slope, w2).transpose(0, 1).mul(inner.sign_()).mul_(self.scale)  # (n, k, h): 0 where ReLU was
        torch.sum(back, 0, out=db1)
        d1 = d1.flatten(0, 1)
        torch.addmm(d1, back.flatten(1).T, x, beta=0, alpha=self.scale, out=d1)


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
CRF_NAMES = ("crf.starts", "crf.transitions", "crf.ends")
STEPS: dict[str, type] = {"linear": _LinearStep, "mlp": _MlpStep}
SCORES: dict[str, Callable[[dict[str, Tensor], Tensor], Tensor]] = {"linear": _linear_scores, "mlp": _mlp_scores}
