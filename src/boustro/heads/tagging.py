"""Heads: what turns the frozen vectors of words into tags.

    linear   p = softmax(W · h)
    mlp      p = softmax(W2 · ReLU(W1 · h)),  W1: d → hidden (d → d in the paper)
    block    a Transformer block, and bilstm: see `heads.sequence`
    span     scores spans, not words: see `heads.span`

h is the concatenation of the mixed streams (d is its width). Source: backward-LM paper, section 3.3.

Letters: N words of a batch, end to end without padding; S sentences; d width; C tags. `lengths` (S,) tells
how many words each sentence has; a body that looks at single words ignores it.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from boustro.heads.crf import CRF, viterbi
from boustro.heads.dropout import Dropout
from boustro.heads.mix import MIXES, StreamProjection
from boustro.heads.sequence import BiLSTM, Block
from boustro.heads.span import Gold, SpanHead
from boustro.heads.span_decoding import FoundSpan


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What a head is made of; `streams` are (layers, width) pairs, `hidden` None means d.

    `labels` are the tags, or the types of a head that labels spans. `project` gives every stream that width
    first. `crf` decodes with a conditional random field; without one, `decode` is "valid" or "argmax", see
    `DECODERS`. A span has at most `max_span` words.
    """

    kind: str
    streams: tuple[tuple[int, int], ...]
    labels: tuple[str, ...]
    hidden: int | None = None
    dropout: float = 0.1
    standardise: bool = True
    combine: str = "mix"
    project: int | None = None
    crf: bool = False
    decode: str = "valid"
    max_span: int | None = None


class Head(nn.Module):
    """A mix of layers per stream, the streams joined; a subclass says what it learns from them and what it answers."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        make = MIXES[config.combine]
        self.mixes = nn.ModuleList(make(layers, width, config.standardise) for layers, width in config.streams)
        self.widths = [int(mix.width) for mix in self.mixes]  # type: ignore[arg-type]
        self.projection = StreamProjection(self.widths, config.project) if config.project else None

    @property
    def width(self) -> int:
        """d, of what the body reads."""
        return self.config.project * len(self.widths) if self.config.project else sum(self.widths)

    def mix(self, streams: list[Float[Tensor, "N _ _"]]) -> Float[Tensor, "N d"]:
        """One vector a word: the layers (N, L, D) of every stream mixed, the streams joined."""
        return torch.cat([mix(x) for mix, x in zip(self.mixes, streams, strict=True)], dim=-1)

    def learned_parameters(self) -> list[nn.Parameter]:
        """All but the mixes', which learn at a rate of their own."""
        mixes = {id(p) for p in self.mixes.parameters()}
        return [p for p in self.parameters() if id(p) not in mixes]

    def project(self, vectors: Float[Tensor, "N d"]) -> Float[Tensor, "N e"]:
        """Mixed vectors as the body reads them."""
        return self.projection(vectors) if self.projection is not None else vectors

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Any) -> Tensor:
        """The training loss of a batch of sentences, given mixed vectors."""
        raise NotImplementedError

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[Any]:
        """What the head answers for each sentence, given mixed vectors."""
        raise NotImplementedError

    def calibrate(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Any) -> None:
        """After training: set what is better chosen on the development set than learned."""


class PerWord(nn.Sequential):
    """A body that looks at every word by itself."""

    def forward(self, x: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N C"]:
        for module in self:
            x = module(x)
        return x


def linear(width: int, config: HeadConfig) -> nn.Module:
    """One affine map."""
    return PerWord(Dropout(config.dropout), nn.Linear(width, len(config.labels)))


def mlp(width: int, config: HeadConfig) -> nn.Module:
    """Two affine maps with a ReLU between them."""
    hidden = config.hidden or width
    return PerWord(
        Dropout(config.dropout),
        nn.Linear(width, hidden),
        nn.ReLU(),
        Dropout(config.dropout),
        nn.Linear(hidden, len(config.labels)),
    )


BODIES: dict[str, Callable[[int, HeadConfig], nn.Module]] = {
    "linear": linear,
    "mlp": mlp,
    "block": lambda width, c: Block(width, len(c.labels), c.hidden, c.dropout),
    "bilstm": lambda width, c: BiLSTM(width, len(c.labels), c.hidden, c.dropout),
}


DECODERS: dict[str, Callable[[Tensor, Tensor, Sequence[str]], Tensor]] = {
    "valid": viterbi,
    "argmax": lambda scores, lengths, labels: scores.argmax(-1),
}


class TaggingHead(Head):
    """A body scores the tags of every word; the best valid sequence is taken, under a CRF if there is one.

    Targets are tag ids (N,). The answer for a sentence is (tag ids (W,), their probabilities (W,)).
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config)
        self.body = BODIES[config.kind](self.width, config)
        self.crf = CRF(config.labels) if config.crf else None

    def scores(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "N C"]:
        """A score (logit) for every tag of every word."""
        return self.body(self.project(vectors), lengths)

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Tensor) -> Tensor:
        scores = self.scores(vectors, lengths)
        return self.crf.loss(scores, targets, lengths) if self.crf else F.cross_entropy(scores, targets)

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
        scores = self.scores(vectors, lengths)
        if self.crf:
            ids, probabilities = self.crf.decode(scores, lengths), self.crf.marginals(scores, lengths)
        else:
            probabilities = scores.softmax(-1)
            ids = DECODERS[self.config.decode](scores, lengths, self.config.labels)
        sure = probabilities.gather(1, ids[:, None]).squeeze(1)
        ends = np.cumsum(lengths.cpu().numpy())[:-1]
        return list(zip(np.split(ids.cpu().numpy(), ends), np.split(sure.cpu().numpy(), ends), strict=True))


class SpanTaggingHead(Head):
    """Labels spans instead of words, so that entities may hold each other.

    Targets and answers are, per sentence, tuples (start, end, label id), an answer with its probability.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config)
        hidden = config.hidden or self.width
        self.body = SpanHead(self.width, len(config.labels), hidden, config.max_span or 10, config.dropout)

    def loss(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Gold) -> Tensor:
        return self.body.loss(self.project(vectors), lengths, targets)

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[list[FoundSpan]]:
        return self.body.predict(self.project(vectors), lengths)

    def calibrate(self, vectors: Float[Tensor, "N d"], lengths: Tensor, targets: Gold) -> None:
        """The probability from which on a span is kept."""
        with torch.inference_mode():
            self.body.calibrate(self.project(vectors), lengths, targets)


HEADS: dict[str, type[Head]] = {**dict.fromkeys(BODIES, TaggingHead), "span": SpanTaggingHead}


def head_class(kind: str) -> type[Head]:
    """The class of a kind of head; `ValueError` for an unknown one."""
    if kind not in HEADS:
        near = difflib.get_close_matches(kind, HEADS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown head {kind!r}: known are {', '.join(HEADS)}{hint}")
    return HEADS[kind]


def make_head(config: HeadConfig) -> Head:
    """A head with its weights drawn; `ValueError` for an unknown kind, and for a CRF over spans."""
    make = head_class(config.kind)
    if config.crf and make is not TaggingHead:
        raise ValueError(f"a CRF needs a head that scores tags, which {config.kind} does not; leave --crf out")
    return make(config)
