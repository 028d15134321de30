"""The course of every study, from its options to its report, and the part of results.json that all studies share."""

import contextlib
import shlex
import sys
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from boustro.apps.studies.core.cells import Cell, compute_cells, find_cells, is_complete
from boustro.apps.studies.core.grid import Grid
from boustro.apps.studies.core.options import StudyRun
from boustro.encoders.cache import features_to_write, num_words, words_per_second
from boustro.encoders.spec import Spec
from boustro.errors import count_of
from boustro.features.reader import distinct_sentences
from boustro.lab.pretrain.progress import PeakMemory
from boustro.output import as_json, check_output, console, duration, give, only_errors
from boustro.store import check_file, provenance, read_json, write_file
from boustro.tasks.data import data_name
from boustro.tasks.data.reading import data_fingerprint
from boustro.version import __version__

FLAGS = ("--report-only", "--dry-run")  # how a study is run, not what it is
RESULTS, REPORTS = "results.json", ("report.md", "report.html")


def run_study(study: Grid, run: StudyRun) -> dict[str, Any] | None:
    """Check what can fail, compute the missing cells, write results.json and the reports, and print the table.

    Returns the results; none after a dry run.
    """
    if not run.report_only:
        for spec in study.encoders:
            Spec.parse(spec).check()
    check_output(run.json)
    out = run.out
    with only_errors(run.quiet):
        if run.dry_run:
            plan = plan_cells(study, out)
            give(plan, run.json, lambda: print(describe_plan(plan)))
            return None
        check_reports(out, REPORTS)
        cells = find_cells(study, out) if run.report_only else compute_cells(study, out)
        results = write_report(study, cells, out)
        give(results, run.json, lambda: print_table(study, results))
        print(f"report: {out / 'report.html'}", file=sys.stderr)
    return results


def check_reports(out: Path, names: Sequence[str] = ()) -> None:
    """Before the work: `OSError` where results cannot be written, `FileExistsError` for files that are of no study."""
    check_file(out / RESULTS)
    known: Any = None
    with contextlib.suppress(OSError, ValueError):
        known = read_json(out / RESULTS)
    if not isinstance(known, dict) or "stamp" not in known:
        for name in (name for name in (RESULTS, *names) if (out / name).exists()):
            raise FileExistsError(f"{out / name} exists, and no study of boustro wrote it; choose another --out")


def write_report(study: Grid, cells: Sequence[Cell], out: Path) -> dict[str, Any]:
    """Write results.json, report.md and report.html; returns the results. `ValueError` where there is no cell."""
    if not cells:
        raise ValueError("no cell of this study is complete yet, so there is nothing to report; run it first")
    check_reports(out, REPORTS)
    results = {**shared_results(study, cells), **study.summarise(cells)}
    write_file(out / RESULTS, as_json(results))
    write_file(out / "report.md", study.report.markdown(results))
    write_file(out / "report.html", study.report.html(results))
    return results


def shared_results(study: Grid, cells: Sequence[Cell]) -> dict[str, Any]:
    """Title, stamp ("37 of 40 cells"), command, versions, signature, and facts about the data."""
    program, *arguments = provenance()["command"]
    draws = {str(shots): [draw.tolist() for draw in drawn] for shots, drawn in study.draws.items()}
    of, complete = study.cells(Path()), {cell.name for cell in cells}
    return {
        "title": study.title,
        "stamp": "" if len(cells) == len(of) else f"{len(cells)} of {len(of)} cells",
        "missing": [cell.name for cell in of if cell.name not in complete],
        "command": shlex.join(
            [program if program != "__main__.py" else "boustro", *(a for a in arguments if a not in FLAGS)]
        ),
        "versions": provenance()["versions"],
        "signature": {**dict(study.units.rules), "version": f"boustro {__version__}"},
        "task": study.facts,
        "judged_on": study.judged_on,
        "data": {
            name: {
                "name": data_name(sentences),
                "examples": len(sentences),
                "words": sum(map(len, sentences)),
                "entities": sum(len(study.units.gold(s)) for s in sentences),
                "fingerprint": data_fingerprint(sentences),
            }
            for name, sentences in study.data().items()
        },
        **({"draws": draws, "drawing": study.drawing} if draws else {}),
    }


def print_table(study: Grid, results: dict[str, Any]) -> None:
    """The table of a study on standard output."""
    terminal = console(width=None if sys.stdout.isatty() else 160)
    table, note = study.table(results, terminal.width)
    terminal.print(table)
    if note:
        print(note)
    if results["stamp"]:
        print(f"incomplete: {results['stamp']}")


def plan_cells(study: Grid, out: Path) -> dict[str, Any]:
    """Cells known and missing, bytes of features to write, and about how many minutes."""
    data = [distinct_sentences(examples)[0] for examples in study.encoded()]
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
    """Return the plan as text."""
    known, of = plan["cells"]["known"], plan["cells"]["of"]
    lines = [f"{count_of(of, 'cells')}: {known} known, {of - known} to compute"]
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
