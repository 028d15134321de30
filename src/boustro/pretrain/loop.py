"""A small training loop whose every step is a function of its number, with one checkpoint that is always whole.

For modules that are no transformers models (those go through the Trainer, `run.py`): a fusion, an ELMo. A step's
batch and dropout follow from the step's number, so the number, the weights and the optimiser's state are all that a
checkpoint needs, and a run that was stopped ends with the weights of one that was not. The checkpoint lies in
`OUT.checkpoint` and is replaced as a whole.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tqdm import tqdm

from boustro.pretrain.config import LoopConfig
from boustro.pretrain.cost import PROBE_STEPS, Probe
from boustro.pretrain.optimizer import make_optimizer
from boustro.pretrain.optimizer_state import load_optimizer, optimizer_state, save_optimizer
from boustro.pretrain.output import BEGIN_ANEW, finished_run, refuse_another_run, refuse_not_finite
from boustro.pretrain.processes import say
from boustro.pretrain.randomness import seed_step
from boustro.store import open_folder, read_json, reading, remove_folder, write_file, write_folder
from boustro.text.segments import Example, Segments

CHECKPOINT = "loop checkpoint"
LOG_EVENTS = 20
LARGEST_GRADIENT = 1.0


DECIDING = ("optimizer", "lr", "weight_decay", "warmup", "decay", "seed")  # of these, those that decide the weights


class Loop:
    """Trains `module` by `loss`, step number in, loss out; `validate` measures, where there is something to.

    `facts` are what else than `DECIDING` decides the weights: a checkpoint of other facts is another run's.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[int], Tensor],
        validate: Callable[[], float] | None,
        steps: int,
        config: LoopConfig,
        facts: dict[str, Any],
    ) -> None:
        self.module, self.loss, self.validate, self.steps, self.config = module, loss, validate, steps, config
        self.optimizer = make_optimizer(module, config.optimizer, config.lr, config.weight_decay)
        deciding = {name: getattr(config, name) for name in DECIDING}
        self.facts, self.step = json.loads(json.dumps(deciding | facts)), 0
        self.checkpoint = config.checkpoint
        self.history: list[dict[str, float]] = []

    def finished(self, kind: str) -> dict[str, Any] | None:
        """What came of this run, where it is finished already and `--resume` says to leave it so."""
        if result := finished_run(self.config, kind, self.facts):
            self.finish()
        return result

    def run(self) -> float | None:
        """Train to the end, from the checkpoint or the beginning; returns the last validation loss.

        Raises `SystemExit` (0) after a dry run.
        """
        if self.config.dry_run:
            self._probe()
        if self.config.resume:
            self._resume()
        else:
            self.finish()
        saved = time.monotonic()
        log_every = max(1, self.steps // LOG_EVENTS)
        evaluate_every = max(1, self.steps // max(1, self.config.evaluations))
        self.module.train()
        with tqdm(total=self.steps, initial=self.step, unit=" steps", disable=None) as bar:
            while self.step < self.steps:
                loss = self._advance()
                bar.update(1)
                if self.step % log_every == 0:
                    refuse_not_finite(loss.item(), f"the loss at step {self.step:,}")
                    self._log("loss", loss.item())
                if self.validate and self.step % evaluate_every == 0 and self.step < self.steps:
                    self._log("validation_loss", self._measure(self.validate))
                if time.monotonic() - saved > 60 * self.config.save_minutes:
                    self._save()
                    saved = time.monotonic()
        refuse_not_finite(self.module, f"the weights after step {self.step:,}")
        return self._measure(self.validate) if self.validate else None

    def finish(self) -> None:
        """Remove the checkpoint: what it was for is written, or begins anew."""
        remove_folder(self.checkpoint)

    def _probe(self) -> NoReturn:
        """Make a few steps and say what all would cost."""
        self.module.train()
        probe = Probe()
        for _ in range(min(self.steps, PROBE_STEPS)):
            self._advance()
            probe.step_ended()
        probe.finish(self.steps, self.module, self.optimizer)

    def _advance(self) -> Tensor:
        seed_step(self.config.seed, self.step)
        loss = self.loss(self.step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), LARGEST_GRADIENT)
        share = share_of_lr(self.step, self.steps, self.config.warmup, self.config.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr * share
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return loss.detach()

    @torch.no_grad()
    def _measure(self, validate: Callable[[], float]) -> float:
        self.module.eval()
        measured = validate()
        refuse_not_finite(measured, f"the validation loss at step {self.step:,}")
        self.module.train()
        return measured

    def _save(self) -> None:
        refuse_not_finite(self.module, f"the weights after step {self.step:,}")
        with write_folder(self.checkpoint, CHECKPOINT, {"run": self.facts}) as folder:
            save_file({n: t.contiguous() for n, t in self.module.state_dict().items()}, folder / "module.safetensors")
            save_optimizer(folder, optimizer_state(self.optimizer))
            write_file(folder / "state.json", json.dumps({"step": self.step, "history": self.history}))

    def _resume(self) -> None:
        """Go on from the checkpoint, from the beginning where there is none; `ValueError` for another run's."""
        try:
            made_by = open_folder(self.checkpoint, CHECKPOINT, verify=True)["made_by"]
        except FileNotFoundError:
            say(f"{self.checkpoint}: no checkpoint, starting from the beginning")
            return
        except ValueError as error:
            raise ValueError(f"{error}; {BEGIN_ANEW}") from error
        refuse_another_run(self.checkpoint, made_by, self.facts)
        with reading(self.checkpoint, BEGIN_ANEW):
            self.module.load_state_dict(load_file(self.checkpoint / "module.safetensors"))
            load_optimizer(self.checkpoint, self.optimizer)
            state = read_json(self.checkpoint / "state.json")
            self.step, self.history = int(state["step"]), list(state["history"])
        say(f"going on from step {self.step:,} of {self.checkpoint}")

    def _log(self, name: str, value: float) -> None:
        self.history.append({"step": self.step, name: value})
        tqdm.write(f"step {self.step:,}/{self.steps:,} · {name.replace('_', ' ')} {value:.4f}", file=sys.stderr)


def share_of_lr(step: int, steps: int, warmup: float, decay: float) -> float:
    """The share of the peak learning rate at a step (0, 1, …): up, along, and down to 0 in straight lines."""
    up, down = round(warmup * steps), round(decay * steps)
    return min(1.0, (step + 1) / max(1, up), (steps - step) / max(1, down))


def num_steps(tokens: int | None, at_hand: int, step_pieces: int) -> int:
    """How many steps `tokens` pieces make, by default those at hand: one at least, and none for 0."""
    wanted = at_hand if tokens is None else tokens
    return max(1, wanted // step_pieces) if wanted else 0


def mean_loss(
    held_out: Segments, num_pieces: int, batch_segments: int, loss_of: Callable[[list[Example]], Tensor]
) -> float:
    """The mean of the first segments, about `num_pieces` pieces and one segment at least; `loss_of` gives a batch's."""
    count = max(1, min(len(held_out), num_pieces // held_out.length))
    starts = range(0, count, batch_segments)
    batches = [[held_out.example(0, n) for n in range(s, min(s + batch_segments, count))] for s in starts]
    return float(np.average([loss_of(batch).item() for batch in batches], weights=[len(batch) for batch in batches]))
