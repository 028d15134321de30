"""What can be chosen about sentence embeddings. torch is not imported here: command lines list these options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from boustro.encoders.options import LoadingOptions
from boustro.heads.options import HiddenOptions, StepOptions, TrainOptions
from boustro.options import Count, Dropout, Positive, Width, check_options


@dataclass(frozen=True, kw_only=True)
class EmbedData:
    """What `embed-fit` learns from."""

    texts: Path | None = None
    """Raw texts, one a line or JSON lines. Alone they give the statistics; with --neighbours, training."""
    neighbours: bool = False
    """Train on sentences that follow each other in a text."""
    pairs: Path | None = None
    """Train on scored pairs: JSON lines with sentence1, sentence2 and score."""
    dev: Path | None = None
    """Scored pairs that choose the best epoch."""
    most: Count | None = 50_000
    """With --neighbours the most pairs of sentences, else the most texts."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class EmbedOptions(LoadingOptions):
    """How a text becomes a vector; the defaults are what measurement favoured (docs/tasks.md)."""

    pooling: Literal["sif", "mean", "echo"] = "sif"
    """How the words of a text become one vector: mean, sif (rare words weigh more, and the texts' first component is
    removed), or echo (the LM reads the text twice; the mean over the second copy)."""
    transform: Literal["whitened", "standardised", "top-removed", "raw"] = "whitened"
    """What is done to the vectors, by statistics of your own texts; raw does nothing."""
    layers: str = "0"
    """Layers to read, joined: all, last, or a list such as 0,4,-1 or 25%,50%,last (0 is the embeddings, -1 the last
    layer)."""
    states: str = "exit"
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +."""
    smoothing: Positive = 1e-3
    """The a of sif: a word with probability p weighs a / (a + p)."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)

    @property
    def needs_texts(self) -> bool:
        """Whether statistics of texts are needed before the first vector."""
        return self.pooling == "sif" or self.transform != "raw"


@dataclass(frozen=True, kw_only=True)
class EmbedTraining(StepOptions):
    """How the head of sentence embeddings is trained."""

    epochs: Count = 5
    """Passes over the training data."""
    batch_sentences: Count | None = 32
    """Pairs per step; each text of a batch is contrasted with all others."""
    hidden: Width = 256
    """Width of the map of words."""
    dropout: Dropout = 0.3
    """Dropout probability inside the head."""
    scale: Positive = 20.0
    """Inverse temperature of the losses: cosines are multiplied by it."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)

    def head_options(self) -> HiddenOptions:
        """The same for a head; layers are joined, not mixed."""
        return HiddenOptions(combine="concat", hidden=self.hidden, dropout=self.dropout)

    def train_options(self) -> TrainOptions:
        """The same for `heads.training.train_head`."""
        return TrainOptions(epochs=self.epochs, lr=self.lr, weight_decay=self.weight_decay)
