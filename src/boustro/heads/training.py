"""Train a head on features: AdamW, linear decay, and the epoch that is best on dev.

Features are end to end, (words, L, D) a stream; a batch is so many sentences, its words side by side, so
nothing is padded. The mix of layers settles within a few epochs; it is then frozen and applied once to all
words, so that the remaining epochs read one vector a word instead of L a stream.

Source: backward-LM paper, section 3.2, but for the choice of the epoch, which goes by a score that the
caller gives (entity F1), as the paper says and its published code does not.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from boustro.heads.base import Head
from boustro.heads.options import TrainOptions

MOST_SENTENCES, LEAST_SENTENCES, STEPS_AN_EPOCH = 32, 4, 12
BLOCK_WORDS = 8192
MIX_WORDS = 1024  # all layers of so many words stay in a CPU's caches
Streams = Sequence[np.ndarray]
Targets = Callable[[np.ndarray, Tensor], Any]


@dataclass(slots=True)
class TrainLog:
    """The loss and the dev score of every epoch, and which epoch was kept (from 1)."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Dev:
    """Features of the development set, and what judges the head's answers for its sentences."""

    streams: Streams
    lengths: np.ndarray
    score: Callable[[list[Any]], float]


def propose_batch(num_sentences: int) -> int:
    """Sentences a step: enough for speed, and few enough that an epoch over few sentences has a dozen steps."""
    return min(MOST_SENTENCES, max(LEAST_SENTENCES, num_sentences // STEPS_AN_EPOCH))


def train_head(
    head: Head,
    streams: Streams,
    lengths: np.ndarray,
    targets: Targets,
    options: TrainOptions,
    seed: int,
    batch_sentences: int,
    dev: Dev | None = None,
    device: torch.device | None = None,
) -> TrainLog:
    """Train `head` in place.

    Args:
        streams: Per stream (words, L, D).
        lengths: (sentences,) words in each.
        targets: Gives what the head's loss wants for a batch: called with the sentences' numbers and the rows
            of their words.
        dev: Judges the head after each epoch; the best one is kept. Without it, the last one is.
    """
    device = device or torch.device("cpu")
    for mix, stream in zip(head.mixes, streams, strict=True):
        mix.fit_standardisation(stream)  # type: ignore[operator]
    head.to(device)
    held = [_hold(stream, device) for stream in streams]
    steps = options.epochs * -(-len(lengths) // batch_sentences)
    optimizer = torch.optim.AdamW(
        [
            {"params": head.learned_parameters()},
            {
                "params": list(head.mixes.parameters()),
                "lr": options.lr * options.mix_lr_multiplier,
                "weight_decay": 0.0,
            },
        ],
        options.lr,
        weight_decay=options.weight_decay,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    generator = np.random.default_rng(seed)
    log, best, best_state = TrainLog(), -1.0, copy.deepcopy(head.state_dict())
    learns_mix = any(mix.learned for mix in head.mixes)
    mixed: Tensor | None = None
    dev_mixed: Tensor | None = None
    progress = tqdm(range(1, options.epochs + 1), desc="training", unit=" epochs", disable=None, leave=False)
    for epoch in progress:
        if mixed is None and (epoch > options.mix_epochs or not learns_mix):
            head.mixes.requires_grad_(False)
            mixed = mix_all(head, streams)
            dev_mixed = mix_all(head, dev.streams) if dev else None
        head.train()
        total = torch.zeros((), device=device)
        for sentences, rows in _batches(lengths, batch_sentences, generator):
            rows = rows.to(device)
            vectors = head.mix([stream[rows] for stream in held]) if mixed is None else mixed[rows].float()
            loss = head.loss(vectors, torch.from_numpy(lengths[sentences]), targets(sentences, rows))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(rows)
        log.losses.append(total.item() / int(lengths.sum()))
        if not np.isfinite(log.losses[-1]):
            raise ValueError(f"the loss is {log.losses[-1]} in epoch {epoch}; try a lower --lr")
        if dev:
            answers = predict_mixed(
                head, dev_mixed if dev_mixed is not None else mix_all(head, dev.streams), dev.lengths
            )
            log.scores.append(dev.score(answers))
            progress.set_postfix(loss=f"{log.losses[-1]:.3f}", dev=f"{log.scores[-1]:.2f}")
        if not dev or log.scores[-1] > best:
            best = log.scores[-1] if dev else best
            log.best_epoch, best_state = epoch, copy.deepcopy(head.state_dict())
    head.load_state_dict(best_state)
    head.requires_grad_(True)
    return log


@torch.no_grad()
def mix_all(head: Head, streams: Streams) -> Tensor:
    """(words, d) float16: the mixed vectors of all words, on the head's device."""
    device = next(head.parameters()).device
    result = torch.empty(len(streams[0]), sum(head.widths), dtype=torch.float16, device=device)
    for start in range(0, len(result), MIX_WORDS):
        block = [torch.from_numpy(np.array(s[start : start + MIX_WORDS])).to(device) for s in streams]
        result[start : start + MIX_WORDS] = head.mix(block)
    return result


@torch.inference_mode()
def predict_mixed(head: Head, mixed: Tensor, lengths: np.ndarray) -> list[Any]:
    """The head's answer for every sentence, from mixed vectors (words, d); sentences of like length go together."""
    head.eval()
    starts = np.cumsum(lengths) - lengths
    answers: list[Any] = [None] * len(lengths)
    order = np.argsort(lengths, kind="stable")
    blocks = np.cumsum(lengths[order]) // BLOCK_WORDS
    for sentences in np.split(order, np.flatnonzero(np.diff(blocks)) + 1) if len(order) else []:
        vectors = mixed[_rows(starts, lengths, sentences).to(mixed.device)].float()
        for sentence, answer in zip(
            sentences, head.predict(vectors, torch.from_numpy(lengths[sentences])), strict=True
        ):
            answers[sentence] = answer
    return answers


def predict_streams(head: Head, streams: Streams, lengths: np.ndarray) -> list[Any]:
    """The same, from features."""
    return predict_mixed(head, mix_all(head, streams), lengths)


def _batches(
    lengths: np.ndarray, batch_sentences: int, generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """So many sentences at a time and the rows of their words, in a new random order."""
    starts = np.cumsum(lengths) - lengths
    order = generator.permutation(len(lengths))
    for first in range(0, len(order), batch_sentences):
        sentences = order[first : first + batch_sentences]
        yield sentences, _rows(starts, lengths, sentences)


def _rows(starts: np.ndarray, lengths: np.ndarray, sentences: np.ndarray) -> Tensor:
    """Where the words of these sentences stand among all words."""
    return torch.from_numpy(
        np.concatenate([np.arange(a, a + n) for a, n in zip(starts[sentences], lengths[sentences], strict=True)])
    )


def _hold(stream: np.ndarray, device: torch.device) -> Tensor:
    """On a GPU the features move there once; on a CPU they stay where they are, mapped from disk."""
    if device.type == "cpu":
        return torch.from_numpy(stream)
    return torch.from_numpy(np.array(stream)).to(device)
