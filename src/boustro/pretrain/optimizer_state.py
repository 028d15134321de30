"""An optimiser's state in a checkpoint, without pickle.

optimizer.safetensors    its tensors, "3.momentum_buffer" being of parameter 3
optimizer.json           its groups of options, and whatever else the run keeps beside them
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from boustro.pretrain.sharding import like, whole
from boustro.store import read_json

TENSORS, REST = "optimizer.safetensors", "optimizer.json"
State = tuple[dict[str, Tensor], list[dict[str, Any]]]


def optimizer_state(optimizer: Any) -> State:
    """Whole tensors and groups; under FSDP2 every process must call it."""
    state = optimizer.state_dict()
    tensors = {
        f"{index}.{name}": whole(tensor).contiguous()
        for index, values in state["state"].items()
        for name, tensor in values.items()
    }
    return tensors, state["param_groups"]


def save_optimizer(folder: Path, state: State, **rest: Any) -> None:
    """Write the two files; `rest` is anything that JSON holds."""
    tensors, groups = state
    save_file(tensors, folder / TENSORS)
    (folder / REST).write_text(json.dumps({"groups": groups, **rest}))


def load_optimizer(folder: Path, optimizer: Any) -> dict[str, Any]:
    """Put the state back, spread as the parameters are; returns the rest."""
    rest = read_json(folder / REST)
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in load_file(folder / TENSORS).items():
        index, name = key.split(".")
        state.setdefault(int(index), {})[name] = tensor
    groups, ours = rest.pop("groups"), optimizer.state_dict()["param_groups"]
    for group, own in zip(groups, ours, strict=True):
        if not _kinds(own).items() <= _kinds(group).items() or group["params"] != own["params"]:
            raise ValueError("its options are of another optimiser")
        if len({frozenset(state[index]) for index in group["params"] if index in state}) > 1:
            raise ValueError("tensors of the optimiser are missing")
    numbered = enumerate(parameter for group in optimizer.param_groups for parameter in group["params"])
    if any(t.ndim and t.shape != p.shape for index, p in numbered for t in state.get(index, {}).values()):
        raise ValueError("tensors of the optimiser have other shapes")
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    for parameter, values in optimizer.state.items():
        for name, tensor in values.items():
            if isinstance(parameter, DTensor) and tensor.shape == parameter.shape:
                values[name] = like(tensor, parameter)
    return rest


def _kinds(group: dict[str, Any]) -> dict[str, str]:
    """What kind of value each option of a group of parameters has, as JSON tells them apart."""
    kinds = {bool: "flag", int: "number", float: "number", list: "list", tuple: "list"}
    return {name: kinds.get(type(value), type(value).__name__) for name, value in group.items()}
