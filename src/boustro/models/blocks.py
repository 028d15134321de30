"""Hooks on the blocks of a transformer: stop early, or make some of them causal again.

They work for every architecture of transformers that keeps its blocks in a list. State 0 is the input of the first
block, state k the output of block k: for layers (0, 2) of 4, blocks 1 and 2 are computed, 3 and 4 are not. The output
of the last block is the state before the model's final norm.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


class _Stop(Exception):
    """Raised inside a model to leave it once all states are recorded."""


def find_blocks(model: nn.Module, num_layers: int) -> list[nn.Module]:
    """The model's blocks in order, of a model that also reads pictures those of its text; empty if it has no list of
    that length."""
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
    """The mask (B, 1, P, P), hidden right of the diagonal too; `ValueError` for a mask of another form than this."""
    num_pieces = states.shape[1]
    causal = torch.ones(num_pieces, num_pieces, dtype=torch.bool, device=states.device).tril()[None, None]
    if mask is None:  # sdpa: everything is visible
        return causal
    if mask.ndim != 4:
        raise ValueError("its blocks take no mask over pairs of pieces")
    return mask & causal if mask.dtype == torch.bool else mask.masked_fill(~causal, torch.finfo(mask.dtype).min)
