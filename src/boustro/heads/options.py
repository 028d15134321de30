"""What can be chosen about a head and its training. torch is not imported here: command lines list these options."""

from dataclasses import dataclass
from typing import Annotated, Literal

from boustro.options import Count, CountOrZero, Dropout, Positive, PositiveOrZero, Range, Width


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """What a head computes; the defaults are what measurement favoured (docs/results.md)."""

    combine: Literal["mix", "concat"] = "mix"
    """How several layers are combined: mixed with learned weights, or concatenated."""
    standardise: bool = True
    """Bring every layer and dimension to mean 0 and standard deviation 1."""
    project: Width | None = None
    """Give every stream this width by a learned linear map. By default there is no such map."""
    hidden: Width | None = 512
    """Width inside the head; None for the width of its input."""
    dropout: Dropout = 0.3
    """Dropout probability inside the head."""
    crf: bool | None = None
    """Decode with a conditional random field on top of the head. By default wherever the head scores tags."""
    decode: Literal["valid", "argmax"] = "valid"
    """Without a CRF: the best valid sequence of tags, or the best tag of each word."""
    threshold: Annotated[float, Range(0.01, 0.99)] | None = None
    """With a CRF: answer every entity that has at least this probability, of overlapping ones the most probable. Lower
    finds more; half of the F1 that you expect is a good value. By default the best sequence of tags."""
    max_span: Annotated[int, Range(1, 1000)] | None = None
    """Longest entity, in words, that a span head can find; by default nearly all of the training data's fit. The same
    for --threshold, by default 12."""


@dataclass(frozen=True, kw_only=True)
class PairOptions(HeadOptions):
    """What a head that compares two texts computes."""

    symmetric: bool = True
    """Compare two texts without regard to their order. Turn it off where the order matters, as for entailment."""


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """How a head is trained by gradient descent."""

    epochs: Count = 20
    """Passes over the training data."""
    lr: Positive = 1e-3
    """Peak learning rate of AdamW; it decays linearly to 0."""
    batch_sentences: Count | None = None
    """Sentences per step. By default 32, fewer for small training sets, so that an epoch has a dozen steps."""
    weight_decay: PositiveOrZero = 0.01
    """Weight decay of AdamW."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(StepOptions):
    """How a head and its mix of layers are trained."""

    mix_epochs: CountOrZero = 4
    """Epochs that learn the mix of layers; after them it is frozen."""
    mix_lr_multiplier: PositiveOrZero = 10.0
    """Learning rate of the mix of layers, as a multiple of --lr."""
