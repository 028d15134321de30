"""`boustro scaling`: several sizes of model at several budgets, with a loss curve for each objective.

Slow imports happen when the command runs, so that its help appears at once.
"""

import sys
from pathlib import Path

from boustro.apps.studies.scaling.options import ScalingOptions
from boustro.options import check_options
from boustro.output import as_json, check_output, give, only_errors
from boustro.store import check_file, write_file


def scaling(
    training: ScalingOptions,
    dry_run: bool = False,
    report_only: bool = False,
    json: Path | None = None,
    quiet: bool = False,
) -> None:
    """Train models of several sizes at several budgets, and fit L = E + A N^-α + B D^-β for each objective.

    Every run is a cell: a study that was stopped continues with the same command, in the middle of a run too. OUT then
    holds results.json, report.md and a picture for each objective.

    Args:
        dry_run: Print which runs are missing and how much they read, then stop.
        report_only: Train nothing; report on the cells that are complete.
        json: Also write the results to this file (- for standard output).
        quiet: Write nothing to standard error except errors.
    """
    check_options(scaling, locals())
    from boustro.apps.studies.core.cells import compute_cells, find_cells
    from boustro.apps.studies.scaling.report import draw, markdown, print_tables
    from boustro.apps.studies.scaling.study import ScalingStudy, describe_plan, make_plan, summarise

    out, study = training.out, ScalingStudy(training)
    check_output(json)
    with only_errors(quiet):
        if dry_run:
            plan = make_plan(study, out)
            give(plan, json, lambda: print(describe_plan(plan)))
            return
        check_file(out / "results.json")
        cells = find_cells(study, out) if report_only else compute_cells(study, out)
        if not cells:
            raise ValueError(f"{out}: no cell of this study is complete yet; run it without --report-only first")
        results = summarise(study, cells)
        write_file(out / "results.json", as_json(results, 1))
        write_file(out / "report.md", markdown(results))
        drawn = {name: own for name, own in results["objectives"].items() if own["runs"]}
        for objective, own in drawn.items():
            write_file(out / f"{objective}.svg", draw(objective, own))

        def show() -> None:
            print_tables(drawn)
            if results["stamp"]:
                print(f"incomplete: {results['stamp']}")

        give(results, json, show)
        print(f"report: {out / 'report.md'}, {', '.join(f'{name}.svg' for name in drawn)}", file=sys.stderr)
