"""Classifier: labels for a text, such as its sentiment or its topics.

    classifier = Classifier(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    classifier.predict("A film to remember.")      # Label("positive", 0.93, {"negative": 0.07, "positive": 0.93})

A text is one example, whatever the number of its sentences; the head pools the vectors of its words. Data with `labels`
give each text several labels or none, and the answers are a `LabelSet`.

Beside the head may stand TF-IDF (`WordModelCompanion`): trained on the same texts, weighed on texts that were left out.
Its files are words.json, the terms and the weights of head and words, and words.safetensors (`heads.words`).
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from boustro.arrays import read_arrays
from boustro.encoders.word_table import WordTable, load_table, table_for
from boustro.given import as_sentences
from boustro.heads.options import HiddenOptions
from boustro.heads.registry import AUTO_POOL, head_class, head_kind
from boustro.heads.words import FEW_TEXTS, MODEL_ARRAYS, WORD_FOLDS, WordModel, average, choose_weights, fit_each
from boustro.names import SHIPPED_TABLE
from boustro.options import OptionError, Share, check_options
from boustro.output import as_json
from boustro.store import Artefact, write_file
from boustro.tasks import TOOL_FORMATS
from boustro.tasks.answers import InputAnswer, InputPart, Label, LabelSet
from boustro.tasks.base import Task, read_warning
from boustro.tasks.config import ClassifierConfig
from boustro.tasks.data.reading import Unlabelled, named_columns
from boustro.tasks.data.texts import TEXTS, read_texts, whole_text
from boustro.tasks.folds import num_different
from boustro.tasks.inputs import TextInputs
from boustro.tasks.labellings.texts import LabelSetLabelling, TextLabelling
from boustro.tasks.plan import Companion, DevSet, Fitted, Plan, TrainingSet
from boustro.tasks.render import Shown, as_mark, in_a_row, shown_number, shown_score
from boustro.types import NO_LABEL, Sentence, short_score

MOST_FEW = 32
"""Texts of a label, on average, up to which a head in closed form is better."""
FEWEST_FOR_WORDS = 20
"""Texts. With 12 (TREC, two of a label) their weight is noise, which took 16 points from MiniLM; with 24 they add 5."""
LIGHTER = 128
"""Units, and half the epochs, of a head that is trained on a part of many texts only to weigh the words by."""
ENOUGH = 200
"""Texts of a development set that words are weighed on; with fewer, they are weighed on parts of the training set."""


def text_as_one(given: str, name: str) -> list[InputPart]:
    """Return the whole text as one example."""
    placed = whole_text(given, name)
    return [InputPart(placed.sentence, placed.places)]


class Classifier(Task[str, Label]):
    """A frozen encoder and a trained head that labels texts.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default `starter-texts`.
        head: mlp-pool, bilstm-pool, ridge-pool or lda-pool; by default auto-pool, which is lda-pool for few texts of
            each label and else mlp-pool.
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
    formats = (*Task.formats, *TOOL_FORMATS)

    lenient = {"unlabelled": True}  # noqa: RUF012 (never changed)

    collect = staticmethod(read_texts)

    @classmethod
    def read(  # type: ignore[override]
        cls,
        data: Any,
        text_column: str | Sequence[str] = (),
        label_column: str | None = None,
        unlabelled: Unlabelled = False,
    ) -> list[Any]:
        """Read labelled texts; with `unlabelled`, a text may have an empty cell, or null, for its label."""
        return read_warning(cls, data, named_columns(text_column, label_column, unlabelled))

    leaves_words_out = True
    inputs = TextInputs(split=text_as_one, as_examples=as_sentences)

    @classmethod
    def from_labels(
        cls,
        labels: Iterable[Any] | Mapping[Any, str],
        texts: Iterable[str] = (),
        *,
        several: bool = False,
        none: Share | None = None,
        encoder: str | None = None,
        device: str | None = None,
    ) -> Self:
        """Return a classifier that knows its labels by their names alone; no text is labelled.

            means = {"delivery": "", "payment": "", "praise": "thanks or a compliment"}
            classifier = Classifier.from_labels(means, texts)
            classifier.predict("The parcel came two days late.").label

        Args:
            labels: Names; a dict says what they mean, or "" where they say it. A name that says nothing, such as
                class_b, is never answered, and counted in `notices`. A string is read as `predict --labels` reads it.
            texts: Texts like those that will be asked, without labels; ten or more of them make the answers better.
            several: A text may have several labels, or none.
            none: Share of such texts that fit no label best and get none, whose `label` is "". By default only texts in
                a language that the encoder does not read have none; with 0 they, too, have one.
            encoder: Spec of a sentence encoder; by default that of the package, which reads English.
            device: As for `Classifier`.

        Raises `ValueError` for fewer than two labels, for two that are read alike, for names none of which says
        anything, and for more than 1,000 labels or 100 words of one.
        """
        from boustro.tasks.label_names import from_labels

        check_options(Classifier.from_labels, {"none": none})
        return from_labels(cls, labels, texts, several=several, none=none, encoder=encoder, device=device)

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """Return (texts, labels): the probability of each label, in the order of `classes_`.

        Raises `ValueError`, with the place, for what is not a string.
        """
        labels = self.stream([texts] if isinstance(texts, str) else texts)
        names = [str(label) for label in self.classes_]
        return np.array([[label.probabilities[name] for name in names] for label in labels]).reshape(-1, len(names))

    def empty_answer(self) -> dict[str, Any] | None:
        several = isinstance(self.fitted.labelling, LabelSetLabelling)
        return {"labels": [], "probabilities": None} if several else super().empty_answer()

    def cells(self, answer: InputAnswer[str]) -> list[Any]:
        label = self.result(answer)
        named = as_json(list(label.names)) if isinstance(label, LabelSet) else label.label
        return [named, short_score(label.score), as_json(label.to_dict()["probabilities"])]

    def shown(self, answer: InputAnswer[str]) -> Shown:
        label = self.result(answer)
        names = label.names if (several := isinstance(label, LabelSet)) else (label.label,)
        shares = label.probabilities if several else {label.label: label.score}
        return Shown(
            {"text": answer.input},
            answer.input,
            said=[as_mark(name or NO_LABEL, shares.get(name)) for name in names or [""]],
            cells=(in_a_row(filter(None, names)), shown_score(label.score) if names else ""),
            labels={name: label.probabilities[name] for name in names if name},
            several=several,
        )


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

    collect = staticmethod(TEXTS["regress"].read)
    inputs = Classifier.inputs
    leaves_words_out = True

    def shown(self, answer: InputAnswer[str]) -> Shown:
        return Shown({"text": answer.input}, cells=(shown_number(self.result(answer)), answer.input))


