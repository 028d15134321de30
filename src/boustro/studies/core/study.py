"""The base of all studies: cells that are computed once (`Cells`), and those of encoders on labelled data (`Study`).

A cell is one system with one number: a seed in a comparison, K in a few-shot study, the pieces of a training run. It is
a folder that is either complete or absent, so a study that was killed continues where it stopped, and its name changes
with everything that decides the cell's numbers: settings, the encoder's weights and the data, but not with their paths.

    cells/starter-mlp-2-1f3a9c20/
        scores.json       scores, and what training recorded
        dev.jsonl …       of a comparison: one line per sentence, with reference, answer and scores
        trained/          of a comparison: the trained head

A subclass says which systems there are, how a cell is computed, and what is reported. Tables and reports are made from
the cells alone, without a model.
"""

import contextlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table

from boustro.encoders.base import Encoder
from boustro.encoders.spec import spec_fingerprint
from boustro.locks import lock
from boustro.output import DEFAULT_RUN, RunOptions, keeping
from boustro.progress import Progress, write_line
from boustro.store import (
    fingerprint,
    read_folder,
    read_json,
    reading,
    refuse_foreign,
    remove_folder,
    write_file,
    write_folder,
)
from boustro.studies.core.systems import System
from boustro.studies.report import StudyReport
from boustro.tasks import TASKS
from boustro.tasks.base import Task
from boustro.tasks.data.fingerprint import data_fingerprint
from boustro.tasks.labellings import Labelling, labelling_class
from boustro.tasks.tagger import Tagger
from boustro.tasks.units import Units
from boustro.types import Sentence

KIND = "cell"
CELL_FORMAT = 5  # of a cell's folder; cells of an older format are computed again
TRAINED = ("manifest.json", "config.json", "head.safetensors", "README.md")
FILES = ("scores.json", "dev.jsonl", "test.jsonl", *(f"trained/{name}" for name in TRAINED))
"""The files of a cell."""


@dataclass(frozen=True)
class Cell:
    """A system with one seed, one K, or one number of pieces."""

    system: Any
    """Of a `Study` a `System`."""
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
        """What `value` is, such as dev F1."""

    @abstractmethod
    def cells(self, out: Path) -> list[Cell]:
        """All cells, system by system, whether they are complete or not."""

    @abstractmethod
    def compute(self, cell: Cell, folder: Path) -> dict[str, Any]:
        """Compute one cell: write its files into `folder`, and return the contents of scores.json."""

    @abstractmethod
    def value(self, cell: Cell) -> float:
        """The score that progress messages show; any error means that the cell is damaged."""


