"""Classifier: labels for a text, such as its sentiment or its topics.

    classifier = Classifier(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    classifier.predict("A film to remember.")      # Label("positive", 0.93, {"negative": 0.07, "positive": 0.93})

A text is one example, whatever the number of its sentences; the head pools the vectors of its words. Data with `labels`
give each text several labels or none, and the answers are a `LabelSet`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from boustro.given import as_sentences
from boustro.tasks.answers import InputAnswer, Label, LabelSet, Part
from boustro.tasks.base import Task
from boustro.tasks.beside import Words
from boustro.tasks.calibrate import Temperature, Thresholds
from boustro.tasks.config import ClassifierConfig
from boustro.tasks.data.annotations import TOOLS
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.data.texts import TextData, read_texts, whole_text
from boustro.tasks.labellings.texts import LabelSetLabelling, TextLabelling
from boustro.tasks.plan import Beside
from boustro.tasks.render import as_html, as_terminal
from boustro.types import Entity, Sentence


class Classifier(Task[str, Label]):
    """A frozen encoder and a trained head that labels texts.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: mlp-pool (the default), bilstm-pool or ridge-pool.
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.ClassifierConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> classifier = boustro.Classifier(encoder="starter")
        >>> classifier.fit(["A film to remember.", "Two hours lost."], ["positive", "negative"], seed=1)
        >>> classifier.predict("A film to forget.").label
    """

    name = "classify"
    formats = (*Task.formats, "csv", *TOOLS)
    columns = ("label", "score", "text")

    @classmethod
    def collect(cls, data: TextData, options: DataOptions, notes: list[Note]) -> list[Sentence]:
        return read_texts(data, "label", notes, options)

    @staticmethod
    def without_each(example: Sentence) -> Iterator[Sentence]:
        return example.without_each()

    as_examples = staticmethod(as_sentences)

    @staticmethod
    def split(given: str, name: str) -> Iterable[Part]:
        """The whole text as one example."""
        placed = whole_text(given, name)
        return [Part(placed.sentence, placed.places)]

    @staticmethod
    def beside(config: ClassifierConfig) -> tuple[Beside, ...]:
        return (*([Words()] if config.words else []), *Temperature.of(config), Thresholds())

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """(texts, labels): the probability of each label, in the order of `types`, which is scikit-learn's.

        Raises `ValueError`, with the place, for what is not a string.
        """
        labels = self.stream([texts] if isinstance(texts, str) else texts)
        return np.array([[label.probabilities[t] for t in self.types] for label in labels]).reshape(-1, len(self.types))

    def add_examples(self, data: TextData) -> Self:
        """Train a ridge-pool head on more texts, of new labels too, without the texts that it was trained on.

        The result is that of training on all texts together, with the strength and the standardisation of the first
        training. Raises `ValueError` for another head, with `words`, and for bad data.
        """
        import torch

        from boustro.heads.ridge_pool import PooledRidge
        from boustro.heads.training import mix_all

        head = self.trained_head()
        if not isinstance(head, PooledRidge) or self.config.words:
            raise ValueError("only a ridge-pool head without words can learn more texts; train again on all of them")
        texts = self.read(data)
        if any(text.label is None for text in texts):
            raise ValueError("a ridge-pool head learns one label per text; give each text its label")
        labels = tuple(sorted({*head.labels, *(str(text.label) for text in texts)}))
        inputs = self.inputs(texts, cached=True)
        with torch.no_grad():
            batch = inputs.batch(np.arange(len(inputs)))
            pooled = head.pool(batch.to_words(mix_all(head, inputs.streams)), batch.lengths)
        labelling = TextLabelling("class", labels)
        head.extend(labels, pooled, torch.from_numpy(labelling.ids(texts)))
        record = self.record | {"texts_added": self.record.get("texts_added", 0) + len(texts)}
        self.fitted = replace(self.fitted, labelling=labelling, record=record)
        return self

    def result(self, answer: InputAnswer[str]) -> Label:
        """The most probable label; a `LabelSet` where texts have several."""
        ((_, own),) = answer.parts
        return (LabelSet if isinstance(self.labelling, LabelSetLabelling) else Label).of(own)

    def to_record(self, answer: InputAnswer[str]) -> dict[str, Any]:
        return self.result(answer).to_dict()

    def rows(self, answer: InputAnswer[str]) -> list[tuple[Any, ...]]:
        label = self.result(answer)
        return [(_named(label), round(label.score, 4), answer.input)]

    def show(self, answer: InputAnswer[str], form: str, colour: bool = False) -> Any:
        label = self.result(answer)
        if form == "jsonl":
            return {"text": answer.input} | self.to_record(answer)
        if form in TOOLS:
            several = isinstance(label, LabelSet)
            chosen = {name: label.probabilities[name] for name in (label.labels if several else (label.label,))}
            return TOOLS[form].suggest(answer.input, labels=chosen, several=several)
        shown = _named(label) or "(no label)"
        marked = shown, [Entity(shown, 0, len(shown), score=label.score)]
        if form == "html":
            return f"<p dir=auto>{as_html(*marked)} {as_html(answer.input, [])}</p>"
        if colour:
            return as_terminal(*marked).append(f"  {answer.input}", style="default")
        return f"{shown}\t{label.score:.2f}\t{answer.input}"


def _named(label: Label) -> str:
    """The label, or all of several."""
    return ", ".join(label.labels) if isinstance(label, LabelSet) else label.label


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
