"""Options of where `boustro predict` writes, which the command line lists without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from boustro.options import OptionError, Workers, check_options


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where answers go."""

    out: Path | None = None
    """File to write, complete or absent: .csv, .tsv, .xlsx, .jsonl, .json, .parquet, .arrow, .conll, .html or .txt; by
    default standard output. Of a folder of files, a folder: a file for each, errors.jsonl with the rows that have no
    answer, job.json."""
    resume: bool = False
    """Go on where an interrupted or killed run that wrote --out was."""
    overwrite: bool = False
    """Replace existing files at --out and --errors, and start unfinished work again unless --resume is given too."""
    errors: Path | None = None
    """Write the rows that cannot be read or answered to this file, as JSON lines, and go on. By default the first ends
    the run."""
    workers: Workers = 1
    """Processes that label; each opens the folder, and they share the cores. Of Ray, actors, each with the model."""
    engine: Literal["local", "ray"] = "local"
    """Who labels a folder of files: local, or ray for Ray Data, on the cluster that $RAY_ADDRESS names, or one that is
    started here."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.out is None and self.resume:
            raise OptionError("--resume needs --out, the file to write")


DEFAULT_OUTPUT = OutputOptions()
