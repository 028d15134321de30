"""Classifier: one label for a text, such as its sentiment or its topic.

    classifier = Classifier(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    classifier.predict("A film to remember.")      # Label("positive", 0.93, {"negative": 0.07, "positive": 0.93})

A text is one example, whatever the number of its sentences; the head pools the vectors of its words.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from boustro.options import OptionError
from boustro.tasks.answers import InputAnswer, Label, Part
from boustro.tasks.base import Task
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.tasks.data.texts import TextData, read_texts, whole_text
from boustro.tasks.render import as_html, as_terminal
from boustro.types import Entity, Sentence


class Classifier(Task[str, Label]):
    """A frozen encoder and a trained head that gives a text one label.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: bilstm-pool (the default) or mlp-pool.
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.ClassifierConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Example:
        >>> classifier = boustro.Classifier(encoder="starter")
        >>> classifier.fit([("A film to remember.", "positive"), ("Two hours lost.", "negative")], seed=1)
        >>> classifier.predict("A film to forget.").label
    """

    name = "classify"
    labellings = ("class",)

    @staticmethod
    def read(data: TextData) -> list[Sentence]:
        """See `boustro.tasks.data.texts.read_texts`."""
        return read_texts(data)

    @staticmethod
    def read_counted(data: TextData, options: DataOptions) -> tuple[list[Sentence], Mapping[str, int]]:
        if options != DEFAULT_OPTIONS:
            raise OptionError("--scheme, --delimiter, --word-column and --tag-column are for tags; leave them out")
        return read_texts(data), {}

    @staticmethod
    def split(given: str, name: str) -> Iterable[Part]:
        """The whole text as one example."""
        placed = whole_text(given, name)
        return [Part(placed.sentence, placed.places)]

    def result(self, answer: InputAnswer[str]) -> Label:
        """The most probable label."""
        ((_, own),) = answer.parts
        return Label.of(own)

    def show(self, answer: InputAnswer[str], form: str, colour: bool = False) -> Any:
        label = self.result(answer)
        if form == "jsonl":
            return {"text": answer.input} | label.to_dict()
        marked = label.label, [Entity(label.label, 0, len(label.label), score=label.score)]
        if form == "html":
            return f"<p>{as_html(*marked)} {as_html(answer.input, [])}</p>"
        if colour:
            return as_terminal(*marked).append(f"  {answer.input}", style="default")
        return f"{label.label}\t{label.score:.2f}\t{answer.input}"
