"""TF-IDF beside the head of a classifier: trained on the same texts, weighed on parts of them that were left out.

words.json           the terms, and the weights of head and words
words.safetensors    the linear model of `heads.words`
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
from boustro.tasks.labellings.texts import TextLabelling
from boustro.tasks.plan import Beside, Fitted, Held, Plan, TrainingSet
from boustro.types import Sentence

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
