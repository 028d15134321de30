"""What can be chosen about few-shot features and heads, and the settings of the two protocols.

Nothing slow is imported here, because command lines list these options.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from boustro.encoders.options import UPPER, ReadingOptions
from boustro.heads.options import StepOptions
from boustro.options import Count, CountOrZero, Dropout, PresetOptions, Width

AUTO = "auto"
Protocol = Literal["sound", "paper"]


@dataclass(frozen=True, kw_only=True)
class ShotOptions(PresetOptions, StepOptions, ReadingOptions):
    """How few-shot features are read and heads are trained; a protocol is a preset of these options."""

    layers: str = UPPER
    """Layers to read and average: upper (the upper half), all, last, or numbers such as 2,3,4."""
    standardise: bool = True
    """Bring every layer and dimension to mean 0 and standard deviation 1."""
    pool_mentions: bool = False
    """Read a word also by the mean vector of its mentions in the document, where data have document boundaries."""
    spelling: bool = False
    """Read a word also by its letters: character n-grams and shape. For LMs that have read little of the language."""
    self_train: CountOrZero = 0
    """Let the head tag so many other sentences of the training set, whose labels are not used, and train it once more
    on them and its draw (self-training, for entities). 0 is off."""
    hidden: Width | None = 512
    """Width inside the mlp; None for the width of its input."""
    dropout: Dropout = 0.3
    """Dropout probability inside the head."""
    batch_sentences: Count = 4
    """Sentences per step."""

    preset_option: ClassVar[str] = "protocol"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "sound": {},
        "paper": {  # sections 3.2 to 3.4
            "layers": "last",
            "pooling": "first",
            "spacing": "always",
            "context": "sentence",
            "standardise": False,
            "hidden": None,
        },
    }


SOUND = ShotOptions()
