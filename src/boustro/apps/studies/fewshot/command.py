"""`boustro fewshot`: how good is each encoder with few labelled sentences?

    boustro fewshot --encoders starter-forward starter --train train.txt --dev dev.txt --out shots

The features of each encoder are computed once; then hundreds of heads train in minutes. Slow imports happen when the
command runs, so that its help appears at once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from boustro.apps.studies.core.options import StudyData, StudyRun
from boustro.apps.studies.fewshot.options import AUTO, SOUND, Protocol, ShotOptions
from boustro.options import Count, OptionError, Range, check_options
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.text.places import LM

if TYPE_CHECKING:
    from boustro.tasks.labellings import Labelling

MOST_DRAWS, DRAWS, BUDGET = 10_000, 10, 30


def fewshot(
    encoders: tuple[LM, ...],
    data: StudyData,
    run: StudyRun,
    task: str = "tag",
    shots: tuple[Count, ...] = (4, 16, 64, 256),
    draws: Annotated[int, Range(1, MOST_DRAWS)] | None = None,
    heads: tuple[Literal["auto", "ridge", "logistic", "lda", "linear", "mlp", "linear+crf", "mlp+crf"], ...] = (
        "auto",
    ),
    tags: tuple[Literal["auto", "bio", "io", "factored", "label"], ...] = ("auto",),
    protocol: Protocol = "sound",
    budget: Count | None = None,
    training: ShotOptions = SOUND,
    reading: DataOptions = DEFAULT_OPTIONS,
) -> None:
    """Train on K labelled sentences per entity type, for several K and several random draws, and compare encoders.

    The sentences are drawn from the training set; all of it, without labels, standardises the features. Only the
    paper's protocol selects on the development set. Scores, questions and texts with several labels have K examples in
    all, on which the task's own head is trained with its defaults, as boustro compare --shots does.

    Args:
        encoders: Specs of encoders, such as starter-forward starter.
        task: As for boustro fit. By default as the training set has it.
        shots: Sentences per entity type, texts per label (the K of K-shot), or examples in all.
        draws: Number of random draws per K, by default 10. The paper's protocol has one.
        heads: Heads; auto is the one that measurement favoured at each K.
        tags: What heads predict: bio, io (types only), or factored (entities first, then the type of each); for texts
            their label.
        protocol: Sound, or that of the backward-LM paper.
        budget: Number of runs of the paper's random search, by default 30.
    """
    check_options(fewshot, locals())
    from boustro.apps.studies.compare.comparison import Comparison
    from boustro.apps.studies.core.run import run_study
    from boustro.apps.studies.fewshot.paper import PaperStudy
    from boustro.apps.studies.fewshot.study import ShotStudy
    from boustro.tasks import TASKS, task_class
    from boustro.tasks.labellings import labelling_class

    kind = task_class(task)
    (learned, *_) = TASKS[task].config.labellings
    own_to = {"paper": {"--budget": budget}, "sound": {"--draws": draws, "--heads": heads, "--tags": tags}}
    for other in own_to.keys() - {protocol}:
        if given := [name for name, value in own_to[other].items() if value not in (None, (AUTO,))]:
            raise OptionError(f"{', '.join(given)} is not read by --protocol {protocol}; leave it out")
    _refuse_unfit(task, labelling_class(learned), heads, tags, shots, protocol, training)
    sets = data.read(task, reading)
    shared = {
        "encoders": tuple(dict.fromkeys(encoders)),
        "shots": tuple(sorted(set(shots))),
        "task": kind,
        "run": run,
        **sets,
    }
    if not labelling_class(learned, sets["train"]).shot_tags:
        if training != SOUND or heads != (AUTO,) or tags != (AUTO,) or protocol != "sound":
            raise OptionError(
                f"{data.train}: the task's own head is trained with its defaults, because there are no few-shot heads "
                "for such data; leave out --heads, --tags, --protocol and the options of training"
            )
        own = Comparison(seeds=draws or DRAWS, heads=(TASKS[task].config.default_head,), **shared)
        run_study(own, run)
        return
    if protocol == "paper":
        study = PaperStudy(budget=budget or BUDGET, options=training, **shared)
    else:
        chosen = tuple((head, scheme) for head in heads for scheme in tags)
        study = ShotStudy(seeds=draws or DRAWS, heads=chosen, options=training, **shared)
    run_study(study, run)


def _refuse_unfit(
    task: str,
    labelling: "type[Labelling]",
    heads: Sequence[str],
    tags: Sequence[str],
    shots: Sequence[int],
    protocol: str,
    training: ShotOptions,
) -> None:
    """`OptionError` for tags, a protocol or an option that the few-shot heads of a task do not have."""
    from boustro.apps.studies.fewshot.heads import unread_by
    from boustro.apps.studies.fewshot.paper import SEARCHED

    for scheme in tags:
        if scheme != AUTO and scheme not in labelling.shot_tags:
            raise OptionError(f"--tags {scheme}: for {task} there are {', '.join(labelling.shot_tags) or 'none'}")
    entities = labelling.units.has_spans
    if training.self_train and (not entities or protocol == "paper"):
        raise OptionError("--self-train is for entities, in the sound protocol; leave it out")
    if protocol == "paper" and not entities:
        raise OptionError("--protocol paper is defined for entities; use --protocol sound")
    unread = SEARCHED if protocol == "paper" else unread_by(labelling, heads, shots) if labelling.shot_heads else ()
    for name in (name for name in unread if getattr(training, name) != getattr(SOUND, name)):
        raise OptionError(f"{name} is not read by any of these heads at these shots; leave it out")
