"""The final norm of a causal LM: transformers' last layer comes after it, the last of other engines before it."""

from pathlib import Path

from safetensors import safe_open
from torch import nn

NAMES = ("norm", "ln_f", "final_layer_norm", "final_layernorm")


def final_norm(model: nn.Module, folder: str) -> nn.Module:
    """The final norm of a body of transformers; if the body has no weights, those of the norm are read from `folder`.

    Raises `ValueError` where it is not found.
    """
    name = next((name for name in NAMES if isinstance(getattr(model, name, None), nn.Module)), None)
    if name is None:
        raise ValueError(f"{folder}: the final norm of its LM ({type(model).__name__}) was not found")
    norm = getattr(model, name)
    if not any(parameter.is_meta for parameter in norm.parameters()):
        return norm
    found = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 (it is no mapping)
                owner, _, parameter = key.rpartition(".")
                if owner == name or owner.endswith(f"model.{name}") or owner == f"transformer.{name}":
                    found[parameter] = tensors.get_tensor(key)
    if found.keys() != dict(norm.named_parameters()).keys():
        raise ValueError(f"{folder}: the weights of its final norm were not found; write states that have passed it")
    norm.load_state_dict(found, assign=True)
    return norm
