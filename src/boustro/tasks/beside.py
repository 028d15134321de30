"""What stands beside a head and has files of its own, but for a promise of recall (`recall`).

Memory    the mean vectors of the words of the training sentences     memory.safetensors, words.json
Cut       fewer words behind each word than the text has (`live`)
Words     TF-IDF beside the head of a classifier: trained on the      words.json, the terms, and the weights of head
          same texts, weighed on parts that were left out             and words; words.safetensors, `heads.words`
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from boustro.arrays import read_arrays
from boustro.heads.words import FEW, FOLDS, WordModel, choose_weights, fit_words
from boustro.store import read_json, write_file
from boustro.tasks.folds import left_out
from boustro.tasks.labellings import Labelling
from boustro.tasks.labellings.texts import TextLabelling
from boustro.tasks.plan import Beside, Fitted, Held, Plan, Taught, TrainingSet
from boustro.types import Sentence


class Memory(Beside):
    """The mean vectors of the words of all training sentences, in the folder; see `features.training`."""

    name = "memory"

    def read(
        self, plan: Plan[Any], labelling: Labelling, examples: Sequence[Any], unread: Sequence[Any], seed: int
    ) -> Taught:
        from boustro.features.training import REMEMBERED, read_remembering

        read = read_remembering(plan.reader, examples, unread, labelling.side(examples), seed)
        reader, inputs, without = read
        return Taught(reader, inputs, {REMEMBERED: len(unread)} if unread else {}, without)

    def save(self, fitted: Fitted, folder: Path) -> None:
        from boustro.encoders.word_means import save_means

        if fitted.plan.reader.memory is not None:
            save_means(folder, fitted.plan.reader.memory)

    def load(self, plan: Plan[Any], folder: Path) -> tuple[Plan[Any], None]:
        from dataclasses import replace

        from boustro.encoders.word_means import read_means

        return replace(plan, reader=plan.reader.with_memory(read_means(folder))), None


class Cut(Beside):
    """Fewer words behind each word than the text has (`live`); see `features.training`."""

    name = "live"

    def read(
        self, plan: Plan[Any], labelling: Labelling, examples: Sequence[Any], unread: Sequence[Any], seed: int
    ) -> Taught:
        from boustro.features.training import cut_inputs
        from boustro.tasks.fitting import read_plainly

        inputs = read_plainly(plan, labelling, examples).inputs
        inputs, cut = cut_inputs(plan.reader.encoder(), plan.reader.reading.context, examples, inputs, seed)
        return Taught(plan.reader, inputs, cut)


CONFIG, WEIGHTS = "words.json", "words.safetensors"


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
        write_file(folder / CONFIG, json.dumps(own, ensure_ascii=False))
        save_file({name: getattr(self.model, name) for name in ("idf", "weight", "bias")}, folder / WEIGHTS)

    @classmethod
    def load(cls, folder: Path) -> "Weighed":
        """Read what `save` wrote."""
        own = read_json(folder / CONFIG)
        return cls(WordModel(own["terms"], **read_arrays(folder / WEIGHTS)), own["head_weight"], own["words_weight"])


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
