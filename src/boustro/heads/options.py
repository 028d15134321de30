"""Options of heads and of their training. torch is not imported here: command lines list these options."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeVar

from boustro.options import (
    Count,
    CountOrZero,
    DropoutRate,
    Positive,
    PositiveOrZero,
    Range,
    Where,
    Width,
    check_options,
)

Options = TypeVar("Options", bound="HeadOptions")
Pooling = TypeVar("Pooling", bound="PoolingOptions")

EPOCHS, FEWEST_EPOCHS, STEPS_IN_ALL = 20, 10, 5300
"""By default so many passes over the training data, fewer where these are more steps than the last, down to the second:
a head over CoNLL-2003 gains 0.2 points by 20 in place of 12, and none on entities never seen (docs/log.md)."""
MIX_EPOCHS = 4
"""Likewise of a mix of layers, down to 1, with a fifth of the steps."""
FEW_EXAMPLES = 100
"""Examples, below which the mix of layers is their mean, so that several heads take their steps together; and a CPU
computes in float32, since products of so few words in bf16 are no faster there. So the kind of head is chosen, too
(`fitting.choice`)."""
MIXED, WITH_CRF = Where("combine", ("mix",)), Where("crf", (None, True))
Transformed = Literal["raw", "standardised", "top-removed", "whitened"]
"""A key of `heads.transforms.TRANSFORMS`."""


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """Options that every head has; the defaults are what measurement favoured (docs/results.md)."""

    combine: Literal["mix", "concat"] = "mix"
    """How several layers are combined: mixed with learned weights, or concatenated."""
    standardise: bool = True
    """Bring every layer and dimension to mean 0 and standard deviation 1."""

    __post_init__ = check_options

    def for_data(self, longest: int | None) -> "HeadOptions":
        """Return the options for data whose longest span has so many words."""
        return self

    @property
    def longest(self) -> int:
        """The most words of a span that the head finds; 0 where there is no limit."""
        return 0

    @property
    def shares_steps(self) -> bool:
        """Whether many heads with such options may be trained at once, see `heads.solve`."""
        return False


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """How a head is trained by gradient descent."""

    epochs: Count | None = None
    """Passes over the training data. By default 20, fewer over more than 8,000 examples, down to 10."""
    lr: Positive = 1e-3
    """Peak learning rate of AdamW; it decays linearly to 0."""
    batch_sentences: Count | None = None
    """Sentences per step. By default 32, fewer for small training sets, so that an epoch has a dozen steps."""


@dataclass(frozen=True, kw_only=True)
class TrainedOptions(StepOptions, HeadOptions):
    """Heads that are trained by steps, with their mix of layers."""

    dropout: DropoutRate = 0.3
    """Dropout probability inside the head."""
    mix_epochs: Annotated[CountOrZero | None, MIXED] = None
    """Epochs that learn the mix of layers, which is then frozen; 0 is the mean of the layers. By default 4, 0 below 100
    examples, fewer than 4 above 8,000."""

    @property
    def shares_steps(self) -> bool:
        return self.mix_epochs == 0 or self.combine == "concat"

    def batch(self, num_examples: int) -> int:
        """Examples per step: by default 32, fewer for small training sets, so that an epoch has a dozen steps."""
        return self.batch_sentences or min(32, max(4, num_examples // 12))

    def passes(self, num_examples: int) -> int:
        """Return how many over so many examples."""
        return self.epochs or self._within(STEPS_IN_ALL, num_examples, FEWEST_EPOCHS, EPOCHS)

    def mix_passes(self, num_examples: int, different: int | None = None) -> int:
        """Return how many of them learn the mix of layers, where so many of the examples are no copies; by default
        all."""
        if self.mix_epochs is not None:
            return self.mix_epochs
        few = (num_examples if different is None else different) < FEW_EXAMPLES
        return 0 if few else self._within(STEPS_IN_ALL // 5, num_examples, 1, MIX_EPOCHS)

    def _within(self, steps: int, num_examples: int, fewest: int, most: int) -> int:
        """Return the passes over so many examples that take about so many steps, within limits."""
        return min(most, max(fewest, round(steps * self.batch(num_examples) / max(1, num_examples))))


@dataclass(frozen=True, kw_only=True)
class HiddenOptions(TrainedOptions):
    """Heads with a layer of hidden units."""

    hidden: Width | None = 512
    """Width inside the head; None for the width of its input."""


@dataclass(frozen=True, kw_only=True)
class TagOptions(HeadOptions):
    """Heads that score tags of words."""

    tag_scheme: Literal["bio", "io", "bioes"] = "bio"
    """Tag scheme that the head learns. Output is always BIO."""


@dataclass(frozen=True, kw_only=True)
class SequenceOptions(TagOptions, TrainedOptions):
    """Heads that score tags and choose a sequence of them."""

    crf: bool | None = None
    """Decode with a conditional random field on top of the head. By default it does."""
    decode: Annotated[Literal["valid", "argmax"], Where("crf", (False,))] = "valid"
    """Without a CRF: the best valid sequence of tags, or the best tag of each word."""
    threshold: Annotated[Annotated[float, Range(0.01, 0.99)] | None, WITH_CRF] = None
    """With a CRF: answer every entity that has at least this probability, of overlapping ones the most probable. Lower
    finds more; half of the F1 that you expect is a good value. By default the best sequence of tags."""
    max_span: Annotated[Annotated[int, Range(1, 1000)] | None, WITH_CRF] = None
    """With a threshold, or a promise of recall: the longest entity that is answered, in words; by default 12."""


@dataclass(frozen=True, kw_only=True)
class HiddenSequenceOptions(SequenceOptions, HiddenOptions):
    """Heads that score tags from hidden units."""


@dataclass(frozen=True, kw_only=True)
class SpanOptions(HiddenOptions):
    """Heads that score spans of words."""

    max_span: Annotated[int, Range(1, 1000)] | None = None
    """Longest span that the head can find, in words; by default nearly all of the training data's fit."""

    def for_data(self, longest: int | None) -> "SpanOptions":
        return replace(self, max_span=self.max_span or longest)

    @property
    def longest(self) -> int:
        return self.max_span or 0


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(SpanOptions):
    """Heads that answer questions."""

    hidden: Width | None = 64
    epochs: Count | None = 3
    lr: Positive = 2e-3
    mix_epochs: Annotated[CountOrZero | None, MIXED] = 0
    """Epochs that learn the mix of layers; after them it is frozen. 0 is the mean of the layers."""


