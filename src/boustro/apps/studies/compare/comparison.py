"""A comparison: encoders × heads × variants × K, each with several seeds; and a cell of it, a head that is trained.

With K a head learns from K examples, which its seed draws, and nothing chooses its epoch. The rest of their documents,
whose labels it does not see, is read with them. The heads of all seeds are trained at once where they can be
(`fitting.training.fit_many`).

With a `budget`, which is section 3.4 of the backward-LM paper, there is one draw, and the runs of a random search over
learning rates, seeds and dropout that are best on dev stand in the place of seeds.
"""

import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from boustro.apps.explain import effects
from boustro.apps.studies.compare.examples import SHOWN_WORDS, surest_mistakes
from boustro.apps.studies.compare.report import REPORT, printed_scores
from boustro.apps.studies.compare.results import summarise
from boustro.apps.studies.core.cells import Cell
from boustro.apps.studies.core.grid import Grid
from boustro.apps.studies.core.systems import SHOTS, System, find_name, name_systems, options_of
from boustro.encoders.base import Encoder
from boustro.encoders.cache import PROBE_SENTENCES, num_words
from boustro.encoders.spec import Spec
from boustro.errors import count_of
from boustro.lab.pretrain.progress import PeakMemory
from boustro.metrics.significance import entity_counts
from boustro.metrics.spans import score_entities
from boustro.output import as_json
from boustro.store import write_file
from boustro.tasks import TASKS
from boustro.tasks.answers import Answer
from boustro.tasks.base import Task
from boustro.tasks.config import AUTO
from boustro.tasks.data import data_name
from boustro.tasks.fitting.training import fit_many
from boustro.tasks.plan import Examples, Fitted, Plan
from boustro.types import Entity, short_score

