"""The options that all studies share. torch is not imported here: command lines list these options."""

from dataclasses import dataclass, replace
from pathlib import Path

from boustro.options import OptionError, check_options
from boustro.output import RunOptions
from boustro.tasks import read_examples, task_class
from boustro.tasks.data import like
from boustro.tasks.data.reading import OUTSIDE_TEXTS, DataOptions
from boustro.text.places import DataPlace
from boustro.types import Sentence


@dataclass(frozen=True, kw_only=True)
class StudyData:
    """The data of a study."""

    train: DataPlace
    """Training set, in any form that boustro fit takes (see: boustro help data)."""
    dev: DataPlace
    """Development set."""
    test: DataPlace | None = None
    """Test set, scored only. By default scores are reported on the development set."""

    def read(self, task: str, options: DataOptions, outside: bool = False) -> dict[str, list[Sentence]]:
        """Return the examples of train, dev and, where it is given, test; `outside`, these two may have texts that fit
        no label."""
        paths = {"train": self.train, "dev": self.dev, **({"test": self.test} if self.test else {})}
        own = {name: options if name == "train" else like(options, path) for name, path in paths.items()}
        sets = {}
        for name, path in paths.items():
            judged = OUTSIDE_TEXTS if outside and name != "train" else {}
            sets[name] = read_examples(task_class(task), path, replace(own[name], **judged))
        return sets


@dataclass(frozen=True, kw_only=True)
class StudyRun(RunOptions):
    """How a study runs, and where its results go."""

    out: Path
    """Output folder for cells, results and reports. A study that stopped there is continued."""
    dry_run: bool = False
    """Print what would be computed and how long it would take, then stop."""
    report_only: bool = False
    """Train nothing; report on the cells that are complete."""
    json: Path | None = None
    """Also write the results to this file (- for standard output)."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value of another type, and for a file at `out`."""
        check_options(self)
        if self.out.is_file():
            raise OptionError(f"{self.out} is a file; name a folder for --out")
