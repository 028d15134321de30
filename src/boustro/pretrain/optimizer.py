"""Muon for the matrices of the blocks, AdamW for all other parameters, as one optimiser.

Muon replaces a matrix's momentum by the nearest orthogonal matrix, found by five Newton-Schulz steps
(Jordan et al. 2024); scaled to AdamW's update size (Liu et al. 2025), one learning rate serves both.
`torch.optim.Muon` does the same in bf16, one matrix at a time; here matrices of one shape are batched, in fp32
where bf16 is not used, and the steps of a wide matrix are then computed on its small Gram matrix.
An orthogonal direction needs the whole matrix: where FSDP2 shards it over processes, the rows are gathered first
and sharded again afterwards.
"""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from boustro.hardware import uses_bf16
from boustro.pretrain.distributed import like, whole

MAX_OUTPUTS = 2  # a matrix of one or two rows is a classifier: there is hardly anything to make orthogonal
A, B, C = 3.4445, -4.7750, 2.0315
STEPS = (2, 3)  # of a wide matrix: restarted after two, since small singular values are lost in the Gram matrix


def orthogonalise(matrices: Tensor, bf16: bool | None = None) -> Tensor:
    """(n, rows, columns) → the same shape, with singular values near 1; `bf16` by default as `uses_bf16` says."""
    dtype = torch.bfloat16 if (uses_bf16(matrices.device) if bf16 is None else bf16) else torch.float32
    x = matrices.to(dtype)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    if dtype == torch.float32 and x.size(-1) >= 2 * x.size(-2):
        for num_steps in STEPS:
            x = _steps_on_the_gram(x @ x.mT, num_steps) @ x
    else:
        for _ in range(sum(STEPS)):
            x = _factor(x @ x.mT) @ x
    return (x.mT if tall else x).to(matrices.dtype)


def _factor(gram: Tensor) -> Tensor:
    """a + b·G + c·G², by which a Newton-Schulz step multiplies a matrix with the Gram matrix G."""
    factor = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
    factor.diagonal(dim1=-2, dim2=-1).add_(A)
    return factor


def _steps_on_the_gram(gram: Tensor, num_steps: int) -> Tensor:
    """The product of the factors of several steps; a step maps G to factor · G · factor, all square."""
    product = factor = _factor(gram)
    for _ in range(num_steps - 1):
        gram = factor @ gram @ factor
        factor = _factor(gram)
        product = factor @ product
    return product


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay, for 2-D parameters only; `bf16` as in `orthogonalise`."""

    def __init__(
        self, parameters, lr: float, momentum: float = 0.95, weight_decay: float = 0.1, bf16: bool | None = None
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.bf16 = bf16

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                wanted = [whole(self._nesterov(parameter, group["momentum"])) for parameter in parameters]
                directions = orthogonalise(torch.stack(wanted), self.bf16)
                step_size = group["lr"] * 0.2 * max(shape) ** 0.5
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(like(direction, parameter), alpha=-step_size)

    def _nesterov(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        buffer = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
        buffer.lerp_(gradient, 1 - momentum)
        return gradient.lerp(buffer, momentum)


class MuonAdamW(torch.optim.Optimizer):
    """Both as one optimiser with one list of groups and one state, in torch's format.

    `model` may contain several models: the head of each is trained by AdamW. Both optimisers share groups and state
    with this one, so that what a scheduler, a checkpoint or FSDP2 changes here reaches them.
    """

    def __init__(
        self, model: nn.Module, lr: float, weight_decay: float = 0.1, betas=(0.9, 0.95), bf16: bool | None = None
    ) -> None:
        embeddings = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        heads = [m.get_output_embeddings() for m in model.modules() if isinstance(m, PreTrainedModel)]
        embeddings |= {id(p) for head in heads if head is not None for p in head.parameters()}
        trained = [p for p in model.parameters() if p.requires_grad]
        matrices = [p for p in trained if p.ndim == 2 and min(p.shape) > MAX_OUTPUTS and id(p) not in embeddings]
        inside = {id(p) for p in matrices}
        others = [p for p in trained if id(p) not in inside]
        self.optimizers = [
            Muon(matrices, lr, weight_decay=weight_decay, bf16=bf16),
            torch.optim.AdamW(others, lr, betas=betas, weight_decay=0.0, fused=True),
        ]
        super().__init__([group for own in self.optimizers for group in own.param_groups], {})
        self._share()

    def _share(self) -> None:
        for own, group in zip(self.optimizers, self.param_groups, strict=True):
            own.param_groups, own.state = [group], self.state

    def step(self, closure: Any = None) -> None:
        for own in self.optimizers:
            own.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()


def make_optimizer(
    module: nn.Module, name: str, lr: float, weight_decay: float, bf16: bool | None = None
) -> torch.optim.Optimizer:
    """`muon` (with AdamW for what is not a matrix of a block) or `adamw`; `bf16` is Muon's precision."""
    if name == "muon":
        return MuonAdamW(module, lr, weight_decay, bf16=bf16)
    return torch.optim.AdamW(module.parameters(), lr, weight_decay=weight_decay, fused=True)
