"""Pairs of texts: a PairClassifier gives a pair a label, a PairRegressor a score.

    PairClassifier().fit("labelled.jsonl").predict(("It rained.", "Rain fell."))   # Label("same", 0.81, {…})
    PairRegressor().fit("scored.jsonl").predict(("It rained.", "Rain fell."))      # 4.31

Each text is read once, by itself; the head compares the two (`heads.pairs`).

What is read:

    {"sentence1": "It rained.", "sentence2": "Rain fell.", "label": "paraphrase"}    a label: a name, a number or a bool
    {"sentence1": "It rained.", "sentence2": "Rain fell.", "score": 4.6}             a score
    {"sentence1": "…", "start1": 3, "end1": 9, "sentence2": "…", "start2": 0, "end2": 6, "same": false}

The last form marks a word in each text, by its half-open range of characters ("word in context"), in the unit that the
file proves (see `data.units`).

For heads the side features of a word are whether it is in the other text, whatever its case; whether it is not; whether
it is not and has a capital first or a digit; and whether it is marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from boustro.errors import shorten
from boustro.given import plain_value
from boustro.heads.inputs import PAIR_FEATURES
from boustro.tasks import PAIR_KEYS, TASKS, Fields
from boustro.tasks.answers import InputAnswer, Label
from boustro.tasks.base import Task
from boustro.tasks.classifier import Classifier
from boustro.tasks.data.named import RecordReader, texts_under
from boustro.tasks.data.reading import GoldFault, Note, as_dict
from boustro.tasks.data.texts import SCORE_KEY, as_score, is_label, tidy_label, whole_text
from boustro.tasks.data.units import OFFSETS, word_span
from boustro.tasks.inputs import GivenRecord, RecordInputs
from boustro.tasks.labellings.base import Labelling
from boustro.tasks.labellings.scores import ScoreLabelling
from boustro.tasks.labellings.texts import TextLabelling
from boustro.tasks.render import Shown, shown_number, shown_score
from boustro.types import Example, Sentence, TypedLabel

Marks = tuple[frozenset[int], frozenset[int]]


@dataclass(frozen=True, slots=True)
class TextPair(Example):
    """Two texts, split into words and as given, and the pair's label or score where it is known.

    `marks` are the numbers of the marked words of each text.
    """

    first: Sentence
    second: Sentence
    texts: tuple[str, str]
    label: str | None = None
    score: float | None = None
    marks: Marks | None = None
    where: str = ""

    @property
    def parts(self) -> tuple[Sentence, Sentence]:
        """Both texts."""
        return self.first, self.second

    @property
    def words(self) -> tuple[str, ...]:
        """The words of both texts, with a bar between them."""
        return (*self.first.words, "|", *self.second.words)

    def __len__(self) -> int:
        return len(self.words)

    def without_each(self) -> Iterator["TextPair | None"]:
        """For each of `words` the pair without it; `None` for the bar."""
        yield from (
            replace(self, first=first, marks=self._marks(0, i)) for i, first in enumerate(self.first.without_each())
        )
        yield None
        for i, second in enumerate(self.second.without_each()):
            yield replace(self, second=second, marks=self._marks(1, i))

    def _marks(self, part: int, word: int) -> Marks | None:
        """Return the marks after this word of this part is left out."""
        if self.marks is None:
            return None
        moved = frozenset(m - (m > word) for m in self.marks[part] if m != word)
        return (moved, self.marks[1]) if part == 0 else (self.marks[0], moved)


def make_pair(record: Any, where: str, has_option: bool = False) -> TextPair:
    """Return the texts of two strings, or of a record, without label and score; `ValueError`, with the place, for
    others (`texts_under`)."""
    record = as_dict(record, PAIR_KEYS[0])
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: expected two texts, got {shorten(record)}")
    texts = texts_under(record, PAIR_KEYS, where, has_option)
    first, second = placed = [whole_text(text) for text in texts.values()]
    marks: list[frozenset[int]] = []
    for number, (key, text) in enumerate(zip(texts, placed, strict=True), start=1):
        start, end = record.get(f"start{number}"), record.get(f"end{number}")
        if start is None and end is None:
            continue
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end <= len(record[key]):
            raise ValueError(f"{where}: start{number} and end{number} mark no characters of {key}")
        if (words := word_span(text.places, start, end)) is None:
            raise ValueError(f"{where}: start{number} and end{number} mark no word of {key}")
        marks.append(frozenset(range(*words)))
    if len(marks) == 1:
        raise ValueError(f"{where}: a word is marked in one text only; give start1, end1, start2 and end2")
    found = (marks[0], marks[1]) if marks else None
    one, other = texts.values()
    return TextPair(first.sentence, second.sentence, (one, other), marks=found, where=where)


def _pair(record: Any, where: str, notes: list[Note], fields: Fields) -> TextPair:
    pair = make_pair(record, where, has_option=True)
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: expected two texts and their {fields.parts[-1]}, got {shorten(record)}")
    if SCORE_KEY in fields.gold:
        return replace(pair, score=as_score(record.get(SCORE_KEY), where))
    label = plain_value(next((record[key] for key in fields.gold if key in record), None))
    if not is_label(label):
        raise GoldFault(where, "label", fields.gold, label, "a name, a number or a bool")
    if isinstance(label, bool):  # named as JSON writes it
        return replace(pair, label=TypedLabel(label, str(label).lower()))
    return replace(pair, label=tidy_label(label, where, notes))


PAIRS = {
    task: RecordReader(
        what="pair",
        make=partial(_pair, fields=TASKS[task].suits),
        fields=TASKS[task].suits,
        kind=TextPair,
        offsets=OFFSETS["pair"],
        leaves_out=True,
    )
    for task in ("pair", "similarity")
}


def side_features(pairs: Sequence[TextPair]) -> np.ndarray:
    """Return (all words of all pairs, PAIR_FEATURES)."""
    rows = []
    for pair in pairs:
        lower = [frozenset(word.lower() for word in part.words) for part in pair.parts]
        for number, part in enumerate(pair.parts):
            marked = pair.marks[number] if pair.marks else ()
            for i, word in enumerate(part.words):
                missing = word.lower() not in lower[1 - number]
                name = word[:1].isupper() or any(map(str.isdigit, word))
                rows.append((not missing, missing, missing and name, i in marked))
    return np.array(rows, np.float32).reshape(-1, PAIR_FEATURES)


class PairLabelling(TextLabelling):
    """One label per pair; scored by accuracy."""

    scheme_name = "pair"

    @classmethod
    def suiting(cls, examples: Sequence[Any]) -> type[Labelling]:
        return cls

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)


class PairScoreLabelling(ScoreLabelling):
    """A number per pair."""

    scheme_name = "pair-score"

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)


Result = TypeVar("Result")


def _as_tuple(given: Any) -> Any:
    """Return the row of an array as a pair."""
    return tuple(given.tolist()) if isinstance(given, np.ndarray) else given


class PairInputs(RecordInputs):
    """Pairs of texts: tuples of two, or objects as in the training data."""

    def as_input(self, given: Any, place: str) -> GivenRecord:
        return super().as_input(_as_tuple(given), place)

    def labelled(self, given: Any, label: Any, place: str) -> Any:
        return super().labelled(_as_tuple(given), label, place)

    def parse_line(self, line: str, place: str) -> GivenRecord:
        """Return a JSON object with two texts, or two texts with a tab between them."""
        if line.lstrip().startswith("{"):
            return super().parse_line(line, place)
        if line.count("\t") != 1:
            raise ValueError(f"{place}: expected two texts with a tab between them, got {shorten(line)}")
        return self.as_input(tuple(line.split("\t")), place)


class PairTask(Task[Any, Result]):
    """Base class of both tasks."""

    formats = ("text", "jsonl")
    leaves_words_out = True
    inputs = PairInputs(
        make=make_pair,
        given="a pair of texts",
        example=("Ada Brandt flew.", "She took a plane."),
        offsets=OFFSETS["pair"],
        keys=PAIR_KEYS[0],
        texts=PAIR_KEYS[0],
        text_keys=PAIR_KEYS,
    )

    def shown(self, answer: InputAnswer[Any]) -> Shown:
        result: Any = self.result(answer)
        said = (result.label, shown_score(result.score)) if isinstance(result, Label) else (shown_number(result),)
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
