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

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from boustro.heads.tagging import TaggingHead

BLOCK_WORDS = 8192
Streams = Sequence[np.ndarray]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a head is trained; the mix learns `mix_lr` times as fast, for `mix_epochs`."""

    epochs: int = 20
    lr: float = 1e-3
    batch_sentences: int = 32
    weight_decay: float = 0.01
    mix_epochs: int = 4
    mix_lr: float = 10.0
    seed: int = 1


@dataclass(slots=True)
class TrainLog:
    """The loss and the dev score of every epoch, and which epoch was kept (from 1)."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Dev:
    """Features of the development set, and what judges the tag probabilities (words, C) of its words."""

    streams: Streams
    score: Callable[[Tensor], float]


def train_head(
    head: TaggingHead,
    streams: Streams,
    starts: np.ndarray,
    tags: np.ndarray,
    config: TrainConfig,
    dev: Dev | None = None,
    device: torch.device | None = None,
) -> TrainLog:
    """Train `head` in place.

    Args:
        streams: Per stream (words, L, D).
        starts: (sentences + 1,) where each sentence begins.
        tags: (words,) tag ids.
        dev: Judges the head after each epoch; the best one is kept. Without it, the last one is.
    """
    device = device or torch.device("cpu")
    for mix, stream in zip(head.mixes, streams, strict=True):
        mix.fit_standardisation(stream)  # type: ignore[operator]
    head.to(device)
    held, wanted = [_hold(stream, device) for stream in streams], torch.from_numpy(tags).to(device)
    steps = config.epochs * -(-(len(starts) - 1) // config.batch_sentences)
    optimizer = torch.optim.AdamW(
        [
            {"params": list(head.body.parameters())},
            {"params": list(head.mixes.parameters()), "lr": config.lr * config.mix_lr, "weight_decay": 0.0},
        ],
        config.lr,
        weight_decay=config.weight_decay,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    generator = np.random.default_rng(config.seed)
    log, best, best_state = TrainLog(), -1.0, copy.deepcopy(head.state_dict())
    learns_mix = any(mix.weights is not None for mix in head.mixes)
    mixed: Tensor | None = None
    dev_mixed: Tensor | None = None
    progress = tqdm(range(1, config.epochs + 1), desc="training", unit=" epochs", disable=None, leave=False)
    for epoch in progress:
        if mixed is None and (epoch > config.mix_epochs or not learns_mix):
            head.mixes.requires_grad_(False)
            mixed = mix_all(head, streams)
            dev_mixed = mix_all(head, dev.streams) if dev else None
        head.train()
        total = torch.zeros((), device=device)
        for rows in _batches(starts, config.batch_sentences, generator):
            rows = rows.to(device)
            vectors = head.mix([stream[rows] for stream in held]) if mixed is None else mixed[rows].float()
            loss = F.cross_entropy(head.body(vectors), wanted[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(rows)
        log.losses.append(total.item() / len(wanted))
        if dev:
            log.scores.append(
                dev.score(predict_tags(head, dev_mixed if dev_mixed is not None else mix_all(head, dev.streams)))
            )
            progress.set_postfix(loss=f"{log.losses[-1]:.3f}", dev=f"{log.scores[-1]:.2f}")
        if not dev or log.scores[-1] > best:
            best = log.scores[-1] if dev else best
            log.best_epoch, best_state = epoch, copy.deepcopy(head.state_dict())
    head.load_state_dict(best_state)
    head.requires_grad_(True)
    return log


@torch.no_grad()
def mix_all(head: TaggingHead, streams: Streams) -> Tensor:
    """(words, d) float16: the mixed vectors of all words, on the head's device."""
    device = next(head.parameters()).device
    width = sum(width for _, width in head.config.streams)
    result = torch.empty(len(streams[0]), width, dtype=torch.float16, device=device)
    for start in range(0, len(result), BLOCK_WORDS):
        block = [torch.from_numpy(np.array(s[start : start + BLOCK_WORDS])).to(device) for s in streams]
        result[start : start + BLOCK_WORDS] = head.mix(block)
    return result


@torch.inference_mode()
def predict_tags(head: TaggingHead, mixed: Tensor) -> Tensor:
    """Tag probabilities (words, C) on the CPU, from mixed vectors (words, d)."""
    head.eval()
    parts = [head.body(block.float()).softmax(-1).cpu() for block in mixed.split(BLOCK_WORDS)]
    return torch.cat(parts) if parts else torch.zeros(0, head.config.num_tags)


def predict_scores(head: TaggingHead, streams: Streams) -> Tensor:
    """Tag probabilities (words, C) on the CPU, from features."""
    return predict_tags(head, mix_all(head, streams))


def _batches(starts: np.ndarray, batch_sentences: int, generator: np.random.Generator) -> Iterator[Tensor]:
    """Rows of the words of so many sentences at a time, in a new random order."""
    order = generator.permutation(len(starts) - 1)
    for first in range(0, len(order), batch_sentences):
        chosen = order[first : first + batch_sentences]
        yield torch.from_numpy(np.concatenate([np.arange(int(starts[s]), int(starts[s + 1])) for s in chosen]))


def _hold(stream: np.ndarray, device: torch.device) -> Tensor:
    """On a GPU the features move there once; on a CPU they stay where they are, mapped from disk."""
    if device.type == "cpu":
        if isinstance(stream, np.memmap):  # torch wants to write: a copy-on-write map costs nothing
            stream = np.memmap(stream.filename, stream.dtype, "c", stream.offset, stream.shape)  # type: ignore[arg-type]
        return torch.from_numpy(stream)
    return torch.from_numpy(np.array(stream)).to(device)
