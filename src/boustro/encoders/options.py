"""How an encoder is loaded and reads: the one declaration of these options. torch is not imported here: command lines
list them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

Spacing = Literal["natural", "always"]
Context = Literal["sentence", "document"]
Precision = Literal["float32", "bfloat16", "float16"]
Reads = Literal["words", "text", "both"]
"""What a task reads of an encoder that has a vector for a text besides the states of its words."""
UPPER = "upper"
"""The layers from the middle one on, for what averages them."""
SHALLOW, DEEP = 8, "25%,50%,75%,last"
"""The most blocks of an LM of which all layers are read by default, and what is read of a deeper one."""
KEPT_WORDS = 50_000
"""Words of a memory, the most frequent ones."""


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """How all that reads with an LM begins; what each value means is in `text.start`."""

    start_piece: str = "auto"
    """What a causal LM is given before every text: none, bos, eos, or a piece such as <s>. By default what its
    tokenizer puts there, else the piece between documents, or what an LM of boustro was trained with."""


@dataclass(frozen=True, kw_only=True)
class LoadingOptions(StartOptions):
    """In what form an encoder is loaded, and begun; where to is the device's matter (`hardware`)."""

    dtype: Precision | None = None
    """Precision of the encoder's computation. By default the fastest on this machine, of packed models int8 where it
    is; float32 turns it off."""


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(LoadingOptions):
    """How an encoder reads words; the defaults are what measurement favoured (docs/results.md)."""

    layers: str = "auto"
    """Layers to read: all, last, or a list such as 0,4,-1 or 25%,50%,last (0 is the embeddings, -1 the last layer, 50%
    the one in the middle). Blocks above the highest are not loaded. By default all of an LM of up to 8 blocks, and
    25%,50%,75%,last of a deeper one."""
    pooling: str | None = None
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +. By default
    what suits the encoder: exit+before for a causal LM."""
    spacing: Spacing = "natural"
    """The space before a word: as in running text, or always."""
    prefix: str = "auto"
    """A text that a causal LM reads before everything else, once for all: none, or your own words; a line break is put
    behind it. By default a plain sentence for LMs that boustro did not train, so that the first words of a text are
    read as well as others."""
    context: Context = "document"
    """What an LM reads: the sentence alone, or the document around it, up to the LM's window. Training data without
    document boundaries make it the sentence."""

    def reading(self) -> "ReadingOptions":
        """These options alone, of an object that has others too."""
        return ReadingOptions(**{option.name: getattr(self, option.name) for option in fields(ReadingOptions)})


@dataclass(frozen=True, kw_only=True)
class Widening:
    """Vectors that words are read by besides those of the encoder."""

    mentions: bool = False
    """By the mean vector of their mentions in the document, where a document is read."""
    spelling: bool = False
    """By their letters."""


@dataclass(frozen=True, kw_only=True)
class RecordedReading(ReadingOptions):
    """How a trained folder reads: where no precision is asked for, in that of its training."""

    computed: Mapping[str, str] = field(default_factory=dict)
    """By the fingerprint of its weights, the type that each LM computed in, such as `torch.int8`."""

    @classmethod
    def of(cls, reading: ReadingOptions, computed: Mapping[str, str]) -> "RecordedReading":
        """Return the options of `reading`, with what was recorded."""
        return cls(**vars(reading.reading()), computed=computed)
