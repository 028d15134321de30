"""TextRegressor: a number for a text, such as a rating or how hard it is to read.

TextRegressor(encoder="starter").fit("train.jsonl", dev="dev.jsonl").predict("A film to remember.")     # 4.31
"""

from typing import Any

from boustro.given import as_sentences
from boustro.tasks.answers import InputAnswer
from boustro.tasks.base import Task
from boustro.tasks.classifier import Classifier
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.data.texts import TextData, read_texts
from boustro.types import Sentence


class TextRegressor(Task[str, float]):
    """A frozen encoder and a trained head that gives a text a number; scored by Pearson's and Spearman's correlation.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: score-pool (the default).
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.RegressionConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> regressor = boustro.TextRegressor(encoder="starter")
        >>> regressor.fit([("A film to remember.", 4.5), ("Two hours lost.", 1)], seed=1)
        >>> regressor.predict("A film to forget.")
    """

    name = "regress"
    formats = ("text", "jsonl", "csv")
    columns = ("score", "text")

    @classmethod
    def collect(cls, data: TextData, options: DataOptions, notes: list[Note]) -> list[Sentence]:
        return read_texts(data, "score", notes, options)

    as_examples = staticmethod(as_sentences)
    split = staticmethod(Classifier.split)
    without_each = staticmethod(Classifier.without_each)

    def result(self, answer: InputAnswer[str]) -> float:
        """The score."""
        return round(float(answer.parts[0][1].value or 0.0), 4)

    def to_record(self, answer: InputAnswer[str]) -> dict[str, Any]:
        return {"score": self.result(answer)}

    def show(self, answer: InputAnswer[str], form: str, colour: bool = False) -> Any:
        shown = {"text": answer.input} | self.to_record(answer)
        return shown if form == "jsonl" else f"{shown['score']}\t{answer.input}"
