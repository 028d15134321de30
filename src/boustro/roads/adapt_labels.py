"""Adapts an LM on the task itself: an adapter and a linear head are trained to label words.

Sentences are read as the encoder reads them: in their documents if the data has documents, in windows, each word at
its exit, the state after the whole word. The head, a linear layer over the top states, is used for training only;
the adapter is kept. The head's score on the development set is written too: it is the score of the method as
published, without frozen features and a head trained on them.

Sources: Li et al. 2023 (Label supervised LLaMA, the token classification without a mask); Dukić and Šnajder 2024
(Looking right is sometimes right, the mask removed in groups of blocks).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from boustro import __version__
from boustro.encoders.reading import Row
from boustro.heads.options import SequenceOptions
from boustro.objectives.examples import IGNORED
from boustro.pretrain.batches import Batches
from boustro.pretrain.distributed import say
from boustro.roads.adapt import open_lm, train_adapter
from boustro.roads.options import AdaptConfig
from boustro.roads.words import WordReader, make_batches, row_tensors
from boustro.tasks import read_examples
from boustro.tasks.data import data_name
from boustro.tasks.data.fingerprint import data_fingerprint
from boustro.tasks.labellings import Labelling, make_labelling
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

DECIDING = ("epochs", "batch_pieces", "context")
"""Options that decide the weights, besides those of every adapter."""


def adapt_to_labels(config: AdaptConfig) -> dict[str, Any]:
    """Train an adapter on labelled sentences; returns `training.json`. `ValueError` for data that do not fit."""
    options = config.labels
    assert options.train is not None
    train = read_examples(Tagger, options.train, config.data)
    dev = read_examples(Tagger, options.dev, config.data) if options.dev else []
    if {tag for sentence in train for tag in sentence.tags or ()} <= {"O"}:
        raise ValueError(f"{data_name(train)}: no word is labelled with an entity, so there is nothing to learn")
    context = options.context if any(sentence.document for sentence in train) else "sentence"
    encoder, base = open_lm(config, context=context)
    labelling = make_labelling("linear", train, SequenceOptions())
    rows, tags = encoder.rows(train), tag_ids(labelling, train)
    dev_rows, dev_tags = encoder.rows(dev), tag_ids(labelling, dev)
    lengths, dev_lengths = ([len(row.ids) for row in own] for own in (rows, dev_rows))
    seeds = range(config.seed, config.seed + options.epochs)
    batches = [batch for seed in seeds for batch in make_batches(lengths, options.batch_pieces, seed)]
    dev_batches = make_batches(dev_lengths, options.batch_pieces, seed=0)

    torch.manual_seed(config.seed)
    reader = WordReader(encoder.model, len(labelling.labels))

    def dev_batch(number: int) -> tuple[dict[str, Tensor], int]:
        batch = _batch(dev_rows, dev_batches[number], dev_tags)
        return batch, int((batch["targets"] != IGNORED).sum())

    def loss_of(targets: Tensor, **read: Tensor) -> Tensor:
        total = F.cross_entropy(reader(**read), targets, ignore_index=IGNORED, reduction="sum")
        return total / (targets != IGNORED).sum().clamp_min(1)

    def describe() -> dict[str, Any]:
        scores = _score(reader, labelling, dev_rows, dev, dev_batches).to_dict() if dev_rows else None
        if scores:
            found = f"entity F1 {scores['f1']:.2f}" if "f1" in scores else f"accuracy {scores['accuracy']:.2f}"
            say(f"the trained head on the development set: {found}")
        more = {"objective": "labels", "labels": list(labelling.labels), "dev_scores": scores}
        return more | {"notices": dict(+encoder.counts)}

    facts = {name: getattr(options, name) for name in DECIDING} | {"train": data_fingerprint(train)}
    measured = Batches(len(dev_batches), dev_batch) if dev_rows else None
    batched = Batches(len(batches), lambda step: _batch(rows, batches[step], tags))
    how = {"facts": facts, "describe": describe, "step_size": options.batch_pieces}
    return train_adapter(config, base, encoder.model, reader.head, loss_of, batched, measured, **how)


def tag_ids(labelling: Labelling, sentences: Sequence[Sentence]) -> Tensor:
    """The tags of all words, end to end (W,), as indices of labels; -100 for a tag that is not in the training set."""
    ids = {tag: number for number, tag in enumerate(labelling.labels)}
    tags = [tag for s in sentences for tag in labelling.tags(s, labelling.scheme)]  # type: ignore[attr-defined]
    return torch.tensor([ids.get(tag, IGNORED) for tag in tags], dtype=torch.int64)


def _batch(rows: Sequence[Row], numbers: Sequence[int], tags: Tensor) -> dict[str, Tensor]:
    """The rows of these numbers as tensors, with the tags of their words."""
    chosen = [rows[number] for number in numbers]
    return {**row_tensors(chosen), "targets": tags[torch.from_numpy(np.concatenate([row.words for row in chosen]))]}


@torch.no_grad()
def _score(
    reader: WordReader, labelling: Labelling, rows: Sequence[Row], dev: Sequence[Sentence], batches: list
) -> Any:
    """Scores of the best label of each word."""
    reader.eval()
    device = reader.head.weight.device
    total = sum(map(len, dev))
    best, sure = np.zeros(total, np.int64), np.zeros(total, np.float32)
    for batch in batches:
        chosen = [rows[i] for i in batch]
        read = {name: tensor.to(device) for name, tensor in row_tensors(chosen).items()}
        scores, labels = reader(**read).softmax(-1).max(-1)
        words = np.concatenate([row.words for row in chosen])
        best[words], sure[words] = labels.cpu().numpy(), scores.cpu().numpy()
    parts = zip(*(np.split(array, np.cumsum([len(s) for s in dev])[:-1]) for array in (best, sure)), strict=True)
    answers = [labelling.read(part, sentence) for part, sentence in zip(parts, dev, strict=True)]
    return labelling.score(dev, answers, {"data": data_fingerprint(dev), "version": f"boustro {__version__}"})
