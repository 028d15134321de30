"""Train the head of a task, and record how it went.

    fit(plan, Examples(train=…, dev=…), seed)  →  Fitted

Nothing that is given changes. What a task adds is asked of `plan.task`, see `tasks.contract`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder
from boustro.encoders.reading import group_sentences
from boustro.encoders.spec import Spec
from boustro.heads.base import Head
from boustro.heads.inputs import Inputs
from boustro.heads.registry import head_class, make_head
from boustro.heads.training import Dev, TrainLog, mix_all, predict_mixed
from boustro.tasks.answers import Answer
from boustro.tasks.calibrate import calibration
from boustro.tasks.data import data_name
from boustro.tasks.data.fingerprint import data_fingerprint
from boustro.tasks.fitted import Examples, Fitted, Then, TrainingSet
from boustro.tasks.labellings import Labelling, make_labelling
from boustro.tasks.plan import Plan
from boustro.tasks.stages import choose_weight, text_of, train_stages

SHARED = "weak examples with the text of a training example, not learned from where that one is left out"
UNREAD = "sentences without labels, not read, because no labelled sentence is read with them"


def fit(plan: Plan[Any], given: Examples, seed: int, then: Sequence[Then] = ()) -> Fitted:
    """A head that learned from examples, see `Task.fit`; what is asked of it `then` is in its record."""
    Spec.parse(plan.reader.spec).refuse_unread(plan.reader.reading)
    if given.weak:
        _refuse_weak(plan)
    if given.weak and given.weight == 0:
        return _fit_without(plan, given, seed, {}, then)
    started = time.monotonic()
    plan = replace(plan, reader=plan.reader.of_weights(None))
    train = [example for example in given.train if plan.task.is_labelled(example)]
    plan = choose_context(plan, train)
    labelling = make_labelling(plan.head_kind, [*train, *given.weak], plan.head_options)
    labelling = plan.task.suit_labelling(plan.config, labelling)
    plan, data, notices = _read_training(plan, labelling, given, train, seed)
    dev_inputs = plan.reader.read(given.dev, cached=True, side=labelling.side(given.dev)) if given.dev else None
    encoder = plan.reader.encoder(cached=True)
    learning = time.monotonic()
    fitted = Fitted(plan, labelling, new_head(plan, labelling, train, data.inputs.side_width))
    if dev_inputs:
        data = replace(data, dev=Dev(dev_inputs, lambda outputs: _value(fitted, outputs, given.dev)))
    weight, tried = (given.weight or 0.0), {}
    if given.weak and given.weight is None:
        weight, tried = choose_weight(fitted, data)
        if not weight:
            choosing = time.monotonic() - learning
            without = _fit_without(plan, given, seed, tried, then)
            seconds = round(without.record["train_seconds"] + choosing, 2)
            return replace(without, record=without.record | {"train_seconds": seconds})
    data = replace(data, weight=weight)
    head, log = train_stages(fitted, data)
    trained, facts = replace(fitted, head=head), {"calibration": None}
    for stage in plan.task.stages(plan.config):
        trained, own = stage(trained, data)
        facts |= own
    trained, scores, errors = calibrated_scores(trained, given.dev, dev_inputs)
    train_seconds = time.monotonic() - learning
    asked = {name: value for ask in then for name, value in ask(trained, data, train_seconds).items()}
    record = {
        "seed": seed,
        "train": describe(given.train) | ({"labelled": len(train)} if len(given.train) > len(train) else {}),
        "dev": describe(given.dev) if given.dev else None,
        **(weak_facts(given.weak, weight, tried) if given.weak else {}),
        "encode_seconds": round(learning - started, 2),
        "train_seconds": round(train_seconds, 2),
        "dev_scores": scores,
        "dev_calibration": errors,
        **facts,
        **asked,
        "notices": notices
        | _shared(plan, train, given.weak)
        | dict(+encoder.counts)
        | labelling.unpredictable([*train, *given.weak], given.dev, trained.head.options.longest),
        **head_facts(encoder, trained.head, log),
    }
    return replace(trained, record=record)


def _read_training(
    plan: Plan[Any], labelling: Labelling, given: Examples, train: list[Any], seed: int
) -> tuple[Plan[Any], TrainingSet, dict[str, int]]:
    """The features of what is learned from, the plan with the reader of what is answered later, and notices."""
    read, unread = list(given.train), []
    if len(given.train) > len(train):  # what no labelled sentence is read with is not encoded
        read = []
        for group in group_sentences(given.train, plan.config.context):
            (read if any(map(plan.task.is_labelled, group)) else unread).extend(group)
    encoded = [*read, *given.weak]
    taught = plan.task.training_inputs(plan, labelling, encoded, unread, seed)
    labelled = np.flatnonzero([plan.task.is_labelled(example) for example in encoded])

    def keep(inputs: Inputs) -> Inputs:
        return inputs.keep(labelled) if len(read) > len(train) else inputs

    without = taught.without
    again = without and (lambda left: keep(without(labelled[left])))
    data = TrainingSet(gold=train, inputs=keep(taught.inputs), seed=seed, weak=given.weak, reread=again)
    skipped = unread and taught.reader is plan.reader  # a memory has read them
    notices = {**({UNREAD: len(unread)} if skipped else {}), **taught.notices}
    return replace(plan, reader=taught.reader), data, notices


def _value(fitted: Fitted, outputs: Sequence[Any], dev: Sequence[Any]) -> float:
    return fitted.score(dev, fitted.answers(outputs, dev)).value


def _fit_without(
    plan: Plan[Any], given: Examples, seed: int, tried: Mapping[str, float], then: Sequence[Then]
) -> Fitted:
    """Weak examples that count nothing teach no label and no word either: the fit is as if there were none."""
    fitted = fit(plan, replace(given, weak=(), weight=None), seed, then)
    return replace(fitted, record=fitted.record | weak_facts(given.weak, 0.0, tried))


def weak_facts(weak: Sequence[Any], weight: float, tried: Mapping[str, float]) -> dict[str, Any]:
    """What a record says of weak examples."""
    return {"weak": describe(weak) | {"weight": weight, "tried": tried}}


def _shared(plan: Plan[Any], train: Sequence[Any], weak: Sequence[Any]) -> dict[str, int]:
    parts = plan.task.parts
    known = {text_of(parts, example) for example in train} if weak else set()
    count = sum(text_of(parts, example) in known for example in weak)
    return {SHARED: count} if count else {}


def choose_context(plan: Plan[Any], train: Sequence[Any]) -> Plan[Any]:
    """Read single sentences where the training set has no documents: later the head reads what it was trained on."""
    named = any(part.document for example in train for part in plan.task.parts(example))
    return plan if named else plan.reading_alone()


def _refuse_weak(plan: Plan[Any]) -> None:
    """`ValueError` for what cannot learn in two stages."""
    if head_class(plan.head_kind).closed_form:
        raise ValueError(f"a {plan.head_kind} head is trained at once, and not first on weak labels; use another head")
    plan.task.refuse_weak(plan.config)


def new_head(plan: Plan[Any], labelling: Labelling, train: Sequence[Any], side: int = 0) -> Head:
    """A head of the plan's kind, untrained, for what these examples teach and the vectors of the reader."""
    return make_head(
        plan.head_kind,
        plan.head_options.fitted(labelling.longest(train)),
        streams=tuple((s.num_layers, s.width) for s in plan.reader.encoder(cached=True).streams),
        labels=labelling.labels,
        side=side,
    )