SPEED_WORDS = 1000
RATES = tuple(n * unit for unit in (1e-3, 1e-4) for n in range(9, 0, -1))
SEEDS, DROPOUTS, PAPER_BATCH = range(10, 20), (0.0, 0.1, 0.2, 0.3), 4
"""The grid of the paper's search, its batch size."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Grid):
    """Heads and encoders to compare, and the data; `ValueError` for an unknown head, option, value or system."""

    heads: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    variants: tuple[dict[str, Any], ...] = ({},)
    budget: int | None = None
    reference: str | None = None
    cases: tuple[str, str] | None = None
    title: str = "Comparison"
    unit = "seed"
    report = REPORT

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.encoders or not self.heads or not self.variants or self.budget == 0:
            raise ValueError("nothing to compare: give at least one encoder, one head and one seed")
        if self.shots and self.units.has_labels and not any(map(self.units.gold, self.train)):
            raise ValueError(f"{data_name(self.train)}: there are no {self.counted} with a label, so none can be drawn")
        for system in self.systems():
            Spec.parse(system.encoder).refuse_unread(self._make(system).plan.reader.reading)
        for name, sentences in self.data().items():
            self.units.check_data(name, sentences)
        for name in (self.reference, *(self.cases or ())):
            if name is not None:  # before hours are spent
                find_name(name, [s.name for s in self.systems()])

    @property
    def measure(self) -> str:
        return f"dev {self.units.metric}"

    @property
    def drawing(self) -> str:
        return super().drawing if self.budget is None else "paper"

    def head(self, system: System) -> str:
        """Return the kind of a system's head; `auto` depends on K, and on whether examples of each label can be
        drawn."""
        config = TASKS[self.task.name].config
        known = system.shots if self.labelling.by_label else None
        return config.few_head(known) if system.head == AUTO else system.head

    def systems(self) -> list[System]:
        counts = [{SHOTS: shots} for shots in self.shots] or [{}]
        variants = [variant | count for variant in self.variants for count in counts]
        return name_systems(itertools.product(self.encoders, self.heads, variants))

    def numbers(self, system: System) -> Sequence[int]:
        return range(1, self.seeds + 1)

    def settings(self, system: System, number: int) -> dict[str, Any]:
        drawn = {"shots": system.shots, "drawing": self.drawing, "budget": self.budget} if system.shots else {}
        return {"head": self.head(system), **self._make(system).plan.settings(), **drawn}

    def _make(self, system: System, **more: Any) -> Task[Any, Any]:
        """Return an untrained model of a system; a varied preset replaces options, other varied options replace its
        values."""
        variant = {name: value for name, value in system.variant.items() if name != SHOTS}
        kind = self.head(system)
        chosen = options_of(TASKS[self.task.name].config, kind, self.options, variant)
        return self.make(replace(system, head=kind), **{**chosen, **more})

    def taught(self, shots: int | None, seed: int) -> list[Any]:
        """Return the training examples of a seed; with K those that are drawn, with their documents as context."""
        if shots is None:
            return self.train
        draw = {*self.draws[shots][seed - 1].tolist()}
        around = {self.train[n].document for n in draw} - {""} if self.task.in_documents else ()
        given = ((n, e) for n, e in enumerate(self.train) if n in draw or (around and e.document in around))
        return [e if n in draw else replace(e, tags=None, entities=None) for n, e in given]

    def encoded(self) -> list[list[Any]]:
        most = max(self.shots, default=None)  # its draws have those of a smaller K in them
        taught = [example for seed in range(1, self.seeds + 1) for example in self.taught(most, seed)]
        return [taught if self.shots else self.train, *self.judged().values()]

    def value(self, cell: Cell) -> float:
        return float(cell.scores["dev"]["value"])

    def compute(self, cell: Cell, folder: Path) -> dict[str, Any]:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        system = cell.system
        with PeakMemory() as peak:
            model = self._make(system)
            self._fit(model, system, cell.number)
            answered = {name: model.answer(s, cached=True) for name, s in self.judged().items()}
        config = {"encoder": system.encoder, "head": model.plan.head_kind, **model.plan.settings()}
        scores: dict[str, Any] = {"config": config, "seed": cell.number, "record": model.record}
        for name, answers in answered.items():
            scores[name], rows = self._judge(model, self.data()[name], answers)
            self._explain(model, self.data()[name], rows)
            write_file(folder / f"{name}.jsonl", "".join(as_json(r) + "\n" for r in rows))
        model.save_pretrained(folder / "trained")
        encoder = model.encoder(cached=True)
        scores["cost"] = {
            "feature_bytes": sum(map(num_words, self.data().values())) * encoder.bytes_per_word,
            "head_bytes": sum(f.stat().st_size for f in (folder / "trained").glob("*.safetensors")),
            "words_per_second": measure_speed(model, self.dev),
            "peak_bytes": peak.bytes,
            "gpu_peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
        }
        return scores

    def _fit(self, model: Task[Any, Any], system: System, seed: int) -> None:
        if system.shots is None:
            model.fit(self.train, dev=self.dev, seed=seed)
            return
        try:
            if self.budget or model.plan.head_options.shares_steps:
                model.fitted = self._trained(system)[seed - 1]
            else:
                model.fit(self.taught(system.shots, seed), seed=seed)
        except ValueError as error:
            drawn = len(self.draws[system.shots][seed - 1])
            drew = f"draw {seed}, of {count_of(drawn, 'examples')}"
            raise ValueError(f"{drew}: {error}; if that is by chance, take more") from error

    def _trained(self, system: System) -> list[Fitted]:
        """Return the models of all seeds, or the best of the search; kept until those of another system are asked
        for."""
        if system.name not in self._latest:
            assert system.shots is not None
            plan, seeds = self._make(system).plan, range(1, self.seeds + 1)
            given = [self._examples(system.shots, seed) for seed in (seeds if self.budget is None else [1])]
            fitted = fit_many(plan, given, seeds) if self.budget is None else self._search(plan, given[0], self.budget)
            self._latest.clear()
            self._latest[system.name] = fitted
        return self._latest[system.name]

    def _examples(self, shots: int, seed: int) -> Examples:
        return Examples(train=self.task.read(self.taught(shots, seed), **self.task.lenient))

    def _search(self, plan: Plan[Any], given: Examples, budget: int) -> list[Fitted]:
        grid = list(itertools.product(RATES, SEEDS, DROPOUTS))
        picked = [grid[n] for n in np.random.default_rng(0).permutation(len(grid))[:budget]]
        batch = {"batch_sentences": PAPER_BATCH}
        options = [replace(plan.head_options, lr=rate, dropout=dropout, **batch) for rate, _, dropout in picked]
        fitted = fit_many(plan, [given] * len(picked), [seed for _, seed, _ in picked], options)
        scores = [self.units.score(self.dev, f.answers(f.outputs(self.dev, cached=True), self.dev)) for f in fitted]
        return [fitted[n] for n in sorted(range(len(fitted)), key=lambda n: -scores[n])[: self.seeds]]

    @cached_property
    def _latest(self) -> dict[str, list[Fitted]]:
        return {}

    def _judge(self, model: Task[Any, Any], examples: Sequence[Any], answers: Sequence[Answer]) -> tuple[dict, list]:
        """Scores of answers, and one JSON object per example."""
        units, values = self.units, self.units.values(examples, answers)
        gold = [units.gold(example) for example in examples]
        predicted = [units.found(example, answer) for example, answer in zip(examples, answers, strict=True)]
        figures, metric = model.fitted.score(examples, answers).to_dict(), units.metric.split()[-1].lower()
        scores = {
            "value": units.score(examples, answers),
            "figures": {key: value for key, value in figures.items() if isinstance(value, float) and key != metric},
            "per_type": score_entities(gold, predicted).to_dict()["per_type"] if units.has_labels else {},
        }
        rows = []
        for example, answer, wanted, got, value in zip(examples, answers, gold, predicted, values, strict=True):
            row: dict[str, Any] = {
                "words": units.words(example),
                "gold": [(e.label, e.start, e.end) for e in wanted],
                "entities": [(e.label, e.start, e.end) for e in got],
                "scores": [short_score(e.score) for e in got],
            }
            if not units.has_positions:
                row |= {"answer": units.describe_answer(example, answer)}
            rows.append(row | {"values": value.tolist()} if units.has_values else row)
        return scores, rows

    def _explain(self, model: Task[Any, Any], examples: Sequence[Any], rows: Sequence[dict[str, Any]]) -> None:
        """Add to the rows of the surest mistakes how much each word counted, where an answer is one label of a text."""
        if not self.units.is_one_label:
            return
        values = entity_counts(*([[Entity(*e) for e in row[side]] for row in rows] for side in ("gold", "entities")))
        chosen = surest_mistakes(self.units, values, [row["scores"] for row in rows])
        chosen = [i for i in chosen if len(examples[i].words) <= SHOWN_WORDS]
        for i, word_effects in zip(chosen, effects(model, [examples[i] for i in chosen]), strict=True):
            rows[i]["effects"] = [round(effect, 4) for effect in word_effects]

    def encoder(self, system: System) -> Encoder:
        return self._make(system, **self.context()).encoder(cached=True)

    def encoding_key(self, cell: Cell) -> str:
        return cell.name

    def estimate(self, known: Sequence[Cell], missing: Sequence[Cell]) -> tuple[float, str]:
        if known:
            return len(missing) * statistics.fmean(
                c.scores["record"]["train_seconds"] for c in known
            ), "its other seeds"
        sample = [s for s in self.train if self.units.gold(s) or not self.units.has_positions][:PROBE_SENTENCES]
        model = self._make(missing[0].system, cache=False)
        model.fit(sample, self.dev[:PROBE_SENTENCES], seed=0)
        words = sum(num_words(e for e in self.taught(c.system.shots, c.number) if e.is_labelled) for c in missing)
        return model.record["train_seconds"] * words / num_words(sample), "a probe"

    def summarise(self, cells: Sequence[Cell]) -> dict[str, Any]:
        return summarise(self, cells)

    def table(self, results: Mapping[str, Any], width: int) -> tuple[Table, str]:
        table, note = printed_scores(results, width)
        return table, "\n".join(filter(None, (note, REPORT.summary(results))))


def measure_speed(model: Any, sentences: Sequence[Any]) -> float:
    """Words per second from words to answers, without the cache, over about a thousand words after a warm-up."""
    ends = itertools.accumulate(map(len, sentences))
    sample = [s for s, end in zip(sentences, ends, strict=True) if end - len(s) < SPEED_WORDS]
    model.answer(sample[:1])
    started = time.perf_counter()
    model.answer(sample)
    return round(num_words(sample) / (time.perf_counter() - started), 1)