def settled(plan: Plan[ClassifierConfig], train: Sequence[Sentence], weak: bool) -> Plan[ClassifierConfig]:
    """Return the plan of a classifier with what its options leave to the texts, see `ClassifierConfig.settled`."""
    from boustro.encoders.spec import Spec  # here, because it imports torch

    kind, options, config = plan.head_kind, plan.head_options, plan.config
    counts = Counter(text.label for text in train)
    if kind == AUTO_POOL:
        chosen = {name for name, value in vars(type(options)()).items() if value != getattr(options, name)}
        only_mlp = None in counts or weak or config.calibrate or chosen - {*head_kind("lda-pool").option_names()}
        most = MOST_FEW * len(counts)
        few = not only_mlp and num_different(train, most + 1) <= most
        kind = "lda-pool" if few else "mlp-pool"
        made = head_kind(kind)
        options = made.options(**{name: getattr(options, name) for name in made.option_names()})
    words = config.words
    if words is None:
        found = not head_class(kind).alone and not weak and not config.calibrate and not config.none
        found = found and num_different(train, FEWEST_FOR_WORDS) == FEWEST_FOR_WORDS
        # beside the vector of a text they take up to half a point from few texts, and give nothing (docs/log.md)
        few_vectors = head_class(kind).takes_names and Spec.parse(plan.reader.spec).is_sentences
        words = found and not few_vectors
    if config.table != "auto" and not words:
        raise OptionError(f"table is read with words, which do not stand beside a {kind} head here; give words too")
    return replace(plan, head_kind=kind, head_options=options, config=replace(config, words=words))


