"""The contents of a few-shot study's results.json: one point per encoder, K and head, and the paired tests."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from boustro.metrics.score import spread
from boustro.metrics.significance import RELIABLE, holm, sign_flip_p
from boustro.studies.core.cells import Cell, reading_cells
from boustro.studies.core.systems import short_specs
from boustro.studies.fewshot.report import selection_score

if TYPE_CHECKING:
    from boustro.studies.fewshot.study import ShotStudy


def summarise(study: "ShotStudy", cells: Sequence[Cell]) -> dict[str, Any]:
    """What the report shows, from the cells."""
    short = dict(zip(study.encoders, short_specs(study.encoders), strict=True))
    with reading_cells(cells):
        points = [_point(study, cell, short[cell.system.encoder]) for cell in cells]
        notices = [f"{c.system.encoder}: {n:,} {what}" for c in cells for what, n in c.scores["notices"].items()]
    compare_points(points, tested=study.budget is None)
    return {
        "protocol": study.protocol,
        "options": {**study.shown_options(), **({"budget": study.budget} if study.budget else {})},
        "notices": list(dict.fromkeys([*study.notices(), *notices])),
        "points": points,
    }


def _point(study: "ShotStudy", cell: Cell, name: str) -> dict[str, Any]:
    system, rows = cell.system, cell.scores["rows"]
    return {
        "name": name,
        "encoder": system.encoder,
        "parameters": cell.scores["parameters"],
        "shots": cell.number,
        "head": study.head_name(system),
        **{name: spread([row[name] for row in rows]) for name in ("score", "precision", "recall") if name in rows[0]},
        "sentences": [row["sentences"] for row in rows],
        "words": [row["words"] for row in rows],
        "strengths": [row["strengths"] for row in rows if "strengths" in row],
        "runs": [row["run"] for row in rows if "run" in row],
        "per_type": {
            label: [sum(row["per_type"][label][i] for row in rows) for i in range(3)] for label in rows[0]["per_type"]
        },
    }


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
