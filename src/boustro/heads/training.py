"""Train a head on features: AdamW, linear decay, and the epoch that is best on dev.

Features are end to end, (words, L, D) a stream; a batch is so many sentences, its words side by side, so
nothing is padded. Source: backward-LM paper, section 3.2, but for the choice of the epoch, which goes by
a score that the caller gives (entity F1), as the paper says and its published code does not.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from boustro.heads.tagging import TaggingHead

PREDICT_WORDS = 8192


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a head is trained."""

    epochs: int = 20
    lr: float = 1e-3
    batch_sentences: int = 32
    weight_decay: float = 0.01
    seed: int = 1


@dataclass(slots=True)
class TrainLog:
    """The loss and the dev score of every epoch, and which epoch was kept (from 1)."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0


def train_head(
    head: TaggingHead,
    streams: Sequence[np.ndarray],
    starts: np.ndarray,
    tags: np.ndarray,
    config: TrainConfig,
    score: Callable[[TaggingHead], float] | None = None,
    device: torch.device | None = None,
) -> TrainLog:
    """Train `head` in place.

    Args:
        streams: Per stream (words, L, D).
        starts: (sentences + 1,) where each sentence begins.
        tags: (words,) tag ids.
        score: Judges the head after each epoch; the best one is kept. Without it, the last one is.
    """
    device = device or torch.device("cpu")
    generator = np.random.default_rng(config.seed)
    for mix, stream in zip(head.mixes, streams, strict=True):
        mix.fit_standardisation(stream)  # type: ignore[operator]
    head.to(device)
    held = [_hold(stream, device) for stream in streams]
    wanted = torch.from_numpy(tags).to(device)
    num_sentences = len(starts) - 1
    steps = config.epochs * -(-num_sentences // config.batch_sentences)
    optimizer = torch.optim.AdamW(head.parameters(), config.lr, weight_decay=config.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
    log, best = TrainLog(), -1.0
    best_state = copy.deepcopy(head.state_dict())
    progress = tqdm(range(1, config.epochs + 1), desc="training", unit=" epochs", disable=None, leave=False)
    for epoch in progress:
        head.train()
        total = torch.zeros((), device=device)
        order = generator.permutation(num_sentences)
        for first in range(0, num_sentences, config.batch_sentences):
            chosen = order[first : first + config.batch_sentences]
            rows = torch.from_numpy(np.concatenate([np.arange(starts[s], starts[s + 1]) for s in chosen])).to(device)
            loss = F.cross_entropy(head([stream[rows] for stream in held]), wanted[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(rows)
        log.losses.append(total.item() / len(wanted))
        if score is not None:
            log.scores.append(score(head))
            progress.set_postfix(loss=f"{log.losses[-1]:.3f}", dev=f"{log.scores[-1]:.2f}")
        if score is None or log.scores[-1] > best:
            best = log.scores[-1] if score else best
            log.best_epoch, best_state = epoch, copy.deepcopy(head.state_dict())
    head.load_state_dict(best_state)
    return log


@torch.inference_mode()
def predict_scores(head: TaggingHead, streams: Sequence[np.ndarray]) -> Tensor:
    """Tag probabilities (words, C) on the CPU."""
    head.eval()
    device = next(head.parameters()).device
    parts = []
    for start in range(0, len(streams[0]), PREDICT_WORDS):
        batch = [torch.from_numpy(np.array(s[start : start + PREDICT_WORDS])).to(device) for s in streams]
        parts.append(head(batch).softmax(-1).cpu())
    return torch.cat(parts) if parts else torch.zeros(0, head.config.num_tags)


def _hold(stream: np.ndarray, device: torch.device) -> Tensor:
    """On a GPU the features move there once; on a CPU they stay where they are, mapped from disk."""
    if device.type == "cpu":
        if isinstance(stream, np.memmap):  # torch wants to write: a copy-on-write map costs nothing
            stream = np.memmap(stream.filename, stream.dtype, "c", stream.offset, stream.shape)  # type: ignore[arg-type]
        return torch.from_numpy(stream)
    return torch.from_numpy(np.array(stream)).to(device)
