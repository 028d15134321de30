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


def whole_weights(module: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The state dict of a module's `.lm`, and that of the rest, with whole tensors.

    In the former, tensors that are one (a tied head) stay one; in the latter each stands once, and none that is the
    LM's. It is asked of the outermost module, which lets go of what FSDP2 has gathered for a pass.
    """
    state = module.state_dict(keep_vars=True)
    seen = {id(tensor): whole(tensor.detach()) for tensor in state.values()}
    lm = {name.removeprefix("lm."): seen[id(tensor)] for name, tensor in state.items() if name.startswith("lm.")}
    own = {id(tensor) for name, tensor in state.items() if name.startswith("lm.")}
    rest = {}
    for name, tensor in state.items():
        if id(tensor) not in own:
            rest[name] = seen[id(tensor)]
            own.add(id(tensor))
    return lm, rest
