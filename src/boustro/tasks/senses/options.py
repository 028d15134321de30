"""Options of a sense tagger. torch is not imported here: command lines list them."""

from dataclasses import dataclass
from typing import Literal

from boustro.encoders.options import Context, ReadingOptions
from boustro.options import PositiveOrZero, check_options


@dataclass(frozen=True, kw_only=True)
class SenseOptions(ReadingOptions):
    """How words become vectors, and how senses are chosen by them."""

    layers: str = "last"
    """Layers to read, side by side: last, all, or a list such as 0,4,-1 or 25%,50%,last (0 is the embeddings, -1 the
    last layer)."""
    context: Context = "sentence"
    """What an LM reads: the sentence alone, or the document around it, up to the LM's window."""
    transform: Literal["raw", "standardised", "top-removed", "whitened"] = "standardised"
    """What is done to the vectors before they are compared, fitted to the training data."""
    prior: PositiveOrZero | None = None
    """Weight of the logarithm of a sense's frequency beside the cosine. By default what does best on each document of
    the training data without that document."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)
