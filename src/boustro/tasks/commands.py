"""Labelled sentences for commands that train no task."""

from pathlib import Path

from boustro.tasks import read_examples, task_class
from boustro.tasks.data.reading import DataOptions
from boustro.types import Sentence


def read_labelled(data: Path, options: DataOptions) -> list[Sentence]:
    """Sentences of a file or data set; what was repaired or left out is printed on standard error."""
    return read_examples(task_class("tag"), data, options)
