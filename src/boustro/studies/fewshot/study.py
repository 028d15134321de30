"""What a few-shot study asks for, and its cells: encoders × K × systems, each over all draws.

Two protocols. *sound*: ten published draws of K sentences a type (`fewshot.draws`), the same for every encoder; a head
whose settings were fixed beforehand, or are chosen by leaving out training sentences; no development set;
mean and deviation over draws, and a paired test. *paper*: section 3.4 of the backward-LM paper, to place points on
its Figure 1: its filter, its head, a random search judged on the development set, the three best runs.
"""

import dataclasses
import itertools
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from boustro.encoders import Encoder, spec_fingerprint
from boustro.metrics.spans import extract_spans, is_span_tag
from boustro.store import fingerprint
from boustro.studies.fewshot.cells import (
    Judged,
    Task,
    cell_path,
    judge,
    paper_rows,
    read_cell,
    sound_rows,
    write_cell,
)
from boustro.studies.fewshot.draws import DRAWS, entity_types
from boustro.studies.fewshot.features import UPPER, FeatureReader, reading_encoder
from boustro.studies.fewshot.systems import Settings, System, resolve_system
from boustro.tasks.data import data_name
from boustro.tasks.data.conll import data_fingerprint
from boustro.tasks.data.schemes import gold_entities
from boustro.types import Sentence

PROTOCOLS: dict[str, dict[str, Any]] = {
    "sound": {
        "layers": UPPER,
        "pooling": None,
        "spacing": "natural",
        "context": "document",
        "standardise": True,
        "hidden": 512,
        "dropout": 0.3,
        "epochs": 20,
        "lr": 1e-3,
        "batch_sentences": 4,
        "weight_decay": 0.01,
        "dtype": None,
    },
    "paper": {  # sections 3.2 to 3.4
        "layers": "last",
        "pooling": "first",
        "spacing": "always",
        "context": "sentence",
        "standardise": False,
        "hidden": None,
        "dropout": 0.0,  # searched for, as the learning rate is
        "epochs": 20,
        "lr": 0.0,
        "batch_sentences": 4,
        "weight_decay": 0.01,
        "dtype": None,
    },
}
READING = ("layers", "pooling", "spacing", "context", "dtype")


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is compared, and on what. `ValueError` where there is nothing to learn or to compare."""

    encoders: tuple[str, ...]
    shots: tuple[int, ...]
    num_draws: int
    systems: tuple[tuple[str, str], ...]
    protocol: str
    budget: int
    options: dict[str, Any]
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence] | None = None

    def __post_init__(self) -> None:
        if not (self.encoders and self.shots and self.num_draws > 0 and self.systems and self.budget > 0):
            raise ValueError("nothing to compare: give at least one encoder, one K, one draw and one head")
        if not entity_types(self.train):
            raise ValueError(
                f"{data_name(self.train)}: no word is labelled with an entity, so there is nothing to learn"
            )
        for sentences in self.data().values():
            strange = next((t for s in sentences for t in s.tags or () if not is_span_tag(t, "BIO")), None)
            if strange:
                raise ValueError(f"{data_name(sentences)}: the tag {strange!r} marks no entity, and entities are drawn")

    @property
    def judged_on(self) -> str:
        """test where there is one, else dev."""
        return "test" if self.test else "dev"

    def data(self) -> dict[str, list[Sentence]]:
        """The data sets by name; the sound protocol leaves dev alone where there is a test set."""
        uses_dev = self.protocol == "paper" or not self.test
        return {
            "train": self.train,
            **({"dev": self.dev} if uses_dev else {}),
            **({"test": self.test} if self.test else {}),
        }

    @cached_property
    def draws(self) -> dict[int, list[np.ndarray]]:
        """For every K the sentences of every draw."""
        return DRAWS[self.protocol](self.train, self.shots, self.num_draws)

    def task(self) -> Task:
        """What the cells need; heads may name the types of the training data, and know of no other."""
        judged: dict[str, Sequence[Sentence]] = {n: s for n, s in self.data().items() if n != "train"}
        return Task(self.train, entity_types(self.train), judged)

    def notices(self) -> list[str]:
        """What is left out: entities that no head can name, and those that tags cannot tell of."""
        known, told = set(entity_types(self.train)), []
        for name, sentences in self.data().items():
            flat = Counter(e.label for s in sentences for e in extract_spans(s.tags or ()))
            unknown = {label: count for label, count in flat.items() if label not in known}
            if unknown:
                types = ", ".join(sorted(unknown))
                told.append(
                    f"{name}: {sum(unknown.values()):,} entities of types that the training data lack ({types}); they "
                    "count as missed"
                )
            every = sum(len(set(gold_entities(s))) for s in sentences)
            if hidden := every - flat.total():
                told.append(
                    f"{name}: {hidden:,} entities lie inside or across another one; few-shot heads tag words, so only "
                    "the outermost are drawn, learned and judged"
                )
        return told

    def encoder(self, spec: str, cache: bool | Path) -> Encoder:
        """The one of this name, as it reads for this study."""
        return reading_encoder(spec, self.train, cache=cache, **self._reading())

    def reader(self, spec: str, train: Sequence[Sentence], cache: bool | Path) -> FeatureReader:
        """What the heads over an encoder are given; encodes `train`."""
        return FeatureReader(spec, train, cache=cache, **self._reading(), standardise=self.options["standardise"])

    def _reading(self) -> dict[str, Any]:
        return {name: self.options[name] for name in READING}

    def compute(
        self, place: "Place", task: Task, reader: FeatureReader, judged: dict[str, Judged], draws: Sequence[np.ndarray]
    ) -> dict[str, Any]:
        """One cell; `draws` are numbers of the task's sentences."""
        settings = Settings(**{f.name: self.options[f.name] for f in dataclasses.fields(Settings)})
        on = judged[self.judged_on]
        rows = (
            paper_rows(task, reader, judged["dev"], on, draws[0], settings, self.budget)
            if self.protocol == "paper"
            else sound_rows(task, reader, on, draws, place.system, settings)
        )
        return {
            "encoder": place.encoder,
            "shots": place.shots,
            "head": place.system.head,
            "tags": place.system.tags,
            "parameters": reader.encoder.num_parameters,
            "notices": dict(+reader.encoder.counts),
            "rows": rows,
        }


