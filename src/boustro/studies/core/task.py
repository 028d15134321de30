"""What a study must know of a task beyond training and prediction: the one place where tasks differ for studies.

References and answers are entities over words for every task: of a classifier, one that covers the whole text. The
micro F1 over one entity per text is the accuracy, so one way of counting serves both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from boustro.metrics.spans import REPAIR_RULE, extract_spans, is_span_tag
from boustro.tasks import TASKS, task_class
from boustro.tasks.base import Task
from boustro.tasks.config import TaskConfig
from boustro.tasks.data import data_name
from boustro.tasks.data.schemes import gold_entities
from boustro.types import Entity, Sentence


@dataclass(frozen=True, kw_only=True)
class StudiedTask:
    """A task by its name in `boustro.tasks.TASKS`, and how its results are counted and described."""

    name: str
    metric: str
    """The score in tables."""
    units: str
    """What is counted."""
    label: str
    """What a unit's label is called."""
    has_positions: bool
    """Whether a unit has a position and a length in its sentence, and its own words that training may have seen."""
    signature: dict[str, str]
    """How scores are computed."""
    shot_tags: tuple[str, ...]
    """What few-shot heads can predict."""
    shot_heads: tuple[tuple[int, tuple[str, str]], ...]
    """(fewest shots, (head, tags)): what `auto` means at that many shots (docs/log.md)."""

    @property
    def config(self) -> type[TaskConfig]:
        """The dataclass of the task's options."""
        return TASKS[self.name].config

    def make(self, encoder: str, head: str, **options: Any) -> Task[Any, Any]:
        """An untrained task; `ValueError` for a head or an option that it does not have."""
        return task_class(self.name)(encoder, head, **options)

    def gold(self, sentence: Sentence) -> list[Entity]:
        """The reference, overlapping entities too, each once."""
        return sorted({Entity(e.label, e.start, e.end) for e in gold_entities(sentence)})

    def check_data(self, name: str, sentences: Sequence[Sentence]) -> None:
        """`ValueError` for tags that mark no entity; `name` is train, dev or test."""
        strange = next((t for s in sentences for t in s.tags or () if not is_span_tag(t)), None)
        if strange:
            raise ValueError(
                f"{data_name(sentences)} ({name}): the tag {strange!r} marks no entity, and entities are compared; "
                "train on labels of words with boustro fit, or give --scheme io if a run of one label is an entity"
            )

    def count_hidden(self, sentences: Sequence[Sentence]) -> int:
        """Entities inside or across another one, which tags cannot represent: tags hold the outermost only."""
        return sum(len(self.gold(s)) - len(extract_spans(s.tags)) for s in sentences if s.tags is not None)


TAG = StudiedTask(
    name="tag",
    metric="F1",
    units="entities",
    label="type",
    has_positions=True,
    signature={"metric": "entity F1", "repair": REPAIR_RULE, "scheme": "BIO"},
    shot_tags=("bio", "io", "factored"),
    shot_heads=((64, ("mlp+crf", "bio")), (0, ("ridge", "factored"))),
)
CLASSIFY = StudiedTask(
    name="classify",
    metric="accuracy",
    units="texts",
    label="label",
    has_positions=False,
    signature={"metric": "accuracy"},
    shot_tags=("label",),
    shot_heads=((0, ("ridge", "label")),),
)
BY_LABELLING = {"tags": TAG, "class": CLASSIFY}
"""By what the heads of a task learn first, see `tasks.base.Task.labellings`."""


def studied_task(name: str) -> StudiedTask:
    """The task of a name in `TASKS`, as studies see it; `ValueError` for an unknown name."""
    return replace(BY_LABELLING[task_class(name).labellings[0]], name=name)
