"""`boustro lab harness`: zero-shot multiple choice through lm-evaluation-harness.

torch and lm-eval are imported when the command runs, so that its help does not wait for them.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from boustro.lab.generation.options import DEFAULT_LM, LMOptions
from boustro.options import Count, check_options
from boustro.output import check_output, console, give, only_errors, print_notices
from boustro.text.places import LM, Folder

if TYPE_CHECKING:
    from boustro.lab.harness.run import Accuracy

HERE = Path()


def harness(
    tasks: tuple[str, ...],
    encoder: LM = "starter",
    data: Folder = HERE,
    score: str | None = None,
    limit: Count | None = None,
    json: Path | None = None,
    run: LMOptions = DEFAULT_LM,
) -> None:
    """Answer multiple-choice questions without training, through lm-evaluation-harness, beside two controls.

    Args:
        tasks: arc_easy, arc_challenge, openbookqa, piqa, siqa, winogrande, continuation_easy, continuation_hard, or
            YAML files of the harness.
        encoder: A forward LM, a backward LM, a pair of them, such as starter, or a masked LM.
        data: The folder with the tasks' files of JSON lines.
        score: forward, forward-mean, forward-pmi, backward, pair or pair-pmi; of a masked LM one of lab score's, or
            one with -pmi. By default forward or backward for one LM, pair-pmi for a pair, one-shot-pmi for a masked LM.
        limit: Only so many questions of each task, the first ones.
        json: Write the figures to this file (- for standard output).
    """
    check_options(harness, locals())
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")  # read once, when datasets is imported: nothing is fetched
    with only_errors(run.quiet):
        check_output(json)
        try:
            import lm_eval  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "boustro lab harness needs lm-evaluation-harness; install it with: pip install 'boustro[harness]'"
            ) from error
        from boustro.lab.harness.run import BoustroLM, accuracy_of, answer, open_task

        opened = {name: open_task(name, data, limit) for name in tasks}
        lm = BoustroLM(encoder, score, run.device, run.start_piece)
        with only_errors(not sys.stderr.isatty()):  # the harness's progress bars
            answered = answer(lm, opened)
        figures = []
        for name, questions in answered.items():
            flat = iter(lm.prior([choice for question in questions for choice in question.choices()]))
            prior = [[next(flat) for _ in question.requests] for question in questions]
            figures.append(accuracy_of(name, questions, prior))
        print_notices(lm.counts)
        facts: dict[str, Any] = {"model": encoder, "score": lm.score, "tasks": [figure.to_dict() for figure in figures]}
        give(facts, json, lambda: _show(f"{encoder}, {lm.score}", figures), indent=1)


def _show(title: str, figures: "Sequence[Accuracy]") -> None:
    table = Table("task", "questions", "accuracy", "by length", "longest choice", "prior only", "chance", title=title)
    for figure in figures:
        values = (figure.by_length, figure.longest, figure.prior, figure.chance)
        accuracy = f"{figure.accuracy:.1f} ± {figure.standard_error:.1f}"
        table.add_row(figure.task, f"{figure.questions:,}", accuracy, *(f"{value:.1f}" for value in values))
    console(width=100).print(table)
