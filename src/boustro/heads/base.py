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

From a stream's layers to one vector per word: standardise, then mix with learned weights, or concatenate.

    mix      γ · Σ_l softmax(w)_l · (x_l - mean_l) / sd_l
    concat   [(x_0 - mean_0) / sd_0 ; … ; (x_n - mean_n) / sd_n]

`mean` and `sd` are per layer and dimension, computed on the training set and stored with the head: otherwise a few
large dimensions would dominate the rest, and a large LM a small one. Sources: ELMo (Peters et al. 2018) for the scalar
mix with γ; Jurafsky and Martin, chapter 11.3.2, for standardising. A stream may have fewer components than dimensions
(`encoders.base.Stream`): it is then read along so many principal components of the training set, which shortens every
step of training by the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.decoding import LikelyWords
from boustro.heads.inputs import HeadInputs
from boustro.heads.options import HeadOptions
from boustro.heads.registry import HeadShape

SAMPLED_WORDS = 20_000  # words that components are found among
RowNumbers = np.ndarray | None


class LayerConcat(nn.Module):
    """(B, L, D) → (B, L·D). Nothing is learned."""

    mean: Tensor
    scale: Tensor
    axes: Tensor | None
    learned = False

    def __init__(self, num_layers: int, width: int, standardise: bool = True, components: int | None = None) -> None:
        super().__init__()
        self.standardise = standardise
        self.width = num_layers * width if components is None else components  # of the result
        self.register_buffer("mean", torch.zeros(num_layers, width))
        self.register_buffer("scale", torch.ones(num_layers, width))
        assert components is None or num_layers == 1, "components are those of one layer"
        self.register_buffer("axes", None if components is None else torch.eye(width, components))

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B d"]:
        joined = self.standardised(x).flatten(1)
        return joined if self.axes is None else joined @ self.axes

    def standardised(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """In float32; with `standardise`, mean 0 and standard deviation 1 on the training set."""
        x = x.float()
        return torch.addcmul(-self.mean * self.scale, x, self.scale) if self.standardise else x

    def fit(self, features: np.ndarray, rows: RowNumbers = None, block: int = 512) -> None:
        """Compute mean and standard deviation of features (words, L, D), in one pass over blocks that fit a cache, and
        the principal components of some of them; `rows` are those of the words that count, by default all."""
        if self.standardise:
            self._fit_standardisation(features, rows, block)
        if self.axes is not None:
            count = len(features) if rows is None else len(rows)
            chosen = slice(None, None, count // SAMPLED_WORDS + 1)
            some = torch.from_numpy(np.array(features[chosen if rows is None else rows[chosen]]))
            self.axes.copy_(span_components(self.standardised(some)[:, 0], self.axes.shape[1]))

    def _fit_standardisation(self, features: np.ndarray, rows: RowNumbers, block: int) -> None:
        total = torch.zeros(self.mean.shape, dtype=torch.float64)
        squares, count = torch.zeros_like(total), len(features) if rows is None else len(rows)
        for start in range(0, count, block):
            some = slice(start, start + block)
            part = torch.from_numpy(np.array(features[some if rows is None else rows[some]])).float()
            total += part.sum(0).double()
            squares += part.square_().sum(0).double()
        mean = total / max(count, 1)
        variance = (squares / max(count, 1) - mean.square()).clamp_min(0)
        self.mean.copy_(mean)
        # a dimension that is constant in training must not blow up rounding
        self.scale.copy_(1 / variance.sqrt().clamp_min(1e-3))

    def layer_weights(self) -> list[float]:
        """Return the weights of the layers, which sum to 1."""
        return [1 / len(self.mean)] * len(self.mean)


def span_components(x: Float[Tensor, "N D"], count: int) -> Float[Tensor, "D R"]:
    """Axes, orthonormal, that span the `count` largest principal components, by subspace iteration: a quarter of the
    time of eigenvectors. Source: Halko, Martinsson and Tropp 2011, section 4.5."""
    covariance = torch.cov(x.T, correction=0)
    axes = torch.randn(x.shape[1], count, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        axes, _ = torch.linalg.qr(covariance @ axes)
    return axes


class LayerMix(LayerConcat):
    """(B, L, D) → (B, D), or (B, R) where there are R components.

    With one layer there is nothing to learn, and no γ and no weights.
    """

    def __init__(self, num_layers: int, width: int, standardise: bool = True, components: int | None = None) -> None:
        super().__init__(num_layers, width, standardise, components)
        self.width = components or width
        self.learned = num_layers > 1
        self.weights = nn.Parameter(torch.zeros(num_layers)) if self.learned else None
        self.gamma = nn.Parameter(torch.ones(())) if self.learned else None

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B d"]:
        if self.weights is None or self.gamma is None:
            return super().forward(x)
        weights = (self.gamma * self.weights.softmax(0)).expand(len(x), 1, -1)
        return torch.bmm(weights, self.standardised(x)).squeeze(1)

    def layer_weights(self) -> list[float]:
        """Return the learned weights of the layers, which sum to 1."""
        return [1.0] if self.weights is None else self.weights.detach().softmax(0).tolist()


class Mixes(nn.ModuleList):
    """Those of a head, one per stream."""

    def __iter__(self) -> Iterator[LayerConcat]:
        return cast("Iterator[LayerConcat]", super().__iter__())

    def fit(self, streams: Sequence[np.ndarray], rows: RowNumbers = None) -> None:
        """Fit every stream's mix, as `LayerConcat.fit`, to features (words, L, D) of every stream."""
        for mix, stream in zip(self, streams, strict=True):
            mix.fit(stream, rows)


MIXES: dict[str, type[LayerConcat]] = {"mix": LayerMix, "concat": LayerConcat}


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
        """Return one vector per word: the layers (N, L, D) of every stream mixed, the streams joined."""
        return torch.cat([mix(x) for mix, x in zip(self.mixes, streams, strict=True)], dim=-1)

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Any) -> Tensor:
        """Return the training loss of a batch, given mixed vectors with their side features; closed forms have none."""
        raise NotImplementedError

    def scores_by_name(self, pooled: Tensor, named: tuple[Tensor, Any], unlabelled: Tensor | None = None) -> Any:
        """Return (S, C): scores of pooled texts (S, e) by the names of labels alone, of a head that `takes_names`; see
        `lda_pool.PooledLDA`."""
        raise NotImplementedError

    @abstractmethod
    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        """Return the prediction for each example, given mixed vectors with their side features."""

    def graph(self, vectors: Float[Tensor, "N d"], *given: Tensor) -> Tensor:
        """Return the output of an exported graph, from which `boustro.apps.runtime.parts` reads the prediction: here
        the scores.

        `given` are the inputs that the graph of this kind has besides vectors, such as the lengths of the sentences.
        """
        lengths = given[0] if given else torch.zeros(1, dtype=torch.int64)
        return self.body(vectors, lengths)

    def soften(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Any:
        """Return the whole distribution that this head gives at its temperature, which a head with the same labels can
        learn.

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
