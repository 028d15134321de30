"""Checkpoints of a run: complete or absent, found by their manifest, the same for one process and for many.

    OUT.checkpoints/checkpoint-300/
      weights.safetensors      the weights of the trained module; a tied tensor is saved once
      optimizer.safetensors    the optimiser's tensors; "3.momentum_buffer" belongs to parameter 3
      optimizer.json           its parameter groups, the schedule, the seconds so far, the losses not yet in the history
      trainer_state.json       the Trainer's: the step and the history
      manifest.json            written last: sizes, hashes, and the facts that decide the run

The data and the dropout of a step follow from its number (`pretrain.segments`, `trainer`), so no generator state
and no data position is saved, and a run may be resumed with another number of processes. Two checkpoints are kept.
"""

import contextlib
import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import TrainerState

from boustro.lab.pretrain.config import RunConfig
from boustro.lab.pretrain.distributed import (
    broadcast_from_rank0,
    distinct_tensors,
    is_rank0,
    say,
    sharded_like,
    whole,
    whole_state,
)
from boustro.lab.pretrain.output import REPLACE, START_AGAIN, refuse_another_run, refuse_not_finite
from boustro.locks import discard
from boustro.store import Artefact, read_json, reading, refuse_foreign, remove_folder, write_folder

# the last two: a run that is killed while it writes one still has the other
CHECKPOINT_KIND, NUM_KEPT, WEIGHTS_FILE, STATE = "checkpoint", 2, "weights.safetensors", "trainer_state.json"
TENSORS, OPTIONS = "optimizer.safetensors", "optimizer.json"
CHECKPOINT_FILES = (WEIGHTS_FILE, TENSORS, OPTIONS, STATE)


def write_checkpoint(
    folder: Path, module: nn.Module, optimizer: Any, scheduler: Any, state: TrainerState, made_by: dict, **so_far: Any
) -> None:
    """Write a checkpoint and keep the newest two; all processes call it. `load_steps` returns `so_far`."""
    weights, optimizer_state = distinct_tensors(whole_state(module)), optimizer.state_dict()
    tensors = {
        f"{index}.{name}": whole(tensor).contiguous()
        for index, values in optimizer_state["state"].items()
        for name, tensor in values.items()
    }
    if not is_rank0():
        return
    refuse_not_finite(weights.values(), f"the weights after step {state.global_step:,}")
    with write_folder(folder, CHECKPOINT_KIND, made_by) as staging:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, staging / WEIGHTS_FILE)
        save_file(tensors, staging / TENSORS)
        rest = {"groups": optimizer_state["param_groups"], "schedule": scheduler.state_dict(), **so_far}
        (staging / OPTIONS).write_text(json.dumps(rest))
        state.save_to_json(str(staging / STATE))
    complete = [path for path in _numbered(folder.parent) if _opens(path)]
    for old in complete[NUM_KEPT:]:
        remove_folder(old)


@torch.no_grad()
def load_weights(folder: str | Path, module: nn.Module) -> None:
    """The weights of a checkpoint, into a module that may be sharded. `ValueError` for those of another module."""
    saved, state = load_file(Path(folder) / WEIGHTS_FILE), distinct_tensors(module.state_dict(keep_vars=True))
    if {name: tensor.shape for name, tensor in saved.items()} != {name: tensor.shape for name, tensor in state.items()}:
        raise ValueError("its weights are those of another model")
    for name, tensor in state.items():
        tensor.copy_(sharded_like(saved[name], tensor))


def load_steps(folder: str | Path, optimizer: Any, scheduler: Any) -> dict[str, Any]:
    """Load the optimiser, sharded as the parameters, and schedule; returns `so_far`. `ValueError` for unfit ones."""
    folder = Path(folder)
    rest = read_json(folder / OPTIONS)
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in load_file(folder / TENSORS).items():
        index, name = key.split(".")
        state.setdefault(int(index), {})[name] = tensor
    groups, ours = rest.pop("groups"), optimizer.state_dict()["param_groups"]
    for group, our_group in zip(groups, ours, strict=True):
        if not _kinds(our_group).items() <= _kinds(group).items() or group["params"] != our_group["params"]:
            raise ValueError("its options belong to another optimiser")
        if len({frozenset(state[index]) for index in group["params"] if index in state}) > 1:
            raise ValueError("tensors of the optimiser are missing")
    numbered = enumerate(parameter for group in optimizer.param_groups for parameter in group["params"])
    if any(t.ndim and t.shape != p.shape for index, p in numbered for t in state.get(index, {}).values()):
        raise ValueError("tensors of the optimiser have other shapes")
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    for parameter, values in optimizer.state.items():
        for name, tensor in values.items():
            if isinstance(parameter, DTensor) and tensor.shape == parameter.shape:
                values[name] = sharded_like(tensor, parameter)
    scheduler.load_state_dict(rest.pop("schedule"))
    return rest


