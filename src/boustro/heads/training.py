"""Train a head on features: AdamW, linear decay, and the epoch that is best on the development set.

Features are end to end, (words, L, D) per stream; a batch is a number of sentences, its words end to end, so
nothing is padded. The mix of layers converges within a few epochs; it is then frozen and applied once to all
words, so that the remaining epochs read one vector per word instead of L per stream.

Source: backward-LM paper, section 3.2. The epoch is chosen by a score that the caller gives (entity F1), as the paper
says and its published code does not.
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
from boustro.heads.layout import length_blocks, sentence_rows, sentence_starts
from boustro.heads.options import TrainOptions

BLOCK_WORDS = 8192
MIX_WORDS = 1024  # so many words with all layers fit a CPU's caches
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
    """Features of the development set, and the function that scores the head's predictions for it."""

    streams: Streams
    lengths: np.ndarray
    score: Callable[[list[Any]], float]


def propose_batch(num_sentences: int) -> int:
    """Sentences per step: 32, fewer for small training sets, so that an epoch has a dozen steps."""
    return min(32, max(4, num_sentences // 12))


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
        targets: Returns the targets of a batch, given the numbers of its sentences and the rows of their words.
        dev: The epoch with the best score there is kept; without it, the last one.

    Raises `ValueError` if the loss becomes NaN or infinite.
    """
    device = device or torch.device("cpu")
    for mix, stream in zip(head.mixes, streams, strict=True):
        mix.fit_standardisation(stream)  # type: ignore[operator]
    head.to(device)
    # on a CPU the memory-mapped features, elsewhere a copy
    held = [torch.from_numpy(s if device.type == "cpu" else np.array(s)).to(device) for s in streams]
    optimizer, schedule = _make_optimizer(head, options, options.epochs * -(-len(lengths) // batch_sentences))
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
        log.losses.append(total.item() / max(1, int(lengths.sum())))
        if not np.isfinite(log.losses[-1]):
            raise ValueError(f"the loss is {log.losses[-1]} in epoch {epoch}; try a lower --lr")
        if dev:
            dev_vectors = mix_all(head, dev.streams) if dev_mixed is None else dev_mixed
            log.scores.append(dev.score(predict_mixed(head, dev_vectors, dev.lengths)))
            progress.set_postfix(loss=f"{log.losses[-1]:.3f}", dev=f"{log.scores[-1]:.2f}")
        if not dev or log.scores[-1] > best:
            best = log.scores[-1] if dev else best
            log.best_epoch, best_state = epoch, copy.deepcopy(head.state_dict())
    head.load_state_dict(best_state)
    head.requires_grad_(True)
    return log


def _make_optimizer(
    head: Head, options: TrainOptions, steps: int
) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LambdaLR]:
    """AdamW with linear decay; the mixes have their own learning rate and no weight decay."""
    mixes = {"params": list(head.mixes.parameters()), "lr": options.lr * options.mix_lr_multiplier, "weight_decay": 0.0}
    others = [parameter for name, parameter in head.named_parameters() if not name.startswith("mixes.")]
    groups = [{"params": others}, mixes]
    optimizer = torch.optim.AdamW(groups, options.lr, weight_decay=options.weight_decay, fused=True)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))


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
    """The head's prediction for every sentence, from mixed vectors (words, d); sentences are batched by length."""
    head.eval()
    starts = sentence_starts(lengths)
    answers: dict[int, Any] = {}
    for sentences in length_blocks(lengths, BLOCK_WORDS):
        rows = torch.from_numpy(sentence_rows(starts, sentences)[0])
        vectors = mixed[rows.to(mixed.device)].float()
        found = head.predict(vectors, torch.from_numpy(lengths[sentences]))
        answers.update(zip(sentences.tolist(), found, strict=True))
    return [answers[sentence] for sentence in range(len(lengths))]


def predict_streams(head: Head, streams: Streams, lengths: np.ndarray) -> list[Any]:
    """As `predict_mixed`, from features."""
    return predict_mixed(head, mix_all(head, streams), lengths)


def _batches(
    lengths: np.ndarray, batch_sentences: int, generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """So many sentences at a time and the rows of their words, in a new random order."""
    starts = sentence_starts(lengths)
    order = generator.permutation(len(lengths))
    for first in range(0, len(order), batch_sentences):
        sentences = order[first : first + batch_sentences]
        yield sentences, torch.from_numpy(sentence_rows(starts, sentences)[0])
