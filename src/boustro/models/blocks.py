"""The blocks of a transformer: stop early, or remove the causal mask of some of them.

They work for every architecture of transformers that keeps its blocks in a list. State 0 is the input of the first
block, state k the output of block k: for layers (0, 2) of 4, blocks 1 and 2 are computed, 3 and 4 are not. The output
of the last block is the state before the model's final norm.

The causal mask is removed in all blocks or in a range of them, without training. Of 4 blocks, counted from 1 at the
embeddings, "3-4" leaves 1 and 2 as pretrained. That the mask is gone is verified: a few pieces go through the model
twice, the last of them changed. Sources: mask removal in all blocks, Li et al. 2023 (LS-unLLaMA) and BehnamGhader et
al. 2024 (LLM2Vec); in groups of blocks, Dukić and Šnajder 2024.
"""

import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from boustro.errors import lacks_memory, reason

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class _Stop(Exception):
    """Raised inside a model to leave it once all states are recorded."""


def find_blocks(model: nn.Module, num_layers: int) -> list[nn.Module]:
    """Return the model's blocks in order, of a model that also reads pictures those of its text; empty if it has no
    list of that length."""
    from transformers import PreTrainedModel

    text = model.get_decoder() if isinstance(model, PreTrainedModel) else model
    lists = [m for m in text.modules() if isinstance(m, nn.ModuleList) and len(m) == num_layers]
    return list(lists[0]) if lists else []


def states_up_to(model: nn.Module, blocks: Sequence[nn.Module], highest: int, **inputs: Any) -> list[Tensor]:
    """States 0 to `highest` (B, P, D), without computing what is above; `highest` is at most the number of blocks."""
    states: list[Tensor] = []

    def record(state: Tensor) -> None:
        states.append(state)
        if len(states) > highest:
            raise _Stop

    def enter(_: nn.Module, given: tuple, named: dict[str, Any]) -> None:
        record(given[0] if given else named["hidden_states"])

    def leave(_: nn.Module, given: tuple, left: Any) -> None:
        record(left if isinstance(left, Tensor) else left[0])

    hooks = [block.register_forward_pre_hook(enter, with_kwargs=True) for block in blocks[: highest + 1]]
    if highest == len(blocks):
        hooks.append(blocks[-1].register_forward_hook(leave))
    try:
        model(**inputs)
    except _Stop:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return states


def keep_causal(block: nn.Module) -> None:
    """Make `block` causal, whatever mask the model gives it; `ValueError` if the block takes no attention mask."""
    signature = inspect.signature(block.forward)
    if "attention_mask" not in signature.parameters:
        raise ValueError(f"a block of class {type(block).__name__} takes no attention mask")

    def narrow(_: nn.Module, given: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        bound = signature.bind(*given, **named)
        states = next(iter(bound.arguments.values()))
        bound.arguments["attention_mask"] = causal_part(bound.arguments.get("attention_mask"), states)
        return bound.args, bound.kwargs

    block.register_forward_pre_hook(narrow, with_kwargs=True)


def causal_part(mask: Tensor | None, states: Tensor) -> Tensor:
    """Return the mask (B, 1, P, P), hidden right of the diagonal too; `ValueError` for a mask of another form than
    this."""
    num_pieces = states.shape[1]
    causal = torch.ones(num_pieces, num_pieces, dtype=torch.bool, device=states.device).tril()[None, None]
    if mask is None:  # sdpa: everything is visible
        return causal
    if mask.ndim != 4:
        raise ValueError("its blocks take no mask over pairs of pieces")
    return mask & causal if mask.dtype == torch.bool else mask.masked_fill(~causal, torch.finfo(mask.dtype).min)


NOTICEABLE = 1e-4  # relative change of a value; a causal state does not change at all


def parse_blocks(text: str | None, num_layers: int, name: str) -> tuple[int, int]:
    """First and last block of a range, None being all; `ValueError`, beginning with `name`, for any other text."""
    if text is None:
        return 1, num_layers
    ends = [int(end) for end in text.split("-")] if re.fullmatch(r"\d+(-\d+)?", text) else [0]
    first, last = ends[0], ends[-1]
    if not 1 <= first <= last <= num_layers:
        raise ValueError(f"{name}: no blocks {text}, the model has 1 to {num_layers}; a range is first-last")
    return first, last


def remove_mask(model: "PreTrainedModel", first: int, last: int, device: torch.device | None = None) -> None:
    """Make every piece see both sides in blocks `first` to `last`; `ValueError` for an architecture where it fails.

    `device` is that of the inputs, by default the model's. A sliding window of w pieces, the piece itself among them,
    then ends w - 1 pieces away on both sides.
    """
    from transformers import PreTrainedModel

    num_layers = model.config.get_text_config().num_hidden_layers
    for config in {
        id(part.config): part.config for part in model.modules() if isinstance(part, PreTrainedModel)
    }.values():
        config.is_causal = False
        if getattr(config, "sliding_window", None):
            config.sliding_window -= 1  # transformers' two-sided window ends w pieces away
    listed = find_blocks(model, num_layers)
    try:
        if (first, last) != (1, num_layers):
            if not listed:
                raise ValueError("its blocks are not in a list")
            for block in listed[: first - 1] + listed[last:]:
                keep_causal(block)
        _probe(model, first, device or model.device)
    except Exception as error:  # a model that relies on its mask fails in its own way
        if lacks_memory(error):
            raise
        raise ValueError(
            f"the causal mask of this architecture ({model.config.model_type}) cannot be removed in block {first}: "
            f"{reason(error)}"
        ) from error


@torch.no_grad()
def _probe(model: "PreTrainedModel", first: int, device: torch.device) -> None:
    """Change the last of a few pieces: the states before it must change from block `first` on, not below."""
    rows = torch.arange(1, 7, device=device).expand(2, 6).clone()
    rows[1, -1] = 7  # two rows that differ in their last piece only
    options = {"attention_mask": torch.ones_like(rows[:1]), "output_hidden_states": True, "use_cache": False}
    one, other = (torch.stack(model(input_ids=row[None], **options).hidden_states[: first + 1]) for row in rows)
    if not one.isfinite().all():  # which tell nothing of the mask; who reads such states is told why
        return
    moved = (one - other)[:, :, :-1].abs() > NOTICEABLE * one[:, :, :-1].abs()  # (first + 1, 1, 5, D)
    changed = [share > 0.1 for share in moved.float().mean((1, 2, 3)).tolist()]  # a tenth of the values or more
    if not changed[first]:
        raise ValueError("a piece still does not see what follows")
    if any(changed[:first]):
        raise ValueError("the blocks below would see what follows, too")
