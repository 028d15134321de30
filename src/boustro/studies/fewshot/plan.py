"""`boustro fewshot --dry-run`: which cells are missing, and what they would cost.

A probe is a cell in small: one draw of the smallest K that is missing, and a hundred sentences to judge. It is computed
three times, to warm up, with one sentence to judge and with all hundred, which tells teaching from tagging. Both grow
with the words that are read; a search also with its runs.
"""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boustro.models.memory import PeakMemory
from boustro.studies.fewshot.cells import Task, judge
from boustro.studies.fewshot.study import Place, Study, places
from boustro.studies.grid import short_specs
from boustro.studies.plan import PROBE_SENTENCES, add_up, features_to_write, num_words, seconds_to_encode

PROBE_RUNS = 3


def make_plan(study: Study, out: Path, cache: bool | Path = True) -> dict[str, Any]:
    """Cells known and missing, bytes of features to write, and about how many minutes."""
    short = dict(zip(study.encoders, short_specs(study.encoders), strict=True))
    groups: dict[tuple[str, str], list[Place]] = {}
    for place in places(study, out):
        groups.setdefault((place.encoder, place.system.name), []).append(place)
    to_write: dict[Path, tuple[int, float]] = {}
    rows, uncached_seconds = [], 0.0
    with PeakMemory() as peak:
        for (spec, system), group in groups.items():
            missing = [place for place in group if not place.path.is_file()]
            row = {"name": f"{short[spec]}, {system}", "known": len(group) - len(missing), "missing": len(missing)}
            rows.append({**row, "train_seconds": _seconds(study, missing), "source": "a probe"})
        for spec in dict.fromkeys(spec for (spec, _), row in zip(groups, rows, strict=True) if row["missing"]):
            encoder = study.encoder(spec, cache)
            if cache:
                to_write |= features_to_write(encoder, study.data().values(), study.train)
            else:
                uncached_seconds += seconds_to_encode(encoder, study.data().values(), study.train)
    return add_up(rows, to_write, peak, uncached_seconds)


def _seconds(study: Study, missing: Sequence[Place]) -> float:
    """Of all these cells, of one encoder and system, by a probe of the cheapest."""
    if not missing:
        return 0.0
    cheapest = min(missing, key=lambda place: place.shots)
    draw = study.draws[cheapest.shots][0]
    small = dataclasses.replace(
        study,
        train=[study.train[number] for number in draw],
        dev=study.dev[:PROBE_SENTENCES],
        test=study.test[:PROBE_SENTENCES] if study.test else None,
        budget=min(study.budget, PROBE_RUNS),
    )
    whole, reader = small.task(), small.reader(cheapest.encoder, small.train, cache=False)
    seconds = []
    for sentences in (1, 1, PROBE_SENTENCES):
        task = Task(whole.train, whole.types, {name: given[:sentences] for name, given in whole.judged.items()})
        judged = judge(task, reader)
        started = time.perf_counter()
        small.compute(cheapest, task, reader, judged, [np.arange(len(draw))])
        seconds.append(time.perf_counter() - started)
    _, teaching, both = seconds
    taught = num_words(small.train)
    tagged, to_tag = (sum(map(num_words, s.task().judged.values())) for s in (small, study))
    runs = study.budget / small.budget if study.protocol == "paper" else 1.0
    total = 0.0
    for place in missing:
        draws = study.draws[place.shots]
        total += teaching * num_words(study.train[number] for own in draws for number in own) / taught
        total += max(both - teaching, 0.0) * len(draws) * to_tag / tagged
    return total * runs
