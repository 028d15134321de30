"""Few examples for a task without few-shot heads: scores, questions, texts with several labels.

K examples are drawn at random, K in all, and the task's own head is trained on each draw with the defaults, by itself,
without a development set.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from boustro.encoders.base import Encoder
from boustro.encoders.cost import PROBE_SENTENCES, num_words
from boustro.studies.core.cells import Cell
from boustro.studies.core.systems import System, name_systems
from boustro.studies.fewshot.report import OWN_REPORT
from boustro.studies.fewshot.study import ShotStudy
from boustro.tasks import TASKS
from boustro.tasks.base import Task

OWN = "own"
"""The protocol of these studies."""


@dataclass(frozen=True, kw_only=True)
class OwnHeadStudy(ShotStudy):
    """The task's own head with K examples in all."""

    protocol: str = OWN
    report = OWN_REPORT

    def encoded(self) -> list[list[Any]]:
        return list(self.judged().values())

    def systems(self) -> list[System]:
        head = TASKS[self.task.name].config.default_head
        return name_systems((spec, head, {"tags": OWN}) for spec in self.encoders)

    def head_name(self, system: System) -> str:
        return system.head

    def numbers(self, system: System) -> Sequence[int]:
        return self.shots

    def settings(self, system: System, number: int) -> dict[str, Any]:
        return {**super().settings(system, number), "options": self._make(system).settings()}

    def shown_options(self) -> dict[str, Any]:
        return {}

    def compute(self, cell: Cell, folder: Path) -> dict[str, Any]:
        model, rows, notices = self._make(cell.system), [], []  # one for all draws, which loads the LMs once
        for number, draw in enumerate(self.draws[cell.number], 1):
            self._fit(model, cell.number, number)
            rows.append({"draw": number, **self.sizes(draw), "score": self._score(model), "per_type": {}})
            notices.append(model.notices(cached=True))  # with those of the draws before
        return {"parameters": model.encoder().num_parameters, "notices": notices[0], "rows": rows}

    def encoder(self, system: System) -> Encoder:
        return self._make(system).encoder(cached=True)

    def estimate(self, known: Sequence[Cell], missing: Sequence[Cell]) -> tuple[float, str]:
        """A probe: one draw of the smallest missing K, and a hundred examples to answer."""
        cell = min(missing, key=lambda cell: cell.number)
        draw, asked = self.draws[cell.number][0], self.judged()[self.judged_on]
        small = replace(self, **{self.judged_on: asked[:PROBE_SENTENCES], "run": replace(self.run, cache=False)})
        started = time.perf_counter()
        model = small._make(cell.system)
        small._fit(model, cell.number, 1)
        fitted = time.perf_counter()
        small._score(model)
        scored = (time.perf_counter() - fitted) * num_words(asked) / num_words(asked[:PROBE_SENTENCES])
        a_word = (fitted - started) / num_words(self.train[number] for number in draw)
        draws = [own for cell in missing for own in self.draws[cell.number]]
        words = sum(num_words(self.train[number] for number in own) for own in draws)
        return a_word * words + scored * len(draws), "a probe"

    def notices(self) -> list[str]:
        size = len(self.train)
        return [f"K = {shots}: there are {size:,} training examples only" for shots in self.shots if shots > size]

    def _make(self, system: System) -> Task[Any, Any]:
        return self.make(system, **self.context())

    def _fit(self, model: Task[Any, Any], shots: int, seed: int) -> None:
        try:
            model.fit(self.drawn(shots, seed), seed=seed)
        except ValueError as error:
            raise ValueError(
                f"draw {seed} of {len(self.draws[shots][seed - 1])} examples: {error}; if that is by chance, take more"
            ) from error

    def _score(self, model: Task[Any, Any]) -> float:
        """In percent, on what is judged."""
        asked = self.judged()[self.judged_on]
        return self.units.score(asked, model.answer(asked, cached=True))
