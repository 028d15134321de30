"""Companions of the heads of several tasks; a classifier has a model of words besides (`classifier`).

Memory      the mean vectors of the words of the training sentences     memory.safetensors, words.json
Cut         fewer words behind each word than the text has (`live`)
Thresholds  what a head and its labelling choose on the development set
Promises    what recall can be promised (`recall`)                      recall.json
Temperature how sure the head is of its answers (`calibrate`)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boustro.store import Artefact
from boustro.tasks.labellings import Labelling
from boustro.tasks.plan import PROMISE, Companion, DevSet, Fitted, Plan, TrainingFeatures, TrainingSet

if TYPE_CHECKING:
    from boustro.tasks.recall import RecallPromise


class Memory(Companion):
    """The mean vectors of the words of all training sentences, in the folder; see `features.training`."""

    name = "memory"

    def read(
        self, plan: Plan[Any], labelling: Labelling, examples: Sequence[Any], unread: Sequence[Any], seed: int
    ) -> TrainingFeatures:
        from boustro.features.training import MEMORY_ONLY, read_remembering

        reader, inputs, without = read_remembering(plan.reader, examples, unread, labelling.side(examples), seed)
        return TrainingFeatures(reader, inputs, {MEMORY_ONLY: len(unread)} if unread else {}, without)

    def save(self, fitted: Fitted, folder: Path) -> None:
        from boustro.encoders.word_means import save_means

        if fitted.plan.reader.memory is not None:
            save_means(folder, fitted.plan.reader.memory)

    def load(self, plan: Plan[Any], folder: Artefact) -> tuple[Plan[Any], None]:
        from boustro.encoders.word_means import read_means

        return replace(plan, reader=plan.reader.with_memory(read_means(folder))), None


class Cut(Companion):
    """Fewer words behind each word than the text has (`live`); see `features.training`."""

    name = "live"

    def read(
        self, plan: Plan[Any], labelling: Labelling, examples: Sequence[Any], unread: Sequence[Any], seed: int
    ) -> TrainingFeatures:
        from boustro.features.training import cut_inputs, refuse_uncut
        from boustro.tasks.fitting.training import read_plainly

        encoder, context = plan.reader.encoder(), plan.reader.reading.context
        refuse_uncut(encoder, context)
        inputs, cut = cut_inputs(encoder, context, examples, read_plainly(plan, labelling, examples).inputs, seed)
        return TrainingFeatures(plan.reader, inputs, cut)


class Thresholds(Companion):
    """Thresholds that a head and its labelling choose on the development set."""

    def train(self, fitted: Fitted, data: TrainingSet | None, held: DevSet | None) -> tuple[Fitted, Mapping[str, Any]]:
        if held and held.unlearned:
            head, labelling = fitted.head, fitted.labelling
            if (gold := labelling.gold(held.unlearned)) is not None:
                head.calibrate(held.ask_unlearned(head, candidates=True), gold)
            labelling.calibrate(fitted.complete(held.ask_unlearned(head), held.unlearned), held.unlearned)
        return fitted, {}


class Promises(Companion):
    """A promise about recall, where there is a development set and the head has candidates."""

    name = PROMISE

    def train(self, fitted: Fitted, data: TrainingSet | None, held: DevSet | None) -> tuple[Fitted, Mapping[str, Any]]:
        gold = fitted.labelling.gold(held.unlearned) if held else None
        if held and gold is not None and any(candidates := held.ask_unlearned(fitted.head, candidates=True)):
            from boustro.tasks.recall import RecallPromise

            promise = RecallPromise.learn(candidates, gold)
            return replace(fitted, extras={**fitted.extras, self.name: promise}), {}
        return fitted, {}

    def save(self, fitted: Fitted, folder: Path) -> None:
        if promise := fitted.extras.get(self.name):
            promise.save(folder)

    def load(self, plan: Plan[Any], folder: Artefact) -> "tuple[Plan[Any], RecallPromise | None]":
        from boustro.tasks.recall import RecallPromise

        return plan, RecallPromise.load(folder)
