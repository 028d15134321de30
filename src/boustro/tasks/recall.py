"""A promise about recall: how probable an entity must be so that a list holds, say, 95% of all entities.

    n labelled entities that were not trained on, with their probabilities under the model, ascending p_1 ≤ … ≤ p_n
    the list   every candidate with a probability of at least p_k,   k = ⌊(1 - recall) · (n + 1)⌋

What is promised: an entity of new text is on the list with a probability of at least `recall`, on average over
development sets and new texts of the same kind. So the recall in one text, or with one development set, may be lower;
it varies more the fewer documents that set has. Strictly, entities must come one by one from the same distribution,
while those of a document are alike. Nothing is assumed of the model; a worse one needs a longer list. The entities are
those of the development set, which also chose the epoch; texts that were learned too are left out.

Text of another kind breaks the promise. `DriftMonitor` compares how unsure the model is there and here: Σ p (1 - p) / Σ
p over all candidates, the variance of the number of entities per expected entity. Not every such text is noticed.

Source: Vovk, Gammerman and Shafer 2005, chapter 4 (split conformal prediction); Angelopoulos and Bates 2021, section 1.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from boustro.errors import count_of
from boustro.heads.span import FoundSpan, GoldSpan
from boustro.store import Artefact, write_file
from boustro.tasks.answers import Answer
from boustro.tasks.plan import PROMISE, Fitted
from boustro.tasks.tagger.entities import EntityLabelling
from boustro.types import Sentence

PROMISE_FILE = "recall.json"
Spans = Sequence[FoundSpan]
SLACK = 1e-3
"""Relative: in another batch, or on another processor, the same words have slightly different probabilities."""
ROUNDING = 1e-9
"""0.1 · 10 entities are one, though 1 - 0.9 is a little less than 0.1."""
ENOUGH, MUCH_MORE = 30, 1.5
"""Expected entities, and the ratio of `DriftMonitor.unsure`, from which on texts are called different (docs/log.md)."""


@dataclass(frozen=True, slots=True)
class RecallPromise:
    """Probabilities of the calibration set's entities, ascending, 0 for no candidate; `DriftMonitor.unsure` there."""

    probabilities: np.ndarray
    unsure: float

    @classmethod
    def learn(cls, candidates: Sequence[Spans], gold: Sequence[Sequence[GoldSpan]]) -> "RecallPromise":
        """From the candidates and the entities (start, end, number of the label) of the same sentences."""
        by_span = [{span[:3]: span[3] for span in spans} for spans in candidates]
        pairs = zip(by_span, gold, strict=True)
        probabilities = sorted(probability_of.get(entity, 0.0) for probability_of, wanted in pairs for entity in wanted)
        watch = DriftMonitor()
        watch.add(candidates)
        return cls(np.array(probabilities), watch.unsure)

    def threshold(self, recall: float) -> float:
        """Return the probability p_k, a little lower; `ValueError` where the promise cannot be made."""
        n = len(self.probabilities)
        k = math.floor((1 - recall) * (n + 1) + ROUNDING)
        if k < 1:
            raise ValueError(
                f"a recall of {recall:g} cannot be promised from the {count_of(n, 'entities')} of the development "
                f"set; it takes {math.ceil((1 - ROUNDING) / (1 - recall) - 1)} or more"
            )
        if self.probabilities[k - 1] <= 0:
            missed = float((self.probabilities <= 0).mean())
            raise ValueError(
                f"a recall of {recall:g} cannot be promised: {missed:.1%} of the {n} entities of the development set "
                "are never candidates, because their labels or lengths are not in the training set"
            )
        return float(self.probabilities[k - 1]) * (1 - SLACK)

    def save(self, folder: Path) -> None:
        """Write the file into the folder of a tagger."""
        record = {"unsure": self.unsure, "probabilities": [round(float(p), 9) for p in self.probabilities]}
        write_file(folder / PROMISE_FILE, json.dumps(record))

    @classmethod
    def load(cls, folder: Artefact) -> "RecallPromise | None":
        """Read what `save` wrote; `None` for a folder without it, from a training without development set."""
        if not (folder / PROMISE_FILE).exists():
            return None
        record = folder.json(PROMISE_FILE)
        return cls(np.array(record["probabilities"], np.float64), float(record["unsure"]))


class DriftMonitor:
    """How unsure the model is of the entities in the texts that it has read so far."""

    def __init__(self) -> None:
        self.variance = self.expected = 0.0

    def add(self, candidates: Sequence[Spans]) -> None:
        """Count more sentences."""
        p = np.array([span[3] for spans in candidates for span in spans])
        self.variance += float((p * (1 - p)).sum())
        self.expected += float(p.sum())

    @property
    def unsure(self) -> float:
        """Σ p (1 - p) / Σ p: 0 where every candidate is certain, near 1 where every one is improbable."""
        return self.variance / self.expected if self.expected else 0.0

    def warning(self, promise: RecallPromise) -> str:
        """Why the promise may not hold here; empty where nothing speaks against it."""
        if self.expected < ENOUGH or self.unsure <= MUCH_MORE * promise.unsure:
            return ""
        return (
            f"entities are expected here, but the model is unsure of them ({self.unsure:.2f}, on its development set "
            f"{promise.unsure:.2f}): the texts are of another kind, and fewer entities may be found than promised"
        )


class Lists:
    """Answers with a promise of recall: all candidates that are probable enough, and a watch over them."""

    def __init__(self, fitted: Fitted, recall: float) -> None:
        """`ValueError` where it cannot be promised."""
        self.recall, self._watch = recall, DriftMonitor()
        self._promise: RecallPromise | None = fitted.extras.get(PROMISE)
        if self._promise is None:
            raise ValueError(
                "no recall can be promised for this tagger: train it with a development set of other texts than those "
                "that it learns, and with a CRF or a span head"
            )
        self._least = self._promise.threshold(recall)

    def answers(self, fitted: Fitted, sentences: Sequence[Sentence], cached: bool) -> list[Answer]:
        """Return the answers for sentences, which are watched."""
        labelling = fitted.labelling
        assert isinstance(labelling, EntityLabelling)
        candidates = fitted.outputs(sentences, cached, candidates=True)
        self._watch.add(candidates)
        likely = ([span for span in spans if span[3] >= self._least] for spans in candidates)
        return [labelling.read_spans(spans, s) for spans, s in zip(likely, sentences, strict=True)]

    def notices(self) -> dict[str, int]:
        """Why the promise may not hold for what was read, with the entities expected there."""
        assert self._promise is not None
        warning = self._watch.warning(self._promise)
        return {warning: round(self._watch.expected)} if warning else {}