WORDS_CONFIG, WORDS_WEIGHTS = "words.json", "words.safetensors"
TABLE_FILES = ("table.json", "table.safetensors")
"""Words and arrays of a table that is not the package's."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A model of words, the table whose vectors it reads, and how much it and the head count."""

    model: WordModel
    head_weight: float
    words_weight: float
    table: WordTable | None = None

    def add(self, outputs: Sequence[np.ndarray], texts: Sequence[Sentence], labelling: TextLabelling) -> np.ndarray:
        """Return (S, C): the head's scores for texts and those of their words, weighed."""
        if not len(texts):
            return np.zeros((0, len(labelling.labels)))
        found = _scores(self.model, self.table, texts)
        head = labelling.log_probabilities(np.stack(outputs))
        return self.head_weight * head + self.words_weight * labelling.log_probabilities(found)

    def save(self, folder: Path) -> None:
        """Write the files into a folder; a table of the package is named, another one is copied."""
        from safetensors.numpy import save_file

        own: dict[str, Any] = {"head_weight": self.head_weight, "words_weight": self.words_weight}
        own |= {"terms": self.model.vocabulary}
        if self.table:
            shipped = self.table.name == SHIPPED_TABLE
            own["table"] = {"name": self.table.name if shipped else None, "mark": self.table.mark}
            if not shipped:
                self.table.save(folder / TABLE_FILES[0], folder / TABLE_FILES[1])
        write_file(folder / WORDS_CONFIG, json.dumps(own, ensure_ascii=False))
        save_file({name: getattr(self.model, name) for name in MODEL_ARRAYS}, folder / WORDS_WEIGHTS)

    @classmethod
    def load(cls, folder: Artefact) -> "Weighed":
        """Read what `save` wrote; `ValueError` where the package's table is another one now."""
        own, table = folder.json(WORDS_CONFIG), None
        if named := own.get("table"):
            own_table = partial(WordTable.read, folder, *TABLE_FILES, mark=named["mark"])
            table = load_table(named["name"]) if named["name"] else own_table()
            if table.mark != named["mark"]:
                raise ValueError(f"{folder}: {table.name} is another table in this version; train the classifier again")
        model = WordModel(own["terms"], **read_arrays(folder / WORDS_WEIGHTS))
        return cls(model, own["head_weight"], own["words_weight"], table)


class WordModelCompanion(Companion):
    """The model of words, with weights for it and for the head."""

    name = "words"
    learns_left_out = True
    takes_weak = False

    def train(self, fitted: Fitted, data: TrainingSet | None, held: DevSet | None) -> tuple[Fitted, Mapping[str, Any]]:
        assert data is not None
        labelling, texts = fitted.labelling, [text.words for text in data.gold]
        assert isinstance(labelling, TextLabelling)
        table, ids = table_for(fitted.plan.reader.spec, fitted.plan.config.table), labelling.ids(data.gold)
        vectors = _vectors(table, texts)

        def learn(some: np.ndarray, counts: Iterable[int]) -> list[WordModel]:
            return list(fit_each([texts[n] for n in some], ids[some], len(labelling.labels), vectors[some], counts))

        judged = list(_judged(fitted, data, held))
        gold = np.concatenate([labelling.ids(examples) for _, examples, _ in judged])
        head = np.concatenate([labelling.log_probabilities(np.stack(outputs)) for _, _, outputs in judged])
        learned = [learn(kept, range(vectors.shape[1] + 1)) for kept, _, _ in judged]
        said = [
            [_scores(model, table, examples) for model in models]
            for models, (_, examples, _) in zip(learned, judged, strict=True)
        ]
        words = [labelling.log_probabilities(np.concatenate(parts)) for parts in zip(*said, strict=True)]
        different = min(len(gold), len(np.unique(data.kin().groups)))
        a, *b = choose_weights(head, words, gold, labelling.loss, different).tolist()
        counts, everything, total = [count for count, own in enumerate(b) if own] or [0], np.arange(len(texts)), sum(b)
        whole = len(judged[0][0]) == len(texts)
        models = [learned[0][count] for count in counts] if whole else learn(everything, counts)
        model = average(models, [b[count] / (total or 1.0) for count in counts])
        count = len(model.centre) // table.width if table else 0
        own = Weighed(model, a, total, table if count else None)
        return replace(fitted, extras={**fitted.extras, self.name: own}), {
            "words": {"vectors": count, "weight": total / a}
        }

    def answer(self, fitted: Fitted, outputs: Sequence[Any], examples: Sequence[Sentence]) -> Sequence[Any]:
        weighed: Weighed | None = fitted.extras.get(self.name)
        if weighed is None:
            return outputs
        assert isinstance(fitted.labelling, TextLabelling)
        return list(weighed.add(outputs, examples, fitted.labelling))

    def save(self, fitted: Fitted, folder: Path) -> None:
        if weighed := fitted.extras.get(self.name):
            weighed.save(folder)

    def load(self, plan: Plan[Any], folder: Artefact) -> tuple[Plan[Any], Weighed | None]:
        return plan, Weighed.load(folder) if (folder / WORDS_CONFIG).exists() else None  # of one text they say nothing


