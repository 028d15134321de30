"""`boustro compare`: encoders × heads × variants × seeds on the same data, as one table and one report.

Slow imports happen when the command runs, so that its help appears at once.
"""

from typing import Annotated

from boustro.apps.studies.core.options import StudyData, StudyRun
from boustro.heads.options import HeadOptions
from boustro.options import Count, Range, check_options
from boustro.tasks.config import TaskConfig
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.text.places import LM

MOST_SEEDS = 1000


def compare(
    encoders: tuple[LM, ...],
    data: StudyData,
    run: StudyRun,
    task: str = "tag",
    heads: tuple[str, ...] = ("mlp",),
    seeds: Annotated[int, Range(1, MOST_SEEDS)] = 3,
    shots: tuple[Count, ...] = (),
    vary: tuple[str, ...] = (),
    training: TaskConfig = TaskConfig(),  # noqa: B008 (frozen)
    of_heads: HeadOptions = HeadOptions(),  # noqa: B008 (frozen)
    reference: str | None = None,
    cases: tuple[str, str] | None = None,
    reading: DataOptions = DEFAULT_OPTIONS,
    train_sentences: Count | None = None,
) -> None:
    """Train every encoder under every head with several seeds, and compare their scores in a table and a report.

    The development set selects the best epoch of each run and the best system. With --shots every seed draws so many
    examples, and no epoch is selected; boustro fewshot has heads for few examples.

    Args:
        encoders: Specs of encoders, such as starter-forward starter.
        task: As for boustro fit. By default as the training set has it.
        heads: Kinds of head, as for boustro fit. By default the task's own.
        seeds: Number of seeds; the seeds 1, 2, … are used.
        shots: Train on so many examples per label, or in all where there are no labels (the K of K-shot); several are
            compared. By default on the whole training set.
        vary: Options to vary, such as pooling=exit,exit+before layers=last,all. Every combination is a system.
        reference: The system that differences are measured from, by its name in the table. By default the best on dev.
        cases: The two systems of the case study. By default the best one, and one that differs from it in one thing.
        train_sentences: Train on the first N examples only.
    """
    check_options(compare, locals())
    from boustro.apps.studies.compare.comparison import Comparison
    from boustro.apps.studies.core.run import run_study
    from boustro.apps.studies.core.systems import parse_variants, refuse_variants
    from boustro.tasks import TASKS, task_class

    config = TASKS[task].config
    variants = parse_variants(vary, config, heads)
    options = {**vars(training), **vars(of_heads)}
    for head in heads:
        refuse_variants(config, head, options, variants)  # before the data are read
    sets = data.read(task, reading)
    grid = Comparison(
        encoders=encoders,
        heads=heads,
        seeds=seeds,
        shots=tuple(sorted(set(shots))),
        options=options,
        variants=variants,
        task=task_class(task),
        train=sets["train"][:train_sentences],
        dev=sets["dev"],
        test=sets.get("test"),
        run=run,
        reference=reference,
        cases=cases,
    )
    run_study(grid, run)