def newest_checkpoint(checkpoints: Path, facts: dict[str, Any]) -> Path | None:
    """Return the newest complete checkpoint; incomplete ones are reported and removed. `ValueError` for one of another
    run."""
    for staging in checkpoints.glob(f".{CHECKPOINT_KIND}-*.staging"):
        say(f"skipped a half-written checkpoint: {staging}")
        shutil.rmtree(staging, ignore_errors=True)
    for path in _numbered(checkpoints):
        if not is_usable(path, CHECKPOINT_KIND, facts, CHECKPOINT_FILES):
            continue
        with reading(path, START_AGAIN):
            _check_state(TrainerState.load_from_json(str(path / STATE)), step_of(path))
        say(f"resuming from {path}")
        return path
    say(f"{checkpoints}: no complete checkpoint, starting from the beginning")
    return None


def is_usable(path: Path, kind: str, facts: dict[str, Any], own: Collection[str]) -> bool:
    """Return whether a checkpoint is complete; if not, it is reported and removed, with files of `own` names.

    Raises `ValueError` for one of another run, and `FileExistsError` for a foreign file in one that is not complete.
    """
    try:
        made_by = Artefact(path).check(kind, verify=True)["made_by"]
    except (ValueError, OSError) as error:
        say(f"skipped an incomplete checkpoint: {error}")
        remove_folder(path, own)
        refuse_foreign(path, kind)  # a foreign file, where this run would write its own checkpoint
        return False
    refuse_another_run(path, made_by, facts)
    return True


def find_checkpoint(config: RunConfig, facts: dict[str, Any]) -> Path | None:
    """Return the checkpoint from which this run continues, if `--resume` is given and there is one."""
    return broadcast_from_rank0(lambda: newest_checkpoint(config.checkpoints, facts)) if config.resume else None


def finished_run(config: RunConfig, kind: str, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return the content of `training.json` if `--resume` finds this run finished; `ValueError` for another finished
    run."""
    if not config.resume or not (config.out / "manifest.json").is_file():
        return None
    with Artefact(config.out).opened(kind, verify=True):
        result = read_json(config.out / "training.json")
        refuse_another_run(config.out, result, facts, REPLACE)
    say(f"{config.out}: this run is finished; nothing to do")
    if is_rank0():
        remove_checkpoints(config.checkpoints)  # left by a run that was killed at its very end
    return result


def remove_checkpoints(checkpoints: Path) -> None:
    """Remove all checkpoints of a run, and their folder if it is then empty."""
    for path in _numbered(checkpoints):
        remove_folder(path, CHECKPOINT_FILES)
    for path in checkpoints.glob(f".{CHECKPOINT_KIND}-*"):
        discard(path)
    with contextlib.suppress(OSError):  # absent, or not empty
        checkpoints.rmdir()


def step_of(checkpoint: Path) -> int:
    """`checkpoint-300` → 300."""
    return int(checkpoint.name.split("-")[1])


def _check_state(state: TrainerState, step: int) -> None:
    numbers = [name for name, value in vars(TrainerState()).items() if type(value) in (int, float)]
    sound = all(isinstance(getattr(state, name), (int, float)) for name in numbers)
    sound = sound and state.best_model_checkpoint is None  # no run of ours keeps the best of several
    if state.global_step != step or not sound or not all(isinstance(row, dict) for row in state.log_history):
        raise ValueError("its history is that of another run")


def _numbered(checkpoints: Path) -> list[Path]:
    paths = [path for path in checkpoints.glob(f"{CHECKPOINT_KIND}-*") if path.name.split("-")[1].isdigit()]
    return sorted(paths, key=step_of, reverse=True)


def _opens(path: Path) -> bool:
    with contextlib.suppress(ValueError, OSError):
        return bool(Artefact(path).check(CHECKPOINT_KIND))
    return False


def _kinds(group: dict[str, Any]) -> dict[str, str]:
    """Return the JSON type of each option of a parameter group."""
    kinds = {bool: "flag", int: "number", float: "number", list: "list", tuple: "list"}
    return {name: kinds.get(type(value), type(value).__name__) for name, value in group.items()}
