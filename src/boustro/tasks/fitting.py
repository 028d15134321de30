"""Train the head of a task, and record how it went."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from boustro.encoders.base import Encoder
from boustro.encoders.windows import group_sentences
from boustro.heads.base import Head
from boustro.heads.inputs import Inputs
from boustro.heads.registry import head_class, make_head
from boustro.heads.training import Dev, TrainLog, mix_all, predict_mixed, propose_batch
from boustro.tasks.answers import Answer
from boustro.tasks.calibrate import calibration, fit_temperature
from boustro.tasks.context import training_noise
from boustro.tasks.folder import describe
from boustro.tasks.labellings import Labelling, make_labelling
from boustro.tasks.stages import TrainingSet, choose_weight, text_of, train_stages

if TYPE_CHECKING:
    from boustro.tasks.base import Task

SHARED = "weak examples with the text of a training example, not learned from where that one is left out"
UNREAD = "sentences without labels, not read, because no labelled sentence is read with them"
REMEMBERED = "sentences without labels, read for the memory only"


def fit_task(
    task: "Task[Any, Any]",
    train: Sequence[Any],
    dev: Sequence[Any] | None,
    seed: int,
    weak: Sequence[Any] = (),
    weak_weight: float | None = None,
) -> None:
    """See `Task.fit`; the examples are read already."""
    if weak:
        _refuse_weak(task)
    if weak and weak_weight == 0:
        _fit_without(task, train, dev, seed, weak, {})
        return
    started = time.monotonic()
    task.reader = task.reader.of_weights(None)
    given, train = train, [example for example in train if task.is_labelled(example)]
    choose_context(task, train)
    config = task.config
    read, unread = given, []
    if len(given) > len(train):  # what no labelled sentence is read with is not encoded
        read = []
        for group in group_sentences(given, config.context):
            (read if any(map(task.is_labelled, group)) else unread).extend(group)
    training_noise(task)  # refused now, not after encoding
    labelling = task.labelling = make_labelling(task.head_kind, [*train, *weak], config)
    copies, done = task.augment([*train], seed)
    encoded = [*read, *copies, *weak]
    inputs = task.training_inputs(encoded, unread, seed)
    if len(read) > len(train):
        inputs = inputs.keep(np.flatnonzero([task.is_labelled(example) for example in encoded]))
    data = TrainingSet(train, inputs, copies, weak)
    dev_inputs = task.inputs(dev, cached=True) if dev else None
    encoder = task.encoder(cached=True)
    learning = time.monotonic()
    torch.manual_seed(seed)
    head = task.head = new_head(task, labelling, train, encoder, inputs.side_width)
    on_dev = None
    if dev and dev_inputs:
        on_dev = Dev(dev_inputs, lambda outputs: task.score(dev, task.read_answers(outputs, dev)).value)
    weight, tried = (weak_weight or 0.0), {}
    if weak and weak_weight is None:
        weight, tried = choose_weight(task, data, seed)
        if not weight:
            choosing = time.monotonic() - learning
            _fit_without(task, given, dev, seed, weak, tried)
            task.record["train_seconds"] = round(task.record["train_seconds"] + choosing, 2)
            return
        torch.manual_seed(seed)
    log = train_stages(task, head, data, data.numbers, seed, weight, on_dev)
    task.finish(train, inputs, seed)
    calibrated = fit_temperature(task, data, seed, weight, on_dev) if getattr(config, "calibrate", 0) else None
    dev_scores, dev_calibration = calibrated_scores(task, dev, dev_inputs) if dev and dev_inputs else (None, {})
    task.record = {
        "seed": seed,
        "batch_sentences": config.batch_sentences or propose_batch(len(data.numbers)),
        "train": describe(given) | ({"labelled": len(train)} if len(given) > len(train) else {}),
        "dev": describe(dev) if dev else None,
        **(weak_facts(weak, weight, tried) if weak else {}),
        "encode_seconds": round(learning - started, 2),
        "train_seconds": round(time.monotonic() - learning, 2),
        "dev_scores": dev_scores,
        "dev_calibration": dev_calibration,
        "calibration": calibrated,
        "notices": {
            **done,
            **({REMEMBERED if getattr(config, "memory", False) else UNREAD: len(unread)} if unread else {}),
            **({SHARED: shared} if (shared := _num_shared(task, train, weak)) else {}),
            **+encoder.counts,
            **labelling.unpredictable([*train, *weak], dev or [], head.options.max_span or 0),
        },
        **head_facts(encoder, head, log),
    }


def _fit_without(
    task: "Task[Any, Any]",
    train: Sequence[Any],
    dev: Sequence[Any] | None,
    seed: int,
    weak: Sequence[Any],
    tried: Mapping[str, float],
) -> None:
    """Weak examples that count nothing teach no label and no word either: the task is fitted as if there were none."""
    fit_task(task, train, dev, seed)
    task.record |= weak_facts(weak, 0.0, tried)


def weak_facts(weak: Sequence[Any], weight: float, tried: Mapping[str, float]) -> dict[str, Any]:
    """What a record says of weak examples."""
    return {"weak": describe(weak) | {"weight": weight, "tried": tried}}


def _num_shared(task: "Task[Any, Any]", train: Sequence[Any], weak: Sequence[Any]) -> int:
    known = {text_of(task, example) for example in train} if weak else set()
    return sum(text_of(task, example) in known for example in weak)


def choose_context(task: "Task[Any, Any]", train: Sequence[Any]) -> None:
    """Read single sentences where the training set has no documents: later the head reads what it was trained on."""
    if not any(part.document for example in train for part in task.parts(example)):
        task.read_single_sentences()


def _refuse_weak(task: "Task[Any, Any]") -> None:
    """`ValueError` for what cannot learn in two stages."""
    if head_class(task.head_kind).closed_form:
        raise ValueError(f"a {task.head_kind} head is trained at once, and not first on weak labels; use another head")
    if getattr(task.config, "words", False):
        raise ValueError("weak labels are not for --words, whose part would take them for gold; leave one of them out")


def new_head(
    task: "Task[Any, Any]", labelling: Labelling, train: Sequence[Any], encoder: Encoder, side: int = 0
) -> Head:
    """A head of the task's kind, untrained, for what these examples teach and the vectors of this encoder."""
    return make_head(
        task.head_kind,
        replace(task.config, max_span=task.config.max_span or labelling.longest(train)),
        streams=tuple((s.num_layers, s.width) for s in encoder.streams),
        labels=labelling.labels,
        side=side,
    )


