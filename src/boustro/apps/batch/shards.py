"""`boustro predict` of a folder of files, its shards: the unit of work is a shard, whoever does it.

    IN/part-0001.jsonl   →   OUT/part-0001.jsonl          every row, with the fields of its answer
                             OUT/errors.jsonl             the rows without an answer
                             OUT/job.json                 which model, and what was read

A shard is read, answered in batches, and gets its name when it is whole (`growing`), so that a killed worker costs a
batch of its shard, a killed driver the same of those under way, and a second run leaves out what is there. The bytes of
a shard do not depend on how many workers there are.
"""

import contextlib
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from boustro.apps.batch.command import OutputOptions
from boustro.apps.batch.growing import grow
from boustro.apps.batch.job import AnsweredRows, in_batches, in_processes, run_job
from boustro.apps.batch.labeller import AnswerForm, Labeller
from boustro.apps.batch.models import OpenedFolder
from boustro.apps.batch.table import AnswerTable
from boustro.errors import count_of, reason
from boustro.locks import lock
from boustro.output import as_json, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.store import fingerprint, read_json, write_file
from boustro.tasks.data.reading import Note
from boustro.tasks.data.units import Offsets
from boustro.tasks.forms import FORMS, FileForm
from boustro.tasks.rows import Columns, look, read_rows
from boustro.text.documents import OPENERS
from boustro.text.files import DataFile
from boustro.text.languages import ForeignTexts
from boustro.text.places import kind_of_file, shown_files
from boustro.text.tables import FileRow

SHARD_ROWS = 1024
JOB_FILE, ERRORS_FILE = "job.json", "errors.jsonl"
BESIDE_ENDINGS = (".errors", ".part", ".progress")  # of a file of answers


@dataclass(frozen=True)
class Done:
    """A shard that was answered now."""

    shard: str
    rows: int
    problems: int
    process: int
    notes: Mapping[str, int] = field(default_factory=dict)
    """What was changed in the rows, counted."""
    languages: Mapping[str, int] = field(default_factory=dict)
    """Those of the texts, see `ForeignTexts.take`."""


@dataclass
class ShardJob:
    """Work that is done on every shard; it can be pickled."""

    labeller: Labeller
    columns: Columns
    source: Path
    out: Path
    form: FileForm = FORMS["jsonl"]
    model: str = ""
    offsets: Offsets | None = None

    def target(self, shard: str) -> Path:
        """Where the answers of a shard go."""
        name = shard
        while Path(name).suffix in OPENERS:
            name = name.removesuffix(Path(name).suffix)
        return self.out / f"{name.removesuffix(Path(name).suffix)}{self.form.endings[0]}"

    def _beside(self, shard: str, ending: str) -> Path:
        """Return a file beside the answers of a shard, see `BESIDE_ENDINGS`."""
        target = self.target(shard)
        return target.with_name(f"{target.name}.{ending}")

    def shards(self) -> list[str]:
        """Return the names of all shards, in order; `ValueError` where there is none, or two would have one target."""
        beside = set(self._beside_answers())
        names = [name for name in self._names() if name not in beside]
        if not names:
            raise ValueError(f"{self.source}: the folder holds no file")
        seen = {self.out / ERRORS_FILE: "the rows without an answer"}
        for name in names:
            other = seen.setdefault(self.target(name), name)
            if other != name:
                raise ValueError(f"{self.source}: {other} and {name} would both be written to {self.target(name)}")
        return names

    def _names(self) -> list[str]:
        """Of all files of the source, in order, but hidden ones."""
        return [file.as_posix() for file in shown_files(self.source)]

    def _beside_answers(self) -> list[str]:
        """Files of the source that hold no answers, where it is the output of another job."""
        job: Any = None
        with contextlib.suppress(OSError, ValueError):
            job = read_json(self.source / JOB_FILE)
        if not isinstance(job, dict) or job.keys() != {"model", "form", "source"}:
            return []
        return [name for name in self._names() if name in (JOB_FILE, ERRORS_FILE) or name.endswith(BESIDE_ENDINGS)]

    def missing(self) -> list[str]:
        """Return the shards that are not answered yet."""
        return [shard for shard in self.shards() if not self.target(shard).exists()]

    def begin(self, resume: bool = True) -> None:
        """Write what the job is, or with `resume` compare it with what is there; `ValueError` where that is another."""
        print_notices({"files of an earlier batch that hold no answers, and are not read": len(self._beside_answers())})
        if self.source.resolve() in (self.out.resolve(), *self.out.resolve().parents):
            raise ValueError(f"{self.out} lies in {self.source}, whose files are answered; name a folder outside of it")
        mine = {"model": self.model, "form": self.form.name, "source": str(self.source.resolve())}
        path = self.out / JOB_FILE
        if not path.exists():
            if self.out.exists() and any(self.out.iterdir()):
                raise ValueError(f"{self.out} is not empty and holds no job; name a new folder")
            write_file(path, as_json(mine, 1) + "\n")
            return
        if not resume:
            raise ValueError(f"{self.out} holds answers already; --resume goes on with them, or name a new folder")
        for name, value in read_json(path).items():
            if value != mine.get(name):
                what = {"model": "another model", "form": "another format"}.get(name, "other shards")
                raise ValueError(f"{self.out} holds the answers of {what}; name a new folder")

    def __call__(self, shard: str) -> Done:
        """Answer a shard; one that another worker has answered meanwhile is left as it is."""
        with lock(self.target(shard)):
            if self.target(shard).exists():
                return Done(shard, 0, 0, os.getpid())
            try:
                return self._answer_shard(shard)
            except ValueError as error:
                if kind_of_file(self.source / shard) is None:
                    raise
                write_file(self._beside(shard, "errors"), as_json({"shard": shard, "error": reason(error)}) + "\n")
                return Done(shard, 0, 1, os.getpid())

    def _answer_shard(self, shard: str) -> Done:
        target, part, errors = self.target(shard), self._beside(shard, "part"), self._beside(shard, "errors")
        if not part.exists():
            errors.unlink(missing_ok=True)  # of answers that were removed
        file, form = DataFile(self.source / shard, keeps=True), self.form
        notes, counts, labeller = list[Note](), Counter[str](), self.labeller
        labeller.noted.clear()  # of a shard that could not be read to its end

        def answer(rows: list[FileRow]) -> AnsweredRows:
            answered = labeller(rows)
            return answered._replace(problems=[{"shard": shard, **problem} for problem in answered.problems])

        survey = look([file], None, form, columns=self.columns, keep_going=True)
        labeller.shown = AnswerForm(form, columns=survey.heads, is_typed=not form.grows, as_values=True)
        again = f"remove {part} to start this shard again"
        how: Any = {"errors": errors, "resume": True, "kept": "of a shard are kept", "again": again}
        if not form.grows:
            how["table"] = AnswerTable([file], None, survey, labeller, target, self.columns).write
        with grow(target, fingerprint(self.model, form.name, shard, [*survey.heads]), **how) as growing:
            rows = read_rows([file], None, self.offsets, self.columns, notes)
            for _ in run_job(rows, partial(in_batches, most=SHARD_ROWS), answer, growing):
                counts.update(note.what for note in notes)
                notes.clear()
                counts.update(+labeller.noted)
                labeller.noted.clear()
            done = growing.done
        counts.update(note.what for note in notes)
        problems = sum(1 for _ in errors.open("rb"))
        if not problems:
            errors.unlink()
        languages = labeller.model.take_languages()
        return Done(shard, done, problems, os.getpid(), counts, languages)

    def end(self) -> int:
        """Collect the problems of all shards; returns their number."""
        problems = []
        for errors in (self._beside(shard, "errors") for shard in self.shards()):
            if errors.exists():
                with errors.open(encoding="utf-8", newline="\n") as file:
                    problems += file
        if problems:
            write_file(self.out / ERRORS_FILE, "".join(problems))
        else:
            (self.out / ERRORS_FILE).unlink(missing_ok=True)  # of answers that were removed
        return len(problems)


