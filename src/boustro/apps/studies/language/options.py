"""The options of `boustro language`. torch is not imported here: command lines list these options."""

from dataclasses import dataclass
from typing import Annotated

from boustro.options import Count, Positive, Range, Seed, check_options
from boustro.text.tokenizers import LEAST_PIECES


@dataclass(frozen=True, kw_only=True)
class LanguageOptions:
    """What is made of a language's text, and how long it may take."""

    minutes: Positive = 60.0
    """Minutes that everything may take on this machine; the pieces that the LMs read follow from them."""
    vocabulary: Annotated[int, Range(LEAST_PIECES, 2**20)] = 8192
    """Pieces of the tokenizer."""
    preset: str = "mini"
    """Architecture of both LMs, as for boustro pretrain."""
    segment_length: Annotated[int, Range(2, 2**20)] = 256
    """Pieces per segment, and the LMs' context window."""
    batch_segments: Count = 16
    """Segments per optimiser step."""
    passes: Count = 4
    """The most passes over the text."""
    epochs: Count = 20
    """Passes of the tagger's head over the labelled sentences."""
    seeds: Count = 1
    """Taggers of each system of the report."""
    seed: Seed = 1
    """Seed of the LMs' weights and data order."""
    compile: bool = True
    """Compile the LMs with torch.compile (needs a C++ compiler on a CPU)."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range."""
        check_options(self)


DEFAULT_LANGUAGE = LanguageOptions()
