"""What a training is told besides its data: the task, its options, the kind of head, the reader, the device."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from boustro.encoders.options import ReadingOptions
from boustro.features.reader import Reader
from boustro.hardware import find_device
from boustro.heads.registry import head_class
from boustro.tasks import TASKS
from boustro.tasks.config import TaskConfig

Config = TypeVar("Config", bound=TaskConfig)


@dataclass(frozen=True)
class Plan(Generic[Config]):
    """See the module.

    Attributes:
        task: The class of the task, a `contract.Contract`; what differs from task to task is asked of it.
        config: Its options, a `TaskConfig`.
        head_kind: The kind of head.
        reader: From examples to features.
        device: Where the head is trained, and answers.
    """

    task: Any
    config: Config
    head_kind: str
    reader: Reader
    device: torch.device

    def reading_alone(self) -> "Plan[Config]":
        """The plan that reads each sentence by itself, not in its document."""
        if self.config.context == "sentence":
            return self
        return replace(self, config=replace(self.config, context="sentence"), reader=self.reader.alone())


def make_plan(
    task: Any,
    encoder: str | None,
    head: str | None,
    *,
    preset: str = "default",
    cache: bool | str | Path = True,
    device: str | None = None,
    **options: Any,
) -> Plan[Any]:
    """The plan of a class of tasks; for the other arguments and for errors see `Task`."""
    entry = TASKS[task.name]
    config: TaskConfig = entry.config.make(preset, **options)
    kind = head or entry.config.default_head
    learned = head_class(kind).labelling  # an unknown kind is refused before anything is encoded
    if learned not in task.labellings:
        raise ValueError(f"a {kind} head is not for the task {task.name}: it answers {learned}")
    task.refuse_head(config, kind)
    place = find_device(device)
    reader = Reader(
        config.default_encoder() if encoder is None else encoder,
        ReadingOptions(**config.reading()),
        parts=task.parts,
        widening=config.widening(),
        cache=cache,
        device=device,
    )
    return Plan(task, config, kind, reader, place)
