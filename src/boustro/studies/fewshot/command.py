"""`boustro fewshot`: how good is each encoder with few labelled sentences?

    boustro fewshot --encoders starter-forward starter --train train.txt --dev dev.txt --out shots

The features of each encoder are computed once; then hundreds of heads train in minutes. `fewshot.study` describes the
two protocols. Slow imports happen when the command runs, so that its help appears at once.
"""

from pathlib import Path
from typing import Annotated, Literal

from boustro.options import Count, Range, check_options
from boustro.studies.fewshot.options import SOUND, Protocol, ShotOptions
from boustro.tasks.data import read_labelled
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions

MOST_DRAWS = 10_000


def fewshot(
    encoders: tuple[str, ...],
    train: Path,
    dev: Path,
    out: Path,
    test: Path | None = None,
    shots: tuple[Count, ...] = (4, 16, 64, 256),
    draws: Annotated[int, Range(1, MOST_DRAWS)] = 10,
    heads: tuple[Literal["auto", "ridge", "logistic", "lda", "linear", "mlp", "linear+crf", "mlp+crf"], ...] = (
        "auto",
    ),
    tags: tuple[Literal["auto", "bio", "io", "factored"], ...] = ("auto",),
    protocol: Protocol = "sound",
    budget: Count = 30,
    training: ShotOptions = SOUND,
    reading: DataOptions = DEFAULT_OPTIONS,
    cache: bool = True,
    dry_run: bool = False,
    report_only: bool = False,
    json: Path | None = None,
) -> None:
    """Train on K labelled sentences per entity type, for several K and several random draws, and compare encoders.

    Args:
        encoders: Specs of encoders, such as starter-forward starter.
        train: Labelled sentences to draw from: CoNLL columns, CoNLL-U, JSON lines, or hf:NAME for a data set of the
            Hugging Face Hub. All of them, without their labels, are used to standardise the features.
        dev: Development set. Scores are reported on it where there is no test set; only the paper's protocol selects
            on it.
        out: Output folder for cells, results and reports. A study that stopped there is continued.
        test: Test set, scored only.
        shots: Sentences per entity type (the K of K-shot).
        draws: Number of random draws per K. The paper's protocol has one.
        heads: Heads; auto is the one that measurement favoured at each K.
        tags: What heads predict: bio, io (types only), or factored (entities first, then the type of each).
        protocol: Sound, or that of the backward-LM paper.
        budget: Number of runs of the paper's random search.
        cache: Store the features on disk, where later runs find them.
        dry_run: Print what would be computed and how long it would take, then stop.
        report_only: Train nothing; report on the cells that are complete.
        json: Also write the results to this file (- for standard output).
    """
    check_options(fewshot, locals())
    from boustro.studies.core.run import run_study
    from boustro.studies.fewshot.study import ShotStudy

    paper = protocol == "paper"
    study = ShotStudy(
        encoders=tuple(dict.fromkeys(encoders)),
        shots=tuple(sorted(set(shots))),
        num_draws=1 if paper else draws,
        heads=(("mlp", "bio"),) if paper else tuple((head, scheme) for head in heads for scheme in tags),
        protocol=protocol,
        budget=budget,
        options=training,
        train=read_labelled(train, reading),
        dev=read_labelled(dev, reading),
        test=read_labelled(test, reading) if test else None,
    )
    run_study(study, out, cache, dry_run, report_only, json)
