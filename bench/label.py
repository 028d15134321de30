"""From an answer to the next suggestion: how long a labeller waits, with so many sentences to choose from.

    python bench/label.py --texts train.conll --sentences 2000 --answers 300

The whole way of a request without HTTP: the answer is written to the disk, learned, the next sentence chosen and its
entities suggested. The answers are the gold ones.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro

from boustro.apps.label.answers import AnswerFile
from boustro.apps.label.background import Background, SessionSource
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import read_to_label
from boustro.tasks.data.reading import DEFAULT_OPTIONS


@dataclass(frozen=True)
class Waits:
    """Seconds of each answer, and of the part that is writing to the disk."""

    total: list[float]
    written: list[float]

    def show(self) -> str:
        """Median, 95th percentile and the longest, in milliseconds."""
        named = (("answer to suggestion", self.total), ("of that on the disk", self.written))
        return "\n".join(
            f"{name:22} median {1e3 * np.median(times):6.1f} ms   p95 {1e3 * np.quantile(times, 0.95):6.1f} ms   "
            f"max {1e3 * max(times):6.1f} ms"
            for name, times in named
        )


def measure(session: LabellingSession, work: Background, answers: int) -> Waits:
    """Answer with the gold, sentence after sentence."""
    total, written, write = [], [], session.file.write

    def timed(rows) -> None:
        started = time.perf_counter()
        write(rows)
        written.append(time.perf_counter() - started)

    session.file.write = timed  # type: ignore[method-assign]
    for _ in range(answers):
        number = session.current
        assert number is not None
        started = time.perf_counter()
        with session.lock:
            session.answer(number, session.texts[number].gold or ())
            session.view()
        total.append(time.perf_counter() - started)
        work.answered()
    return Waits(total, written)


def main(
    texts: Path, encoder: str = "starter", sentences: int = 2000, answers: int = 300, threads: int | None = None
) -> None:
    """Measure on the first sentences of a labelled file."""
    if threads:
        torch.set_num_threads(threads)
    to_label = read_to_label(texts, "auto", DEFAULT_OPTIONS)[:sentences]
    labels = sorted({e.label for text in to_label for e in text.gold or ()})
    with tempfile.TemporaryDirectory() as folder, AnswerFile(Path(folder) / "answers.jsonl").open() as file:
        session = LabellingSession(to_label, file, labels)
        started = time.perf_counter()
        with Background(session, SessionSource(encoder=encoder, cache=False)) as work:
            work.wait_ready()
            print(f"first sentences ready after {time.perf_counter() - started:.1f} s")
            while len(session.pool) < len(to_label):
                time.sleep(0.1)
            words = sum(len(text.sentence) for text in to_label)
            print(f"all {len(to_label):,} sentences ({words:,} words) after {time.perf_counter() - started:.1f} s")
            print(measure(session, work, answers).show())


if __name__ == "__main__":
    tyro.cli(main)
