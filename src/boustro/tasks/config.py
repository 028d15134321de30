"""What can be chosen about a tagger, and the two sets of choices that are measured."""

import difflib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from boustro.options import Count, CountOrZero, Dropout, Positive, PositiveOrZero, Range, Width, check_options

MOST_SPAN = 1000


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """The defaults are what measurement favoured (docs/results.md)."""

    encoder: str = "starter"
    """Spec of the encoder: a model, or several joined by +."""
    head: str = "mlp"
    """linear, mlp, block, bilstm or span."""
    crf: bool | None = None
    """Decode with a conditional random field, learned on top of the head; none for wherever the head scores tags."""
    decode: Literal["valid", "argmax"] = "valid"
    """Without a CRF: the best valid sequence of tags, or the best tag of each word."""
    inside: Literal["bio", "io", "bioes"] = "bio"
    """The tags that the head learns: bio, io or bioes; what comes out is BIO always."""
    layers: str = "all"
    """all, last, or numbers such as 0,2,4."""
    combine: Literal["mix", "concat"] = "mix"
    """What is done with several layers: mix, or concat."""
    pooling: str | None = None
    """Where a word is read: exit, before, entry, first, last, mean, or several joined by +; none for what suits
    the encoder."""
    spacing: Literal["natural", "always"] = "natural"
    """natural, or always: a space before every word."""
    context: Literal["sentence", "document"] = "document"
    """What an LM reads: the sentence alone, or the document around it, up to its window. Training data that
    does not say where documents begin makes it the sentence."""
    sentinel: bool | None = None
    """Start each reading with the end-of-text piece; none for what the LM was trained with."""
    standardise: bool = True
    """Bring every layer and dimension to mean 0 and standard deviation 1."""
    project: Width | None = None
    """Give every stream this width by a learned linear map."""
    hidden: Width | None = 512
    """Width inside the head; none for the width of its input."""
    max_span: Annotated[int, Range(1, MOST_SPAN)] | None = None
    """The longest entity that a span head can find, in words; by default nearly all of the training data's fit."""
    dropout: Dropout = 0.3
    epochs: Count = 20
    lr: Positive = 1e-3
    batch_sentences: Count | None = None
    """Sentences a step; by default 32, fewer where there are few of them, so that an epoch has a dozen steps."""
    weight_decay: PositiveOrZero = 0.01
    mix_epochs: CountOrZero = 4
    """Epochs that learn the mix of layers; then it is frozen."""
    mix_lr: PositiveOrZero = 10.0
    """How many times faster the mix learns."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """By default the fastest."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a value that its option does not take."""
        check_options(self)


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {  # section 3.2
        "layers": "last",
        "pooling": "first",
        "spacing": "always",
        "context": "sentence",
        "standardise": False,
        "crf": False,
        "decode": "argmax",
        "hidden": None,
        "dropout": 0.1,
        "epochs": 20,
        "lr": 1e-3,
        "batch_sentences": 32,
    },
}


def make_config(preset: str = "default", **chosen: Any) -> TaggerConfig:
    """A preset with what was chosen put over it; `ValueError` for an unknown preset or option."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}: known are {', '.join(PRESETS)}")
    known = TaggerConfig.__dataclass_fields__
    for name in chosen:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ValueError(f"unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return TaggerConfig(**{**PRESETS[preset], **chosen})
