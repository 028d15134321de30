"""A callable that labels rows with a trained folder, here or in processes of its own.

    labeller = Labeller(Opened(Path("ner")), Shown("jsonl"))
    labeller(rows).shown        # ['{"text": "Ada left.", "entities": […]}', …]

It can be pickled: the folder is opened by the process that uses it, when it uses it.
"""

import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from boustro.apps.batch.csv_rows import csv_rows
from boustro.apps.batch.each import answer_each
from boustro.apps.batch.rows import Row
from boustro.apps.runtime.opening import load
from boustro.errors import reason
from boustro.output import as_json
from boustro.store import content_fingerprint, kind_of, open_folder
from boustro.tasks import task_class, task_of
from boustro.tasks.base import Task
from boustro.tasks.data.annotations import TOOLS
from boustro.tasks.data.conll import DOCUMENT_START
from boustro.tasks.data.reading import Note

AHEAD = 3
"""Batches that wait for each process."""


class Labelled(NamedTuple):
    """What is printed for rows, in order, the problems of those that have no answer, and what was noticed so far."""

    shown: list[Any]
    problems: list[dict[str, str]]
    counts: dict[str, int]
    process: int


@dataclass(frozen=True)
class Opened:
    """Which folder is opened, and how: see `Task.from_pretrained`, `Tagger.with_recall`."""

    folder: Path
    encoder: str | None = None
    device: str | None = None
    cache: bool = True
    recall: float | None = None


@dataclass(frozen=True)
class Shown:
    """How answers are shown: in one of the task's formats, in colour, in JSON with the file of a row and with what
    decided the answer."""

    form: str
    colour: bool = False
    with_file: bool = False
    explain: bool = False


@dataclass
class Labeller:
    """See the module. With `keep_going`, a row without an answer is a problem, and not an error."""

    opened: Opened
    shown: Shown
    keep_going: bool = False
    _noted: Counter[str] = field(default_factory=Counter)

    @cached_property
    def task(self) -> type[Task[Any, Any]]:
        """The task's class."""
        return task_class(task_of(self.opened.folder))

    @cached_property
    def model(self) -> Task[Any, Any]:
        """The folder, opened."""
        own = self.opened
        found: Any = load(own.folder, encoder=own.encoder, cache=own.cache, device=own.device)
        return found if own.recall is None else found.with_recall(own.recall)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("model", "task")}

    def __call__(self, rows: Sequence[Row]) -> Labelled:
        """What the model says of rows.

        Raises `ValueError` for the first row that is no input, and what the model raises, unless `keep_going`.
        """
        shown, problems, notes = [], [], []
        for row, answer in zip(rows, self._answers(rows, notes), strict=True):
            if isinstance(answer, Exception):
                problems.append({"place": row.place, "error": reason(answer)})
            else:
                shown.append(self._show(row, *answer))
        self._noted.update(note.what for note in notes)
        return Labelled(shown, problems, self._noted + Counter(self.model.notices()), os.getpid())

    def _answers(self, rows: Sequence[Row], notes: list[Note]) -> list[Any]:
        """(answer, what decided it) for every row, or an exception."""
        if self.keep_going:
            return answer_each(rows, lambda row: row.parse(self.task, notes), self._explained)
        return self._explained([row.parse(self.task, notes) for row in rows])

    def _explained(self, inputs: Sequence[Any]) -> list[tuple[Any, dict[str, Any]]]:
        answers = self.model.answer_inputs(inputs)
        if not self.shown.explain:
            return [(answer, {}) for answer in answers]
        self.model.refuse_exported("does not say what decided its answers")
        from boustro.tasks.explain import explain

        return list(zip(answers, explain(self.model, answers), strict=True))

    def _show(self, row: Row, answer: Any, explained: dict[str, Any]) -> Any:
        form = self.shown.form
        if form == "csv":
            return csv_rows(row.place, self.model.rows(answer))
        shown = self.model.show(answer, form, colour=self.shown.colour)
        if form == "jsonl":
            own = row.fields | self.model.to_record(answer) if row.fields else shown
            own |= {"explained": explained} if self.shown.explain else {}
            return as_json(own | ({"file": row.file} if self.shown.with_file else {}), default=str) + "\n"
        if form in TOOLS:
            return as_json(TOOLS[form].carry(shown, row.fields), default=str) + "\n"
        if form == "conll":
            return f"{DOCUMENT_START}\tO\n\n{shown}" if row.opens else shown
        return shown if self.shown.colour else f"{shown}\n"


def model_fingerprint(folder: Path) -> str:
    """One fingerprint of a trained folder: of its head, its options, and which weights its encoder has."""
    return content_fingerprint(open_folder(folder, str(kind_of(folder))))


def label_batches(labeller: Labeller, batches: Iterable[list[Row]], workers: int = 1) -> Iterator[tuple[int, Labelled]]:
    """(rows, what they became) of every batch, in order; with more than one worker, in processes of their own."""
    if workers <= 1:
        yield from ((len(batch), labeller(batch)) for batch in batches)
        return
    yield from in_processes(labeller, batches, workers, len)


def in_processes(
    work: Callable[[Any], Any], items: Iterable[Any], workers: int, size: Callable[[Any], int] = lambda item: 1
) -> Iterator[tuple[int, Any]]:
    """(size of the item, its result), in order, from so many new processes, which share the cores.

    Raises what `work` raises, and `OSError` where a process dies.
    """
    threads = max(1, (os.cpu_count() or 1) // workers)
    waiting: deque[tuple[int, Future[Any]]] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _start, (work, threads)) as pool:
        try:
            for item in items:
                waiting.append((size(item), pool.submit(_work, item)))
                if len(waiting) >= AHEAD * workers:
                    number, future = waiting.popleft()
                    yield number, future.result()
            while waiting:
                number, future = waiting.popleft()
                yield number, future.result()
        except BrokenProcessPool:
            raise OSError("a process died, perhaps for lack of memory; take fewer --workers, and --resume") from None
        except (KeyboardInterrupt, GeneratorExit):  # an item may take hours
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_own: dict[str, Callable[[Any], Any]] = {}


def _start(work: Callable[[Any], Any], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all, and the first process ends the others
    os.environ["OMP_NUM_THREADS"] = str(threads)  # of torch, where it is imported later, and of onnxruntime
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    _own["work"] = work


def _work(item: Any) -> Any:
    return _own["work"](item)
