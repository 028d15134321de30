"""A few-shot study: encoders × heads × K, each cell over all draws of its K; a subclass says how heads are trained."""

import statistics
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from boustro.encoders.cost import num_words
from boustro.store import fingerprint
from boustro.studies.core.cells import Cell
from boustro.studies.core.grid import Grid
from boustro.studies.core.systems import System
from boustro.studies.fewshot.report import REPORT, shots_table
from boustro.studies.fewshot.results import summarise
from boustro.tasks.data import data_name
from boustro.types import Sentence


@dataclass(frozen=True, kw_only=True)
class ShotStudy(Grid):
    """What is compared, on which data. `ValueError` where there is nothing to learn."""

    protocol: str
    """A key of `core.draws.DRAWS` and of `report.EXPLAINED`."""
    budget: int | None = None
    """Runs of a random search, which selects on the development set; None where nothing is searched."""
    title: str = "Few labelled sentences"
    unit = "K ="

    def __post_init__(self) -> None:
        if not (self.encoders and self.shots and self.seeds > 0):
            raise ValueError("nothing to compare: give at least one encoder, one K and one draw")
        if self.units.has_labels and not any(map(self.units.gold, self.train)):
            raise ValueError(
                f"{data_name(self.train)}: there are no {self.counted} with a label, so there is nothing to learn"
            )
        for name, sentences in self.data().items():
            self.units.check_data(name, sentences)

    @property
    def measure(self) -> str:
        return f"{self.judged_on} {self.units.metric}"

    @property
    def drawing(self) -> str:
        return self.protocol

    def data(self) -> dict[str, list[Sentence]]:
        """Without dev where there is a test set, and nothing is selected."""
        uses_dev = self.budget is not None or not self.test
        return {name: sentences for name, sentences in super().data().items() if name != "dev" or uses_dev}

    def settings(self, system: System, number: int) -> dict[str, Any]:
        return {
            "head": system.head,
            "tags": system.variant["tags"],
            "options": self.shown_options(),
            "protocol": self.protocol,
            "budget": self.budget,
            "draws": fingerprint([draw.tolist() for draw in self.draws[number]]),
        }

    @abstractmethod
    def head_name(self, system: System) -> str:
        """What a system's head is called in tables."""

    @abstractmethod
    def shown_options(self) -> dict[str, Any]:
        """The options that decide the numbers."""

    @abstractmethod
    def notices(self) -> list[str]:
        """What of the data is left out or too little."""

    def short(self, shots: int) -> dict[str, int]:
        """Labels with fewer than K examples to draw, with their number. By default none."""
        return {}

    def sizes(self, draw: np.ndarray) -> dict[str, int]:
        """How much a draw has."""
        return {"sentences": len(draw), "words": num_words(self.train[number] for number in draw)}

    def encoding_key(self, cell: Cell) -> str:
        return cell.system.encoder

    def value(self, cell: Cell) -> float:
        return statistics.fmean(row["score"] for row in cell.scores["rows"])

    def summarise(self, cells: Sequence[Cell]) -> dict[str, Any]:
        return summarise(self, cells)

    def table(self, results: Mapping[str, Any], width: int) -> tuple[Table, str]:
        return shots_table(results), f"\n{REPORT.summary(results)}\n{REPORT.verdict(results)}"
