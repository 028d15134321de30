"""Every piece from both its sides: what two one-way LMs read so that a fusion of their states can predict it.

    pieces        [5, 7, E, 4, 9]        E: the end-of-text piece, which is the sentinel S too
    forward_ids   [S, 5, 7, E, 4]        the state at i knows what stands before piece i
    backward_ids  [S, 9, 4, E, 7]        in reading order; after a flip the state at i knows what stands after piece i
    targets       [5, 7, -, 4, 9]        each piece, from forward state i and backward state i; E is not asked for

A sentinel begins the reading of a document, in either direction, so that E belongs to the document that is read
after it, and the states of one document know nothing of another if attention keeps apart what these say:

    forward_documents    [0, 0, 0, 1, 1]     in text order; they differ at E alone
    backward_documents   [0, 0, 1, 1, 1]

A causal LM of transformers keeps packed documents apart by its `position_ids`: `models.packing.packed_positions`
of the forward documents, and of the backward ones flipped into reading order.
A fusion at i may attend to forward states j ≤ i and backward states j ≥ i of its own document: none of them has
read piece i. There is no chance in it, so it takes whole batches. Source: Baevski et al., *Cloze-driven
Pretraining of Self-attention Networks*, section 3.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from boustro.objectives.examples import IGNORED


class Cloze(NamedTuple):
    """What both towers read, in reading order, and the documents of their states and the targets, in text order."""

    forward_ids: Int[Tensor, "B T"]
    backward_ids: Int[Tensor, "B T"]
    forward_documents: Int[Tensor, "B T"]
    backward_documents: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]


def cloze(pieces: Int[Tensor, "B T"], sentinel: int) -> Cloze:
    """Inputs and targets for segments of piece ids in text order."""
    start = torch.full_like(pieces[:, :1], sentinel)
    ends = pieces == sentinel
    backward_documents = ends.cumsum(1)
    forward_documents = backward_documents - ends.long()
    return Cloze(
        forward_ids=torch.cat([start, pieces[:, :-1]], dim=1),
        backward_ids=torch.cat([start, pieces[:, 1:].flip(1)], dim=1),
        forward_documents=forward_documents,
        backward_documents=backward_documents,
        targets=pieces.masked_fill(ends, IGNORED),
    )
