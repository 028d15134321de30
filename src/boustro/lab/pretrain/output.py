"""Where a run writes, and what may exist there already.

    OUT                  the finished folder
    OUT.checkpoints      checkpoints, until the run is finished

Only the first process writes. It locks OUT for the whole run.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from boustro.lab.pretrain.config import OutputConfig
from boustro.lab.pretrain.distributed import is_rank0
from boustro.output import keeping
from boustro.store import claim

START_AGAIN = "give --overwrite in place of --resume to start again"
REPLACE = "give --overwrite in place of --resume to replace it, or choose another --out"


@contextlib.contextmanager
def run_output(config: OutputConfig, kind: str) -> Iterator[None]:
    """Lock the output of a run; a dry run writes nothing and locks nothing.

    Raises `FileExistsError` and `BlockingIOError` as `store.claim`, and the former for checkpoints of an earlier run.
    """
    if config.resume and config.overwrite:
        raise ValueError("give --resume to continue a run or --overwrite to start it again, not both")
    if config.dry_run or not is_rank0():
        yield
        return
    with claim(config.out, kind, overwrite=config.overwrite or config.resume):
        left = config.checkpoints.is_dir() and any(config.checkpoints.iterdir())
        if left and not (config.resume or config.overwrite):
            numbers = (path.name.rpartition("-")[2] for path in config.checkpoints.glob("checkpoint-*"))
            steps = [int(number) for number in numbers if number.isdigit()]
            done = f" after step {max(steps):,}" if steps else ""
            raise FileExistsError(
                f"{config.checkpoints} has the checkpoints of a run that was stopped{done}; give --resume to continue "
                "it, or --overwrite to start again"
            )
        kept = f"{config.checkpoints} has the checkpoints; {config.again} goes on"
        try:
            with keeping(lambda: kept if any(config.checkpoints.glob("*/manifest.json")) else ""):
                yield
        finally:
            with contextlib.suppress(OSError):  # absent, or not empty
                config.checkpoints.rmdir()


def refuse_another_run(path: Path, record: dict[str, Any], facts: dict[str, Any], advice: str = START_AGAIN) -> None:
    """`ValueError` where the `run` in a folder's record has other facts."""
    known = record["run"] if isinstance(record.get("run"), dict) else {}
    differing = [name for name in facts if known.get(name) != facts[name]]
    if differing:
        raise ValueError(f"{path} is of a run with another {', '.join(differing)}; {advice}")


def refuse_not_finite(value: float | Iterable[Tensor], what: str) -> None:
    """`ValueError` for a loss or weights that are not finite."""
    problem = "are not finite" if isinstance(value, Iterable) else f"is {value}"
    tensors = value if isinstance(value, Iterable) else [torch.tensor(value)]
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise ValueError(f"{what} {problem}; nothing was written. Try a lower --lr, or a longer --warmup")
