"""Training an ELMo on sentences of words: the next word and the one before, at every place.

A batch holds sentences of like length, about `batch_words` words of them; which, follows from the step's number.
Targets are the most frequent words of the corpus, all others being the unknown one (number 0).
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.models.elmo import KIND, PAPER_FILTERS, Elmo, ElmoLM, ElmoShape, save_elmo, spell_texts
from boustro.models.hardware import best_device, mixed_precision
from boustro.pretrain.config import ElmoConfig, options_as_json
from boustro.pretrain.loop import Loop
from boustro.pretrain.processes import say
from boustro.store import fingerprint, write_file, write_folder

DECIDING = ("width", "cells", "letter_window", "num_targets", "words", "batch_words", "max_words")
"""Options that decide the weights, besides those of every loop."""
POOL_BATCHES = 50  # sentences are sorted by length within this many batches, not within the corpus
UNKNOWN = "<unknown>"


def train_elmo(
    sentences: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]], config: ElmoConfig
) -> dict[str, Any]:
    """Train on `sentences`, measure on `held_out` (which may be empty); returns what is written to `training.json`.

    Raises `ValueError` where there is no word to train on.
    """
    parts = _cut(sentences, config.max_words)
    counts = Counter(word for part in parts for word in part)
    if not counts:
        raise ValueError("the corpus holds no word to train on")
    targets = [UNKNOWN, *(word for word, _ in counts.most_common(config.num_targets - 1))]
    numbers = {word: number for number, word in enumerate(targets)}
    batches = make_batches([len(part) for part in parts], config.batch_words, config.seed)
    total = sum(counts.values())
    wanted = total if config.words is None else config.words
    steps = max(1, round(len(batches) * wanted / total)) if wanted else 0

    device = best_device()
    torch.manual_seed(config.seed)
    shape = ElmoShape(width=config.width, cells=config.cells, filters=PAPER_FILTERS[: config.letter_window])
    module = ElmoLM(Elmo(shape), len(targets)).to(device)

    def loss_of(texts: list[Sequence[str]]) -> Tensor:
        with mixed_precision(device):
            return module(*(x.to(device) for x in make_tensors(texts, numbers, shape.max_letters)))

    measured = _cut(held_out, config.max_words)
    measured_batches = make_batches([len(part) for part in measured], config.batch_words, config.seed)

    def validate() -> float:
        sizes = [sum(len(measured[i]) for i in batch) for batch in measured_batches]
        losses = [loss_of([measured[i] for i in batch]).item() for batch in measured_batches]
        return float(np.average(losses, weights=sizes))

    loop = Loop(
        module,
        lambda step: loss_of([parts[i] for i in batches[step % len(batches)]]),
        validate if measured else None,
        steps,
        config,
        {name: getattr(config, name) for name in DECIDING} | {"corpus": fingerprint([list(p) for p in parts])},
    )
    if finished := loop.finished(KIND):
        return finished
    num_parameters = sum(p.numel() for p in module.elmo.parameters())
    say(f"ELMo: {num_parameters / 1e6:.1f}M parameters, {steps:,} steps, {total:,} words at hand, on {device}")
    loss = loop.run()
    result = {
        "config": options_as_json(config),
        "run": loop.facts,
        "num_parameters": num_parameters,
        "share_of_unknown_targets": 1 - sum(counts[word] for word in targets) / total,
        "validation_loss": loss,
        "history": loop.history,
    }
    with write_folder(config.out, KIND) as folder:
        save_elmo(folder, module.elmo, {})
        write_file(folder / "training.json", json.dumps(result, indent=1))
    loop.finish()
    say(f"{config.out}: done" + (f", validation loss {loss:.4f}" if loss is not None else ""))
    return result


def make_batches(lengths: Sequence[int], batch_words: int, seed: int) -> list[list[int]]:
    """Numbers of sentences, batch by batch: all of them, once, with padding at most `batch_words` words a batch
    (a longer sentence stands alone), in an order that the seed decides.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(lengths)).tolist()
    batches: list[list[int]] = []
    pool: list[int] = []
    words = 0
    for place, number in enumerate(order, 1):
        pool.append(number)
        words += lengths[number]
        if place == len(order) or words >= POOL_BATCHES * batch_words:
            batches += _by_length(pool, lengths, batch_words)
            pool, words = [], 0
    return [batches[i] for i in generator.permutation(len(batches))]


def _by_length(pool: list[int], lengths: Sequence[int], batch_words: int) -> list[list[int]]:
    batches: list[list[int]] = [[]]
    for i in sorted(pool, key=lambda i: lengths[i]):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[i] > batch_words:
            batches.append([])
        batches[-1].append(i)
    return batches


def make_tensors(
    texts: Sequence[Sequence[str]], numbers: dict[str, int], max_letters: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `ElmoLM` takes: the different words spelt, the texts as rows of them, lengths, targets."""
    spelt, rows, lengths, _ = spell_texts(texts, max_letters)
    targets = [[numbers.get(word, 0) for word in text] + [-100] * (rows.shape[1] - len(text)) for text in texts]
    return spelt, rows, lengths, torch.tensor(targets)


def _cut(sentences: Sequence[Sequence[str]], max_words: int) -> list[Sequence[str]]:
    return [s[i : i + max_words] for s in sentences for i in range(0, len(s), max_words)]
