"""The options of a RelationClassifier. torch is not imported here: command lines list these options."""

from dataclasses import dataclass
from typing import ClassVar

from boustro.tasks.config import CalibrationOptions, TaskConfig


@dataclass(frozen=True, kw_only=True)
class RelationConfig(CalibrationOptions, TaskConfig):
    """Options of a RelationClassifier; the defaults are what measurement favoured (docs/results.md)."""

    labellings: ClassVar[tuple[str, ...]] = ("relation",)
    default_head: ClassVar[str] = "relation"

    layers: str = "50%,last"
    """Layers to read, as for a tagger. By default the layer in the middle and the last."""

    no_relation_label: str | None = None
    """The label of two places without a relation, which the score counts for none. By default any of Other, None, NA,
    no_relation and the like, in any spelling."""
