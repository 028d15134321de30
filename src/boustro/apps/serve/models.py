"""Trained folders behind the service (`served`).

A task brings both itself (`tasks.contract`: `parse_value`, `to_record`), so a new task needs nothing here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from boustro.apps.runtime.opening import load
from boustro.apps.serve.served import Answered, Served
from boustro.tasks.base import Task
from boustro.tasks.tagger import Tagger

MOST_RECALLS = 32


class ServedTask(Served):
    """Any task of `TASKS`."""

    def __init__(self, name: str, model: Task[Any, Any], explains: bool = False) -> None:
        self.name, self.task, self.example = name, model.name, model.example
        self.model, self.labels, self.explains, self.width = model, model.types, explains, model.width
        self.has_entities = model.labelling is not None and model.labelling.units.has_positions
        self.streams = isinstance(model, Tagger)
        self._recalls: dict[float, Served] = {}
        self._explained: Served | None = None

    def parse(self, value: Any, place: str) -> Any:
        given = self.model.parse_value(value, place)
        if self.explains:
            from boustro.tasks.explain import refuse_long

            refuse_long(list(self.model.split(given, place)), self.model, place)
        return given

    def with_recall(self, recall: float) -> Served:
        if not isinstance(self.model, Tagger):
            return super().with_recall(recall)
        made = self._recalls.get(recall) or ServedTask(self.name, self.model.with_recall(recall))
        if len(self._recalls) < MOST_RECALLS:  # requests with the same model are computed together
            self._recalls[recall] = made
        return made

    def live(self, delay: int | None, wait: int = 2) -> Any:
        if not isinstance(self.model, Tagger):
            return super().live(delay, wait)
        from boustro.apps.live.stream import Live

        return Live(self.model, delay, wait=wait)

    def with_explanation(self) -> Served:
        self.model.refuse_exported("does not say what decided its answers")
        self._explained = self._explained or ServedTask(self.name, self.model, explains=True)
        return self._explained

    def answer(self, inputs: Sequence[Any]) -> Answered:
        answers = self.model.answer_inputs(inputs)
        words = sum(len(part.example) for answer in answers for part, _ in answer.parts)
        outputs = [self.model.to_record(answer) for answer in answers]
        if self.explains:
            from boustro.tasks.explain import explain

            why = explain(self.model, answers)
            outputs = [output | {"explained": own} for output, own in zip(outputs, why, strict=True)]
        return Answered(outputs, words)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"layers": self.model.record.get("layer_weights", {})}


def open_model(name: str, folder: Path, device: str | None = None, encoder: str | None = None) -> Served:
    """Load a folder; raises as the `from_pretrained` of its class."""
    return ServedTask(name, load(folder, encoder=encoder, cache=False, device=device))
