"""A scaling study: training runs of several sizes at several budgets, each a cell, and a loss curve for each objective.

A run that is stopped is continued from its checkpoint, in OUT/runs, when the study is started again; a finished run
leaves its figures in a cell, and its weights are removed.
"""

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from boustro.apps.studies.core.cells import CELL_FORMAT, Cell, Cells, is_complete
from boustro.apps.studies.scaling.command import ScalingOptions
from boustro.apps.studies.scaling.curve import FinishedRun, fit_curve, refusal
from boustro.errors import count_of
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.shards import Shards
from boustro.output import duration
from boustro.store import fingerprint, remove_folder

SCALING_FACTS = ("direction", "segment_length", "batch_segments", "lr", "validation_pieces")
"""Options that decide a run's figures, besides its own."""


class Trained(NamedTuple):
    """Objective, size and seed that a cell trains."""

    objective: str
    size: str
    seed: int


@dataclass(frozen=True)
class ScalingStudy(Cells):
    """The runs that the options name."""

    options: ScalingOptions

    @property
    def measure(self) -> str:
        return "validation loss"

    def cells(self, out: Path) -> list[Cell]:
        """Small before large, so that the first figures come soon."""
        given = self.options
        seeds = range(1, given.seeds + 1)
        kinds = itertools.product(given.objectives, sorted(set(given.budgets)), given.sizes, seeds)
        return [self._cell(Trained(objective, size, seed), pieces, out) for objective, pieces, size, seed in kinds]

    def _cell(self, trained: Trained, pieces: int, out: Path) -> Cell:
        settings = {name: getattr(self.options, name) for name in SCALING_FACTS}
        key = fingerprint(CELL_FORMAT, trained._asdict(), settings, self._data)
        size = Path(trained.size).name.removesuffix(".json")
        folder = out / "cells" / f"{trained.objective}-{size}-{pieces}-{trained.seed}-{key[:8]}"
        return Cell(trained, pieces, f"{trained.objective}, {size}, {pieces:,} pieces, seed {trained.seed}", folder)

    @cached_property
    def _data(self) -> list[str]:
        return [Shards.open(path).fingerprint for path in (*self.options.shards, self.options.validation)]

    def config(self, cell: Cell) -> PretrainConfig:
        """Return the options of a cell's run."""
        given, trained = self.options, cell.system
        run = given.out / "runs" / cell.folder.name
        begun = run.exists() or run.with_name(f"{run.name}.checkpoints").exists()
        return PretrainConfig(
            shards=given.shards,
            validation=given.validation,
            out=run,
            objective=trained.objective,
            preset=trained.size,
            seed=trained.seed,
            tokens=cell.number,
            direction=given.direction,
            segment_length=given.segment_length,
            batch_segments=given.batch_segments,
            lr=given.lr,
            validation_pieces=given.validation_pieces,
            compile=given.compile,
            save_minutes=given.save_minutes,
            evaluations=1,
            resume=begun,
        )

    def compute(self, cell: Cell, folder: Path) -> dict[str, Any]:
        from boustro.lab.pretrain.run import run_pretraining

        print(f"{cell.name}:", file=sys.stderr)
        config = self.config(cell)
        result = run_pretraining(config)
        remove_folder(config.out)
        kept = ("num_parameters", "pieces_seen", "validation_loss", "validation_perplexity", "seconds")
        return {**cell.system._asdict(), **{name: result[name] for name in kept}}

    def value(self, cell: Cell) -> float:
        return float(cell.scores["validation_loss"])


def plan_grid(study: ScalingStudy, out: Path) -> dict[str, Any]:
    """Cells known and missing, the pieces that are to be read by size, and the seconds that known cells tell of."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in study.cells(out):
        key = (cell.system.objective, cell.system.size)
        row = rows.setdefault(key, {"objective": key[0], "size": key[1], "known": 0, "missing": 0, "pieces": 0})
        if is_complete(study, cell):
            row["known"] += 1
            row["pieces_per_second"] = cell.scores["pieces_seen"] / max(cell.scores["seconds"], 1e-9)
        else:
            row["missing"] += 1
            row["pieces"] += cell.number
    return {"runs": list(rows.values())}


def describe_grid(plan: dict[str, Any]) -> str:
    """Return the plan as text."""
    known, missing = (sum(row[name] for row in plan["runs"]) for name in ("known", "missing"))
    lines = [f"{count_of(known + missing, 'cells')}: {known} known, {missing} to compute"]
    for row in plan["runs"]:
        if row["missing"]:
            speed = row.get("pieces_per_second")
            time = duration(row["pieces"] / speed) if speed else "boustro lab pretrain --dry-run measures how long"
            lines.append(
                f"  {row['objective']}, {row['size']}: {row['pieces']:,} pieces in {row['missing']} runs, {time}"
            )
    return "\n".join(lines)


def summarise_runs(study: ScalingStudy, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the runs of each objective, and its curve, or why there is none."""
    wanted = study.cells(study.options.out)
    objectives = {}
    for objective in study.options.objectives:
        rows = [cell.scores for cell in cells if cell.system.objective == objective]
        runs = [FinishedRun(row["num_parameters"], row["pieces_seen"], row["validation_loss"]) for row in rows]
        why = refusal(runs)
        objectives[objective] = {"runs": rows, "curve": None if why else fit_curve(runs).to_dict(), "refusal": why}
    stamp = "" if len(cells) == len(wanted) else f"{len(cells)} of {len(wanted)} cells"
    return {"stamp": stamp, "objectives": objectives}
