"""What a training is told besides its data: the task, its options, the kind of head, the reader, the device."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from boustro.heads.options import HeadOptions
from boustro.tasks import TASKS
from boustro.tasks.config import TaskConfig

if TYPE_CHECKING:
    import torch

    from boustro.features.reader import Reader

Config = TypeVar("Config", bound=TaskConfig)


@dataclass(frozen=True)
class Plan(Generic[Config]):
    """See the module.

    Attributes:
        task: The class of the task, a `contract.Contract`; what differs from task to task is asked of it.
        config: Its options, a `TaskConfig`.
        head_kind: The kind of head.
        head_options: What is chosen about it, of its own class.
        reader: From examples to features.
        device: Where the head is trained, and answers.
    """

    task: Any
    config: Config
    head_kind: str
    head_options: HeadOptions
    reader: "Reader"
    device: "torch.device"

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
    config = TASKS[task.name].config
    kind = head or config.default_head
    return plan_of(task, encoder, kind, *config.choose(kind, preset, options), cache=cache, device=device)


def plan_of(
    task: Any,
    encoder: str | None,
    kind: str,
    config: TaskConfig,
    head_options: HeadOptions,
    *,
    cache: bool | str | Path = True,
    device: str | None = None,
) -> Plan:
    """The same from options that are made already; those of the head are of its own class."""
    from boustro.features.reader import Reader
    from boustro.hardware import find_device

    config.check_head(kind)
    task.refuse_head(config, kind)
    place = find_device(device)
    reader = Reader(
        config.default_encoder() if encoder is None else encoder,
        config.reading(),
        parts=task.parts,
        widening=config.widening(),
        cache=cache,
        device=device,
    )
    return Plan(task, config, kind, head_options, reader, place)
