"""Models that answer rows: a trained folder, or a model that is made from the names of its labels.

    opened = OpenedFolder(Path("ner"))
    opened.task, opened.kept_columns          # known before anything is loaded
    opened.open().predict("Ada left.")

Both can be pickled; the process that uses a folder opens it.
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from boustro.apps.runtime import load
from boustro.store import Artefact
from boustro.tasks import kept_columns, task_class, task_of
from boustro.tasks.base import Task
from boustro.tasks.hub import download


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How a model is asked, see `Tagger.asking`."""

    recall: float | None = None
    threshold: float | None = None

    def asking(self, model: Any) -> Any:
        """Return the model, a tagger with what is asked of it."""
        return model if self.recall is None and self.threshold is None else model.asking(self.recall, self.threshold)


@dataclass(frozen=True)
class OpenedFolder(Asked):
    """Which folder is opened, and how: see `Task.from_pretrained`."""

    folder: Path | Artefact
    encoder: str | None = None
    device: str | None = None
    cache: bool = True

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("artefact", "task", "kept_columns")}

    @cached_property
    def artefact(self) -> Artefact:
        """The folder, looked at once."""
        return download(self.folder)

    @cached_property
    def task(self) -> type[Task[Any, Any]]:
        """The task's class."""
        return task_class(task_of(self.artefact))

    @cached_property
    def kept_columns(self) -> Mapping[str, Any]:
        """The column names of the data that it was trained on."""
        return kept_columns(self.artefact)

    @property
    def fingerprint(self) -> str:
        """Of what is in the folder, also one that only its name finds (`tasks.hub.download`): its head, its options,
        and which weights its encoder has."""
        self.artefact.check(str(self.artefact.kind))
        return self.artefact.fingerprint

    def open(self) -> Any:
        """Return the model; raises as `boustro.load`."""
        return self.asking(load(self.artefact, encoder=self.encoder, cache=self.cache, device=self.device))


@dataclass(frozen=True)
class OpenedModel(Asked):
    """A model that no folder has."""

    model: Task[Any, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """Give bytes: a tensor by itself would be shared with another process, by a file that is closed too early."""
        return _from_bytes, (pickle.dumps(self.model), self.recall, self.threshold)

    @property
    def task(self) -> type[Task[Any, Any]]:
        """The task's class."""
        return type(self.model)

    @property
    def kept_columns(self) -> Mapping[str, Any]:
        """None: it was trained on no data."""
        return {}

    @property
    def fingerprint(self) -> str:
        """Of its head, its labels and its options."""
        from boustro.tasks.folder import model_fingerprint

        return model_fingerprint(self.model.fitted)

    def open(self) -> Any:
        """Return the model."""
        return self.asking(self.model)


def _from_bytes(model: bytes, recall: float | None, threshold: float | None) -> OpenedModel:
    return OpenedModel(pickle.loads(model), recall=recall, threshold=threshold)


Opened = OpenedFolder | OpenedModel
