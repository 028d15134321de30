"""Base class of heads: layers mixed per stream, streams joined, and a body that a subclass trains and reads.

    head = make_head("mlp", HiddenSequenceOptions(), streams=((7, 256), (7, 256)), labels=("O", "B-PER", "I-PER"))
    head.loss(head.mix(features), lengths, targets).backward()
    head.predict(head.mix(features), lengths)

h, the input of the body, is the concatenation of the mixed streams, and of the side features where there are some. A
subclass defines its loss and decodes its output; `heads.registry` lists the kinds, with what each learns. Source:
backward-LM paper, section 3.3.

Shapes: N words of a batch, its sentences end to end without padding; S sentences; d width; F side features (features
of words that are not the encoder's, such as whether a word stands in the question); C labels. `lengths` (S,) holds the
number of words of each sentence. Where an example has `parts` sentences, those of an example follow each other.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.decoding import LikelyWords
from boustro.heads.inputs import HeadInputs
from boustro.heads.mix import MIXES, Mixes
from boustro.heads.options import HeadOptions
from boustro.heads.registry import HeadShape

MakeBody = Callable[[int, int, Any], nn.Module]
"""From the width of the input, the number of labels, and the options, of the class that the kind of head names."""


class Head(nn.Module, ABC):
    """A mix of layers per stream, the streams joined, and a body; `make_head` makes one.

    `streams` are their shapes, as of `make_head`; `labels` are what the head predicts: tags, entity types or classes.
    """

    parts: ClassVar[int] = 1
    """Sentences per example."""
    closed_form: ClassVar[bool] = False
    """Whether it is trained at once, by `solve(pool(vectors, lengths), targets, lengths, kin)`, and not by its loss."""
    alone: ClassVar[bool] = False
    """Whether a model of words stands beside it only where that is asked for."""
    takes_names: ClassVar[bool] = False
    """Whether `solve` also learns what the labels are called, from `named`, where a stream has vectors of texts."""
    knows_kinds: ClassVar[bool] = False
    """Whether it answers types without an example that are called as kinds of names are, where a stream tells these."""
    has_temperature: ClassVar[bool] = False
    """Whether `temperature` has an effect: it changes probabilities and no answer."""
    mixed_precision: ClassVar[bool] = False
    """Whether its loss may be computed under autocast."""
    is_exported: ClassVar[bool] = False
    """Whether it is a graph that was exported."""
    words: LikelyWords | None = None
    """Words that are answered although they are unlikely, where the head `has_likely_words`."""
    has_likely_words: ClassVar[bool] = False
    """Whether `words` has an effect, where the labels are of entities."""
    temperature: float = 1.0
    """What scores are divided by before they become probabilities, see `tasks.calibrate`."""

    def __init__(
        self,
        kind: str,
        make_body: MakeBody,
        options: HeadOptions,
        streams: Sequence[tuple[Any, ...]],
        labels: Sequence[str],
        side: int = 0,
    ) -> None:
        super().__init__()
        self.kind, self.options, self.streams, self.labels = kind, options, tuple(streams), tuple(labels)
        self.side = side
        mix = MIXES[options.combine]
        self.mixes = Mixes(mix(layers, width, options.standardise, *few[:1]) for layers, width, *few in streams)
        self.widths = [mix.width for mix in self.mixes]
        self.body = make_body(sum(self.widths) + side, len(self.labels), options)

    @property
    def shape(self) -> HeadShape:
        """Shape that it shares with others of its kind, see `heads.solve`."""
        return HeadShape(self.kind, self.streams, self.labels, self.side)

    def mix(self, streams: list[Float[Tensor, "N _ _"]]) -> Float[Tensor, "N d"]:
        """One vector per word: the layers (N, L, D) of every stream mixed, the streams joined."""
        return torch.cat([mix(x) for mix, x in zip(self.mixes, streams, strict=True)], dim=-1)

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Any) -> Tensor:
        """The training loss of a batch, given mixed vectors with their side features; closed forms have none."""
        raise NotImplementedError

    def scores_by_name(self, pooled: Tensor, named: tuple[Tensor, Any], unlabelled: Tensor | None = None) -> Any:
        """(S, C): scores of pooled texts (S, e) by the names of labels alone, of a head that `takes_names`; see
        `lda_pool.PooledLDA`."""
        raise NotImplementedError

    @abstractmethod
    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        """The prediction for each example, given mixed vectors with their side features."""

    def graph(self, vectors: Float[Tensor, "N d"], *given: Tensor) -> Tensor:
        """Return the output of an exported graph, from which `boustro.apps.runtime.parts` reads the prediction: here
        the scores.

        `given` are the inputs that the graph of this kind has besides vectors, such as the lengths of the sentences.
        """
        lengths = given[0] if given else torch.zeros(1, dtype=torch.int64)
        return self.body(vectors, lengths)

    def soften(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Any:
        """The whole distribution that this head gives at its temperature, which a head with the same labels can learn.

        It is a target of its `loss`, or of texts the scores (S, C) that their labelling makes one of
        (`TextLabelling.soften`). `ValueError` for a kind of head that has none.
        """
        raise ValueError(
            f"a {self.kind} head gives no distribution that another could learn; use one that scores tags or classes"
        )

    def outputs(self, inputs: HeadInputs, candidates: bool = False) -> list[Any]:
        """Return an output for each example, as `heads.training.predict_inputs`."""
        from boustro.heads.training import predict_inputs

        return predict_inputs(self, inputs, candidates)

    def begin(self, inputs: HeadInputs, mix: Callable[[], Tensor]) -> None:
        """Before training: set what is computed from the training examples, not learned. By default nothing.

        The layers are standardised already; `mix` gives the mixed vectors of all words of the inputs, as
        `HeadInputs.batch` and `Batch.to_words` take them.
        """

    def facts(self) -> dict[str, Any]:
        """Return facts that training found besides the weights, for the record, as JSON can hold them. By default
        none."""
        return {}

    def candidates(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        """Return what `calibrate` needs of each example. By default the prediction."""
        return self.predict(vectors, lengths)

    def calibrate(self, candidates: list[Any], targets: Any) -> None:
        """After training: set what is chosen on the development set, not learned. By default nothing."""
