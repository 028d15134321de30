"""A temperature for a head: its answers stay the same, and a score of 0.9 comes nearer to nine right answers in ten.

    p(y | x)  =  softmax(scores / τ)            a label of a text, a tag of a word
    p(y | x)  ∝  exp(score(x, y) / τ)           a sequence of tags under a CRF: all of its scores are divided

τ is the most likely one for the answers on parts of the training set that were left out: each answer is right or wrong
with the probability that it was given. Above 1 the head was too sure of itself. Thresholds and promises about recall
are set after it, on the probabilities that it gives.

Source: Guo et al. 2017, section 4.2, with the event "this answer is right" in the place of the gold label, since an
entity has no other probability.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boustro.heads.inputs import HeadInputs
from boustro.heads.options import SequenceOptions
from boustro.heads.registry import head_class
from boustro.metrics.score import reliability
from boustro.tasks.answers import Answer
from boustro.tasks.labellings import Labelling
from boustro.tasks.plan import Companion, DevSet, Fitted, TrainingSet

if TYPE_CHECKING:
    from boustro.heads.base import Head

GRID = 2.0 ** np.arange(-1, 3.01, 1 / 3)
FINE = 2.0 ** np.arange(-1, 3.001, 1 / 60)
LEAST_PROBABILITY = 1e-6  # a sure answer that is wrong must not cost infinity


@dataclass(frozen=True)
class Temperature(Companion):
    """A temperature of the head.

    What is left out in turn are gold examples. The heads for the parts choose their epoch on the development set as the
    trained one did. The temperature stays 1 where no answer on the parts left out is right or none is wrong. It stands
    in the config.json of the folder.
    """

    parts: int
    name = "calibrate"
    learns_left_out = True

    def check(self, kind: str) -> None:
        if not head_class(kind).has_temperature:
            raise ValueError(f"calibrate is not for a {kind} head, whose scores have no temperature")

    def train(self, fitted: Fitted, data: TrainingSet | None, held: DevSet | None) -> tuple[Fitted, Mapping[str, Any]]:
        from boustro.tasks.fitting.training import train_on_part

        assert data is not None
        scored, truth, parts = [], [], 0
        for kept, left in data.parts(self.parts):
            rest = data.learning(kept)
            part = train_on_part(fitted, rest, kept)
            scores, right = _scores(part.labelling, part.head, [data.gold[n] for n in left], rest.inputs.select(left))
            scored.append(scores)
            truth.append(right)
            parts += 1
        scores, right = np.concatenate(scored, 1), np.concatenate(truth)
        temperature = best_temperature(scores, right)
        fitted.head.temperature = temperature
        errors = [reliability(_between(scores, t).tolist(), right.tolist()).error for t in (1.0, temperature)]
        facts = {
            "temperature": round(temperature, 4),
            "parts": parts,
            "answers": len(right),
            "error_before": round(errors[0], 5),
            "error": round(errors[1], 5),
        }
        return fitted, {"calibration": facts}


def best_temperature(scores: np.ndarray, right: np.ndarray) -> float:
    """Return the temperature of the greatest likelihood; `scores` (G, E) at each of `GRID` of answers that are right or
    not.

    1 where all are right, or none is.
    """
    if right.all() or not right.any():
        return 1.0
    losses = []
    for temperature in FINE:
        p = _between(scores, temperature).clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        losses.append(-np.where(right, np.log(p), np.log1p(-p)).mean())
    return float(FINE[int(np.argmin(losses))])


def calibration(
    fitted: Fitted,
    examples: Sequence[Any],
    answers: Sequence[Answer],
    again: Callable[[], Sequence[Answer]] | None,
) -> dict[str, Any]:
    """Return the calibration error (0 to 1) of answers, and with a temperature that of the answers without it.

    Empty for tasks whose answers have no probability. `again` gives the answers for the examples anew; `None` where
    they do not depend on a temperature alone.
    """
    head, labelling = fitted.head, fitted.labelling
    scores, right = labelling.judge(examples, answers)
    if not scores:
        return {}
    figures: dict[str, Any] = {"error": reliability(scores, right).error, "answers": len(scores)}
    temperature = head.temperature
    if temperature != 1 and again:
        try:
            head.temperature = 1.0
            figures["error_before"] = reliability(*labelling.judge(examples, again())).error
        finally:
            head.temperature = temperature
        figures["temperature"] = temperature
    return figures


def _scores(labelling: Labelling, head: "Head", examples: Sequence[Any], inputs: HeadInputs) -> tuple[np.ndarray, Any]:
    """Return (G, E) the probability of each answer at each temperature of `GRID`, and (E,) whether it is right."""
    from boustro.heads.training import mix_all, predict_mixed

    if isinstance(head.options, SequenceOptions):
        head.options = replace(head.options, threshold=None)  # what passes it would change with the temperature
    mixed, rows, right = mix_all(head, inputs.streams), [], []
    for head.temperature in GRID.tolist():
        outputs = predict_mixed(head, mixed, inputs)
        answers = [labelling.read(output, e) for output, e in zip(outputs, examples, strict=True)]
        scores, right = labelling.judge(examples, answers)
        rows.append(scores)
    return np.array(rows, float).reshape(len(GRID), -1), np.array(right, bool)


def _between(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return (E,) the scores at a temperature, from those at the two nearest of `GRID`."""
    place = float(np.interp(np.log(temperature), np.log(GRID), np.arange(len(GRID))))
    low = min(int(place), len(GRID) - 2)
    return scores[low] + (place - low) * (scores[low + 1] - scores[low])