@dataclass(frozen=True, kw_only=True)
class Study(Cells):
    """What is compared, and on which data."""

    encoders: tuple[str, ...]
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence] | None = None
    task: type[Task[Any, Any]] = Tagger
    run: RunOptions = DEFAULT_RUN
    title: str
    unit: ClassVar[str]
    """What a cell's number is, as its name shows it."""
    report: ClassVar[StudyReport]

    @cached_property
    def labelling(self) -> type[Labelling]:
        """What the task's heads learn first from the training data, as these are labelled."""
        return labelling_class(self.task.labellings[0], self.train)

    @property
    def units(self) -> Units:
        """What is counted in the examples."""
        return self.labelling.units

    @property
    def counted(self) -> str:
        """What is counted, in the plural."""
        return self.facts["units"]

    @property
    def facts(self) -> dict[str, Any]:
        """What reports know of the task."""
        return self.units.facts(TASKS[self.task.name].examples)

    @property
    def judged_on(self) -> str:
        """The data set that the report is about: test where there is one, else dev."""
        return "test" if self.test else "dev"

    def data(self) -> dict[str, list[Sentence]]:
        """The data sets that are used, by name."""
        return {"train": self.train, "dev": self.dev, **({"test": self.test} if self.test else {})}

    def encoded(self) -> list[list[Any]]:
        """The data whose features are written to the cache."""
        return list(self.data().values())

    def context(self) -> dict[str, str]:
        """Options of a task that reads single sentences where the training data name no document, as `fit` does."""
        return {} if self.has_documents else {"context": "sentence"}

    @cached_property
    def has_documents(self) -> bool:
        """Whether the training data name documents."""
        return any(getattr(example, "document", "") for example in self.train)

    def judged(self) -> dict[str, list[Sentence]]:
        """The data sets that systems answer, by name."""
        return {name: sentences for name, sentences in self.data().items() if name != "train"}

    @abstractmethod
    def systems(self) -> list[System]:
        """In the order of the tables."""

    @abstractmethod
    def numbers(self, system: System) -> Sequence[int]:
        """The seeds, or the K, that a system is computed with."""

    @abstractmethod
    def settings(self, system: System, number: int) -> dict[str, Any]:
        """Everything that decides a cell's numbers, except the encoder's weights and the data; as JSON values."""

    @abstractmethod
    def encoder(self, system: System) -> Encoder:
        """The encoder that a system reads the data with."""

    @abstractmethod
    def encoding_key(self, cell: Cell) -> Hashable:
        """Equal for cells that share one pass of the encoder over the data when there is no feature cache."""

    @abstractmethod
    def estimate(self, known: Sequence[Cell], missing: Sequence[Cell]) -> tuple[float, str]:
        """Seconds to compute one system's missing cells from features, and the source of this estimate."""

    @abstractmethod
    def summarise(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """What results.json holds beside `core.run.shared_results`."""

    @abstractmethod
    def table(self, results: Mapping[str, Any], width: int) -> tuple[Table, str]:
        """The table on standard output, at most `width` characters wide, and what is said below it."""

    def cell(self, system: System, number: int, out: Path) -> Cell:
        """One cell, whether it is complete or not."""
        settings = {**self.settings(system, number), "encoder": self._weights[system.encoder]}
        key = fingerprint(CELL_FORMAT, self.task.name, settings, number, self._fingerprints)
        safe = "".join(c if c.isalnum() or c in "-+." else "_" for c in system.encoder)[-60:]
        folder = out / "cells" / f"{safe}-{system.head}-{number}-{key[:8]}"
        return Cell(system, number, f"{system.name}, {self.unit} {number}", folder)

    def cells(self, out: Path) -> list[Cell]:
        return [self.cell(system, number, out) for system in self.systems() for number in self.numbers(system)]

    @cached_property
    def _weights(self) -> dict[str, list[Any]]:
        return {spec: spec_fingerprint(spec) for spec in self.encoders}

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        return {name: data_fingerprint(sentences) for name, sentences in self.data().items()}


def reading_cells(cells: Sequence[Cell]) -> contextlib.AbstractContextManager[None]:
    """Around a block that only reads cells: what another version wrote becomes a `ValueError` with their folder."""
    return reading(cells[0].folder.parent, "remove that folder and run the study again")


def is_complete(study: Cells, cell: Cell) -> bool:
    """Whether a cell is there, undamaged."""
    with contextlib.suppress(FileNotFoundError, ValueError), read_folder(cell.folder, KIND, verify=True):
        study.value(replace(cell))  # a copy, so that the scores of a damaged cell are not kept
        return True
    return False


def find_cells(study: Cells, out: Path) -> list[Cell]:
    """The complete cells."""
    return [cell for cell in study.cells(out) if is_complete(study, cell)]


def compute_cells(study: Cells, out: Path) -> list[Cell]:
    """All cells; those that are not complete are computed, one after the other."""
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
        remove_folder(cell.folder, FILES)  # damaged, or absent
        refuse_foreign(cell.folder, KIND)
        with write_folder(cell.folder, KIND) as folder:
            scores = study.compute(cell, folder)
            write_file(folder / "scores.json", json.dumps(scores, indent=1, ensure_ascii=False))
