"""What a run shows: a bar on a terminal, a line an event elsewhere; from the first process only.

A loss that is no number ends the run here: nothing good would come of going on.
"""

import sys
import time
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback

from boustro.pretrain.output import refuse_not_finite
from boustro.pretrain.processes import is_first


class Progress(TrainerCallback):
    """Lines like `step 40/400 · 1.31M pieces · loss 6.214 · 1,650 pieces/s`."""

    def __init__(self, step_pieces: int) -> None:
        self.step_pieces = step_pieces

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        quiet = None if is_first() else True
        self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit=" steps", disable=quiet)
        self.logged, self.logged_step = time.monotonic(), state.global_step

    def on_step_end(self, args, state, control, **kwargs) -> None:
        self.bar.update(1)

    def on_log(self, args, state, control, logs: dict[str, Any] | None = None, **kwargs) -> None:
        logs = logs or {}
        step, pieces = state.global_step, state.global_step * self.step_pieces / 1e6
        head = f"step {step:,}/{state.max_steps:,} · {pieces:.2f}M pieces"
        if "loss" in logs:
            refuse_not_finite(logs["loss"], f"the loss at step {step:,}")
            now = time.monotonic()
            speed = (step - self.logged_step) * self.step_pieces / max(now - self.logged, 1e-9)
            self.logged, self.logged_step = now, step
            _line(f"{head} · loss {logs['loss']:.3f} · {speed:,.0f} pieces/s")
        elif "eval_loss" in logs:
            refuse_not_finite(logs["eval_loss"], f"the validation loss at step {step:,}")
            _line(f"{head} · validation loss {logs['eval_loss']:.4f} · perplexity {logs['eval_perplexity']:.2f}")

    def on_train_end(self, args, state, control, **kwargs) -> None:
        self.bar.close()


def _line(text: str) -> None:
    if is_first():
        tqdm.write(text, file=sys.stderr)
        sys.stderr.flush()
