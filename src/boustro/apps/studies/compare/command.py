"""`boustro compare`: encoders × heads × variants × seeds on the same data, as one table and one report.

`boustro fewshot` is the same for few examples, with other defaults.

Slow imports happen when the command runs, so that its help appears at once.
"""

import sys
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from boustro.apps.studies.core.options import StudyData, StudyRun
from boustro.apps.studies.core.systems import SHOTS, parse_variants, refuse_variants
from boustro.heads.options import HeadOptions
from boustro.heads.registry import head_kind
from boustro.options import AS_GIVEN, Count, OptionError, Range, check_options, command_line, option_name
from boustro.tasks.config import AUTO, TaskConfig
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.text.places import LM

# by default ten draws of few examples, 30 trials of a search, three seeds of its best
MOST_SEEDS, NUM_DRAWS, BUDGET, BEST_RUNS = 1000, 10, 30, 3
SEARCHED = ("lr", "dropout", "batch_sentences")
"""What the search of the preset paper sets."""


def compare(
    encoders: tuple[LM, ...],
    data: StudyData,
    run: StudyRun,
    task: str = "tag",
    heads: tuple[str, ...] = ("mlp",),
    seeds: Annotated[int, Range(1, MOST_SEEDS)] = 3,
    shots: tuple[Count, ...] = (),
    vary: Annotated[tuple[str, ...], AS_GIVEN] = (),
    training: TaskConfig = TaskConfig(),  # noqa: B008 (frozen)
    of_heads: HeadOptions = HeadOptions(),  # noqa: B008 (frozen)
    reference: str | None = None,
    cases: tuple[str, str] | None = None,
    reading: DataOptions = DEFAULT_OPTIONS,
    train_sentences: Count | None = None,
) -> None:
    """Train every encoder under every head with several seeds, and compare their scores in a table and a report.

    The development set selects the best epoch of each run and the best system. With --shots every seed draws so many
    examples, and no epoch is selected; boustro fewshot has defaults for that.

    Args:
        encoders: Specs of encoders, such as starter-forward,starter.
        task: As for boustro fit. By default as the training set has it.
        heads: Kinds of head, as for boustro fit. By default the task's own.
        seeds: Number of seeds; the seeds 1, 2, … are used.
        shots: Train on so many examples per label, or in all where there are no labels (the K of K-shot); several are
            compared. By default on the whole training set.
        vary: An option to vary, such as pooling=exit,exit+before; give it again for another. Every combination is a
            system.
        reference: The system that differences are measured from, by its name in the table. By default the best on dev.
        cases: The two systems of the case study. By default the best one, and one that differs from it in one thing.
        train_sentences: Train on the first N examples only.
    """
    check_options(compare, locals())
    _run(data, run, task, reading, encoders, heads, vary, training, of_heads, train_sentences,
         seeds=seeds, shots=shots, reference=reference, cases=cases)  # fmt: skip


