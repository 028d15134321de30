"""The kinds of heads by name.

    kind      labels    output
    linear    words     softmax(W · h)
    mlp       words     softmax(W2 · ReLU(W1 · h)),  W1: d → hidden (d → d in the paper)
    block     words     a Transformer block between two affine maps
    bilstm    words     a bidirectional LSTM and an affine map
    span      spans     scores of all spans, so that entities may be nested

A new kind is a body or a subclass of `Head`, and one line in `HEADS`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from boustro.choose import choose
from boustro.heads.base import Head, MakeBody
from boustro.heads.options import HeadOptions
from boustro.heads.sequence import BiLSTM, Block
from boustro.heads.span import SpanHead
from boustro.heads.tagging import SpanTaggingHead, TaggingHead, linear, mlp


class Kind(NamedTuple):
    """The class of a head and its body."""

    head: type[Head]
    body: MakeBody


HEADS: dict[str, Kind] = {
    "linear": Kind(TaggingHead, linear),
    "mlp": Kind(TaggingHead, mlp),
    "block": Kind(TaggingHead, lambda width, labels, o: Block(width, labels, o.hidden, o.dropout)),
    "bilstm": Kind(TaggingHead, lambda width, labels, o: BiLSTM(width, labels, o.hidden, o.dropout)),
    "span": Kind(
        SpanTaggingHead,
        lambda width, labels, o: SpanHead(width, labels, o.hidden or width, o.max_span or 10, o.dropout),
    ),
}


def head_class(kind: str) -> type[Head]:
    """The class of a kind of head; `ValueError` for an unknown one."""
    return choose(kind, HEADS, "head").head


def make_head(kind: str, options: HeadOptions, streams: Sequence[tuple[int, int]], labels: Sequence[str]) -> Head:
    """A head with randomly initialised weights.

    Args:
        kind: A key of `HEADS`.
        options: `crf=None` means a CRF where the head scores tags; `hidden=None` means the width of the body's input.
        streams: (layers, width) of each stream.
        labels: Tags, entity types or classes; the order is that of the scores.

    Raises `ValueError` for an unknown kind, and for a CRF on a head that does not score tags.
    """
    head, body = choose(kind, HEADS, "head")
    if options.crf and head.labelling != "tags":
        raise ValueError(f"a CRF needs a head that scores tags, which {kind} does not; leave --crf out")
    return head(kind, body, options, streams, labels)
