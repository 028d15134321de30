"""`boustro compare`: encoders × heads × variants × seeds on the same data, as one table and one report.

Slow imports happen when the command runs, so that its help appears at once.
"""

from pathlib import Path
from typing import Annotated, Literal

from boustro.options import Count, Range, check_options
from boustro.tasks import read_examples, task_class
from boustro.tasks.config import TaskConfig
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions

MOST_SEEDS = 1000


def compare(
    encoders: tuple[str, ...],
    train: Path,
    dev: Path,
    out: Path,
    task: Literal["tag", "classify"] = "tag",
    heads: tuple[str, ...] = ("mlp",),
    test: Path | None = None,
    seeds: Annotated[int, Range(1, MOST_SEEDS)] = 3,
    vary: tuple[str, ...] = (),
    training: TaskConfig = TaskConfig(),  # noqa: B008 (frozen)
    reference: str | None = None,
    cases: tuple[str, str] | None = None,
    reading: DataOptions = DEFAULT_OPTIONS,
    train_sentences: Count | None = None,
    cache: bool = True,
    dry_run: bool = False,
    report_only: bool = False,
    json: Path | None = None,
) -> None:
    """Train every encoder under every head with several seeds, and compare their scores in a table and a report.

    Args:
        encoders: Specs of encoders, such as starter-forward starter.
        train: Training set. tag: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the Hugging Face Hub;
            classify: JSON lines with a text and its label.
        dev: Development set, which selects the best epoch of each run and the best system.
        out: Output folder for cells, results and reports. A study that stopped there is continued.
        task: tag (entities) or classify (a label per text). By default as the training set has it.
        heads: Heads. tag: linear, mlp, block, bilstm or span; classify: mlp-pool or bilstm-pool.
        test: Test set, scored only. By default scores are reported on dev.
        seeds: Number of seeds; the seeds 1, 2, … are used.
        vary: Options to vary, such as pooling=exit,exit+before layers=last,all. Every combination is a system.
        reference: The system that differences are measured from, by its name in the table. By default the best on dev.
        cases: The two systems of the case study. By default the best one, and one that differs from it in one thing.
        train_sentences: Train on the first N sentences only.
        cache: Store the features on disk, where later runs find them.
        dry_run: Print what would be computed and how long it would take, then stop.
        report_only: Train nothing; report on the cells that are complete.
        json: Also write the results to this file (- for standard output).
    """
    check_options(compare, locals())
    from boustro.studies.compare.grid import Grid
    from boustro.studies.core.run import run_study
    from boustro.studies.core.systems import parse_variants
    from boustro.studies.core.task import STUDIED

    studied, options = STUDIED[task], vars(training)
    variants = parse_variants(vary, studied.config)
    for variant in variants:  # raises before the data are read
        studied.config.make(**{**options, **{name: v for name, v in variant.items() if name != "preset"}})
    sets = {
        name: read_examples(task_class(task), path, reading)
        for name, path in (("train", train), ("dev", dev), ("test", test))
        if path is not None
    }
    grid = Grid(
        encoders=encoders,
        heads=heads,
        seeds=seeds,
        options=options,
        variants=variants,
        task=studied,
        train=sets["train"][:train_sentences],
        dev=sets["dev"],
        test=sets.get("test"),
        reference=reference,
        cases=cases,
    )
    run_study(grid, out, cache, dry_run, report_only, json)
