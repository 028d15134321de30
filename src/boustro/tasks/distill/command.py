"""`boustro distill`: a trained folder into one with a smaller encoder."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boustro.errors import count_of
from boustro.heads.options import StepOptions
from boustro.options import Positional, Seed, Width, check_options
from boustro.output import DEFAULT_RUN, RunOptions, check_output, give, only_errors, print_notices
from boustro.store import claim
from boustro.tasks import TASKS, kept_columns, read_examples, task_class, task_of
from boustro.tasks.data import with_kept
from boustro.tasks.data.reading import DEFAULT_OPTIONS
from boustro.text.documents import read_documents
from boustro.text.places import LM, Corpus, DataPlace, Model


@dataclass(frozen=True, kw_only=True)
class DistillOptions(StepOptions):
    """Options of the student: its head, and how it learns."""

    head: str | None = None
    """Kind of the student's head. By default the teacher's."""
    hidden: Width | None = 512
    """Width inside the student's head; None for the width of its input."""

    __post_init__ = check_options


DEFAULT_DISTILL = DistillOptions()


def distill(
    folder: Positional[Model],
    student: LM,
    texts: tuple[Corpus, ...],
    out: Path,
    train: DataPlace | None = None,
    dev: DataPlace | None = None,
    seed: Seed = 1,
    training: DistillOptions = DEFAULT_DISTILL,
    json: Path | None = None,
    overwrite: bool = False,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Train a head over another encoder on what a trained folder says of text without labels.

    Args:
        folder: A folder that boustro fit wrote, of a tagger or a classifier: the teacher.
        student: Spec of the student's encoder.
        texts: Text without labels: text files with one document per line, or JSONL files with a text in each object.
        out: Folder to write.
        train: Labelled examples that the student learns beside the texts.
        dev: Labelled examples that choose the student's epoch, and on which both are scored.
        seed: Random seed of the student's head, the order of examples and dropout.
        json: Write the figures to this file (- for standard output).
        overwrite: Replace an existing folder of this task at --out.
    """
    check_options(distill, locals())
    with claim(out, TASKS[task_of(folder)].folder, overwrite):  # said before anything is loaded; below it is held
        pass
    with only_errors(run.quiet):
        check_output(json)
        task = task_of(folder)
        kept = kept_columns(folder)
        labelled = [
            read_examples(task_class(task), data, with_kept(DEFAULT_OPTIONS, kept, data)) if data else []
            for data in (train, dev)
        ]
        given = list(read_documents(texts, split="line", option=""))
        # What is wrong with the data is said before torch is imported.
        from boustro.encoders.spec import Spec
        from boustro.tasks.distill.training import train_student

        Spec.parse(student).check()
        with claim(out, TASKS[task].folder, overwrite):
            teacher: Any = task_class(task).from_pretrained(folder, cache=run.cache, device=run.device)
            made = train_student(teacher, student, given, *labelled, seed=seed, options=training, cache=run.cache)
            made.student.save_pretrained(out)
        print_notices(made.student.record["notices"])
        give(made.figures, json, lambda: _show(made.figures), indent=1)
        print(f"{out}: trained in {made.student.record['train_seconds']:.0f} s", file=sys.stderr)


def _show(figures: dict[str, Any]) -> None:
    print(
        f"agreement with the teacher on {count_of(figures['compared'], 'examples')}  {100 * figures['agreement']:.1f}%"
    )
    for name in ("teacher", "student"):
        row = figures[name]
        score = {key: row["dev"][key] for key in ("f1", "accuracy") if key in row.get("dev", {})}
        shown = "".join(f"  {key.replace('f1', 'F1')} {value:.2f}" for key, value in list(score.items())[:1])
        print(f"{name}  {row['parameters'] / 1e6:.2f}M parameters  {row['megabytes']:,.1f} MB{shown}  {row['encoder']}")
