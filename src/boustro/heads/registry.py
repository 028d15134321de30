"""The kinds of heads by name.

    linear, mlp, block, bilstm     a tag per word        `heads.bodies`, `heads.tagging`
    ridge                          a tag per word        `heads.ridge_tags`
    span                           spans                 `heads.span`
    mlp-pool, bilstm-pool          classes of a text     `heads.pooled`
    ridge-pool                     a class per text      `heads.ridge_pool`
    score-pool                     a number per text     `heads.pooled`
    pair, pair-score               a class or a number   `heads.pairs`
    relation                       a class of two places `heads.relation`
    answer                         answers to questions  `heads.questions`

A new kind is a body or a subclass of `Head`, and one line in `HEADS`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from boustro.choose import choose
from boustro.heads.base import Head, MakeBody
from boustro.heads.bodies import BiLSTM, Block, linear, mlp
from boustro.heads.options import HeadOptions
from boustro.heads.pairs import Comparison, PairHead, PairScoreHead
from boustro.heads.pooled import PooledBiLSTM, PooledHead, PooledMLP, PooledScoreHead
from boustro.heads.questions import QuestionHead, SpanReader
from boustro.heads.relation import MarkedPlaces, RelationHead
from boustro.heads.ridge_pool import PooledRidge, RidgeSums
from boustro.heads.ridge_tags import RidgeTagger, TwoRidges
from boustro.heads.span.head import SpanHead, SpanScorer
from boustro.heads.tagging import TaggingHead


class HeadKind(NamedTuple):
    """The class of a head, and what makes its body."""

    head: type[Head]
    body: MakeBody


HEADS: dict[str, HeadKind] = {
    "linear": HeadKind(TaggingHead, linear),
    "mlp": HeadKind(TaggingHead, mlp),
    "block": HeadKind(TaggingHead, Block),
    "bilstm": HeadKind(TaggingHead, BiLSTM),
    "ridge": HeadKind(RidgeTagger, TwoRidges),
    "span": HeadKind(SpanHead, SpanScorer),
    "mlp-pool": HeadKind(PooledHead, PooledMLP),
    "bilstm-pool": HeadKind(PooledHead, PooledBiLSTM),
    "ridge-pool": HeadKind(PooledRidge, RidgeSums),
    "score-pool": HeadKind(PooledScoreHead, PooledMLP),
    "answer": HeadKind(QuestionHead, SpanReader),
    "pair": HeadKind(PairHead, Comparison),
    "pair-score": HeadKind(PairScoreHead, Comparison),
    "relation": HeadKind(RelationHead, MarkedPlaces),
}


def head_class(kind: str) -> type[Head]:
    """The class of a kind of head; `ValueError` for an unknown one."""
    return choose(kind, HEADS, "head").head


def make_head(
    kind: str, options: HeadOptions, streams: Sequence[tuple[int, int]], labels: Sequence[str], side: int = 0
) -> Head:
    """A head with randomly initialised weights.

    Args:
        kind: A key of `HEADS`.
        options: `crf=None` means a CRF where the head scores tags; `hidden=None` means the width of the body's input.
        streams: (layers, width) of each stream.
        labels: Tags, entity types or classes; their order is that of the scores.
        side: Side features of each word, behind the streams'.

    Raises `ValueError` for an unknown kind, for a CRF on a head that does not score tags, and for a threshold without
    a CRF.
    """
    head, body = choose(kind, HEADS, "head")
    if options.crf and head.labelling != "tags":
        raise ValueError(f"a CRF needs a head that scores tags, which {kind} does not; leave --crf out")
    if options.threshold is not None and (head.labelling != "tags" or options.crf is False or "O" not in labels):
        raise ValueError("a threshold needs a CRF over the tags of entities; leave --threshold out")
    return head(kind, body, options, streams, labels, side)
