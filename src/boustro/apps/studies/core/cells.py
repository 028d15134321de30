"""Cells, which all studies consist of: each is computed once, and tables and reports are made from them alone.

A cell is one system with one number: a seed in a comparison, K in a few-shot study, the pieces of a training run. It is
a folder that is either complete or absent, so a study that was killed continues where it stopped, and its name changes
with everything that decides the cell's numbers: settings, the encoder's weights and the data, but not with their paths.

    cells/starter-mlp-2-1f3a9c20/
        scores.json       scores, and what training recorded
        dev.jsonl …       of a comparison: one line per sentence, with reference, answer and scores
        trained/          of a comparison: the trained head

A subclass says which cells there are, how one is computed, and what is reported; `core.grid` is that of encoders on
labelled data.
"""

import contextlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from boustro.locks import lock
from boustro.output import keeping
from boustro.progress import Progress, write_line
from boustro.store import Artefact, read_json, reading, refuse_foreign, remove_folder, write_file, write_folder

CELL_KIND = "cell"
CELL_FORMAT = 5  # of a cell's folder; cells of an older format are computed again
TRAINED = ("manifest.json", "config.json", "head.safetensors", "README.md")
CELL_FILES = ("scores.json", "dev.jsonl", "test.jsonl", *(f"trained/{name}" for name in TRAINED))
"""The files of a cell."""


@dataclass(frozen=True)
class Cell:
    """A system with one seed, one K, or one number of pieces."""

    system: Any
    """Of a `Grid` a `System`."""
    number: int
    name: str
    folder: Path

    @cached_property
    def scores(self) -> dict[str, Any]:
        """The contents of scores.json."""
        return read_json(self.folder / "scores.json")


class Cells(ABC):
    """Cells in their order, and how one is computed."""

    @property
    @abstractmethod
    def measure(self) -> str:
        """Name of `value`, such as dev F1."""

    @abstractmethod
    def cells(self, out: Path) -> list[Cell]:
        """Return all cells, system by system, whether they are complete or not."""

    @abstractmethod
    def compute(self, cell: Cell, folder: Path) -> dict[str, Any]:
        """Compute one cell: write its files into `folder`, and return the contents of scores.json."""

    @abstractmethod
    def value(self, cell: Cell) -> float:
        """Return the score that progress messages show; any error means that the cell is damaged."""


def reading_cells(cells: Sequence[Cell]) -> contextlib.AbstractContextManager[None]:
    """Around a block that only reads cells: what another version wrote becomes a `ValueError` with their folder."""
    return reading(cells[0].folder.parent, "remove that folder and run the study again")


def is_complete(study: Cells, cell: Cell) -> bool:
    """Return whether a cell is there, undamaged."""
    with contextlib.suppress(FileNotFoundError, ValueError), Artefact(cell.folder).opened(CELL_KIND, verify=True):
        study.value(replace(cell))  # a copy, so that the scores of a damaged cell are not kept
        return True
    return False


def find_cells(study: Cells, out: Path) -> list[Cell]:
    """Return the complete cells."""
    return [cell for cell in study.cells(out) if is_complete(study, cell)]


def compute_cells(study: Cells, out: Path) -> list[Cell]:
    """Return all cells; those that are not complete are computed, one after the other."""
    cells, done = study.cells(out), 0
    kept = keeping(lambda: f"{done:,} of {len(cells):,} cells are kept; the same command goes on")
    with kept, Progress("computing", "cells", total=len(cells)) as bar:
        for cell in cells:
            started, note = time.monotonic(), "known already"
            if is_complete(study, cell):
                bar.skip(1)
            else:
                compute_cell(study, cell)
                note = f"computed in {time.monotonic() - started:.0f} s"
                bar.update()
            done += 1
            score = f"{study.measure} {study.value(cell):.2f}"
            write_line(f"[{done}/{len(cells)}] {cell.name}: {score} ({note})")
    return cells


def compute_cell(study: Cells, cell: Cell) -> None:
    """Compute one cell, and replace a damaged one; when several programs run one study, the others wait for it."""
    with lock(cell.folder):
        if is_complete(study, cell):
            return
        remove_folder(cell.folder, CELL_FILES)  # damaged, or absent
        refuse_foreign(cell.folder, CELL_KIND)
        with write_folder(cell.folder, CELL_KIND) as folder:
            scores = study.compute(cell, folder)
            write_file(folder / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False))
