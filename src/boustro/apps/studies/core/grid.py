"""One grid of trainings: encoders × heads × options × K × seeds, on the same labelled data.

A *system* is an encoder under a head with some options, and with a K where there are several; a cell is a system with a
number. The number is a seed. K is how many examples are drawn to train on, anew for every seed (`core.draws`);
without it all of the training set is used.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.table import Table

from boustro.apps.studies.core.cells import CELL_FORMAT, Cell, Cells
from boustro.apps.studies.core.draws import DRAWS, short_types
from boustro.apps.studies.core.systems import System
from boustro.apps.studies.report import StudyReport
from boustro.encoders.base import Encoder
from boustro.encoders.spec import Spec
from boustro.errors import count_of
from boustro.output import DEFAULT_RUN, RunOptions
from boustro.store import fingerprint
from boustro.tasks import TASKS
from boustro.tasks.base import Task
from boustro.tasks.data.reading import data_fingerprint
from boustro.tasks.labellings import Labelling, labelling_class
from boustro.tasks.labellings.base import Units
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence


@dataclass(frozen=True, kw_only=True)
class Grid(Cells):
    """Cells of a study: encoders, seeds and numbers of examples, and the data."""

    encoders: tuple[str, ...]
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence] | None = None
    task: type[Task[Any, Any]] = Tagger
    run: RunOptions = DEFAULT_RUN
    shots: tuple[int, ...] = ()
    """K of K-shot: examples for each label, or in all where there are none. Empty for the whole training set."""
    seeds: int
    """Of heads, and of draws where there are shots; they are numbered from 1."""
    title: str
    unit: ClassVar[str]
    """What a cell's number is, as its name shows it."""
    report: ClassVar[StudyReport]

    @cached_property
    def labelling(self) -> type[Labelling]:
        """Labelling that the task's heads learn first from the training data, as these are labelled."""
        return labelling_class(TASKS[self.task.name].config.labellings[0], self.train)

    @property
    def units(self) -> Units:
        """Units that are counted in the examples."""
        return self.labelling.units

    @property
    def counted(self) -> str:
        """Name of the units, in the plural."""
        return self.facts["units"]

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the task that reports show."""
        return self.units.facts(TASKS[self.task.name].examples)

    @property
    def drawing(self) -> str:
        """How K examples are drawn, a key of `DRAWS`."""
        return "sound" if self.labelling.by_label else "own"

    @cached_property
    def draws(self) -> dict[int, list[np.ndarray]]:
        """For every K, the numbers of each draw's examples."""
        return DRAWS[self.drawing](self.train, self.shots, self.seeds) if self.shots else {}

    @property
    def distinct_shots(self) -> tuple[int, ...]:
        """The K without those whose draws are the ones of a smaller K, which has all that there is."""
        drawn = {k: [{*draw.tolist()} for draw in draws] for k, draws in self.draws.items()}
        return tuple(k for n, k in enumerate(drawn) if n == 0 or drawn[k] != drawn[self.shots[n - 1]])

    def shortages(self) -> Iterator[str]:
        """Of what there is too little in the training set, for notices."""
        for shots, (draw, *_) in self.draws.items():
            if self.drawing == "own" and shots > len(self.train):
                yield f"K = {shots}: only {count_of(len(self.train), 'training examples')}"
            short = short_types(self.train, draw, shots) if self.drawing != "own" else {}
            for label, count in short.items():
                yield f"K = {shots}: only {count_of(count, f'sentences that have {label}')}"

    @property
    def judged_on(self) -> str:
        """The data set that the report is about: test where there is one, else dev."""
        return "test" if self.test else "dev"

    def data(self) -> dict[str, list[Sentence]]:
        """Return the data sets that are used, by name."""
        return {"train": self.train, "dev": self.dev, **({"test": self.test} if self.test else {})}

    def encoded(self) -> list[list[Any]]:
        """Return the data whose features are written to the cache."""
        return list(self.data().values())

    def make(self, system: System, **options: Any) -> Task[Any, Any]:
        """Return an untrained model of a system; `ValueError` for a head or an option that its task does not have."""
        run = {"cache": self.run.cache, "device": self.run.device}
        return self.task(system.encoder, system.head, **{**run, **options})

    def context(self) -> dict[str, str]:
        """Options of a task that reads single sentences where the training data name no document, as `fit` does."""
        has_documents = any(getattr(example, "document", "") for example in self.train)
        return {} if has_documents else {"context": "sentence"}

    def judged(self) -> dict[str, list[Sentence]]:
        """Return the data sets that systems answer, by name."""
        return {name: sentences for name, sentences in self.data().items() if name != "train"}

    @abstractmethod
    def systems(self) -> list[System]:
        """In the order of the tables."""

    @abstractmethod
    def numbers(self, system: System) -> Sequence[int]:
        """Return the seeds, or the K, that a system is computed with."""

    @abstractmethod
    def settings(self, system: System, number: int) -> dict[str, Any]:
        """Everything that decides a cell's numbers, except the encoder's weights and the data; as JSON values."""

    @abstractmethod
    def encoder(self, system: System) -> Encoder:
        """Return the encoder that a system reads the data with."""

    @abstractmethod
    def encoding_key(self, cell: Cell) -> Hashable:
        """Equal for cells that share one pass of the encoder over the data when there is no feature cache."""

    @abstractmethod
    def estimate(self, known: Sequence[Cell], missing: Sequence[Cell]) -> tuple[float, str]:
        """Seconds to compute one system's missing cells from features, and the source of this estimate."""

    @abstractmethod
    def summarise(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """Return the entries of results.json beside those of `core.run.shared_results`."""

    @abstractmethod
    def table(self, results: Mapping[str, Any], width: int) -> tuple[Table, str]:
        """Return the table on standard output, at most `width` characters wide, and what is said below it."""

    def cell(self, system: System, number: int, out: Path) -> Cell:
        """Return one cell, whether it is complete or not."""
        settings = {**self.settings(system, number), "encoder": self._weights[system.encoder]}
        key = fingerprint(CELL_FORMAT, self.task.name, settings, number, self._fingerprints)
        safe = "".join(c if c.isalnum() or c in "-+." else "_" for c in system.encoder)[-60:]
        folder = out / "cells" / f"{safe}-{system.head}-{number}-{key[:8]}"
        return Cell(system, number, f"{system.name}, {self.unit} {number}", folder)

    def cells(self, out: Path) -> list[Cell]:
        return [self.cell(system, number, out) for system in self.systems() for number in self.numbers(system)]

    @cached_property
    def _weights(self) -> dict[str, list[Any]]:
        return {spec: Spec.parse(spec).fingerprint() for spec in self.encoders}

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        return {name: data_fingerprint(sentences) for name, sentences in self.data().items()}
