"""Distillation: a student with another encoder learns what a trained task says of unlabelled text, with all its doubt.

    loss = - Σ_y p(y) log q(y)          p the teacher's distribution, q the student's

For texts y is a label, or each label by itself where a text may have several. For taggers y is a sequence of tags:
under a CRF the sum over all sequences is exact, since it needs only how often the teacher expects each tag and each
pair of tags (`CRF.loss_to`). p is what the teacher answers, at its temperature and with its words, where it has them.
Labelled examples, where there are some, are learned beside the texts, in batches of their own.

The last tenth of the examples is not trained on: there the student is compared with the teacher. The teacher's
mixed vectors of all texts are in memory, two bytes for each value.

Sources: Hinton, Vinyals and Dean 2015, without a temperature of its own; Wang et al. 2020 (structural knowledge
distillation) for sequences under a CRF.
"""

import copy
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.errors import count_of
from boustro.heads.inputs import Targets
from boustro.heads.registry import head_class, head_kind
from boustro.heads.solve import HeadRun, train_heads
from boustro.heads.training import Dev, mix_all
from boustro.tasks.answers import Answer
from boustro.tasks.base import Task
from boustro.tasks.data.reading import KEPT
from boustro.tasks.distill.command import DEFAULT_DISTILL, DistillOptions
from boustro.tasks.fitting.training import describe, new_head, scores_of
from boustro.tasks.folds import unlearned
from boustro.tasks.labellings.texts import TextLabelling
from boustro.tasks.plan import DevSet, Fitted, head_facts, make_plan

ALIKE = ("tag_scheme", "crf", "decode", "threshold", "context", "pool_mentions")
"""Options of the teacher that decide what an answer is, or what is read."""
COMPARED_PART, BYTES = 10, 4  # a tenth of the texts is compared on; a float32 parameter has four bytes
AnyTask = Task[Any, Any]


@dataclass(frozen=True)
class Distilled:
    """The student, and how it compares: agreement with the teacher, scores where there are labelled examples, sizes."""

    student: AnyTask
    figures: dict[str, Any]


