"""How an encoder reads: the one declaration of these options. torch is not imported here: command lines list them."""

from dataclasses import dataclass
from typing import Literal

Spacing = Literal["natural", "always"]
Context = Literal["sentence", "document"]
Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How an encoder reads words; the defaults are what measurement favoured (docs/results.md)."""

    layers: str = "all"
    """Layers to read: all, last, or numbers such as 0,2,4 (0 is the embeddings, -1 the last layer)."""
    pooling: str | None = None
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +. By default
    what suits the encoder: exit+before for a causal LM."""
    spacing: Spacing = "natural"
    """The space before a word: as in running text, or always."""
    context: Context = "document"
    """What an LM reads: the sentence alone, or the document around it, up to the LM's window. Training data without
    document boundaries make it the sentence."""
    sentinel: bool | None = None
    """Start each reading with the end-of-text piece. By default as the LM was trained."""
    dtype: Precision | None = None
    """Precision of the encoder's computation. By default the fastest on this machine."""