def calibrated_scores(
    fitted: Fitted, dev: Sequence[Any], inputs: Inputs | None
) -> tuple[Fitted, dict[str, Any] | None, dict[str, Any]]:
    """The model with what is chosen on the development set, its scores there, and how calibrated they are."""
    if not inputs:
        return fitted, None, {}
    head, labelling = fitted.head, fitted.labelling
    mixed = mix_all(head, inputs.streams)
    if (gold := labelling.gold(dev)) is not None:
        candidates = predict_mixed(head, mixed, inputs, candidates=True)
        head.calibrate(candidates, gold)
        fitted = replace(fitted, extras={**fitted.extras, **fitted.plan.task.on_dev(candidates, gold)})
    outputs = predict_mixed(head, mixed, inputs)
    labelling.calibrate(fitted.complete(outputs, dev), dev)

    def again() -> list[Answer]:
        return fitted.answers(predict_mixed(head, mixed, inputs), dev)

    answers = fitted.answers(outputs, dev)
    return fitted, fitted.score(dev, answers).to_dict(), calibration(fitted, dev, answers, again)


def head_facts(encoder: Encoder, head: Head, log: TrainLog) -> dict[str, Any]:
    """What a record says of the trained head."""
    shapes = zip(encoder.streams, head.mixes, strict=True)
    return {
        "batch_sentences": log.batch_sentences,
        "encoder_parameters": encoder.num_parameters,
        "head_parameters": sum(p.numel() for p in head.parameters()),
        "best_epoch": log.best_epoch,
        "losses": [round(x, 5) for x in log.losses],
        "dev_curve": [round(x, 3) for x in log.scores],
        **head.facts(),
        "layer_weights": {stream.name: mix.layer_weights() for stream, mix in shapes},
    }


def describe(examples: Sequence[Any]) -> dict[str, Any]:
    """What a record says of a data set."""
    return {"name": data_name(examples), "sentences": len(examples), "fingerprint": data_fingerprint(examples)}
