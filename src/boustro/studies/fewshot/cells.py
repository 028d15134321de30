"""One cell of a few-shot study: an encoder at one K under one system, all draws, as one JSON file.

    cells/starter-16-ridge-factored-3f1a9c20.json
    {"fingerprint": of the cell, "cell": {"rows": [
        {"draw": 1, "sentences": 47, "words": 698, "f1": 65.3, "precision": …, "per_type": …}, …], …}}

A file is there in full or not at all (`store.write_file`), so a study that was killed goes on where it stopped.
Its name changes with all that changes its numbers: settings, weights, data and draws.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boustro.heads.factored import factored_tags
from boustro.heads.many.groups import HeadRun
from boustro.heads.many.training import train_stacked
from boustro.metrics.arrays import SpanArrays, compare_spans, find_spans
from boustro.metrics.spans import SpanCounts, total_counts
from boustro.store import fingerprint, read_json, reading, write_file
from boustro.studies.fewshot.draws import entity_types
from boustro.studies.fewshot.features import FeatureReader, Vectors
from boustro.studies.fewshot.systems import Settings, System, Taught, tag_words
from boustro.types import Sentence

CELL_FORMAT = 4
PAPER_RATES = tuple(n * unit for unit in (1e-3, 1e-4) for n in range(9, 0, -1))
PAPER_SEEDS, PAPER_DROPOUTS, PAPER_BEST = range(10, 20), (0.0, 0.1, 0.2, 0.3), 3
"""The grid of the backward-LM paper's random search, section 3.4, and how many of its runs are reported."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is learned and judged: the sentences that are read, and the types that heads may name."""

    train: Sequence[Sentence]
    types: list[str]
    judged: dict[str, Sequence[Sentence]]

    @property
    def judged_types(self) -> list[str]:
        """The types that are judged: those that heads may name, then those that only the judged sentences hold."""
        held = {label for sentences in self.judged.values() for label in entity_types(sentences)}
        return [*self.types, *sorted(held - set(self.types))]


@dataclass(frozen=True, slots=True)
class Judged:
    """Vectors of a judged data set, and its entities."""

    vectors: Vectors
    gold: SpanArrays


def judge(task: Task, reader: FeatureReader) -> dict[str, Judged]:
    """Every data set that is judged, read once for all cells of an encoder."""
    found, types = {}, task.judged_types
    for name, sentences in task.judged.items():
        vectors = reader.vectors(sentences)
        gold = find_spans(tag_ids(sentences, types), factored_tags(types), vectors.starts, types)
        found[name] = Judged(vectors, gold)
    return found


def tag_ids(sentences: Sequence[Sentence], types: Sequence[str]) -> np.ndarray:
    """BIO tags as ids of `factored_tags(types)`."""
    number = {tag: i for i, tag in enumerate(factored_tags(list(types)))}
    return np.array([number[tag] for s in sentences for tag in s.tags or ()], np.int64)


def cell_path(out: Path, encoder: str, shots: int, system: System, **decides: Any) -> Path:
    """Where a cell lies; `decides` is all else that its numbers follow from."""
    safe = "".join(c if c.isalnum() or c in "-+." else "_" for c in encoder)[-60:]
    key = fingerprint(CELL_FORMAT, asdict(system), shots, decides)[:8]
    return out / "cells" / f"{safe}-{shots}-{system.head}-{system.tags}-{key}.json"


def read_cell(path: Path) -> dict[str, Any] | None:
    """The cell, if it is there and whole."""
    with contextlib.suppress(FileNotFoundError, ValueError), reading(path, "remove it"):
        told = read_json(path)
        if told["fingerprint"] == fingerprint(told["cell"]):
            return told["cell"]
    return None


def write_cell(path: Path, cell: dict[str, Any]) -> None:
    """All of it, or nothing."""
    write_file(path, json.dumps({"fingerprint": fingerprint(cell), "cell": cell}, ensure_ascii=False))


def sound_rows(
    task: Task,
    reader: FeatureReader,
    judged: Judged,
    draws: Sequence[np.ndarray],
    system: System,
    settings: Settings,
) -> list[dict[str, Any]]:
    """A row a draw. Nothing is chosen by what is judged: strengths and settings are set before."""
    taught, chosen = _taught(task, reader, draws)
    tagged = tag_words(system, taught, chosen, settings, judged.vectors)
    rows = []
    for number, (draw, ids) in enumerate(zip(draws, tagged.ids, strict=True)):
        found = find_spans(ids, tagged.tags, judged.vectors.starts, judged.gold.labels)
        row = {"draw": number + 1, **_sizes(task, draw), **_scores(compare_spans(judged.gold, found))}
        rows.append(row | ({"strengths": tagged.strengths[number]} if tagged.strengths else {}))
    return rows


def paper_rows(
    task: Task,
    reader: FeatureReader,
    dev: Judged,
    judged: Judged,
    draw: np.ndarray,
    settings: Settings,
    budget: int,
) -> list[dict[str, Any]]:
    """The paper's protocol: a random search of so many runs on one draw, the three best on dev; a row each."""
    taught, (chosen,) = _taught(task, reader, [draw])
    grid = [(r, s, d) for r in PAPER_RATES for s in PAPER_SEEDS for d in PAPER_DROPOUTS]
    picked = np.random.default_rng(0).permutation(len(grid))[:budget]
    runs = [
        HeadRun(
            sentences=tuple(int(s) for s in chosen),
            lr=rate,
            seed=seed,
            dropout=dropout,
            weight_decay=settings.weight_decay,
            epochs=settings.epochs,
            batch_sentences=settings.batch_sentences,
        )
        for rate, seed, dropout in (grid[i] for i in picked)
    ]
    tags = factored_tags(task.types)
    heads = train_stacked("mlp", taught.vectors.words, taught.vectors.starts, taught.tags, tags, runs, settings.hidden)

    def scores(on: Judged) -> list[dict[str, Any]]:
        every = heads.best_tags(on.vectors.words)
        found = (find_spans(ids, tags, on.vectors.starts, on.gold.labels) for ids in every)
        return [_scores(compare_spans(on.gold, spans)) for spans in found]

    on_dev = scores(dev)
    on_judged = on_dev if judged is dev else scores(judged)
    order = sorted(range(len(runs)), key=lambda m: -on_dev[m]["f1"])
    tried = [
        {"lr": runs[m].lr, "seed": runs[m].seed, "dropout": runs[m].dropout, "dev_f1": on_dev[m]["f1"]} for m in order
    ]
    sizes = _sizes(task, draw)
    return [
        {"draw": 1, **sizes, **on_judged[m], "run": t} for m, t in list(zip(order, tried, strict=True))[:PAPER_BEST]
    ]


def _taught(task: Task, reader: FeatureReader, draws: Sequence[np.ndarray]) -> tuple[Taught, list[np.ndarray]]:
    """The words of all draws, each sentence once, and the draws as numbers of these."""
    every = np.unique(np.concatenate(draws))
    taught = Taught(reader.train_vectors(every), tag_ids([task.train[s] for s in every], task.types), task.types)
    return taught, [np.searchsorted(every, draw) for draw in draws]


def _sizes(task: Task, draw: np.ndarray) -> dict[str, int]:
    return {"sentences": len(draw), "words": sum(len(task.train[s]) for s in draw)}


def _scores(per_type: dict[str, SpanCounts]) -> dict[str, Any]:
    total = total_counts(per_type)
    return {
        "f1": total.f1,
        "precision": total.precision,
        "recall": total.recall,
        "per_type": {label: [c.gold, c.predicted, c.correct] for label, c in per_type.items()},
    }
