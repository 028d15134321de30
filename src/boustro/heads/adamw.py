"""AdamW with linear decay by PyTorch's fused kernel.

`torch.optim` is not used: for a small head its bookkeeping takes longer than the kernel, and its first step imports a
compiler, which takes two seconds.

Source: Loshchilov and Hutter 2019.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

WEIGHT_DECAY = 0.01  # the default of torch.optim.AdamW, which one head at a time is trained with
# the other defaults of torch.optim.AdamW
FIXED = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}


def step(tensors: Sequence[list[Tensor]], done: Tensor, lr: float, weight_decay: float = WEIGHT_DECAY) -> None:
    """Change parameters in place.

    Args:
        tensors: The parameters, their gradients, and the running means of these and of their squares, 0 at first.
        done: How many steps there were with this one, on the parameters' device.
    """
    adamw: Callable[..., None] = torch._fused_adamw_  # pyright: ignore[reportPrivateImportUsage]
    adamw(*tensors, [], [done] * len(tensors[0]), lr=lr, weight_decay=weight_decay, **FIXED)


class AdamW:
    """Parameters with one peak learning rate, which decays to 0 in so many steps."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, steps: int, weight_decay: float = WEIGHT_DECAY) -> None:
        self._kept = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
        self._lr, self._steps, self._weight_decay = lr, steps, weight_decay
        self._taken, self._done = 0, torch.zeros((), device=self._kept[0][0].device if self._kept else None)

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient, and forget it."""
        lr = self._lr * max(0.0, 1 - self._taken / self._steps)
        self._taken += 1
        self._done += 1
        if moved := [(p, p.grad, *moments) for p, *moments in self._kept if p.grad is not None]:
            step([*map(list, zip(*moved, strict=True))], self._done, lr, self._weight_decay)
        for p, *_ in self._kept:
            p.grad = None
