"""`--dry-run`: a few steps are really made, what all of them would cost is said, and nothing is written."""

import time
from typing import Any, NoReturn

import torch
from torch import nn
from transformers import TrainerCallback

from boustro.models.memory import PeakMemory
from boustro.pretrain.processes import say

PROBE_STEPS = 6
WARM_STEPS = 2
"""The first of these compile and fetch; the clock starts at the end of the third, if there are as many."""


class Probe(TrainerCallback):
    """Watches the steps of a dry run: memory from its making on, and when each step ended."""

    def __init__(self) -> None:
        self._peak = PeakMemory().start()
        self._ends: list[float] = []
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()

    def step_ended(self) -> None:
        """To be called after each step."""
        self._ends.append(time.monotonic())

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.step_ended()

    def finish(self, steps: int, module: nn.Module, optimizer: Any) -> NoReturn:
        """Say what `steps` steps would cost, and end the command.

        What is measured on validation data is not counted. Raises `SystemExit` (0).
        """
        self._peak.stop()
        timed = self._ends[min(WARM_STEPS, len(self._ends) - 2) :]
        if len(timed) > 1:
            each = (timed[-1] - timed[0]) / (len(timed) - 1)
            say(f"dry run: {steps:,} steps of {each:.2f} s, {duration(steps * each)}")
        else:
            say(f"dry run: {steps:,} steps, too few to time one")
        if torch.cuda.is_available():
            say(f"GPU memory: {torch.cuda.max_memory_allocated() / 2**20:,.0f} MB")
        if self._peak.bytes:
            say(f"memory: {self._peak.bytes / 2**20:,.0f} MB")
        weights, state = _bytes(module.state_dict()), _bytes(optimizer.state_dict())
        say(f"disk: {weights / 2**20:,.0f} MB of weights; a checkpoint has {(weights + state) / 2**20:,.0f} MB")
        raise SystemExit(0)


def duration(seconds: float) -> str:
    """As people say it: seconds, minutes or hours, two figures or so."""
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"about {seconds / length:,.{0 if seconds >= 10 * length else 1}f} {unit}"
    return f"about {seconds:,.0f} seconds"


def _bytes(state: Any) -> int:
    """Of all different tensors in nested dicts and lists."""
    return sum({t.data_ptr(): t.numel() * t.element_size() for t in _tensors(state)}.values())


def _tensors(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    inner = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else ()
    return [tensor for value in inner for tensor in _tensors(value)]
