"""Several documents packed into one segment, each read as if it were alone: attention mask and positions.

    documents  [0, 0, 1, 1, 1]   →  positions [0, 1, 0, 1, 2]
    attention  1 1 . . .
               1 1 . . .
               . . 1 1 1            a (B, 1, T, T) mask, which transformers' encoders take as it is
               . . 1 1 1
               . . 1 1 1

Padding, -1, counts as a document of its own, so no piece sees it and no row of the mask is empty. For models that see
both sides; a causal LM needs only the restarted positions. Where a document has a suffix, its prefix does not see it:

    suffix     [0, 1, 0, 0, 1]       1 . . . .
                                     1 1 . . .
                                     . . 1 1 .
                                     . . 1 1 .
                                     . . 1 1 1

B segments, T pieces.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PretrainedConfig

Mask = Bool[Tensor, "B 1 T T"] | Float[Tensor, "B 1 T T"]


def packed_attention(
    documents: Int[Tensor, "B T"],
    config: PretrainedConfig,
    dtype: torch.dtype = torch.float32,
    suffix: Bool[Tensor, "B T"] | None = None,
) -> Mask | dict[str, Mask]:
    """The mask in the form that the model's attention takes: boolean for sdpa, added to the scores for eager.

    Pieces of the `suffix` are seen by each other only. An architecture that also has blocks with a sliding window
    (ModernBERT) gets one mask per kind of block. Raises `ValueError` for an attention that takes no such mask (with
    flash attention documents would leak).
    """
    same = documents[:, None, :, None] == documents[:, None, None, :]
    if suffix is not None:
        same = same & (~suffix[:, None, None, :] | suffix[:, None, :, None])
    if "sliding_attention" not in (getattr(config, "layer_types", None) or ()):
        return _formatted(same, config, dtype)
    places = torch.arange(documents.shape[1], device=documents.device)
    near = (places[:, None] - places).abs() <= config.sliding_window
    kinds = {"full_attention": same, "sliding_attention": same & near}
    return {kind: _formatted(seen, config, dtype) for kind, seen in kinds.items()}


def _formatted(seen: Bool[Tensor, "B 1 T T"], config: PretrainedConfig, dtype: torch.dtype) -> Mask:
    implementation = config._attn_implementation
    if implementation == "sdpa":
        return seen
    if implementation == "eager":
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)
    raise ValueError(
        f"packed documents would leak under attention {implementation!r}, which takes no mask; load the model with "
        "attn_implementation='sdpa' (or 'eager')"
    )


def packed_positions(documents: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The position of each piece in its document, whose pieces are contiguous."""
    places = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return places - torch.where(begins, places, 0).cummax(dim=1).values
