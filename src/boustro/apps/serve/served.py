"""What the service knows of a model: an input from a JSON value, and an output for an input, whatever the task.

Nothing here imports torch, so that a server says that it is starting while `models` opens the folders.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from boustro.choose import suggestion
from boustro.store import kind_of
from boustro.tasks import EXPORT, TASKS
from boustro.tasks.render import page_colours


class Answered(NamedTuple):
    """An output for every input, as JSON can hold it, and the words that were read for them."""

    outputs: list[Any]
    words: int


class Served(ABC):
    """A trained folder behind the service."""

    name: str
    task: str
    labels: Sequence[str] = ()
    has_entities: bool = False
    """Whether its outputs have entities with scores, which `min_score` selects."""
    width: int | None = None
    """Of the vector that each output is, where outputs are vectors."""
    streams: bool = False
    """Whether it can tag a text as it arrives."""
    example: Any
    """An input as JSON, for the pages and to warm up."""

    @abstractmethod
    def parse(self, value: Any, place: str) -> Any:
        """The input that a JSON value stands for; `ValueError`, with the place, for what is none."""

    @abstractmethod
    def answer(self, inputs: Sequence[Any]) -> Answered:
        """What the model says of each input."""

    def with_recall(self, recall: float) -> "Served":
        """The same model with longer lists of entities, see `Tagger.with_recall`; `ValueError` where it has none."""
        raise ValueError(f"recall is for entities; {self.name} is a model of the task {self.task}")

    def live(self, delay: int | None, wait: int = 2) -> Any:
        """One text that is tagged as it arrives, see `Live`; `ValueError` where it cannot be."""
        raise ValueError(f"{self.name} is a model of the task {self.task}, which needs the whole text")

    def with_explanation(self) -> "Served":
        """The same model, whose outputs say what decided them; `ValueError` where it cannot."""
        raise ValueError(f"{self.name} is a model of the task {self.task}, whose answers are not explained")

    def to_dict(self) -> dict[str, Any]:
        """What `/v1/models` says; the colours of labels are for the page."""
        chosen = page_colours(self.labels).items()
        colours = {label: {"light": c.light, "dark": c.dark, "line": c.line} for label, c in chosen}
        own: dict[str, Any] = {"name": self.name, "task": self.task, "labels": list(self.labels)}
        own |= {} if self.width is None else {"width": self.width}
        return {**own, "colours": colours, "example": self.example, "streams": self.streams}


def name_folders(given: Sequence[str]) -> dict[str, Path]:
    """`["ner", "en=models/ner"]` → `{"ner": Path("ner"), "en": Path("models/ner")}`

    Raises `FileNotFoundError` and `ValueError` for what is no folder with a model, and for two of one name.
    """
    found: dict[str, Path] = {}
    for word in given:
        name, equals, path = word.partition("=")
        folder = Path(path if equals and not Path(word).exists() else word)
        name = name if folder != Path(word) else folder.resolve().name
        if name in found:
            raise ValueError(f"two models are named {name}; name one of them otherwise: NAME={folder}")
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder; name a folder that boustro fit wrote")
        kinds = [*(entry.folder for entry in TASKS.values()), EXPORT]
        if kind_of(folder) not in kinds:
            raise ValueError(f"{folder} is not one of the folders that can be served: {', '.join(kinds)}")
        found[name] = folder
    return found


def find_model(models: Mapping[str, Served], name: str | None) -> Served:
    """The model of a name, or the only one; `ValueError` for an unknown name, and for none where there are several."""
    if name is None and len(models) == 1:
        return next(iter(models.values()))
    if name is None:
        raise ValueError(f"name one of the models: {', '.join(models)}")
    if name not in models:
        raise ValueError(f"there is no model {name!r}; there are {', '.join(models)}{suggestion(name, models)}")
    return models[name]
