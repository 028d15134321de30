"""Train several lanes of heads in lockstep, so that what is small and alike is done once a step for all of them.

A step of a small head is a few large operations and many tiny ones, whose price is the call. Lanes that start
together have the same number of steps behind them, so a convoy of them calls

    once for all        gather the rows · softmax or CRF · gradients of the biases · ReLU's derivative
    once a lane         dropout numbers · x · [W₁ … W_k]ᵀ and its gradient, k heads side by side
    once a head         AdamW, by PyTorch's fused kernel

and one thread drives a whole convoy: two threads of tiny calls would take turns at the interpreter's lock.
A lane that has finished falls behind: the longest come first, and those that go on are the first ones.

The products are not stacked into one: padded to the longest batch they cost 40% more, and on a CPU a batched
product is a loop over its members anyhow.

H heads of the convoy, k of a lane; N words of a step and n of a lane's, P pairs (word, head), lane by lane, head
by head (`lanes`); d width of a vector, h hidden width, C tags.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from boustro.heads.many.groups import Lane, Taught, batches, join
from boustro.heads.many.losses import CRF_NAMES, CRFSlope, SoftmaxSlope
from boustro.heads.many.passes import STEPS

BETAS, EPSILON = (0.9, 0.999), 1e-8


def train_convoy(
    kind: str, lanes: Sequence[Lane], taught: Taught, advance: Callable[[int], object]
) -> dict[str, Tensor]:
    """Parameters (H, ...) by name, after the last step, in the order of the lanes: those with most steps first.

    `advance` is told after each step how many heads have taken it.
    """
    optimizer = _AdamW(lanes)
    crf = CRF_NAMES[0] in optimizer.parameters
    slope = CRFSlope(taught.labels, optimizer.parameters, optimizer.gradients) if crf else SoftmaxSlope(taught.labels)
    step = STEPS[kind](lanes, taught, optimizer.parameters, optimizer.gradients, slope)
    feeds = [batches(lane.runs[0], taught.starts) for lane in lanes]
    widths = [len(lane.runs) for lane in lanes]
    steps = np.array([lane.runs[0].steps for lane in lanes])
    for number in range(steps[0]):
        going_on = int((steps > number).sum())
        step(join([next(feed) for feed in feeds[:going_on]], widths[:going_on], taught.tags))
        optimizer.step(going_on)
        advance(sum(widths[:going_on]))
    return optimizer.parameters


class _AdamW:
    """H heads' parameters (H, ...), and AdamW with a learning rate and weight decay a head and linear decay."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.parameters = {
            name: torch.cat([lane.first[name].expand(len(lane.runs), *p.shape) for lane in lanes])
            for name, p in lanes[0].first.items()
        }
        self.gradients = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        moments = [{name: torch.zeros_like(p) for name, p in self.parameters.items()} for _ in range(2)]
        kept = (self.parameters, self.gradients, *moments)
        heads = ([[p[m] for p in stack.values()] for stack in kept] for m in range(sum(len(x.runs) for x in lanes)))
        self._lanes = [[(run, next(heads)) for run in lane.runs] for lane in lanes]
        self._done = torch.zeros(())
        self._counts = [self._done] * len(self.parameters)

    def step(self, num_lanes: int) -> None:
        """PyTorch's fused kernel, called without `torch.optim`'s bookkeeping, which takes several times as long."""
        done = self._done.item()
        self._done += 1
        for lane in self._lanes[:num_lanes]:
            for run, (parameters, gradients, means, squares) in lane:
                torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                    parameters,
                    gradients,
                    means,
                    squares,
                    [],
                    self._counts,
                    lr=run.lr * (1 - done / run.steps),
                    beta1=BETAS[0],
                    beta2=BETAS[1],
                    weight_decay=run.weight_decay,
                    eps=EPSILON,
                    amsgrad=False,
                    maximize=False,
                )
