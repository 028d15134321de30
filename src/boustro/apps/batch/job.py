"""One job: rows are read, answered in batches, here or in processes of their own, and written in their order.

with grow(out, key) as sink:                       # or `printing`, on standard output
    for answered in run_job(rows, in_batches, labeller, sink, bar, workers=2):
        ...
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from boustro.apps.batch.growing import AnswerFrame, Growing
from boustro.errors import count_of
from boustro.output import as_json, check_target, keeping
from boustro.progress import Progress
from boustro.text.tables import FileRow
from boustro.types import Sentence

if TYPE_CHECKING:
    from concurrent.futures import Future

AHEAD = 3
"""Batches that wait for each process."""
_running: dict[str, Callable[[Any], Any]] = {}


class AnsweredRows(NamedTuple):
    """Printed answers of a batch, in order, the problems of rows that have none, and the notices so far, by process."""

    lines: Sequence[Any]
    problems: Sequence[dict[str, str]] = ()
    counts: Mapping[str, int] = {}
    process: int = 0


Add = Callable[[int, Iterable[Any], Iterable[dict[str, str]]], None]
"""Takes how many rows there are, their answers, and the problems of those that have none."""


@contextmanager
def printing(
    done: Callable[[], int], errors: Path | None, overwrite: bool, say: Callable[[Any], object], frame: AnswerFrame
) -> Iterator[Add]:
    """Answers on standard output, by `say`, and problems in a file; `done` says how many rows were printed."""
    if errors is not None:
        check_target(errors, overwrite, "--errors")
    with ExitStack() as stack, keeping(lambda: f"{count_of(done(), 'rows are')} printed"):
        file = None if errors is None else stack.enter_context(errors.open("w", encoding="utf-8"))

        def add(rows: int, lines: Iterable[Any], problems: Iterable[dict[str, str]]) -> None:
            for line in frame.put_between(lines):
                say(line)
            sys.stdout.flush()
            if file is not None:
                file.writelines(f"{as_json(problem)}\n" for problem in problems)

        if frame.head:
            say(frame.head)
        yield add
        if frame.end:
            say(frame.end)
        sys.stdout.flush()


def run_job(
    rows: Iterable[Any],
    batches: Callable[[Iterator[Any]], Iterable[list[Any]]],
    answer: Callable[[list[Any]], AnsweredRows],
    sink: Growing | Add,
    bar: Progress | None = None,
    workers: int = 1,
) -> Iterator[AnsweredRows]:
    """Answer rows that are not done yet; yields what each batch became when it is written.

    Raises what `answer` raises, and `OSError` where a process dies.
    """
    rows, growing = iter(rows), sink if isinstance(sink, Growing) else None
    add: Add = sink if growing is None else growing.add  # type: ignore[assignment]
    if growing is not None and growing.done:
        if bar is not None:
            bar.skip(growing.done)
        growing.skip(row for row in rows if row is not None)
    given = batches(rows) if growing is None else growing.follow(batches(rows))
    is_here = workers <= 1
    results: Any = given if is_here else in_processes(answer, given, workers, len)
    for one in results:
        number, answered = (len(one), answer(one)) if is_here else one
        add(number, answered.lines, answered.problems)
        if bar is not None:
            bar.update(number)
        yield answered


def in_batches(rows: Iterable[FileRow | None], most: int) -> Iterator[list[FileRow]]:
    """`most` rows at a time, fewer where the next one has not come yet, a few more to the end of a document."""
    batch: list[FileRow] = []
    for row in rows:
        full = len(batch) >= most and (row is None or row.opens or not _has_document(row) or len(batch) >= 4 * most)
        if batch and (row is None or full):
            yield batch
            batch = []
        if row is not None:
            batch.append(row)
    if batch:
        yield batch


def _has_document(row: FileRow) -> bool:
    return isinstance(row.value, Sentence) and bool(row.value.document)


def in_processes(
    work: Callable[[Any], Any], items: Iterable[Any], workers: int, size: Callable[[Any], int] = lambda item: 1
) -> Iterator[tuple[int, Any]]:
    """Yield (size of the item, its result), in order, from so many new processes, which share the cores.

    Raises what `work` raises, and `OSError` where a process dies.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

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


def _start(work: Callable[[Any], Any], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all, and the first process ends the others
    os.environ["OMP_NUM_THREADS"] = str(threads)  # of torch, where it is imported later, and of onnxruntime
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    _running["work"] = work


def _work(item: Any) -> Any:
    return _running["work"](item)
