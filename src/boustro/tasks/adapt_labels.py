"""Adapting an LM to its missing mask by the task itself: an adapter and a linear head learn to label words.

Sentences are read as the encoder reads them: in their documents where the data name them, in windows, a word at its
exit, the state after the whole of it. The head, one linear layer over the top states, is only there to train by; what
is kept is the adapter. Its own score on the development set is said and written all the same: that is the method as
published, without features that are frozen and a head that is trained on them.

Sources: Li et al. 2023 (Label supervised LLaMA, the token classification without a mask); Dukić and Šnajder 2024
(Looking right is sometimes right, the mask removed in groups of blocks).
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from boustro import __version__
from boustro.encoders.lm import LMEncoder
from boustro.encoders.reading import Row
from boustro.models.adaptation import Adaptation
from boustro.pretrain.adapt import Adapting
from boustro.pretrain.config import AdaptConfig, LabelOptions
from boustro.pretrain.elmo import make_batches
from boustro.pretrain.processes import say
from boustro.tasks.config import TaggerConfig
from boustro.tasks.data import data_name
from boustro.tasks.data.conll import data_fingerprint
from boustro.tasks.labelling import Labelling, make_labelling
from boustro.types import Sentence

IGNORED = -100


DECIDING = ("epochs", "batch_pieces", "context")


class LabelReader(nn.Module):
    """Labels of words from the top states of a transformer; `head` is drawn anew."""

    def __init__(self, model: nn.Module, width: int, labels: Sequence[str]) -> None:
        super().__init__()
        self.model, self.head = model, nn.Linear(width, len(labels))

    def forward(self, rows: Sequence[Row]) -> Tensor:
        """Scores (W, labels) of the words of all rows, row by row."""
        device = self.head.weight.device
        lengths = [len(row.ids) for row in rows]
        ids = torch.tensor([row.ids + [row.ids[0]] * (max(lengths) - len(row.ids)) for row in rows], device=device)
        there = torch.arange(ids.shape[1], device=device) < torch.tensor(lengths, device=device)[:, None]
        states = self.model(input_ids=ids, attention_mask=there.long(), use_cache=False).last_hidden_state
        places = np.concatenate([number * ids.shape[1] + row.columns for number, row in enumerate(rows)])
        return self.head(states.flatten(0, 1)[torch.from_numpy(places).to(device)].float())


def adapt_to_labels(
    encoder: LMEncoder,
    base: Adaptation,
    config: AdaptConfig,
    options: LabelOptions,
    train: Sequence[Sentence],
    dev: Sequence[Sentence],
) -> dict[str, Any]:
    """Train an adapter on `train`, measure on `dev` (which may be empty); returns what is written to `training.json`.

    `encoder` reads one place of a word, its exit. Raises `ValueError` for data without a label.
    """
    if {tag for sentence in train for tag in sentence.tags or ()} <= {"O"}:
        raise ValueError(f"{data_name(train)}: no word is labelled with an entity, so there is nothing to learn")
    labelling = make_labelling("linear", train, TaggerConfig())
    rows, tags = encoder.rows(train), tag_ids(labelling, train)
    dev_rows, dev_tags = encoder.rows(dev), tag_ids(labelling, dev)
    lengths = [len(row.ids) for row in rows]
    epochs = (make_batches(lengths, options.batch_pieces, config.seed + epoch) for epoch in range(options.epochs))
    batches = [batch for epoch in epochs for batch in epoch]

    torch.manual_seed(config.seed)
    reader = LabelReader(encoder.model, encoder.model.config.get_text_config().hidden_size, labelling.labels)
    adapting = Adapting(encoder.model, base, config, reader.head)
    adapting.weights.to(encoder.device)
    dev_batches = make_batches([len(row.ids) for row in dev_rows], options.batch_pieces, seed=0)

    def summed_loss(chosen: Sequence[Row], wanted: Tensor) -> tuple[Tensor, int]:
        """The cross-entropy of all words together, and how many have a tag that can be told."""
        targets = wanted[torch.from_numpy(np.concatenate([row.words for row in chosen]))]
        loss = F.cross_entropy(reader(chosen), targets.to(encoder.device), ignore_index=IGNORED, reduction="sum")
        return loss, int((targets != IGNORED).sum())

    def loss_at(step: int) -> Tensor:
        loss, num_words = summed_loss([rows[i] for i in batches[step]], tags)
        return loss / num_words

    def validate() -> float:
        losses = [summed_loss([dev_rows[i] for i in batch], dev_tags) for batch in dev_batches]
        return sum(loss.item() for loss, _ in losses) / max(1, sum(num_words for _, num_words in losses))

    def describe(loss: float | None) -> dict[str, Any]:
        scores = _score(reader, labelling, dev_rows, dev, dev_batches).to_dict() if dev_rows else None
        say(f"{config.out}: done" + (f", its own head on the development set: {_said(scores)}" if scores else ""))
        return {
            "objective": "labels",
            "options": asdict(options),
            "labels": labelling.labels,
            "validation_loss": loss,
            "dev_scores": scores,
            "notices": dict(+encoder.counts),
        }

    return adapting.train(
        loss_at,
        validate if dev_rows else None,
        len(batches),
        {name: getattr(options, name) for name in DECIDING} | {"train": data_fingerprint(train)},
        describe,
    )


def tag_ids(labelling: Labelling, sentences: Sequence[Sentence]) -> Tensor:
    """The tags of all words, end to end (W,), as places among the labels; -100 for one that training never showed."""
    ids = {tag: number for number, tag in enumerate(labelling.labels)}
    tags = [tag for s in sentences for tag in labelling.tags(s, labelling.inside)]  # type: ignore[attr-defined]
    return torch.tensor([ids.get(tag, IGNORED) for tag in tags], dtype=torch.int64)


@torch.no_grad()
def _score(
    reader: LabelReader, labelling: Labelling, rows: Sequence[Row], dev: Sequence[Sentence], batches: list
) -> Any:
    """Scores of the best label of each word."""
    reader.eval()
    total = sum(map(len, dev))
    best, sure = np.zeros(total, np.int64), np.zeros(total, np.float32)
    for batch in batches:
        chosen = [rows[i] for i in batch]
        scores, labels = reader(chosen).softmax(-1).max(-1)
        words = np.concatenate([row.words for row in chosen])
        best[words], sure[words] = labels.cpu().numpy(), scores.cpu().numpy()
    ends = np.cumsum([len(s) for s in dev])
    answers = [
        labelling.read((best[e - len(s) : e], sure[e - len(s) : e]), len(s)) for s, e in zip(dev, ends, strict=True)
    ]
    return labelling.score(dev, answers, {"data": data_fingerprint(dev), "version": f"boustro {__version__}"})


def _said(scores: dict[str, Any]) -> str:
    return f"entity F1 {scores['f1']:.2f}" if "f1" in scores else f"accuracy {scores['accuracy']:.2f}"
