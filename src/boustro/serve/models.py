"""Trained folders behind the service (`served`).

A task brings both itself (`tasks.contract`: `parse_value`, `to_record`), so a new task needs nothing here. Sense
taggers and sentence encoders are not tasks; each has a small class of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from boustro.embeddings.encoder import SentenceEncoder
from boustro.embeddings.folder import KIND as SENTENCE_ENCODER
from boustro.errors import shorten
from boustro.serve.served import EMBED, Answered, Served
from boustro.store import kind_of
from boustro.tasks import TASKS, task_class, task_of
from boustro.tasks.base import Task
from boustro.tasks.contract import Contract
from boustro.tasks.data.texts import whole_text
from boustro.tasks.explain import explain, refuse_long
from boustro.tasks.senses.folder import KIND as SENSE_TAGGER
from boustro.tasks.senses.reading import read_senses
from boustro.tasks.senses.tagger import SenseTagger
from boustro.tasks.tagger import Tagger

MOST_RECALLS = 32


class ServedTask(Served):
    """Any task of `TASKS`."""

    def __init__(self, name: str, model: Task[Any, Any], explains: bool = False) -> None:
        self.name, self.task, self.example = name, model.name, model.example
        self.model, self.labels, self.explains = model, model.types, explains
        self.has_entities = model.labelling is not None and model.labelling.units.has_positions
        self._recalls: dict[float, Served] = {}
        self._explained: Served | None = None

    def parse(self, value: Any, place: str) -> Any:
        given = self.model.parse_value(value, place)
        if self.explains:
            refuse_long(list(self.model.split(given, place)), self.model, place)
        return given

    def with_recall(self, recall: float) -> Served:
        if not isinstance(self.model, Tagger):
            return super().with_recall(recall)
        made = self._recalls.get(recall) or ServedTask(self.name, self.model.with_recall(recall))
        if len(self._recalls) < MOST_RECALLS:  # requests with the same model are computed together
            self._recalls[recall] = made
        return made

    def with_explanation(self) -> Served:
        self._explained = self._explained or ServedTask(self.name, self.model, explains=True)
        return self._explained

    def answer(self, inputs: Sequence[Any]) -> Answered:
        answers = self.model.answer_inputs(inputs)
        words = sum(len(part.example) for answer in answers for part, _ in answer.parts)
        outputs = [self.model.to_record(answer) for answer in answers]
        if self.explains:
            why = explain(self.model, answers)
            outputs = [output | {"explained": own} for output, own in zip(outputs, why, strict=True)]
        return Answered(outputs, words)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"layers": self.model.record.get("layer_weights", {})}


class ServedSenses(Served):
    """A sense tagger: `{"words": […], "senses": [[1, "bank", "NOUN"]]}` → `{"senses": [{"key", "ranked", …}]}`"""

    task = "senses"
    example: Any = {"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NOUN"]]}  # noqa: RUF012 (never changed)

    def __init__(self, name: str, model: SenseTagger) -> None:
        self.name, self.model = name, model

    def parse(self, value: Any, place: str) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(f"{place}: expected an object with words and senses, got {shorten(value)}")
        return read_senses([value]).sentences[0]

    def answer(self, inputs: Sequence[Any]) -> Answered:
        outputs = [{"senses": [sense.to_dict() for sense in senses]} for senses in self.model.predict(inputs)]
        return Answered(outputs, sum(len(item.sentence) for item in inputs))


class ServedVectors(Served):
    """A sentence encoder: a text → its vector."""

    task, example = EMBED, Contract.example

    def __init__(self, name: str, model: SentenceEncoder) -> None:
        self.name, self.model = name, model

    def parse(self, value: Any, place: str) -> Any:
        return whole_text(Contract.parse_value(value, place)).sentence

    def answer(self, inputs: Sequence[Any]) -> Answered:
        return Answered(self.model.embed(inputs, progress=False).tolist(), sum(map(len, inputs)))

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"width": self.model.width}


def open_model(name: str, folder: Path, device: str | None = None, encoder: str | None = None) -> Served:
    """Load a folder; raises as the `from_pretrained` of its class."""
    return OPENERS[str(kind_of(folder))](name, folder, device, encoder)


def _open_task(name: str, folder: Path, device: str | None, encoder: str | None) -> Served:
    cls = task_class(task_of(folder))
    return ServedTask(name, cls.from_pretrained(folder, encoder=encoder, cache=False, device=device))


def _open_senses(name: str, folder: Path, device: str | None, encoder: str | None) -> Served:
    return ServedSenses(name, SenseTagger.from_pretrained(folder, encoder=encoder, cache=False, device=device))


def _open_vectors(name: str, folder: Path, device: str | None, encoder: str | None) -> Served:
    return ServedVectors(name, SentenceEncoder.from_pretrained(folder, encoder=encoder, device=device))


OPENERS: dict[str, Callable[[str, Path, str | None, str | None], Served]] = {
    **{entry.folder: _open_task for entry in TASKS.values()},
    SENSE_TAGGER: _open_senses,
    SENTENCE_ENCODER: _open_vectors,
}
