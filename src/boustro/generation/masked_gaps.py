"""A masked LM fills gaps between two contexts, by mask-predict: the rival of the pair that writes from both ends.

    left [5, 7], 2 places, right [9]      5 7 M M 9      M: the mask piece
    left [8], 2 places, right [2, 4]      - 8 M M 2 4    -: padding, a document of its own

What a prefix mask hides from the left context is hidden here as in training. B rows, S places, V pieces.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from boustro.generation.both_ends.reader import Ids
from boustro.generation.canvas import Predicting, Read
from boustro.generation.draws import Draws
from boustro.generation.models import MaskedLM
from boustro.generation.options import GenerationConfig
from boustro.generation.strategies import mask_predict
from boustro.models.masked import encode


def fill_masked(
    model: MaskedLM, contexts: Sequence[tuple[Ids, Ids]], length: int, steps: int, writable: Tensor | None = None
) -> list[tuple[int, ...]]:
    """`length` pieces for each gap, after `steps` readings.

    `contexts` are the pieces on the left and on the right of each gap; `writable` (V',) says which of the first V'
    pieces may be written, by default all but special ones. Raises `ValueError` for what does not fit into the window.
    """
    read, blank = between(model, contexts, length, writable)
    config = GenerationConfig(strategy="mask-predict", length=length, steps=steps)
    text = mask_predict(read, blank, config, Draws(config.seed, range(len(contexts))))
    return [tuple(pieces) for pieces in text.pieces.tolist()]


def between(
    model: MaskedLM, contexts: Sequence[tuple[Ids, Ids]], length: int, writable: Tensor | None = None
) -> tuple[Read, Int[Tensor, "B S"]]:
    """What reads the places between two contexts, and the places, all hidden."""
    before = [[*model.before, *left] for left, _ in contexts]
    after = [[*right, *model.after] for _, right in contexts]
    wide, tail, mask = max(map(len, before)), max(map(len, after)), model.mask_id
    model.refuse_longer(wide + length + tail)
    ids = [
        [*[mask] * (wide - len(left)), *left, *[mask] * length, *right, *[mask] * (tail - len(right))]
        for left, right in zip(before, after, strict=True)
    ]
    own = [
        [*[-1] * (wide - len(left)), *[0] * (len(left) + length + len(right)), *[-2] * (tail - len(right))]
        for left, right in zip(before, after, strict=True)
    ]
    pieces, documents = (torch.tensor(rows, device=model.device) for rows in (ids, own))
    hidden = None
    if model.has_prefix_mask:
        hidden = (torch.arange(pieces.shape[1], device=model.device) >= wide).expand_as(pieces)
    allowed = model.writable.clone()
    if writable is not None:
        allowed[: len(writable)] &= writable
        allowed[len(writable) :] = False

    def states(suffix: Tensor) -> Tensor:
        whole = torch.cat([pieces[:, :wide], suffix, pieces[:, wide + length :]], dim=1)
        return encode(model.lm, whole, documents, hidden)[:, wide:]

    read = Predicting(model, states, length, allowed)
    return read, pieces.new_full((len(contexts), length), mask)
