"""Few-shot heads: features are read once for each encoder, and the heads of all draws are trained at once.

`report.EXPLAINED` describes the two protocols, sound and paper.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from boustro.apps.studies.core.cells import Cell, reading_cells
from boustro.apps.studies.core.draws import entity_types
from boustro.apps.studies.core.grid import Grid
from boustro.apps.studies.core.systems import System, name_systems, short_specs
from boustro.apps.studies.fewshot.heads import resolve_head
from boustro.apps.studies.fewshot.options import SOUND, ShotOptions
from boustro.apps.studies.fewshot.report import REPORT, selection_score, shots_table
from boustro.apps.studies.fewshot.scoring import JudgedSet, read_judged, sound_rows
from boustro.apps.studies.fewshot.text_vectors import make_reader
from boustro.encoders.base import Encoder
from boustro.encoders.cache import PROBE_SENTENCES, num_words
from boustro.encoders.options import ReadingOptions
from boustro.features.reader import Reader
from boustro.features.vectors import VectorReader, vector_source
from boustro.metrics.score import spread
from boustro.metrics.significance import RELIABLE, holm, sign_flip_p
from boustro.store import fingerprint
from boustro.tasks.data import data_name
from boustro.tasks.data.schemes import flatten_entities
from boustro.types import Sentence


@dataclass(frozen=True, kw_only=True)
class ShotStudy(Grid):
    """Encoders × few-shot heads × K; `heads` are (head, tags). `ValueError` where there is nothing to learn."""

    heads: tuple[tuple[str, str], ...]
    protocol: str = "sound"
    """A key of `core.draws.DRAWS` and of `report.EXPLAINED`."""
    budget: int | None = None
    """Runs of a random search, which selects on the development set; None where nothing is searched."""
    options: ShotOptions = SOUND
    title: str = "Few labelled sentences"
    unit = "K ="
    report = REPORT

    def __post_init__(self) -> None:
        if not (self.encoders and self.shots and self.heads and self.seeds > 0):
            raise ValueError("nothing to compare: give at least one encoder, one K, one head and one draw")
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

    @cached_property
    def types(self) -> list[str]:
        """The entity types of the training data, the only ones that heads can predict."""
        return entity_types(self.train)

    @cached_property
    def judged_types(self) -> list[str]:
        """The types that are scored: those of the training data, then those that only the scored data have."""
        found = {label for sentences in self.judged().values() for label in entity_types(sentences)}
        return [*self.types, *sorted(found - set(self.types))]

    def systems(self) -> list[System]:
        resolved = dict.fromkeys(head for shots in self.shots for head in self._heads(shots))
        chosen = ((spec, head, {"tags": tags}) for spec in self.encoders for head, tags in resolved)
        return name_systems(chosen)

    def _heads(self, shots: int) -> list[tuple[str, str]]:
        """(head, tags) at this K."""
        return [resolve_head(self.labelling, *head, shots) for head in self.heads]

    def head_name(self, system: System) -> str:
        """What a system's head is called in tables."""
        return f"{system.head}, {system.variant['tags']}"

    def numbers(self, system: System) -> Sequence[int]:
        own = (system.head, system.variant["tags"])
        return [shots for shots in self.shots if own in self._heads(shots)]

    def shown_options(self) -> dict[str, Any]:
        """The options that decide the numbers."""
        return asdict(self.options)

    def settings(self, system: System, number: int) -> dict[str, Any]:
        return {
            "head": system.head,
            "tags": system.variant["tags"],
            "options": self.shown_options(),
            "protocol": self.protocol,
            "budget": self.budget,
            "draws": fingerprint([draw.tolist() for draw in self.draws[number]]),
        }

    def sizes(self, draw: np.ndarray) -> dict[str, int]:
        """How much a draw has."""
        return {"sentences": len(draw), "words": num_words(self.train[number] for number in draw)}

    def encoding_key(self, cell: Cell) -> str:
        return cell.system.encoder

    def value(self, cell: Cell) -> float:
        return statistics.fmean(row["score"] for row in cell.scores["rows"])

    def compute(self, cell: Cell, folder: Path) -> dict[str, Any]:
        def read() -> tuple[VectorReader, dict[str, JudgedSet]]:
            reader = self._reader(cell.system.encoder)
            return reader, read_judged(self, reader)

        reader, judged = self._keep("features", cell.system.encoder, read)
        return {
            "parameters": reader.encoder.num_parameters,
            "notices": dict(+reader.encoder.counts),
            "rows": self.rows(cell, reader, judged, self.draws[cell.number]),
        }

    def rows(
        self, cell: Cell, reader: VectorReader, judged: Mapping[str, JudgedSet], draws: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """One for each draw."""
        return sound_rows(self, reader, judged[self.judged_on], draws, cell.system.head, cell.system.variant["tags"])

    @cached_property
    def _latest(self) -> dict[tuple[str, str], Any]:
        """What was loaded last: cells of one encoder follow each other, and only one encoder is kept."""
        return {}

    def _keep(self, what: str, spec: str, load: Callable[[], Any]) -> Any:
        if (what, spec) not in self._latest:
            self._latest.clear()
            self._latest[what, spec] = load()
        return self._latest[what, spec]

    def _reader(self, spec: str) -> VectorReader:
        how = self.options.layers, self.options.standardise
        return make_reader(self.units.has_positions, self._source(spec), self.train, *how)

    def _source(self, spec: str) -> Reader:
        names = ("pool_mentions", "spelling", *(field.name for field in fields(ReadingOptions)))
        options = {name: getattr(self.options, name) for name in names}
        how = {"cache": self.run.cache, "device": self.run.device, "parts": self.task.parts}
        return vector_source(spec, self.train, **how, **options)

    def encoder(self, system: System) -> Encoder:
        return self._keep("encoder", system.encoder, lambda: self._source(system.encoder).encoder(cached=True))

    def estimate(self, known: Sequence[Cell], missing: Sequence[Cell]) -> tuple[float, str]:
        """A probe: one draw of the smallest missing K, with one sentence to tag and then with a hundred."""
        cheapest = min(missing, key=lambda cell: cell.number)
        draw = self.draws[cheapest.number][0]
        extra = self.options.self_train
        train = [self.train[number] for number in draw] + self.train[:extra]
        uncached = replace(self.run, cache=False)
        small = replace(self, run=uncached, train=train)
        reader = small._reader(cheapest.system.encoder)
        seconds = []
        for size in (1, 1, PROBE_SENTENCES):  # the first one warms up
            small = replace(small, dev=self.dev[:size], test=self.test[:size] if self.test else None)
            judged = read_judged(small, reader)
            started = time.perf_counter()
            small.rows(cheapest, reader, judged, [np.arange(len(draw))])
            seconds.append(time.perf_counter() - started)
        _, training, both = seconds
        tagged, to_tag = (sum(map(num_words, study.judged().values())) for study in (small, self))
        total = 0.0
        for cell in missing:
            draws = self.draws[cell.number]
            words = num_words(self.train[number] for own in draws for number in own)
            total += training * (len(draws) if extra else words / num_words(train))
            total += max(both - training, 0.0) * len(draws) * to_tag / tagged
        return total, "a probe"

    def notices(self) -> list[str]:
        """Entities that are left out: of types that no head can predict, and those that tags cannot represent."""
        known, found = set(self.types), [*self.shortages()]
        if self.options.pool_mentions and not self.has_documents:
            found.append("the training data have no documents, so --pool-mentions changes nothing")
        for name, sentences in self.data().items():
            flat = Counter(e.label for s in sentences for e in flatten_entities(self.units.gold(s)))
            unknown = {label: count for label, count in flat.items() if label not in known}
            if unknown:
                types = ", ".join(sorted(unknown))
                found.append(
                    f"{name}: {sum(unknown.values()):,} {self.counted} with a {self.units.label} that the training "
                    f"data lack ({types}); they count as missed"
                )
            if hidden := self.units.count_hidden(sentences):
                found.append(
                    f"{name}: {hidden:,} entities are inside or across another one; few-shot heads tag words, so only "
                    "the outermost are drawn, learned and scored"
                )
        return found

    def summarise(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """What the report shows, from the cells."""
        short = dict(zip(self.encoders, short_specs(self.encoders), strict=True))
        with reading_cells(cells):
            points = [self._point(cell, short[cell.system.encoder]) for cell in cells]
            notices = [f"{c.system.encoder}: {n:,} {what}" for c in cells for what, n in c.scores["notices"].items()]
        compare_points(points, tested=self.budget is None)
        return {
            "protocol": self.protocol,
            "options": {**self.shown_options(), **({"budget": self.budget} if self.budget else {})},
            "notices": list(dict.fromkeys([*self.notices(), *notices])),
            "points": points,
        }

    def _point(self, cell: Cell, name: str) -> dict[str, Any]:
        system, rows = cell.system, cell.scores["rows"]
        return {
            "name": name,
            "encoder": system.encoder,
            "parameters": cell.scores["parameters"],
            "shots": cell.number,
            "head": self.head_name(system),
            **{
                name: spread([row[name] for row in rows])
                for name in ("score", "precision", "recall")
                if name in rows[0]
            },
            "sentences": [row["sentences"] for row in rows],
            "words": [row["words"] for row in rows],
            "strengths": [row["strengths"] for row in rows if "strengths" in row],
            "runs": [row["run"] for row in rows if "run" in row],
            "per_type": {
                x: [sum(row["per_type"][x][i] for row in rows) for i in range(3)] for x in rows[0]["per_type"]
            },
        }

    def table(self, results: Mapping[str, Any], width: int) -> tuple[Table, str]:
        return shots_table(results), f"\n{REPORT.summary(results)}\n{REPORT.verdict(results)}"


def compare_points(points: list[dict[str, Any]], tested: bool) -> None:
    """Compare every encoder with the best one at the same K under the same head, draw by draw.

    The p-values are corrected for the number of tests in the study; without `tested` there are none.
    """
    tests = []
    for point in points:
        rivals = [p for p in points if (p["shots"], p["head"]) == (point["shots"], point["head"])]
        best = max(rivals, key=selection_score)
        gaps = [b - own for b, own in zip(best["score"]["values"], point["score"]["values"], strict=True)]
        tests.append(sign_flip_p(gaps) if tested and best is not point else None)
        point["to_best"] = {"name": best["name"], "points": statistics.fmean(gaps), "p": tests[-1]}
    for point, p in zip(points, holm(tests), strict=True):
        point["to_best"] |= {"p_holm": p, "reliable": p is not None and p < RELIABLE}
