"""Checkpoints of a run: complete or absent, chosen by their manifest, the same for one process and for many.

    OUT.checkpoints/checkpoint-300/
      model.safetensors config.json   the model
      rest.safetensors                what is trained beside it and not kept in the end, where there is any
      optimizer.safetensors           the optimiser's tensors, "3.momentum_buffer" being of parameter 3
      optimizer.json                  its groups, the schedule, the seconds so far, the losses not yet in the history
      trainer_state.json              the Trainer's: the step and the history
      manifest.json                   last: sizes and hashes, and the facts that decide the run

Nothing else is needed to go on exactly. What a step reads and which dropout it draws follow from its
number (`text.segments`, `pretrain.trainer`), so no generator and no place in the data is kept, and a run
may go on with another number of processes. Two checkpoints are kept.
"""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import TrainerState

from boustro.models.pretrained import load_pretrained
from boustro.pretrain.optimizer_state import load_optimizer, optimizer_state, save_optimizer
from boustro.pretrain.output import BEGIN_ANEW, refuse_another_run, refuse_not_finite
from boustro.pretrain.processes import is_first, say
from boustro.pretrain.sharding import like, whole_weights
from boustro.store import open_folder, reading, refuse_foreign, remove_folder, write_folder

KIND, KEPT, REST = "checkpoint", 2, "rest.safetensors"
FILES = ("model*.safetensors*", REST, "optimizer.*", "config.json", "generation_config.json", "trainer_state.json")
"""What a checkpoint is made of."""


def write_checkpoint(
    folder: Path,
    module: nn.Module,
    optimizer: Any,
    scheduler: Any,
    state: TrainerState,
    made_by: dict[str, Any],
    **so_far: Any,
) -> None:
    """Write a complete checkpoint, then remove all but the newest two. Every process calls it, the first writes.

    `module` holds the LM as `.lm`, and perhaps more; `so_far` is what `load_steps` shall give back.
    """
    (weights, rest), steps = whole_weights(module), optimizer_state(optimizer)
    if not is_first():
        return
    refuse_not_finite(weights, f"the weights after step {state.global_step:,}")
    with write_folder(folder, KIND, made_by) as staging:
        module.lm.save_pretrained(staging, state_dict=weights)  # type: ignore[operator, union-attr]
        if rest:
            save_file({name: tensor.contiguous() for name, tensor in rest.items()}, staging / REST)
        save_optimizer(staging, steps, schedule=scheduler.state_dict(), **so_far)
        state.save_to_json(str(staging / "trainer_state.json"))
    for old in _complete(folder.parent)[KEPT:]:
        remove_folder(old)


@torch.no_grad()
def load_weights(folder: str | Path, module: nn.Module) -> None:
    """The weights of a checkpoint, into a module that may be spread over processes.

    A tensor of several names (a tied head, embeddings that two models share) was saved under one of them.
    """
    lm: Any = module.lm
    saved = {f"lm.{n}": t for n, t in load_pretrained(type(lm), str(folder), dtype=torch.float32).state_dict().items()}
    if (path := Path(folder) / REST).is_file():
        saved |= load_file(path)
    state = module.state_dict(keep_vars=True)
    known = {id(tensor) for name, tensor in state.items() if name in saved}
    for name, tensor in state.items():
        if name in saved or id(tensor) not in known:  # KeyError: this is no checkpoint of such a module
            tensor.copy_(like(saved[name], tensor))


def load_steps(folder: str | Path, optimizer: Any, scheduler: Any) -> dict[str, Any]:
    """The state of a checkpoint's optimiser and schedule; returns its `so_far`."""
    rest = load_optimizer(Path(folder), optimizer)
    scheduler.load_state_dict(rest.pop("schedule"))
    return rest


def newest_checkpoint(checkpoints: Path, facts: dict[str, Any]) -> Path | None:
    """The newest checkpoint whose manifest vouches for every byte; names those that were passed over, and removes them.

    Raises `ValueError` when it is of a run with other facts.
    """
    for staging in checkpoints.glob(f".{KIND}-*.staging"):
        say(f"passed over a half-written checkpoint: {staging}")
        shutil.rmtree(staging, ignore_errors=True)
    for path in _numbered(checkpoints):
        try:
            made_by = open_folder(path, KIND, verify=True)["made_by"]
        except (ValueError, OSError) as error:
            say(f"passed over an incomplete checkpoint: {error}")
            remove_folder(path, FILES)
            refuse_foreign(path, KIND)  # a file of others, which would be in the way of the run's own checkpoint
            continue
        refuse_another_run(path, made_by, facts)
        with reading(path, BEGIN_ANEW):
            _check_state(TrainerState.load_from_json(str(path / "trainer_state.json")), step_of(path))
        say(f"going on from {path}")
        return path
    say(f"{checkpoints}: no complete checkpoint, starting from the beginning")
    return None


def remove_checkpoints(checkpoints: Path) -> None:
    """Remove all checkpoints of a run, and their folder if nothing else lies in it."""
    for path in _numbered(checkpoints):
        remove_folder(path, FILES)
    for path in checkpoints.glob(f".{KIND}-*"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not there, or not empty
        checkpoints.rmdir()


def step_of(checkpoint: Path) -> int:
    """`checkpoint-300` → 300."""
    return int(checkpoint.name.split("-")[1])


def _check_state(state: TrainerState, step: int) -> None:
    numbers = [name for name, value in vars(TrainerState()).items() if type(value) in (int, float)]
    sound = all(isinstance(getattr(state, name), (int, float)) for name in numbers)
    if state.global_step != step or not sound or not all(isinstance(row, dict) for row in state.log_history):
        raise ValueError("its history is of another run")


def _numbered(checkpoints: Path) -> list[Path]:
    found = [path for path in checkpoints.glob(f"{KIND}-*") if path.name.split("-")[1].isdigit()]
    return sorted(found, key=step_of, reverse=True)


def _complete(checkpoints: Path) -> list[Path]:
    return [path for path in _numbered(checkpoints) if _opens(path)]


def _opens(path: Path) -> bool:
    with contextlib.suppress(ValueError, OSError):
        return bool(open_folder(path, KIND))
    return False
