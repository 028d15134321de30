"""`boustro batch`: a folder of shards in, a folder of answered shards out, on one machine or on a Ray cluster.

torch is imported when the command runs: the command line lists its options, and those of where `predict` writes,
without it.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from boustro.options import OptionError, Positional, Workers, check_options
from boustro.output import check_output, give, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.text.places import LM, Model


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where answers go."""

    out: Path | None = None
    """File to write, complete or absent: .csv, .tsv, .xlsx, .jsonl, .json, .parquet, .arrow, .conll, .html or .txt; by
    default standard output."""
    resume: bool = False
    """Go on where an interrupted or killed run that wrote --out was."""
    overwrite: bool = False
    """Replace existing files at --out and --errors, and start unfinished work again unless --resume is given too."""
    errors: Path | None = None
    """Write the rows that cannot be read or answered to this file, as JSON lines, and go on. By default the first ends
    the run."""
    workers: Workers = 1
    """Processes that label; each opens the folder, and they share the cores."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.out is None and self.resume:
            raise OptionError("--resume needs --out, the file to write")


DEFAULT_OUTPUT = OutputOptions()


def batch(
    folder: Positional[Model],
    source: Positional[Path],
    out: Positional[Path],
    engine: Literal["local", "ray"] = "local",
    workers: Workers = 1,
    format: Literal["jsonl", "parquet", "arrow"] = "jsonl",
    text_column: str | None = None,
    encoder: LM | None = None,
    device: str | None = None,
    json: Path | None = None,
    quiet: bool = False,
) -> None:
    """Answer all shards of a folder; run again after a kill, it does what is missing.

    Args:
        folder: A folder that boustro fit wrote.
        source: Folder of shards: .jsonl, .csv, .parquet, .arrow, .conll (taggers), or lines of text; .gz, .bz2, .xz
            too.
        out: Folder to write: a file for each shard, errors.jsonl with the rows that have no answer, job.json.
        engine: local, or ray for Ray Data: the cluster that $RAY_ADDRESS names, or one that is started here.
        workers: Processes, or actors, each with the model.
        format: Of the answers.
        text_column: The key or column with the text. By default text or sentence.
        encoder: Where the encoder is now, if it has moved.
        device: cpu, cuda, mps or auto (spread over GPUs, CPU memory and disk). By default the best one.
        json: Write what was done to this file (- for standard output).
        quiet: Write nothing to standard error except errors.
    """
    check_options(batch, locals())
    from boustro.apps.batch.shards import Predictor, make_job, run_shards

    if not source.is_dir():
        raise NotADirectoryError(f"{source} is no folder; name a folder of shards, or use boustro predict for a file")
    with only_errors(quiet):
        check_output(json)
        job = make_job(
            Predictor(folder, text=text_column or "text", encoder=encoder, device=device), source, out, format
        )
        shards, missing = job.shards(), job.missing()
        job.begin()
        rows, seconds, notes = 0, 0.0, Counter()
        kept = "{:,} of {:,} shards are answered; the same command goes on"
        told = keeping(lambda: kept.format(len(shards) - len(job.missing()), len(shards)))
        with told, Progress("answering", "shards", total=len(shards), done=len(shards) - len(missing)) as bar:
            for done in run_shards(job, engine, workers):
                rows, seconds = rows + done.rows, seconds + done.seconds
                notes.update(done.notes)
                bar.update()
        problems = job.end()
        print_notices({**notes, f"rows without an answer, in {out / 'errors.jsonl'}": problems})
        figures = {"shards": len(missing), "shards_before": len(shards) - len(missing), "rows": rows}
        figures |= {"problems": problems, "worker_seconds": round(seconds, 2)}
        said = f"{out}: {len(missing):,} of {len(shards):,} shards answered now, {rows:,} rows"
        give(figures, json, lambda: print(said, file=sys.stderr), indent=1)
