"""The kinds of heads by name, and the options of each.

    linear, mlp, block, bilstm     a tag per word        `heads.bodies`, `heads.tagging`
    ridge                          a tag per word        `heads.ridge_tags`
    span                           spans                 `heads.span`
    auto-pool                      lda-pool or mlp-pool, by the training set
    mlp-pool, bilstm-pool          classes of a text     `heads.pooled`
    ridge-pool, lda-pool           a class per text      `heads.ridge_pool`, `heads.lda_pool`
    centroid-pool                  classes of a text     `heads.centroid_pool`; of names, too
    score-pool                     a number per text     `heads.pooled`
    pair, pair-score               a class or a number   `heads.pairs`
    relation                       a class of two places `heads.relation`
    answer                         answers to questions  `heads.questions`
    centroids                      the sense of a word   `heads.centroids`
    embedding, statistics          a vector of a text    `heads.embedding`, `heads.embedding`

A new kind is a body or a subclass of `Head`, and one line in `HEADS`. torch is not imported here: command lines list
the kinds and their options, so a kind names what it is made of, which is imported when it is made.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from boustro.choose import choose, named
from boustro.heads.options import (
    AnswerOptions,
    CentroidOptions,
    CentroidPoolOptions,
    ClassOptions,
    EmbeddingOptions,
    HeadOptions,
    HiddenSequenceOptions,
    HiddenTextOptions,
    PairOptions,
    RelationOptions,
    SequenceOptions,
    SpanOptions,
    StatisticsOptions,
    TagOptions,
    TextOptions,
)

if TYPE_CHECKING:
    from boustro.heads.base import Head


class HeadKind(NamedTuple):
    """A kind of head: what it learns, its class, what makes its body, and its options."""

    labelling: str
    """A key of `boustro.tasks.labellings.LEARNED`: tags, spans, class, …"""
    head: str
    """module:name of a subclass of `Head`; a leading dot stands for `boustro.heads`."""
    body: str
    """module:name of a function or class that makes a module, see `heads.base.MakeBody`."""
    options: type[HeadOptions]
    reads: Literal["text"] | None = None
    """The states that it reads of a folder of sentence-transformers, in place of those of its task."""

    def option_names(self) -> set[str]:
        """Return the names of its options."""
        return {option.name for option in fields(self.options)}

    def has(self, option: str) -> bool:
        """Return whether this is one of them."""
        return option in self.options.__dataclass_fields__


AUTO_POOL = "auto-pool"
HEADS: dict[str, HeadKind] = {
    "linear": HeadKind("tags", ".tagging:TaggingHead", ".bodies:linear", SequenceOptions),
    "mlp": HeadKind("tags", ".tagging:TaggingHead", ".bodies:mlp", HiddenSequenceOptions),
    "block": HeadKind("tags", ".tagging:TaggingHead", ".bodies:Block", HiddenSequenceOptions),
    "bilstm": HeadKind("tags", ".tagging:TaggingHead", ".bodies:BiLSTM", HiddenSequenceOptions),
    "ridge": HeadKind("tags", ".ridge_tags:RidgeTagger", ".ridge_tags:TwoRidges", TagOptions),
    "span": HeadKind("spans", ".span.head:SpanHead", ".span.head:SpanScorer", SpanOptions),
    AUTO_POOL: HeadKind("class", ".pooled:PooledHead", ".pooled:PooledMLP", ClassOptions),
    "mlp-pool": HeadKind("class", ".pooled:PooledHead", ".pooled:PooledMLP", ClassOptions),
    "bilstm-pool": HeadKind("class", ".pooled:PooledHead", ".pooled:PooledBiLSTM", ClassOptions),
    "ridge-pool": HeadKind("class", ".ridge_pool:PooledRidge", ".ridge_pool:RidgeSums", TextOptions),
    "lda-pool": HeadKind("class", ".lda_pool:PooledLDA", ".lda_pool:Discriminant", TextOptions),
    "centroid-pool": HeadKind(
        "class", ".centroid_pool:CentroidPool", ".centroid_pool:Centroids", CentroidPoolOptions, "text"
    ),
    "score-pool": HeadKind("score", ".pooled:PooledScoreHead", ".pooled:PooledMLP", HiddenTextOptions),
    "answer": HeadKind("answers", ".questions:QuestionHead", ".questions:SpanReader", AnswerOptions),
    "pair": HeadKind("pair", ".pairs:PairHead", ".pairs:PairBody", PairOptions),
    "pair-score": HeadKind("pair-score", ".pairs:PairScoreHead", ".pairs:PairBody", PairOptions),
    "relation": HeadKind("relation", ".relation:RelationHead", ".relation:MarkedPlaces", RelationOptions),
    "centroids": HeadKind("senses", ".centroids:CentroidHead", ".centroids:CentroidBody", CentroidOptions),
    "embedding": HeadKind("pair-vectors", ".embedding:EmbeddingHead", ".embedding:EmbeddingBody", EmbeddingOptions),
    "statistics": HeadKind("vectors", ".embedding:StatisticsHead", ".embedding:StatisticsBody", StatisticsOptions),
}


def head_kind(name: str) -> HeadKind:
    """Return a kind of head; `ValueError` for an unknown one."""
    return choose(name, HEADS, "head")


def head_class(kind: str) -> "type[Head]":
    """Return the class of a kind of head; `ValueError` for an unknown one."""
    return named(head_kind(kind).head, __package__)


def make_head(
    kind: str, options: HeadOptions, streams: Sequence[tuple[Any, ...]], labels: Sequence[str], side: int = 0
) -> "Head":
    """Return a head with randomly initialised weights.

    Args:
        kind: A key of `HEADS`.
        options: Of the kind's own class; `hidden=None` means the width of the body's input.
        streams: Of each the shape, see `encoders.base.Stream.shape`: (layers, width), and what else is to be known.
        labels: Tags, entity types or classes; their order is that of the scores.
        side: Side features of each word, behind the streams'.

    Raises `ValueError` for an unknown kind, and for options that its class refuses.
    """
    made = head_kind(kind)
    assert isinstance(options, made.options), f"a {kind} head needs {made.options.__name__}"
    return named(made.head, __package__)(kind, named(made.body, __package__), options, streams, labels, side)


class HeadShape(NamedTuple):
    """Shape that heads of one kind share, whatever their options; arguments as of `make_head`."""

    kind: str
    streams: tuple[tuple[Any, ...], ...]
    labels: tuple[str, ...]
    side: int = 0

    def make(self, options: HeadOptions) -> "Head":
        """Return a head with randomly initialised weights."""
        return make_head(self.kind, options, *self[1:])


def owners(option: str, kinds: Sequence[str]) -> list[str]:
    """Return the kinds, of these, that have an option."""
    return [kind for kind in kinds if HEADS[kind].has(option)]