@dataclass(frozen=True, kw_only=True)
class TextOptions(HeadOptions):
    """Heads for whole texts."""

    combine: Literal["mix", "concat"] = "concat"


@dataclass(frozen=True, kw_only=True)
class CentroidPoolOptions(TextOptions):
    """Heads that compare a text with the centroid of each label."""

    standardise: bool = False
    """Bring every layer and dimension to mean 0 and standard deviation 1."""


@dataclass(frozen=True, kw_only=True)
class HiddenTextOptions(TextOptions, HiddenOptions):
    """Heads for whole texts with a layer of hidden units."""

    epochs: Count | None = 10


@dataclass(frozen=True, kw_only=True)
class ClassOptions(HiddenTextOptions):
    """Heads that label whole texts."""

    class_weights: Literal["balanced"] | None = None
    """balanced: in training every label counts the same, however many examples have it."""


@dataclass(frozen=True, kw_only=True)
class PairOptions(HiddenOptions):
    """Heads that compare two texts."""

    hidden: Width | None = 256
    epochs: Count | None = 8
    batch_sentences: Count | None = 32
    """Pairs per step."""
    symmetric: bool = True
    """Compare two texts without regard to their order. Turn it off where the order matters, as for entailment."""


@dataclass(frozen=True, kw_only=True)
class RelationOptions(ClassOptions):
    """Heads for two marked places of a text."""

    hidden: Width | None = 256
    epochs: Count | None = 6


@dataclass(frozen=True, kw_only=True)
class CentroidOptions(TextOptions):
    """Heads that compare words with the centroids of senses."""

    standardise: bool = False
    """Bring every layer and dimension to mean 0 and standard deviation 1 over all words; --transform does so over those
    with a sense."""
    transform: Transformed = "standardised"
    """What is done to the vectors before they are compared, fitted to the training data."""
    prior: PositiveOrZero | None = None
    """Weight of the logarithm of a sense's frequency beside the cosine. By default what does best on each document of
    the training data without that document."""
    wordnet: str | None = None
    """A folder with WordNet's index.sense, whose first sense lemmas get that the training data lack."""


@dataclass(frozen=True, kw_only=True)
class PoolingOptions:
    """How the words of a text become one vector."""

    text_pooling: Literal["sif", "mean"] | None = None
    """How the words of a text become one vector: mean, or sif (rare words weigh more; a statistics head removes the
    texts' first component, too). By default sif; mean for a table of words, where rare words weigh more already, and
    for a folder of sentence-transformers."""

    def for_vectors(self: Pooling, vectors: bool) -> Pooling:
        """With what is left to the encoder, which may give `vectors` of texts that are used as they are."""
        defaults = (
            {"text_pooling": "mean", "transform": "raw"}
            if vectors
            else {"text_pooling": "sif", "transform": "whitened"}
        )
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name, "") is None})


@dataclass(frozen=True, kw_only=True)
class StatisticsOptions(PoolingOptions, TextOptions):
    """Heads that make a vector of a text without training."""

    standardise: bool = False
    """Bring every layer and dimension to mean 0 and standard deviation 1 over all words; --transform does so over
    texts."""
    transform: Transformed | None = None
    """What is done to the vectors of texts, by statistics of your own ones; raw does nothing. By default whitened; raw
    for a table of words and for a folder of sentence-transformers."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(PoolingOptions, HiddenTextOptions):
    """Heads that make a vector of a text, trained on pairs."""

    hidden: Width | None = 256
    """Width of the map of words; None for the width of its input."""
    epochs: Count | None = 5
    batch_sentences: Count | None = 32
    """Pairs per step; each text of a batch is contrasted with all others."""