@dataclass(frozen=True)
class NoLabel(Companion):
    """The least score with which a text has a label, so that of texts left out the `share` has none."""

    share: float
    name = "none"
    learns_left_out = True

    def train(self, fitted: Fitted, data: TrainingSet | None, held: DevSet | None) -> tuple[Fitted, Mapping[str, Any]]:
        assert data is not None and isinstance(fitted.labelling, TextLabelling)
        best = np.concatenate([np.stack(outputs).max(1) for *_, outputs in _judged(fitted, data, held)])
        labelling = copy(fitted.labelling)
        labelling.least = float(np.quantile(best, self.share))
        return replace(fitted, labelling=labelling), {}


def _vectors(table: WordTable | None, texts: Sequence[Sequence[str]]) -> np.ndarray:
    """Return (S, K, D): those that a table has of texts."""
    return table.describe(texts) if table else np.zeros((len(texts), 0, 0), np.float32)


def _scores(model: WordModel, table: WordTable | None, texts: Sequence[Sentence]) -> np.ndarray:
    words = [text.words for text in texts]
    return model.scores(words, _vectors(table, words) if len(model.centre) else None)


Judged = tuple[np.ndarray, Sequence[Sentence], Sequence[np.ndarray]]


def _judged(fitted: Fitted, data: TrainingSet, held: DevSet | None) -> Iterator[Judged]:
    """Numbers of texts that a head learned, other texts, and its scores (C,) of each of these: parts of the training
    set that the head itself was chosen by, where it has them; else a development set; else parts that are left out."""
    from boustro.tasks.fitting.training import train_on_part

    everything, known = np.arange(len(data.gold)), fitted.labelling.labels
    judges = held.unlearned if held else ()
    usable = [n for n, text in enumerate(judges) if text.label is None or text.label in known]
    if tried := getattr(fitted.head, "tried", ()):
        yield from ((kept, [data.gold[n] for n in left], scores) for kept, left, scores in tried)
    elif held and len(usable) >= ENOUGH:
        outputs = held.ask_unlearned(fitted.head)
        yield everything, [judges[n] for n in usable], [outputs[n] for n in usable]
    else:
        few, options = num_different(data.gold, FEW_TEXTS) < FEW_TEXTS, fitted.plan.head_options
        if not few and isinstance(options, HiddenOptions):
            half = math.ceil(options.passes(len(data.gold)) / 2)
            options = replace(options, epochs=half, hidden=min(options.hidden or LIGHTER, LIGHTER))
        like = replace(fitted, plan=replace(fitted.plan, head_options=options))
        for kept, left in data.parts(WORD_FOLDS if few else 1):
            head = train_on_part(like, replace(data.learning(kept), dev=None), kept).head
            yield kept, [data.gold[n] for n in left], head.outputs(data.inputs.select(left))
