"""Progress of a run, printed on rank 0 only: how far it is, a line per event; and the report of a dry run.

`PeakMemory` is the most memory that this process used while a block of code ran, sampled every 20 ms with psutil. What
it shares with files is left out, so that features mapped from disk, which the system can drop, do not count; what
Python and PyTorch use anyway does. Not measured where psutil does not report shared memory (macOS, Windows): `None`.
"""

import gc
import threading
import time
from collections.abc import Iterable
from typing import Any, NoReturn

import psutil
import torch
from torch import nn
from transformers import TrainerCallback

from boustro.lab.pretrain.distributed import is_rank0, say
from boustro.lab.pretrain.output import refuse_not_finite
from boustro.output import duration
from boustro.progress import Progress, write_line

PROBE_STEPS = 6  # of a dry run, of which the first ones warm up


class DryRun(SystemExit):
    """The end of a dry run, with code 0; `step_seconds` is what a step took, `None` where there were too few."""

    def __init__(self, step_seconds: float | None) -> None:
        super().__init__(0)
        self.step_seconds = step_seconds


class TrainingProgress(TrainerCallback):
    """Lines like `step 40/400 · 1.31M pieces · loss 6.214 · 1,650 pieces/s`; a loss that is not finite ends the run."""

    def __init__(self, step_size: int, unit: str = "pieces") -> None:
        self.step_size, self.unit = step_size, unit

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        shown = None if is_rank0() else False
        self.bar = Progress("training", "steps", total=state.max_steps, done=state.global_step, shown=shown)
        self.logged, self.logged_step = time.monotonic(), state.global_step

    def on_step_end(self, args, state, control, **kwargs) -> None:
        self.bar.update(1)

    def on_log(self, args, state, control, logs: dict[str, Any] | None = None, **kwargs) -> None:
        logs = logs or {}
        step, seen = state.global_step, _number(state.global_step * self.step_size)
        head = f"step {step:,}/{state.max_steps:,} · {seen} {self.unit}"
        if "loss" in logs:
            refuse_not_finite(logs["loss"], f"the loss at step {step:,}")
            now = time.monotonic()
            speed = (step - self.logged_step) * self.step_size / max(now - self.logged, 1e-9)
            self.logged, self.logged_step = now, step
            _line(f"{head} · loss {logs['loss']:.3f} · {speed:,.0f} {self.unit}/s")
        elif "eval_loss" in logs:
            refuse_not_finite(logs["eval_loss"], f"the validation loss at step {step:,}")
            perplexity = f" · perplexity {logs['eval_perplexity']:.2f}" if "eval_perplexity" in logs else ""
            _line(f"{head} · validation loss {logs['eval_loss']:.4f}{perplexity}")

    def on_train_end(self, args, state, control, **kwargs) -> None:
        self.bar.close()


def _number(count: int) -> str:
    return f"{count / 1e6:.2f}M" if count >= 1e5 else f"{count:,}"


def _line(text: str) -> None:
    if is_rank0():
        write_line(text)


class Probe(TrainerCallback):
    """Measures the steps of a dry run: peak memory since its creation, and when each step ended."""

    def __init__(self) -> None:
        self._peak = PeakMemory().start()
        self._ends: list[float] = []
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._ends.append(time.monotonic())

    def finish(self, steps: int, module: nn.Module, optimizer: Any) -> NoReturn:
        """Print the estimated cost of `steps` steps, without validation; raises `DryRun`."""
        self._peak.stop()
        timed = self._ends[min(2, len(self._ends) - 2) :]  # the first steps also compile and start the data loading
        each = None
        if len(timed) > 1:
            each = (timed[-1] - timed[0]) / (len(timed) - 1)
            say(f"dry run: {steps:,} steps of {each:.2f} s, {duration(steps * each)}")
        else:
            say(f"dry run: {steps:,} steps, too few to time one")
        if torch.cuda.is_available():
            say(f"GPU memory: {torch.cuda.max_memory_allocated() / 2**20:,.0f} MB")
        if self._peak.bytes:
            say(f"memory: {self._peak.bytes / 2**20:,.0f} MB")
        weights = _bytes(module.state_dict().values())
        state = _bytes(tensor for tensors in optimizer.state_dict()["state"].values() for tensor in tensors.values())
        say(f"disk: {weights / 2**20:,.0f} MB of weights; a checkpoint has {(weights + state) / 2**20:,.0f} MB")
        raise DryRun(each)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the size of all distinct tensors."""
    return sum({t.data_ptr(): t.numel() * t.element_size() for t in tensors}.values())


SAMPLE_SECONDS = 0.02  # a peak that lasts shorter is missed


class PeakMemory:
    """`with PeakMemory() as peak: ...` and then `peak.bytes`."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._stop, self._process = threading.Event(), psutil.Process()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> "PeakMemory":
        gc.collect()  # what was used before must not count as this block's
        self._sample()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        now = self._process.memory_info()
        if hasattr(now, "shared"):
            self.bytes = max(self.bytes or 0, now.rss - now.shared)
