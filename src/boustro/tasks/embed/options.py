"""What can be chosen about sentence embeddings. torch is not imported here: command lines list these options."""

from dataclasses import dataclass
from typing import ClassVar

from boustro.encoders.options import Context, ReadingOptions
from boustro.heads.options import PoolingOptions, Transformed
from boustro.options import check_options
from boustro.tasks.config import TaskConfig, refuse_documents

NEIGHBOURS = "neighbours:"
"""Before the name of a file of texts: its neighbouring sentences are the pairs."""


@dataclass(frozen=True, kw_only=True)
class TextReading(ReadingOptions):
    """How a text is read; the defaults are what measurement favoured (docs/tasks.md)."""

    layers: str = "0"
    """Layers to read, joined: all, last, or a list such as 0,4,-1 or 25%,50%,last (0 is the embeddings, -1 the last
    layer)."""
    pooling: str | None = "exit"
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""
    context: Context = "sentence"
    """What an LM reads: a text is a whole, so it is the text alone."""


@dataclass(frozen=True, kw_only=True)
class VectorOptions(PoolingOptions, TextReading):
    """How a text becomes a vector without training."""

    transform: Transformed = "whitened"
    """What is done to the vectors of texts, by statistics of your own ones; raw does nothing."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)
        refuse_documents(self)

    @property
    def needs_texts(self) -> bool:
        """Whether statistics of texts are needed before the first vector."""
        return self.text_pooling == "sif" or self.transform != "raw"


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(TextReading, TaskConfig):
    """Options of a SentenceEncoder."""

    labellings: ClassVar[tuple[str, ...]] = ("vectors", "pair-vectors")
    default_head: ClassVar[str] = "embedding"
