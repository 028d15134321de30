"""`--dry-run` of a study: what would be computed, and about how long it would take.

The encoders are loaded, because only they know the size of their features; only a sample is encoded. The times are
estimates, from a system's other cells or from a small probe on this machine.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

from boustro.encoders.cache import features_to_write
from boustro.encoders.cost import num_words, words_per_second
from boustro.features.sentences import distinct_sentences
from boustro.models.peak_memory import PeakMemory
from boustro.output import duration
from boustro.studies.core.cells import is_complete
from boustro.studies.core.grid import Grid


def make_plan(study: Grid, out: Path) -> dict[str, Any]:
    """Cells known and missing, bytes of features to write, and about how many minutes."""
    data = [distinct_sentences(examples, study.task.parts)[0] for examples in study.encoded()]
    to_encode: dict[Hashable, tuple[int, float]] = {}  # bytes to write, seconds to compute them
    rows: list[dict[str, Any]] = []
    with PeakMemory() as peak:
        for system in study.systems():
            known, missing = [], []
            for number in study.numbers(system):
                cell = study.cell(system, number, out)
                (known if is_complete(study, cell) else missing).append(cell)
            row = {"name": system.name, "known": len(known), "missing": len(missing), "train_seconds": 0.0}
            if missing:
                encoder = study.encoder(system)
                if study.run.cache:
                    to_encode |= features_to_write(encoder, data)
                else:
                    seconds = sum(map(num_words, data)) / words_per_second(encoder, data[0])
                    to_encode |= {study.encoding_key(cell): (0, seconds) for cell in missing}
                row["train_seconds"], row["source"] = study.estimate(known, missing)
            rows.append(row)
    known, missing = (sum(row[name] for row in rows) for name in ("known", "missing"))
    return {
        "cells": {"of": known + missing, "known": known},
        "systems": rows,
        "feature_bytes": sum(size for size, _ in to_encode.values()),
        "encode_minutes": sum(seconds for _, seconds in to_encode.values()) / 60,
        "train_minutes": sum(row["train_seconds"] for row in rows) / 60,
        "peak_bytes_of_the_probe": peak.bytes,
    }


def describe_plan(plan: dict[str, Any]) -> str:
    """The plan as text."""
    known, of = plan["cells"]["known"], plan["cells"]["of"]
    lines = [f"{of} cells: {known} known, {of - known} to compute"]
    for row in plan["systems"]:
        if row["missing"]:
            each = row["train_seconds"] / row["missing"]
            lines.append(f"  {row['name']}: {row['missing']} to train, about {each:,.0f} s each (from {row['source']})")
    if known == of:
        return "\n".join([*lines, "only the report is left to write"])
    lines.append(f"features to write: {plan['feature_bytes'] / 2**20:,.0f} MB, {duration(60 * plan['encode_minutes'])}")
    lines.append(f"training: {duration(60 * plan['train_minutes'])}")
    if plan["peak_bytes_of_the_probe"]:
        lines.append(f"memory: at least {plan['peak_bytes_of_the_probe'] / 2**20:,.0f} MB, measured in the probe")
    return "\n".join(lines)
