"""`boustro lab scaling`: several sizes of model at several budgets, with a loss curve for each objective.

Losses of different objectives are of different things: a causal LM predicts every piece from those before it, a masked
one some pieces from all others, and how many depends on the objective. Slow imports happen when the
command runs, so that its help appears at once.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.table import Table

from boustro.choose import unknown
from boustro.options import Count, OptionError, PositiveOrZero, Range, check_options
from boustro.output import as_json, check_output, console, give, only_errors
from boustro.store import write_file
from boustro.text.places import Folder
from boustro.types import Direction

STUDIED_SIZES = ("tiny", "mini", "small")


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """Sizes × budgets × objectives × seeds, and how each run is trained."""

    shards: tuple[Folder, ...]
    """Token shards to train on, written by boustro lab tokenize."""
    validation: Folder
    """Token shards on which the loss is measured, made with the same tokenizer."""
    out: Path
    """Output folder for cells, results and drawings. A study that stopped there is continued."""
    budgets: tuple[Count, ...]
    """Pieces to train on; every budget is a run of its own, whose learning rate falls to 0 at its end."""
    sizes: tuple[str, ...] = STUDIED_SIZES
    """Presets: sizes that every objective has (tiny, mini, small), or paths of transformers configs."""
    objectives: tuple[Literal["causal", "masked", "prefix-suffix", "span", "replaced"], ...] = (
        "causal",
        "masked",
        "prefix-suffix",
    )
    """Training objectives. Their losses are of different things and are not compared."""
    seeds: Annotated[int, Range(1, 100)] = 1
    """Number of seeds; the seeds 1, 2, … are used."""
    direction: Direction = "forward"
    """Reading direction of causal LMs."""
    segment_length: Annotated[int, Range(2, 2**20)] = 256
    """Pieces per segment."""
    batch_segments: Count = 16
    """Segments per step."""
    lr: PositiveOrZero = 5e-3
    """Peak learning rate of all runs."""
    validation_pieces: Count = 200_000
    """How many pieces of the validation shards to measure, from their beginning."""
    compile: bool = True
    """Compile the models with torch.compile, which pays off in runs of more than a few minutes."""
    save_minutes: PositiveOrZero = 10.0
    """Minutes between checkpoints of a run."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value outside its option's range, and for budgets of less than a step."""
        check_options(self)
        if not (self.sizes and self.budgets and self.objectives):
            raise OptionError("give at least one of --sizes, --budgets and --objectives")
        for size in self.sizes:
            if size not in STUDIED_SIZES and not Path(size).exists():
                raise OptionError(f"--sizes: {unknown(size, STUDIED_SIZES, 'size')}, or the path of a config.json")
        step = self.batch_segments * self.segment_length
        if min(self.budgets) < step:
            raise OptionError(f"a step reads {step:,} pieces, more than a budget of {min(self.budgets):,}")


NOTE = "Losses of different objectives are of different things and cannot be compared with each other."
COLUMN_HEADS = ("size", "parameters", "pieces", "seed", "loss", "fitted", "seconds")
Results = Mapping[str, Any]


def scaling(
    training: ScalingOptions,
    dry_run: bool = False,
    report_only: bool = False,
    json: Path | None = None,
    quiet: bool = False,
) -> None:
    """Train models of several sizes at several budgets, and fit L = E + A N^-α + B D^-β for each objective.

    Every run is a cell: a study that was stopped continues with the same command, in the middle of a run too. OUT then
    holds results.json.

    Args:
        dry_run: Print which runs are missing and how much they read, then stop.
        report_only: Train nothing; report on the cells that are complete.
        json: Also write the results to this file (- for standard output).
        quiet: Write nothing to standard error except errors.
    """
    check_options(scaling, locals())
    from boustro.apps.studies.core.cells import compute_cells, find_cells
    from boustro.apps.studies.core.run import check_reports
    from boustro.apps.studies.scaling.study import ScalingStudy, describe_grid, plan_grid, summarise_runs

    out, study = training.out, ScalingStudy(training)
    check_output(json)
    with only_errors(quiet):
        if dry_run:
            plan = plan_grid(study, out)
            give(plan, json, lambda: print(describe_grid(plan)))
            return
        check_reports(out)
        cells = find_cells(study, out) if report_only else compute_cells(study, out)
        if not cells:
            raise ValueError(f"{out}: no cell of this study is complete yet; run it without --report-only first")
        results = summarise_runs(study, cells)
        write_file(out / "results.json", as_json(results, 1))
        drawn = {name: objective for name, objective in results["objectives"].items() if objective["runs"]}

        def show() -> None:
            for objective, runs in drawn.items():
                table = Table(*COLUMN_HEADS, title=objective)
                for row in run_rows(runs):
                    table.add_row(*row)
                console(width=100).print(table)
                print(describe_curve(runs))
            print(NOTE)
            if results["stamp"]:
                print(f"incomplete: {results['stamp']}")

        give(results, json, show)
        print(f"results: {out / 'results.json'}", file=sys.stderr)


def run_rows(results: Results) -> list[list[str]]:
    """Return the runs of an objective as text, from the smallest model and budget to the largest."""
    curve, lines = curve_of(results), []
    for run in sorted(results["runs"], key=lambda run: (run["num_parameters"], run["pieces_seen"], run["seed"])):
        fitted = f"{float(curve.loss(run['num_parameters'], run['pieces_seen'])):.3f}" if curve else ""
        sizes = [f"{run['num_parameters'] / 1e6:.2f}M", f"{run['pieces_seen']:,}", str(run["seed"])]
        lines.append([run["size"], *sizes, f"{run['validation_loss']:.3f}", fitted, f"{run['seconds']:.0f}"])
    return lines


def describe_curve(results: Results) -> str:
    """Return the curve in one line, or why there is none."""
    curve = curve_of(results)
    if curve is None:
        return results["refusal"]
    spread = {name: f" ({low:.2f} to {high:.2f})" for name, (low, high) in curve.spread.items()}
    line = (
        f"L = {curve.irreducible:.3f}{spread.get('irreducible', '')} + {curve.size_factor:.3g} · "
        f"N^-{curve.size_exponent:.3f}{spread.get('size_exponent', '')} + {curve.data_factor:.3g} · "
        f"D^-{curve.data_exponent:.3f}{spread.get('data_exponent', '')}; largest error {curve.largest_error:.2%}"
    )
    line += "; in brackets the lowest and highest value when each run is left out" if spread else ""
    return line + ("; an exponent is at the end of its range: these runs do not determine it" if curve.at_bound else "")


def curve_of(results: Results) -> Any:
    """Return the `Curve` of an objective, where there is one."""
    from boustro.apps.studies.scaling.curve import Curve

    return Curve(**results["curve"]) if results["curve"] else None
