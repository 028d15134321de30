"""`boustro predict --states`: answers for texts whose states another engine computed, one file each."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from boustro.apps.batch.labeller import Opened
from boustro.options import OptionError
from boustro.output import RunOptions, as_json, only_errors, print_notices
from boustro.tasks import task_class, task_of

FORMS = ("text", "jsonl", "conll", "html")


def predict_states(
    opened: Opened, files: Sequence[Path], layers: str | None, form: str | None, out: Path | None, run: RunOptions
) -> None:
    """See `boustro.apps.cli.commands.predict`; `layers` are numbers, such as 4,9,14."""
    from boustro.tasks.tagger import Tagger

    kind: Any = task_class(task_of(opened.folder))
    if not issubclass(kind, Tagger):
        raise OptionError(f"--states is for taggers, and this is a {kind.__name__}; leave it out")
    if out is not None or form not in (None, *FORMS):
        raise OptionError(f"--states prints its answers as {', '.join(FORMS)}; redirect them to a file")
    if layers is not None and not all(number.strip().isdigit() for number in layers.split(",")):
        raise OptionError(f"--state-layers {layers}: expected numbers of layers, such as 4,9,14")
    from boustro.apps.live.states import answer_states, read_states

    numbers = None if layers is None else [int(number) for number in layers.split(",")]
    with only_errors(run.quiet):
        model = kind.from_pretrained(opened.folder, encoder=opened.encoder, device=opened.device, given_states=True)
        model = model if opened.recall is None else model.with_recall(opened.recall)
        for file in files:
            shown = model.show(answer_states(model, read_states(file, numbers)), form or "text")
            if form == "jsonl":
                shown = as_json(shown | ({"file": str(file)} if len(files) > 1 else {}))
            sys.stdout.write(f"{shown}\n")
        print_notices(model.notices())
