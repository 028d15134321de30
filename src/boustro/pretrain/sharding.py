"""Parameters that FSDP2 has spread over processes, seen whole.

A DTensor holds this process's rows of a tensor: `whole` gathers the rows of all, `like` takes them apart
again. A plain tensor, that of one process or of DDP, is whole already. `whole` is a collective: every
process must call it, in the same order.
"""

from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor: Tensor) -> Tensor:
    """All rows of a tensor, in every process."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor, spread as `parameter` is."""
    if not isinstance(parameter, DTensor):
        return tensor
    tensor = tensor.to(parameter.device)
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


def whole_weights(module: nn.Module) -> dict[str, Tensor]:
    """The state dict of a module's `.lm` with whole tensors; those that are one (a tied head) stay one.

    It is asked of the outermost module, which lets go of what FSDP2 has gathered for a pass.
    """
    seen: dict[int, Tensor] = {}
    state = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen[id(tensor)] = whole(tensor.detach())
        if name.startswith("lm."):
            state[name.removeprefix("lm.")] = seen[id(tensor)]
    return state