def train_student(
    teacher: AnyTask,
    encoder: str,
    texts: Sequence[Any],
    train: Sequence[Any] = (),
    dev: Sequence[Any] = (),
    seed: int = 1,
    options: DistillOptions = DEFAULT_DISTILL,
    cache: bool = True,
) -> Distilled:
    """Train a student of a trained teacher.

    Args:
        encoder: Spec of the student's encoder.
        texts: Inputs as `predict` takes them, without labels.
        train, dev: Labelled examples, as `teacher.read` gives them; dev chooses the epoch.
        cache: Keep the student's features on disk.

    Raises `ValueError` for heads that give no distribution, for a student's head that answers something else, for fewer
    than two examples, and for labelled examples with labels that the teacher does not know.
    """
    started, examples = time.monotonic(), _examples(teacher, texts)
    student = _student(teacher, encoder, options, cache)
    labelling = copy.deepcopy(teacher.fitted.labelling)  # the student chooses thresholds of its own
    if unknown := labelling.unknown(train):
        raise ValueError(f"the teacher cannot teach {next(iter(unknown)).partition(': ')[2]}; remove these labels")
    apart = max(1, len(examples) // COMPARED_PART)
    learned, compared = examples[:-apart], examples[-apart:]
    soft, split = _soft_targets(teacher, learned), len(learned)
    taught, plan = [*learned, *train], student.plan
    inputs = plan.reader.read(taught, cached=True, side=labelling.side(taught))
    fitted = Fitted(plan, labelling, new_head(plan, labelling, [], inputs.side_width))
    hard, words = labelling.targets(train), int(inputs.sizes[:split].sum())
    dev_inputs = fitted.inputs(dev, cached=True) if dev else None
    on_dev = None
    if dev_inputs:
        on_dev = Dev(dev_inputs, lambda outputs: fitted.score(dev, fitted.answers(outputs, dev)).value)
    encoded = time.monotonic()
    groups = [(np.arange(split), 1.0), *([(np.arange(split, len(inputs)), 1.0)] if train else [])]
    ((head, log),) = train_heads(
        fitted.head.shape,
        inputs,
        lambda some, rows: hard(some - split, rows - words) if some[0] >= split else soft(some, rows),
        [HeadRun(fitted.head.options, seed, dev=on_dev, groups=groups)],
        plan.device,
    )
    trained, held = replace(fitted, head=head), None
    if dev_inputs:
        held = DevSet(dev, dev_inputs, unlearned(taught, dev))
    for other in plan.companions:
        if not other.learns_left_out:
            trained, _ = other.train(trained, None, held)
    scores, calibration = scores_of(trained, held) if held else (None, {})
    record = {
        "seed": seed,
        "teacher": {"encoder": teacher.plan.reader.spec, "train": teacher.record.get("train")},
        "train": describe(taught),
        "texts": len(texts),
        "dev": describe(dev) if dev else None,
        "encode_seconds": round(encoded - started, 2),
        "train_seconds": round(time.monotonic() - encoded, 2),
        "dev_scores": scores,
        "dev_calibration": calibration,
        "notices": student.notices(cached=True),
        **head_facts(student.encoder(cached=True), head, log),
    }
    student.fitted = replace(trained, record=record).with_columns(teacher.record.get(KEPT, {}))
    return Distilled(student, _figures(teacher, student, compared, dev, len(learned)))


def _examples(teacher: AnyTask, texts: Sequence[Any]) -> list[Any]:
    """Return the examples that `predict` would label; `ValueError` for fewer than two."""
    places = [f"text {number}" for number in range(1, len(texts) + 1)]
    given = [teacher.inputs.as_input(text, place) for text, place in zip(texts, places, strict=True)]
    examples = [p.example for text, place in zip(given, places, strict=True) for p in teacher.inputs.split(text, place)]
    if len(examples) < 2:
        raise ValueError(
            f"{count_of(len(examples), 'examples')} in the texts: too few to learn from, and to compare on"
        )
    return examples


def _student(teacher: AnyTask, encoder: str, options: DistillOptions, cache: bool) -> AnyTask:
    """Return a task like the teacher, not trained yet, with the same labels."""
    how, settings = asdict(options), teacher.plan.settings()
    kind = how.pop("head") or teacher.plan.head_kind
    if not options.head and head_class(kind).closed_form:
        kind = teacher.config.taught_head or kind
    made, taught = teacher.config.check_head(kind), head_kind(teacher.plan.head_kind).labelling
    if taught != made.labelling:
        raise ValueError(f"a {kind} head answers {made.labelling}, and the teacher {taught}; choose another --head")
    if head_class(kind).closed_form:
        raise ValueError(f"a {kind} head is trained at once, and cannot learn distributions; choose another --head")
    names = {*made.option_names(), *vars(teacher.config)}
    kept = {name: settings[name] for name in ALIKE if name in settings and name in names}
    if "hidden" not in names and options.hidden == DEFAULT_DISTILL.hidden:
        del how["hidden"]
    plan = make_plan(type(teacher), encoder, kind, cache=cache, device=teacher.plan.device.type, **(kept | how))
    return type(teacher).of(replace(plan, words=teacher.plan.words))


def _soft_targets(teacher: AnyTask, examples: Sequence[Any]) -> Targets:
    """Return the teacher's distributions for batches of the examples."""
    head, inputs = teacher.fitted.head, teacher.fitted.inputs(examples, cached=True)
    mixed = mix_all(head, inputs.streams)
    head.eval()

    @torch.no_grad()
    def soften(numbers: np.ndarray, rows: Tensor) -> Any:
        batch = inputs.batch(numbers)
        softened = head.soften(batch.to_words(mixed), batch.lengths)
        if not isinstance(teacher.fitted.labelling, TextLabelling):
            return softened
        scores = teacher.fitted.complete(list(softened.cpu().numpy()), [examples[n] for n in numbers])
        return teacher.fitted.labelling.soften(np.stack(scores))

    soften(np.arange(1), torch.arange(0))  # a head without a distribution is refused now
    return soften


def _figures(
    teacher: AnyTask, student: AnyTask, compared: Sequence[Any], dev: Sequence[Any], num_learned: int
) -> dict[str, Any]:
    """Agreement from 0 to 1, scores in percent, sizes in millions of parameters and megabytes in single precision."""
    taught, said = teacher.answer(compared), student.answer(compared)
    pairs = [(a, b) for t, s in zip(taught, said, strict=True) for a, b in zip(_units(t), _units(s), strict=True)]
    figures: dict[str, Any] = {
        "examples": num_learned,
        "compared": len(compared),
        "agreement": sum(a == b for a, b in pairs) / max(1, len(pairs)),
    }
    for name, task in (("teacher", teacher), ("student", student)):
        parameters = task.encoder().num_parameters + sum(p.numel() for p in task.fitted.head.parameters())
        figures[name] = {
            "encoder": task.plan.reader.spec,
            "parameters": parameters,
            "megabytes": round(parameters * BYTES / 1e6, 1),
            **({"dev": task.fitted.score(dev, task.answer(dev, cached=True)).to_dict()} if dev else {}),
        }
    return figures


def _units(answer: Answer) -> Sequence[Any]:
    """Return the units that two answers may agree on: the tag of each word, or the labels of the text."""
    return [answer.tags] if answer.probabilities is not None else answer.tags
