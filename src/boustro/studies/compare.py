"""`boustro compare`: encoders x heads x variants x seeds on the same data, as one table and one report.

Every system with a seed is a cell (`studies.cells`), a folder that is either complete or absent, so a study
that was killed goes on where it stopped. Tables and report are made from the cells alone, without a model.
What is slow to import is imported when the command runs, so that its help need not wait.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table

from boustro.options import Count, Range, check_options
from boustro.output import as_json, check_output, give
from boustro.store import check_file, write_file
from boustro.studies.report import render_html, render_markdown
from boustro.studies.report.numbers import seeds as seeds_told
from boustro.studies.report.numbers import spread
from boustro.tasks.commands import HeadOptions, make_config, read_labelled
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions

if TYPE_CHECKING:
    from boustro.studies.cells import Cell
    from boustro.studies.grid import Grid

MOST_SEEDS = 1000


def compare(
    encoders: tuple[str, ...],
    train: Path,
    dev: Path,
    out: Path,
    heads: tuple[str, ...] = ("mlp",),
    test: Path | None = None,
    seeds: Annotated[int, Range(1, MOST_SEEDS)] = 3,
    vary: tuple[str, ...] = (),
    options: HeadOptions = HeadOptions(),  # noqa: B008 (frozen)
    reference: str | None = None,
    cases: tuple[str, str] | None = None,
    data_options: DataOptions = DEFAULT_OPTIONS,
    train_sentences: Count | None = None,
    cache: bool = True,
    dry_run: bool = False,
    report_only: bool = False,
    json: Path | None = None,
) -> None:
    """Train every encoder under every head with several seeds, and set the results side by side.

    Args:
        encoders: Specs of encoders, such as starter-forward starter.
        train: Labelled sentences: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the hub.
        dev: Labelled sentences that choose the best epoch.
        out: Where cells, tables and the report are written; a study there goes on where it stopped.
        heads: Heads, such as linear mlp.
        test: Labelled sentences that choose nothing.
        seeds: How many; 1, 2, … are used.
        vary: Options to vary, as pooling=exit,exit+before layers=last,all (every combination is a system).
        reference: The system that differences are measured from, as the table names it; by default the best on dev.
        cases: The two systems of the case study; by default the best, and one that differs from it in one thing.
        train_sentences: Train on the first so many sentences only.
        cache: Keep the features on disk.
        dry_run: Say what would be computed and what it would cost, and stop.
        report_only: Compute nothing: report on the cells that are there.
        json: Write the results there as well (- for standard output).
    """
    from boustro.encoders import check_spec
    from boustro.studies.grid import Grid, parse_variants
    from boustro.studies.plan import describe_plan, make_plan
    from boustro.studies.results import find_name

    check_options(compare, locals())
    variants = parse_variants(vary)
    for variant in variants:
        make_config(**{**options.chosen(), **variant})  # raises before the data are read
    grid = Grid(
        encoders=encoders,
        heads=heads,
        seeds=seeds,
        options=options.chosen(),
        variants=variants,
        train=read_labelled(train, data_options)[:train_sentences],
        dev=read_labelled(dev, data_options),
        test=read_labelled(test, data_options) if test else None,
    )
    if not report_only:
        for spec in grid.encoders:
            check_spec(spec)
    check_output(json)
    for name in (reference, *(cases or ())):
        if name is not None:  # before hours are spent, not after
            find_name(name, [s.name for s in grid.systems()])
    if dry_run:
        plan = make_plan(grid, out, cache)
        give(plan, json, lambda: print(describe_plan(plan)))
        return
    check_file(out / "results.json")
    cells = find_cells(grid, out) if report_only else compute_cells(grid, out, cache)
    results = write_report(grid, cells, out, reference=reference, cases=cases)
    give(results, json, lambda: print_table(results))
    print(f"report: {out / 'report.html'}", file=sys.stderr)


def run_grid(grid: "Grid", out: Path, cache: bool = True, title: str = "Comparison") -> dict[str, Any]:
    """Compute the missing cells and write the report; returns the results."""
    return write_report(grid, compute_cells(grid, out, cache), out, title)


def compute_cells(grid: "Grid", out: Path, cache: bool | Path = True) -> "dict[str, list[Cell]]":
    """All cells by the system's name, the missing ones computed one after the other."""
    from boustro.studies.cells import compute_cell, find_cell

    cells: dict[str, list[Cell]] = {}
    systems = grid.systems()
    total = len(systems) * grid.seeds
    for system in systems:
        for seed in range(1, grid.seeds + 1):
            known = find_cell(grid, system, seed, out)
            cell = known or compute_cell(grid, system, seed, out, cache)
            cells.setdefault(system.name, []).append(cell)
            note = "known already" if known else f"{cell.scores['record']['train_seconds']:.0f} s"
            done = sum(map(len, cells.values()))
            print(
                f"[{done}/{total}] {system.name}, seed {seed}: dev F1 {cell.scores['dev']['f1']:.2f} ({note})",
                file=sys.stderr,
            )
    return cells


def find_cells(grid: "Grid", out: Path) -> "dict[str, list[Cell]]":
    """The cells that are there, by the system's name."""
    from boustro.studies.cells import find_cell

    cells = {}
    for system in grid.systems():
        found = [find_cell(grid, system, seed, out) for seed in range(1, grid.seeds + 1)]
        cells[system.name] = [cell for cell in found if cell is not None]
    return cells


def write_report(
    grid: "Grid",
    cells: "dict[str, list[Cell]]",
    out: Path,
    title: str = "Comparison",
    reference: str | None = None,
    cases: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Write results.json, report.md and report.html; returns the results."""
    from boustro.studies.results import summarise

    results = summarise(grid, cells, title, reference, cases)
    write_file(out / "results.json", as_json(results))
    write_file(out / "report.md", render_markdown(results))
    write_file(out / "report.html", render_html(results))
    return results


def print_table(results: dict[str, Any]) -> None:
    """The table of a study, on standard output."""
    systems = results["systems"]
    console = Console(width=None if sys.stdout.isatty() else 160)
    sizes = {label: found["num_entities"] for s in systems for label, found in s["per_type"].items()}
    labels = sorted(sizes, key=lambda label: (-sizes[label], label))
    shown, unbounded = len(labels), console.options.update_width(1_000_000)
    while shown and console.measure(_score_table(results, labels[:shown]), options=unbounded).maximum > console.width:
        shown -= 1
    console.print(_score_table(results, labels[:shown]))
    if shown < len(labels):
        print(f"only the largest types are shown; more in the report: {len(labels) - shown}")
    if results["stamp"]:
        print(f"incomplete: {results['stamp']}")


def _score_table(results: dict[str, Any], labels: Sequence[str]) -> Table:
    systems = results["systems"]
    judged = [name for name in ("dev", "test") if name in systems[0]]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("system", *(f"{n} F1" for n in judged), *labels, "LMs", "trained", "time"):
        table.add_column(name, justify="left" if name == "system" else "right", no_wrap=True)
    for s in systems:
        short = "" if s["num_seeds"] == results["seeds"] else f" ({seeds_told(s['num_seeds'], results['seeds'])})"
        table.add_row(
            s["name"] + short,
            *(f"{spread(s[name]).text} {spread(s[name]).note}".strip() for name in judged),
            *(f"{s['per_type'].get(label, {'f1': 0})['f1']:.1f}" for label in labels),
            f"{s['encoder_parameters'] / 1e6:.1f}M",
            f"{s['head_parameters'] / 1e6:.2f}M",
            f"{results['cost'][s['name']]['train_seconds']['mean']:.0f} s",
        )
    return table