def fewshot(
    encoders: tuple[LM, ...],
    data: StudyData,
    run: StudyRun,
    task: str = "tag",
    shots: tuple[Count, ...] = (4, 16, 64, 256),
    seeds: Annotated[int, Range(1, MOST_SEEDS)] | None = None,
    heads: tuple[str, ...] = (AUTO,),
    preset: Literal["few", "paper"] = "few",
    budget: Count | None = None,
    vary: Annotated[tuple[str, ...], AS_GIVEN] = (),
    training: TaskConfig = TaskConfig(),  # noqa: B008 (frozen)
    of_heads: HeadOptions = HeadOptions(),  # noqa: B008 (frozen)
    reading: DataOptions = DEFAULT_OPTIONS,
) -> None:
    """Train on K labelled examples per type or label, for several K and several random draws, and compare encoders.

    As boustro compare --shots, with defaults for few examples. A head that is reported is the one that boustro fit
    trains on the examples of its draw, with the same --preset. Nothing is selected on the development set, but by the
    search of the preset paper.

    Args:
        encoders: Specs of encoders, such as starter-forward,starter.
        task: As for boustro fit. By default as the training set has it.
        shots: Examples per entity type or label (the K of K-shot), or in all where there are none.
        seeds: Number of random draws per K, by default 10. The preset paper has one draw.
        heads: Kinds of head, as for boustro fit; auto is the one that measurement favoured at each K.
        preset: few, whose mix of layers is fixed, so that the heads of all draws are trained at once; or the protocol
            of the backward-LM paper (section 3.4): its draw, its head, a random search, the three runs best on dev.
        budget: Number of runs of the paper's random search, by default 30.
        vary: As for boustro compare.
    """
    check_options(fewshot, locals())
    paper = preset == "paper"
    options = {"--seeds": seeds, "--heads": None if heads == (AUTO,) else heads} if paper else {"--budget": budget}
    unread = [name for name, value in options.items() if value is not None]
    searched = {name: training.preset(preset)[name] for name in SEARCHED} if paper else {}
    unread += [f"--{option_name(name)}" for name, value in searched.items() if value != getattr(of_heads, name)]
    if unread:
        raise OptionError(f"{', '.join(unread)} is not read with --preset {preset}; remove it")
    how: dict[str, Any] = {"seeds": seeds or NUM_DRAWS, "budget": None}
    if paper:
        heads, how = ("mlp",), {"seeds": BEST_RUNS, "budget": budget or BUDGET}
    how |= {"shots": shots, "title": "Few labelled examples", "preset": preset}
    _run(data, run, task, reading, encoders, heads, vary, training, of_heads, **how)


def _run(
    data: StudyData,
    run: StudyRun,
    task: str,
    reading: DataOptions,
    encoders: tuple[str, ...],
    heads: tuple[str, ...],
    vary: tuple[str, ...],
    training: TaskConfig,
    of_heads: HeadOptions,
    first: int | None = None,
    *,
    shots: tuple[int, ...],
    preset: str = "default",
    **how: Any,
) -> None:
    from boustro.tasks import TASKS, task_class
    from boustro.tasks.labellings import make_labelling

    config = TASKS[task].config
    kinds = config.named_heads(heads)
    variants = parse_variants(vary, config, kinds)
    options = {**vars(training), **vars(of_heads)}
    for head in kinds:
        refuse_variants(config, head, options, variants)  # before the data are read
    sets = data.read(task, reading, any(dict(options, **variant).get("none") for variant in variants))
    for head in kinds:
        labelled = [example for example in sets["train"][:first] if example.is_labelled]
        make_labelling(head, labelled, head_kind(head).options())  # what is wrong is said before torch is imported
    from boustro.apps.studies.compare.comparison import Comparison
    from boustro.apps.studies.core.run import run_study

    grid = Comparison(
        encoders=tuple(dict.fromkeys(encoders)),
        heads=heads,
        shots=tuple(sorted(set(shots))),
        options=options,
        variants=variants,
        task=task_class(task),
        train=sets["train"][:first],
        dev=sets["dev"],
        test=sets.get("test"),
        run=run,
        **how,
    )
    for k in sorted({*grid.shots} - {*grid.distinct_shots}):
        print(f"note: K = {k:,} is left out, as a smaller K draws all that there is to draw", file=sys.stderr)
    grid = replace(grid, shots=grid.distinct_shots)
    if (results := run_study(grid, run)) and not run.quiet:
        usual = config.preset(preset)  # is for few examples, and the command trains on all
        given = {field.name: value for each in (training, of_heads, reading) for field in fields(each)
                 if (value := getattr(each, field.name)) not in (field.default, usual.get(field.name, field.default))
                 }  # fmt: skip
        given = {"task": task} | given
        print(f"next: {_best(results, data, given)}", file=sys.stderr)


def _best(results: dict[str, Any], data: StudyData, given: dict[str, Any]) -> str:
    """Return the command that trains the system to use on all of the training data, with the options that were
    given."""
    from boustro.apps.studies.compare.report import trained_system

    best = trained_system(results)
    others = {name: value for name, value in (given | best["variant"]).items() if name != SHOTS}
    chosen = {"encoder": best["encoder"], "head": best["head"], "train": data.train, "dev": data.dev, "out": "MODEL"}
    return command_line("fit", **(others | chosen))