@dataclass(frozen=True, slots=True)
class Place:
    """A cell that a study asks for, and the file where it lies once it is computed."""

    encoder: str
    shots: int
    system: System
    path: Path


def places(study: Study, out: Path) -> list[Place]:
    """Of all cells, encoder by encoder."""
    data = {name: data_fingerprint(sentences) for name, sentences in study.data().items()}
    found = []
    for encoder in study.encoders:
        weights = spec_fingerprint(encoder)
        for shots in study.shots:
            for system in dict.fromkeys(resolve_system(*s, shots) for s in study.systems):
                path = cell_path(
                    out,
                    encoder,
                    shots,
                    system,
                    weights=weights,
                    options=study.options,
                    protocol=[study.protocol, study.budget if study.protocol == "paper" else None],
                    draws=fingerprint([d.tolist() for d in study.draws[shots]]),
                    data=data,
                )
                found.append(Place(encoder, shots, system, path))
    return found


def compute_cells(study: Study, out: Path, cache: bool | Path = True) -> list[dict[str, Any]]:
    """All cells, the missing ones computed; an encoder is loaded only where one is missing."""
    task, cells = study.task(), []
    for encoder, group in itertools.groupby(places(study, out), lambda place: place.encoder):
        reader = judged = None
        for place in group:
            cell, note = read_cell(place.path), "known already"
            if cell is None:
                if reader is None or judged is None:
                    reader = study.reader(encoder, study.train, cache)
                    judged = judge(task, reader)
                cell, note = study.compute(place, task, reader, judged, study.draws[place.shots]), "computed"
                write_cell(place.path, cell)
            mean = statistics.fmean(row["f1"] for row in cell["rows"])
            name = f"K={place.shots} {encoder}, {place.system.name}"
            print(f"{name}: {study.judged_on} F1 {mean:.2f} ({note})", file=sys.stderr)
            cells.append(cell)
    return cells
