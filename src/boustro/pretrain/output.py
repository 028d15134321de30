"""Where a run writes, and what may stand there already.

    OUT                  its artefact, once it is finished
    OUT.checkpoint(s)    what it has done so far, until then

    neither                  the run begins
    OUT, --resume            it is left as it is, if it is of this very run
    checkpoints, --resume    the run goes on
    either, --overwrite      the run begins anew
    either, nothing said     FileExistsError, which names the two options

One process writes, and holds the place for as long as the run takes.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from boustro.pretrain.config import RunConfig
from boustro.pretrain.processes import is_first, say
from boustro.store import claim, read_folder, read_json

BEGIN_ANEW = "give --overwrite in place of --resume to begin anew"


@contextlib.contextmanager
def run_output(config: RunConfig, kind: str, checkpoints: Path) -> Iterator[None]:
    """Claim the output of a run; a dry run writes nothing and claims nothing.

    Raises `FileExistsError` and `BlockingIOError` as `store.claim`, and the former for `checkpoints` that were left.
    """
    if config.resume and config.overwrite:
        raise ValueError("give --resume to go on with a run or --overwrite to begin it anew, not both")
    if config.dry_run or not is_first():
        yield
        return
    with claim(config.out, kind, overwrite=config.overwrite or config.resume):
        if checkpoints.is_dir() and any(checkpoints.iterdir()) and not (config.resume or config.overwrite):
            raise FileExistsError(
                f"{checkpoints} holds what a run that was stopped had done; give --resume to go on with it, or "
                "--overwrite to begin anew"
            )
        yield


def finished_run(config: RunConfig, kind: str, facts: dict[str, Any]) -> dict[str, Any] | None:
    """What `training.json` says, where this very run has been finished; `ValueError` where another one has."""
    if not config.resume or not (config.out / "manifest.json").is_file():
        return None
    with read_folder(config.out, kind, verify=True):
        result = read_json(config.out / "training.json")
        refuse_another_run(
            config.out, result, facts, "give --overwrite in place of --resume to replace it, or choose another --out"
        )
    say(f"{config.out}: this run is finished; nothing to do")
    return result


def refuse_another_run(path: Path, record: dict[str, Any], facts: dict[str, Any], advice: str = BEGIN_ANEW) -> None:
    """`ValueError` where the `run` that a folder's record tells of has other facts."""
    found = record.get("run")
    known = found if isinstance(found, dict) else {}
    differing = [name for name in facts if known.get(name) != facts[name]]
    if differing:
        raise ValueError(f"{path} is of a run with another {', '.join(differing)}; {advice}")


def refuse_not_finite(value: float | nn.Module | Mapping[str, Tensor], what: str) -> None:
    """`ValueError` for a loss, or weights, that are not finite: nothing good would come of going on, or of writing."""
    weights = value.state_dict() if isinstance(value, nn.Module) else value
    if isinstance(weights, Mapping):
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())
        said = "are not finite"
    else:
        finite, said = bool(torch.isfinite(torch.tensor(weights))), f"is {value}"
    if not finite:
        raise ValueError(f"{what} {said}; nothing was written. Try a lower --lr, or a longer --warmup")
