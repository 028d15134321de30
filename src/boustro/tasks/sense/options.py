"""Options of a sense tagger. torch is not imported here: command lines list them."""

from dataclasses import dataclass
from typing import ClassVar

from boustro.encoders.options import Context
from boustro.tasks.config import TaskConfig


@dataclass(frozen=True, kw_only=True)
class SenseConfig(TaskConfig):
    """Options of a SenseTagger."""

    labellings: ClassVar[tuple[str, ...]] = ("senses",)
    default_head: ClassVar[str] = "centroids"
    in_documents: ClassVar[bool] = True

    layers: str = "last"
    """Layers to read, side by side: last, all, or a list such as 0,4,-1 or 25%,50%,last (0 is the embeddings, -1 the
    last layer)."""
    context: Context = "sentence"
    """What an LM reads: the sentence alone, or the document around it, up to the LM's window."""
