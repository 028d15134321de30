"""`--dry-run` of a study: what would be computed, and what it would cost.

The encoders are loaded, since only they know how large their features are; nothing is encoded but a sample.
Minutes come from the records of the system's other seeds where there are any, else from a probe: a hundred
training sentences are encoded and trained on, and the time is scaled by the number of sentences. They are
a guess: what a probe does not see is whether the machine will be busy.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from boustro.encoders import Encoder
from boustro.encoders.cache import CachedEncoder
from boustro.models.memory import PeakMemory
from boustro.pretrain.progress import duration
from boustro.studies.cells import Cell, find_cell
from boustro.studies.grid import Grid, System
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

PROBE_SENTENCES = 100


def make_plan(grid: Grid, out: Path, cache: bool | Path = True) -> dict[str, Any]:
    """Cells known and missing, bytes of features to write, and about how many minutes."""
    to_write: dict[Path, tuple[int, float]] = {}  # per cache entry its bytes and the seconds to compute it
    systems, uncached_seconds = [], 0.0
    with PeakMemory() as peak:
        for system in grid.systems():
            found = [find_cell(grid, system, seed, out) for seed in range(1, grid.seeds + 1)]
            known = [cell for cell in found if cell is not None]
            missing = grid.seeds - len(known)
            row: dict[str, Any] = {"name": system.name, "known": len(known), "missing": missing, "train_seconds": 0.0}
            if missing:
                encoder = _encoder(system, grid, cache)
                needed = features_to_write(encoder, grid.data().values(), grid.dev)
                to_write |= needed
                if not cache:
                    uncached_seconds += missing * seconds_to_encode(encoder, grid.data().values(), grid.dev)
                row["source"] = "the other seeds" if known else "a probe"
                row["train_seconds"] = missing * (_recorded(known) if known else _probe(system, grid))
            systems.append(row)
    return add_up(systems, to_write, peak, uncached_seconds)


def add_up(
    systems: list[dict[str, Any]],
    to_write: dict[Path, tuple[int, float]],
    peak: PeakMemory,
    uncached_seconds: float = 0.0,
) -> dict[str, Any]:
    """The plan, from a row a system (name, known, missing, train_seconds, source) and what must be encoded."""
    known, missing = (sum(row[name] for row in systems) for name in ("known", "missing"))
    return {
        "cells": {"of": known + missing, "known": known},
        "systems": systems,
        "feature_bytes": sum(size for size, _ in to_write.values()),
        "encode_minutes": (uncached_seconds + sum(seconds for _, seconds in to_write.values())) / 60,
        "train_minutes": sum(row["train_seconds"] for row in systems) / 60,
        "peak_bytes_of_the_probe": peak.bytes,
    }


def describe_plan(plan: dict[str, Any]) -> str:
    """The plan as people read it."""
    known, of = plan["cells"]["known"], plan["cells"]["of"]
    lines = [f"{of} cells: {known} known, {of - known} to compute"]
    for row in plan["systems"]:
        if row["missing"]:
            each = row["train_seconds"] / row["missing"]
            lines.append(f"  {row['name']}: {row['missing']} to train, about {each:,.0f} s each (by {row['source']})")
    if known == of:
        return "\n".join([*lines, "nothing is left to do but the report"])
    lines.append(f"features to write: {plan['feature_bytes'] / 2**20:,.0f} MB, {duration(60 * plan['encode_minutes'])}")
    lines.append(f"training: {duration(60 * plan['train_minutes'])}")
    if plan["peak_bytes_of_the_probe"]:
        lines.append(f"memory: at least {plan['peak_bytes_of_the_probe'] / 2**20:,.0f} MB, measured in the probe")
    return "\n".join(lines)


def _encoder(system: System, grid: Grid, cache: bool | Path) -> Encoder:
    """The encoder that the taggers of a system will use."""
    options = system.options
    if not any(sentence.document for sentence in grid.train):  # as `Tagger.fit` does
        options = {**options, "context": "sentence"}
    return Tagger(system.encoder, system.head, cache=cache, **options).encoder(cached=True)


def _parts(encoder: Encoder) -> Sequence[Encoder]:
    return getattr(encoder, "parts", [encoder])


def features_to_write(
    encoder: Encoder, data: Iterable[Sequence[Sentence]], sample: Sequence[Sentence]
) -> dict[Path, tuple[int, float]]:
    """Cache entries that are not there yet: bytes, and seconds by a sample. Halves that pairs share count once."""
    needed = {}
    for part in _parts(encoder):
        if not isinstance(part, CachedEncoder):
            continue
        speed = None
        for sentences in data:
            entry = part.entry(sentences)
            if not entry.exists():
                speed = speed or _words_per_second(part.encoder, sample)
                words = num_words(sentences)
                size = words * sum(s.num_layers * s.width for s in part.streams) * part.dtype.itemsize
                needed[entry] = (size, words / speed)
    return needed


def seconds_to_encode(encoder: Encoder, data: Iterable[Sequence[Sentence]], sample: Sequence[Sentence]) -> float:
    """Of all these sentences, by a sample."""
    return sum(map(num_words, data)) / _words_per_second(encoder, sample)


def num_words(sentences: Iterable[Sentence]) -> int:
    """Of all sentences together."""
    return sum(map(len, sentences))


def _words_per_second(encoder: Encoder, sentences: Sequence[Sentence]) -> float:
    sample = sentences[:PROBE_SENTENCES]
    encoder.encode_all(sample[:1])
    started = time.perf_counter()
    encoder.encode_all(sample)
    return num_words(sample) / (time.perf_counter() - started)


def _recorded(cells: Sequence[Cell]) -> float:
    return sum(cell.scores["record"]["train_seconds"] for cell in cells) / len(cells)


def _probe(system: System, grid: Grid) -> float:
    """Seconds of training, scaled up from a sample that holds entities."""
    labelled = [s for s in grid.train if gold_entities(s)][:PROBE_SENTENCES]
    dev = grid.dev[:PROBE_SENTENCES]
    tagger = Tagger(system.encoder, system.head, cache=False, **system.options).fit(labelled, dev, seed=0)
    return tagger.record["train_seconds"] * num_words(grid.train) / num_words(labelled)
