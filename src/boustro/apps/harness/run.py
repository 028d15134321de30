"""Running the harness, and its answers beside two controls: the longest choice, and the likeliest without a context.

Where a task puts its choices into the context (WinoGrande), the controls look at the context.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import evaluate

from boustro.apps.harness.tasks import gold
from boustro.generation.judges import best

FEWSHOT_SEED = 1234
"""The harness's own."""


@dataclass(frozen=True)
class Accuracy:
    """Of one task, in percent. `standard_error` is the harness's own."""

    task: str
    questions: int
    accuracy: float
    standard_error: float
    by_length: float
    """With the scores divided by the characters of the choices."""
    longest: float
    """Of the longest choice, in characters: no LM."""
    prior: float
    """Of the likeliest choice without its context."""
    chance: float

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """What the harness asked and answered: the choices' contexts and texts, their scores and the right one."""

    requests: Sequence[tuple[str, str]]
    scores: Sequence[float]
    gold: int
    right: bool
    """As the harness judged it."""
    right_by_length: bool
    """The same, with the scores divided by the characters of the choices."""

    def choices(self) -> list[str]:
        """The parts of the requests in which the choices differ."""
        contexts, texts = zip(*self.requests, strict=True)
        return list(texts if len(set(texts)) > 1 else contexts)


def answer(lm: Any, tasks: Mapping[str, ConfigurableTask]) -> dict[str, list[Question]]:
    """The questions of each task, in order, as the harness asked and judged them."""
    golds = {
        name: [gold(task, dict(doc), n) for n, doc in enumerate(task.eval_docs, 1)] for name, task in tasks.items()
    }
    for task in tasks.values():  # as simple_evaluate does, which besides asks git and the machine for their state
        if task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=FEWSHOT_SEED)
    found = evaluate(lm=lm, task_dict={task.config.task: task for task in tasks.values()}, bootstrap_iters=0)
    assert found is not None and "samples" in found  # None on other processes only
    answered = {}
    for name, task in tasks.items():
        samples = sorted(found["samples"][task.config.task], key=lambda sample: sample["doc_id"])
        answered[name] = [_question(sample, golds[name][sample["doc_id"]]) for sample in samples]
    return answered


def _question(sample: Mapping[str, Any], right: int) -> Question:
    scores = [score for score, _ in sample["filtered_resps"]]
    judged = bool(sample["acc"]), bool(sample["acc_norm"])
    return Question([tuple(pair) for pair in sample["arguments"]], scores, right, *judged)


def accuracy_of(name: str, questions: Sequence[Question], prior: Sequence[Sequence[float]]) -> Accuracy:
    """Accuracy and controls; `prior` are log-probabilities of the choices of each question."""

    def percent(chosen: Sequence[int]) -> float:
        return 100 * float(np.mean([c == q.gold for c, q in zip(chosen, questions, strict=True)]))

    lengths = [[len(choice.strip()) for choice in question.choices()] for question in questions]
    right = [question.right for question in questions]
    return Accuracy(
        task=name,
        questions=len(questions),
        accuracy=100 * float(np.mean(right)),
        standard_error=100 * float(np.std(right, ddof=1) / len(right) ** 0.5) if len(right) > 1 else 0.0,
        by_length=100 * float(np.mean([question.right_by_length for question in questions])),
        longest=percent([int(np.argmax(own)) for own in lengths]),
        prior=percent(best(torch.tensor([score for own in prior for score in own]), [len(own) for own in prior])),
        chance=100 * float(np.mean([1 / len(own) for own in lengths])),
    )
