"""Classifier: labels for a text, such as its sentiment or its topics.

    classifier = Classifier(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    classifier.predict("A film to remember.")      # Label("positive", 0.93, {"negative": 0.07, "positive": 0.93})

A text is one example, whatever the number of its sentences; the head pools the vectors of its words. Data with `labels`
give each text several labels or none, and the answers are a `LabelSet`.

Beside the head may stand TF-IDF (`Words`): trained on the same texts, weighed on parts that were left out. Its files
are words.json, the terms and the weights of head and words, and words.safetensors (`heads.words`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from boustro.arrays import read_arrays
from boustro.given import as_sentences
from boustro.heads.words import FEW, FOLDS, WordModel, choose_weights, fit_words
from boustro.output import as_json
from boustro.store import read_json, write_file
from boustro.tasks.answers import InputAnswer, Label, LabelSet, Part
from boustro.tasks.base import Task
from boustro.tasks.beside import Thresholds, temperature_of
from boustro.tasks.config import ClassifierConfig
from boustro.tasks.data.annotations import TOOLS
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.data.texts import TextData, read_texts, whole_text
from boustro.tasks.folds import left_out
from boustro.tasks.labellings.texts import LabelSetLabelling, TextLabelling
from boustro.tasks.plan import Beside, Fitted, Held, Plan, TrainingSet
from boustro.tasks.render import as_html, as_terminal
from boustro.types import Entity, Sentence


class Classifier(Task[str, Label]):
    """A frozen encoder and a trained head that labels texts.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: mlp-pool (the default), bilstm-pool, ridge-pool or lda-pool.
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
    estimator_type = "classifier"
    formats = (*Task.formats, *TOOLS)

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
        return (*([Words()] if config.words else []), *temperature_of(config), Thresholds())

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

    def cells(self, answer: InputAnswer[str]) -> list[Any]:
        label = self.result(answer)
        return [_named(label), round(label.score, 4), as_json(label.to_dict()["probabilities"])]

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
    estimator_type = "regressor"
    formats = ("text", "jsonl")
    columns = ("score",)

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


WORDS_CONFIG, WORDS_WEIGHTS = "words.json", "words.safetensors"


@dataclass(frozen=True, slots=True)
class Weighed:
    """A model of words, and how much it and the head count."""

    model: WordModel
    head_weight: float
    words_weight: float

    def add(self, outputs: Sequence[np.ndarray], texts: Sequence[Sentence], labelling: TextLabelling) -> np.ndarray:
        """(S, C): the head's scores for texts and those of their words, weighed."""
        if not len(texts):
            return np.zeros((0, len(labelling.labels)))
        head, words = labelling.log_probabilities(np.stack(outputs)), self._words(texts, labelling)
        return self.head_weight * head + self.words_weight * words

    def _words(self, texts: Sequence[Sentence], labelling: TextLabelling) -> np.ndarray:
        return labelling.log_probabilities(self.model.scores([text.words for text in texts]))

    def save(self, folder: Path) -> None:
        """Write both files into a folder."""
        from safetensors.numpy import save_file

        own = {"head_weight": self.head_weight, "words_weight": self.words_weight, "terms": self.model.vocabulary}
        write_file(folder / WORDS_CONFIG, json.dumps(own, ensure_ascii=False))
        save_file({name: getattr(self.model, name) for name in ("idf", "weight", "bias")}, folder / WORDS_WEIGHTS)

    @classmethod
    def load(cls, folder: Path) -> "Weighed":
        """Read what `save` wrote."""
        own = read_json(folder / WORDS_CONFIG)
        return cls(
            WordModel(own["terms"], **read_arrays(folder / WORDS_WEIGHTS)), own["head_weight"], own["words_weight"]
        )


class Words(Beside):
    """The model of words, with weights for it and for the head."""

    name = "words"
    learns_left_out = True
    takes_weak = False

    def train(self, fitted: Fitted, data: TrainingSet | None, held: Held | None) -> tuple[Fitted, Mapping[str, Any]]:
        from boustro.tasks.fitting import train_on_part

        assert data is not None
        labelling, texts = fitted.labelling, data.gold
        assert isinstance(labelling, TextLabelling)
        head_scores, word_scores, outside = [], [], []
        parts = FOLDS if len(texts) < FEW else 1
        for kept, left in left_out(texts, parts, data.seed, fitted.plan.task.shared):
            head = train_on_part(fitted, replace(data, dev=None), kept)
            head_scores.append(labelling.log_probabilities(np.stack(head.outputs(data.inputs.select(left)))))
            words = _fit(labelling, [texts[n] for n in kept]).scores([texts[n].words for n in left])
            word_scores.append(labelling.log_probabilities(words))
            outside.append(left)
        gold = labelling.ids([texts[n] for n in np.concatenate(outside)])
        weights = choose_weights(np.concatenate(head_scores), np.concatenate(word_scores), gold, labelling.loss)
        return replace(fitted, extras={**fitted.extras, self.name: Weighed(_fit(labelling, texts), *weights)}), {}

    def answer(self, fitted: Fitted, outputs: Sequence[Any], examples: Sequence[Sentence]) -> Sequence[Any]:
        weighed: Weighed | None = fitted.extras.get(self.name)
        if weighed is None:
            return outputs
        assert isinstance(fitted.labelling, TextLabelling)
        return list(weighed.add(outputs, examples, fitted.labelling))

    def save(self, fitted: Fitted, folder: Path) -> None:
        if weighed := fitted.extras.get(self.name):
            weighed.save(folder)

    def load(self, plan: Plan[Any], folder: Path) -> tuple[Plan[Any], Weighed]:
        return plan, Weighed.load(folder)


def _fit(labelling: TextLabelling, texts: Sequence[Sentence]) -> WordModel:
    return fit_words([text.words for text in texts], labelling.ids(texts), len(labelling.labels))
