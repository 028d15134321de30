"""Pairs of texts: a PairClassifier gives a pair a label, a PairRegressor a score.

    PairClassifier().fit("labelled.jsonl").predict(("It rained.", "Rain fell."))   # Label("same", 0.81, {…})
    PairRegressor().fit("scored.jsonl").predict(("It rained.", "Rain fell."))      # 4.31

Each text is read once, by itself; the head compares the two (`heads.pairs`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from boustro.tasks import PAIR_KEYS
from boustro.tasks.answers import InputAnswer, InputPart, Label
from boustro.tasks.base import Task
from boustro.tasks.classifier import Classifier
from boustro.tasks.data.pairs import OFFSETS, PAIRS, TextPair, make_pair
from boustro.text.rows import parse_record
from boustro.types import Sentence

Result = TypeVar("Result")
Texts = tuple[str, str]


class AskedPair(NamedTuple):
    """A pair as it was given, with all its keys, and as an example."""

    record: Mapping[str, Any]
    pair: TextPair


def _as_tuple(given: Any) -> Any:
    """The row of an array as a pair."""
    return tuple(given.tolist()) if isinstance(given, np.ndarray) else given


class PairTask(Task[Texts, Result]):
    """Base class of both tasks. An input is a tuple of two texts, or a dict as in the training data."""

    given = "a pair of texts"
    offsets = OFFSETS
    example = ("Ada Brandt flew.", "She took a plane.")
    formats = ("text", "jsonl")
    texts, text_keys = PAIR_KEYS[0], PAIR_KEYS

    @staticmethod
    def parts(example: TextPair) -> tuple[Sentence, ...]:
        return example.parts

    @staticmethod
    def without_each(example: TextPair) -> Iterator[Any]:
        return example.without_each()

    @staticmethod
    def is_input(given: Any) -> bool:
        texts = isinstance(given, tuple) and [type(t) for t in given] == [str, str]
        return texts or isinstance(given, (Mapping, AskedPair))

    @staticmethod
    def as_input(given: Any, place: str) -> AskedPair:
        if isinstance(given, AskedPair):
            return given
        given = _as_tuple(given)
        pair = make_pair(OFFSETS.convert(given, OFFSETS.unit([given]), place, []), place)
        return AskedPair(given if isinstance(given, Mapping) else dict(zip(PAIR_KEYS[0], given, strict=True)), pair)

    @staticmethod
    def labelled(given: Any, label: Any, place: str) -> Any:
        return Task.labelled(_as_tuple(given), label, place)

    @classmethod
    def parse_value(cls, value: Any, place: str) -> AskedPair:
        return cls.as_input(value, place)

    @classmethod
    def parse_line(cls, line: str, place: str) -> AskedPair:
        """A JSON object with two texts, or two texts with a tab between them."""
        return cls.as_input(
            parse_record(line, place) if line.lstrip().startswith("{") else tuple(line.split("\t")), place
        )

    @staticmethod
    def split(given: AskedPair, name: str) -> Iterable[InputPart]:
        return [InputPart(given.pair)]

    def to_record(self, answer: InputAnswer[Any]) -> dict[str, Any]:
        result = self.result(answer)
        return result.to_dict() if isinstance(result, Label) else {"score": result}

    def show(self, answer: InputAnswer[Any], form: str, colour: bool = False) -> Any:
        shown, given = self.to_record(answer), answer.input
        if form == "jsonl":
            return dict(given.record) | shown
        return "\t".join([*(str(value) for value in shown.values() if not isinstance(value, dict)), *given.pair.texts])


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

    def result(self, answer: InputAnswer[Texts]) -> Label:
        """The most probable label."""
        return Label.of(answer.parts[0][1])


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

    def result(self, answer: InputAnswer[Texts]) -> float:
        """The score."""
        return round(float(answer.parts[0][1].value or 0.0), 4)
