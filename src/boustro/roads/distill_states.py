"""Distils a large encoder's states into a small LM, by regression on raw text.

    loss = mean of (W · s + b - t)²          s: the student's top state at the end of a word
                                             t: the teacher's vector of that word, standardised

A loss of 1 is that of a constant; 1 - loss is the share of the variance that is explained. Words are compared, not
pieces, so the two may have different tokenizers. All weights of the student are trained. W and b are thrown away: what
is saved is the student's body, without an LM head.

The teacher reads the texts of each step when the step needs them; only its vectors of held-out texts are kept. The mean
and the standard deviation of its dimensions are those of the first texts. The words of the corpus are in memory.

Sources: Romero et al. 2015 (FitNets), section 2.2, regression of hidden states under a learned map; Jiao et al. 2020
(TinyBERT), section 3.1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from boustro.encoders.base import Encoder
from boustro.encoders.spec import load_encoder, split_kind, split_spec
from boustro.encoders.transformer import TransformerEncoder
from boustro.hardware import uses_bf16
from boustro.pretrain.batches import Batches
from boustro.pretrain.checkpoints import finished_run
from boustro.pretrain.config import run_facts
from boustro.pretrain.distributed import say
from boustro.roads.options import DistillStatesConfig
from boustro.roads.training import finish, train
from boustro.roads.words import WordReader, make_batches, row_tensors, steps_for
from boustro.store import fingerprint
from boustro.text.documents import chunk_by_size
from boustro.types import Sentence

KIND = "model"
DECIDING = ("words", "batch_words", "text_words")
"""Options that decide the weights, besides those of every run."""
STATISTICS_WORDS = 20_000
Text = list[Sentence]


def train_student(documents: Iterable[Text], held_out: Iterable[Text], config: DistillStatesConfig) -> dict[str, Any]:
    """Train on documents, measure on `held_out`, which may be empty; returns `training.json`.

    Raises `ValueError` for a student that is not a single LM, and for a corpus without words.
    """
    student = _open_student(config.student)
    teacher = load_encoder(config.teacher, config.layers, config.pooling, context="document")
    texts, measured = (_texts(given, config.text_words) for given in (documents, held_out))
    if not texts:
        raise ValueError("the corpus has no words to train on")
    corpus = fingerprint([[s.words for s in text] for text in texts])
    whose = {"teacher": teacher.identity().to_dict(), "student": student.identity().to_dict()}
    facts = run_facts(config, DECIDING, corpus=corpus, **whose)
    if finished := finished_run(config, KIND, facts):
        return finished
    mean, scale = _statistics(teacher, texts)
    lengths = [sum(map(len, text)) for text in texts]
    batches, total = make_batches(lengths, config.batch_words, config.seed), sum(lengths)
    steps = steps_for(len(batches), total, config.words)
    torch.manual_seed(config.seed)
    student.model.float().requires_grad_(True)
    reader = WordReader(student.model, len(mean)).to(student.device)

    def make(chosen: Sequence[Text]) -> dict[str, Tensor]:
        sentences = [sentence for text in chosen for sentence in text]
        rows = student.rows(sentences)
        order = torch.from_numpy(np.concatenate([row.words for row in rows]))
        return {**row_tensors(rows), "targets": ((_vectors(teacher, sentences) - mean) * scale)[order]}

    def loss_of(targets: Tensor, **read: Tensor) -> Tensor:
        return F.mse_loss(reader(**read), targets)

    measured_batches = make_batches([sum(map(len, text)) for text in measured], config.batch_words, config.seed)

    @cache
    def measured_batch(number: int) -> tuple[dict[str, Tensor], int]:
        batch = make([measured[i] for i in measured_batches[number]])
        return batch, len(batch["targets"])

    sizes = {"teacher_parameters": teacher.num_parameters, "num_parameters": student.num_parameters}
    large, small = (f"{size / 1e6:.1f}M parameters" for size in sizes.values())
    say(f"{config.teacher} ({large}) into {config.student} ({small}): {steps:,} steps, {total:,} words available")
    data = Batches(steps, lambda step: make([texts[i] for i in batches[step % len(batches)]]))
    validation = Batches(len(measured_batches), measured_batch) if measured else None
    how: Any = {
        "step_size": config.batch_words,
        "unit": "words",
        "bf16": uses_bf16(student.device),
        "perplexity": False,
    }
    result = train(config, facts, reader, loss_of, data, validation, **how)
    loss = result["validation_loss"]
    explained = {} if loss is None else {"explained_variance": 1 - loss}

    def save(folder: Path) -> None:
        student.model.save_pretrained(folder)
        student.tokenizer.save_pretrained(folder)

    return finish(config, KIND, result | sizes | explained, save)


def _open_student(spec: str) -> TransformerEncoder:
    """The LM that learns, read at the ends of words; `ValueError` for any other encoder."""
    names = split_spec(spec)
    if len(names) > 1 or split_kind(names[0])[0] not in ("", "backward:", "masked:"):
        raise ValueError(f"{spec}: the student is a single causal or masked LM; name one of them")
    encoder = load_encoder(spec, "last", "exit", dtype="float32", context="document")
    assert isinstance(encoder, TransformerEncoder)
    return encoder


def _texts(documents: Iterable[Text], most: int) -> list[Text]:
    """Runs of sentences of one document, of about `most` words each, each a document of its own."""
    chunks = (chunk for document in documents for chunk in chunk_by_size(document, len, most))
    return [[replace(s, document=str(number)) for s in chunk] for number, chunk in enumerate(chunks)]


def _vectors(teacher: Encoder, sentences: Sequence[Sentence]) -> Tensor:
    """(W, d): the layers of all streams, end to end."""
    streams = teacher.encode_all(sentences).streams
    return torch.cat([torch.from_numpy(np.asarray(s, np.float32)).flatten(1) for s in streams], dim=1)


def _statistics(teacher: Encoder, texts: Sequence[Text]) -> tuple[Tensor, Tensor]:
    """The mean of each of the teacher's dimensions, and one over its standard deviation."""
    first = next(chunk_by_size(texts, lambda text: sum(map(len, text)), STATISTICS_WORDS))
    vectors = _vectors(teacher, [sentence for text in first for sentence in text])
    return vectors.mean(0), 1 / vectors.std(0, correction=0).clamp_min(1e-3)
