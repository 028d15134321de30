"""One run in several processes (torchrun, accelerate launch): ranks, collectives, and tensors sharded by FSDP2.

With one process no torch.distributed is needed. Collectives over single numbers run over gloo on the CPU, so they
never wait for a GPU. FSDP2 leaves a DTensor with this process's rows of a tensor: `whole` gathers the rows of all
processes, `like` shards a whole tensor again. A plain tensor (one process, or DDP) is whole already.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


def num_processes() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_index() -> int:
    """The rank of this process."""
    return int(os.environ.get("RANK", "0"))


def is_rank0() -> bool:
    """Whether this process is the one that writes files and messages."""
    return process_index() == 0


def say(message: str) -> None:
    """Print a line on stderr, on rank 0 only."""
    if is_rank0():
        print(message, file=sys.stderr, flush=True)


def all_reduce_max(value: int) -> int:
    """The maximum over the processes; a collective."""
    if not _is_distributed():
        return value
    shared = torch.tensor([value])
    dist.all_reduce(shared, dist.ReduceOp.MAX, group=_gloo_group())
    return int(shared.item())


def all_reduce_sum(*values: float) -> list[float]:
    """The sum of each value over the processes; a collective."""
    if not _is_distributed():
        return list(values)
    shared = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(shared, group=_gloo_group())
    return shared.tolist()


def broadcast_from_rank0(call: Callable[[], Any]) -> Any:
    """What `call` returns, or raises, on rank 0, in every process; a collective. Other ranks do not call it."""
    if not _is_distributed():
        return call()
    answer: list[Any] = [None, None]
    if is_rank0():
        try:
            answer[0] = call()
        except (ValueError, OSError) as error:
            answer[1] = error
    dist.broadcast_object_list(answer, src=0, group=_gloo_group())
    if answer[1] is not None:
        raise answer[1]
    return answer[0]


def destroy_process_group() -> None:
    """Leave the process group, so that the backend does not warn at exit."""
    if dist.is_available() and dist.is_initialized():
        _gloo_group.cache_clear()
        with contextlib.suppress(RuntimeError):  # from another process that has already exited
            dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """All rows of a tensor, in every process; a collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor, sharded as `parameter` is."""
    if not isinstance(parameter, DTensor):
        return tensor
    tensor = tensor.to(parameter.device)
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


def whole_state(module: nn.Module) -> dict[str, Tensor]:
    """The state dict with whole tensors; a tied tensor is one object under all its names.

    Call it on the outermost module, which frees what FSDP2 has gathered for a forward pass.
    """
    state = module.state_dict(keep_vars=True)
    gathered = {id(tensor): whole(tensor.detach()) for tensor in state.values()}
    return {name: gathered[id(tensor)] for name, tensor in state.items()}


def distinct(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor under the first of its names only."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in state.items():
        first.setdefault(id(tensor), (name, tensor))
    return dict(first.values())


def _is_distributed() -> bool:
    return num_processes() > 1 and dist.is_initialized()


@functools.cache
def _gloo_group() -> Any:
    return dist.new_group(backend="gloo")