def calibrated_scores(
    task: "Task[Any, Any]", dev: Sequence[Any], inputs: Inputs
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Set what the head chooses on the development set; returns the scores there, and how calibrated they are."""
    head, labelling = task.trained_head(), task.labelling
    assert labelling is not None
    mixed = mix_all(head, inputs.streams)
    if (gold := labelling.gold(dev)) is not None:
        candidates = predict_mixed(head, mixed, inputs, candidates=True)
        head.calibrate(candidates, gold)
        task.calibrate(candidates, gold, dev)
    outputs = predict_mixed(head, mixed, inputs)
    labelling.calibrate(task.complete(outputs, dev), dev)

    def again() -> list[Answer]:
        return task.read_answers(predict_mixed(head, mixed, inputs), dev)

    answers = task.read_answers(outputs, dev)
    return task.score(dev, answers).to_dict(), calibration(task, dev, answers, again)


def head_facts(encoder: Encoder, head: Head, log: TrainLog) -> dict[str, Any]:
    """What a record says of the trained head."""
    shapes = zip(encoder.streams, head.mixes, strict=True)
    return {
        "encoder_parameters": encoder.num_parameters,
        "head_parameters": sum(p.numel() for p in head.parameters()),
        "best_epoch": log.best_epoch,
        "losses": [round(x, 5) for x in log.losses],
        "dev_curve": [round(x, 3) for x in log.scores],
        "layer_weights": {stream.name: mix.layer_weights() for stream, mix in shapes},  # type: ignore[operator]
    }
