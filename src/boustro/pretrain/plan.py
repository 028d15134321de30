"""A training that must fit into minutes: some of its steps are measured, and what follows from them is kept in a file.

A run that is continued keeps to its plan, which belongs to the run's inputs and options, its `key`.
"""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from boustro.pretrain.config import PretrainConfig
from boustro.pretrain.progress import PROBE_STEPS, DryRun
from boustro.pretrain.run import pretrain
from boustro.store import read_json, reading, write_file

FILE = "plan.json"
LEAST_STEPS = 10
"""With fewer a training is not begun."""


@dataclass(frozen=True)
class Plan:
    """What is decided before a training; `key` is of the inputs and options."""

    key: str


AnyPlan = TypeVar("AnyPlan", bound=Plan)


def keep_plan(folder: Path, plan: AnyPlan) -> AnyPlan:
    """Write the plan into a folder."""
    write_file(folder / FILE, json.dumps(asdict(plan), indent=1))
    return plan


def kept_plan(folder: Path, kind: type[AnyPlan], key: str) -> AnyPlan | None:
    """The plan of a run that is continued; None for none, `ValueError` for a damaged one and that of other inputs."""
    if not (folder / FILE).is_file():
        return None
    with reading(folder / FILE, "give --overwrite to start again"):
        plan = kind(**read_json(folder / FILE))
    if plan.key != key:
        raise ValueError(
            f"{folder} was begun with other files or options; give the same ones to continue, --overwrite to start "
            "again, or another --out"
        )
    return plan


class Measured(NamedTuple):
    """Seconds of a step, and of all that comes before the first one."""

    step: float
    start: float


def measure(config: PretrainConfig) -> Measured | None:
    """Take some steps of a training; None where its text is too short for that."""
    began, tokens = time.monotonic(), PROBE_STEPS * config.segment_length * config.batch_segments
    try:
        pretrain(replace(config, tokens=tokens, dry_run=True))
    except DryRun as run:
        if run.step_seconds is not None:
            return Measured(run.step_seconds, max(0.0, time.monotonic() - began - PROBE_STEPS * run.step_seconds))
    return None