def run_ray(job: ShardJob, shards: list[str], workers: int) -> Iterator[Done]:
    """Answer shards on Ray Data, a shard a row, by so many actors, each with the model.

    An actor that dies is started again and its shard is done again. `write_parquet` and the like would bundle all rows
    into few tasks, whose death costs all they have done; here every shard is on disk when it is done. Joins the cluster
    that $RAY_ADDRESS names, else starts one here. Raises `ImportError` where Ray is not installed.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.data  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("--engine ray needs Ray; install it with: pip install 'boustro[ray]'") from error
    if not ray.is_initialized():
        # Actors that hold every slot would leave none for reading the rows.
        resources: dict[str, Any] = (
            {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(os.cpu_count() or 1, 2 * workers)}
        )
        ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False, **resources)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
    answered = rows.map_batches(
        Worker,
        fn_constructor_args=(job,),
        batch_size=1,
        batch_format="pandas",
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(shards))),
        num_cpus=1,
        max_restarts=-1,
        max_task_retries=-1,
    )
    for row in answered.iter_rows():
        yield Done(**json.loads(row["done"]))


class Worker:
    """A Ray actor's callable: runs a job on a batch of one shard."""

    def __init__(self, job: ShardJob) -> None:
        self.job = job

    def __call__(self, batch: Any) -> Any:
        done = [as_json(asdict(self.job(str(shard)))) for shard in batch["shard"]]
        return batch.assign(done=done)[["done"]]


def run_shards(job: ShardJob, engine: str, workers: int) -> Iterator[Done]:
    """Answer the shards that are missing, here, in several processes, or on Ray; raises as the engine does."""
    if shards := job.missing():
        if engine == "ray":
            yield from run_ray(job, shards, workers)
        else:
            yield from map(job, shards) if workers == 1 else (done for _, done in in_processes(job, shards, workers))


def predict_folder(
    opened: OpenedFolder, columns: Columns, source: Path, form: FileForm, output: OutputOptions, quiet: bool = False
) -> None:
    """Answer all files of a folder, see `boustro.apps.batch.command.predict`."""
    out = output.out
    assert out is not None
    with only_errors(quiet):
        labeller = Labeller(opened, AnswerForm(form), keep_going=True)
        job = ShardJob(labeller, columns, source, out, form, opened.fingerprint, opened.task.inputs.offsets)
        shards = job.shards()
        job.begin(output.resume)
        missing, rows, notes, foreign = job.missing(), 0, Counter[str](), ForeignTexts()
        kept = "{:,} of {:,} files are answered; --resume goes on"
        told = keeping(lambda: kept.format(len(shards) - len(job.missing()), len(shards)), ValueError, OSError)
        with told, Progress("answering", "files", total=len(shards), done=len(shards) - len(missing)) as bar:
            for done in run_shards(job, output.engine, output.workers):
                rows += done.rows
                notes.update(done.notes)
                foreign.merge(done.languages)
                bar.update()
        problems, left = job.end(), len(job.missing())
        without = {f"rows without an answer, in {out / ERRORS_FILE}": problems - left}
        unread = {f"files that are no text, or damaged, left out, see {out / ERRORS_FILE}": left}
        print_notices({**notes, **foreign.notices, **without, **unread})
        done = f"{len(missing) - left:,} of {len(shards):,} files answered now, {count_of(rows, 'rows')}"
        print(f"{out}: {done if missing else 'all files are answered; nothing is left to do'}", file=sys.stderr)
