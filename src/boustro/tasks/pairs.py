"""Pairs of texts: a PairClassifier gives a pair a label, a PairRegressor a score.

    PairClassifier().fit("labelled.jsonl").predict(("It rained.", "Rain fell."))   # Label("same", 0.81, {…})
    PairRegressor().fit("scored.jsonl").predict(("It rained.", "Rain fell."))      # 4.31

Each text is read once, by itself; the head compares the two (`heads.pairs`).
"""

from typing import Any, TypeVar

import numpy as np

from boustro.tasks import PAIR_KEYS
from boustro.tasks.answers import InputAnswer, Label
from boustro.tasks.base import Task
from boustro.tasks.classifier import Classifier
from boustro.tasks.data.pairs import OFFSETS, PAIRS, make_pair
from boustro.tasks.inputs import GivenRecord, RecordInputs
from boustro.tasks.render import Shown

Result = TypeVar("Result")


def _as_tuple(given: Any) -> Any:
    """The row of an array as a pair."""
    return tuple(given.tolist()) if isinstance(given, np.ndarray) else given


class PairInputs(RecordInputs):
    """Pairs of texts: tuples of two, or objects as in the training data."""

    def as_input(self, given: Any, place: str) -> GivenRecord:
        return super().as_input(_as_tuple(given), place)

    def labelled(self, given: Any, label: Any, place: str) -> Any:
        return super().labelled(_as_tuple(given), label, place)

    def parse_line(self, line: str, place: str) -> GivenRecord:
        """A JSON object with two texts, or two texts with a tab between them."""
        is_object = line.lstrip().startswith("{")
        return super().parse_line(line, place) if is_object else self.as_input(tuple(line.split("\t")), place)


class PairTask(Task[Any, Result]):
    """Base class of both tasks."""

    formats = ("text", "jsonl")
    leaves_words_out = True
    inputs = PairInputs(
        make=make_pair,
        given="a pair of texts",
        example=("Ada Brandt flew.", "She took a plane."),
        offsets=OFFSETS,
        keys=PAIR_KEYS[0],
        texts=PAIR_KEYS[0],
        text_keys=PAIR_KEYS,
    )

    def shown(self, answer: InputAnswer[Any]) -> Shown:
        said = (str(value) for value in self.to_record(answer).values() if not isinstance(value, dict))
        return Shown(answer.input.record, cells=(*said, *answer.input.example.texts))


class PairClassifier(PairTask[Label]):
    """A frozen encoder and a trained head that gives a pair of texts one label, such as paraphrase or entailment.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair of LMs in the package.
        head: pair (the default).
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.PairConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> pairs = [("It rained.", "Rain fell.", "same"), ("It rained.", "Ada left.", "different")]
        >>> boustro.PairClassifier().fit(pairs).predict(("It snowed.", "Snow fell.")).label
    """

    name = "pair"
    estimator_type = "classifier"
    collect = staticmethod(PAIRS["pair"].read)
    predict_proba = Classifier.predict_proba


class PairRegressor(PairTask[float]):
    """Score of two texts, such as their similarity; scored by Pearson's and Spearman's correlation.

    Arguments and errors are those of `PairClassifier`; the head is pair-score.

    Examples:
        >>> pairs = [("It rained.", "Rain fell.", 4.8), ("It rained.", "Ada left.", 0.2)]
        >>> boustro.PairRegressor().fit(pairs).predict(("It snowed.", "Snow fell."))
    """

    name = "similarity"
    estimator_type = "regressor"
    collect = staticmethod(PAIRS["similarity"].read)
    columns = ("score",)
