"""From an answer to the next suggestion: how long a labeller waits, with so many sentences to choose from; of topics
also the keys, and how far probabilities are right.

    python bench/label.py --texts train.conll --sentences 2000 --answers 300
    python bench/label.py --texts topics.jsonl --task classify --answers 60 --runs 3

The whole way of a request without HTTP: the answer is written to the disk, learned, the next sentence chosen and its
entities suggested. The answers are the gold ones. Of topics each run has the texts in an order of its own. A key
accepts what is suggested, one more is for each label that is missing or wrong, but where there is one label per text
its digit replaces the wrong one. Accuracy, F1 of entities, and calibration error (ECE) are of what is suggested for
texts without an answer, after some answers.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
import tyro

from boustro.apps.label.answers import AnswerFile, manner_of
from boustro.apps.label.background import Background, choose_source
from boustro.apps.label.command import LabellingOptions
from boustro.apps.label.curve import is_due
from boustro.apps.label.session import LabellingSession
from boustro.metrics.score import reliability
from boustro.metrics.spans import score_entities
from boustro.output import RunOptions
from boustro.tasks.data.reading import DEFAULT_OPTIONS

JUDGED = (0, 5, 10, 20, 50, 60)
"""Answers after which the suggestions of the rest are judged."""


@dataclass(frozen=True)
class Waits:
    """Seconds of each answer, and of the part that is writing to the disk."""

    total: list[float]
    written: list[float]
    keys: int
    judged: dict[int, tuple[float, float]]
    """After so many answers, of the other texts: F1 of entities or the share of right topics, and the calibration
    error, in percent."""

    def show(self) -> str:
        """Median, 95th percentile and the longest, in milliseconds."""
        named = (("answer to suggestion", self.total), ("of that on the disk", self.written))
        lines = [
            f"{name:22} median {1e3 * np.median(times):6.1f} ms   p95 {1e3 * np.quantile(times, 0.95):6.1f} ms   "
            f"max {1e3 * max(times):6.1f} ms"
            for name, times in named
        ]
        lines += [f"{n:3} answers: {right:5.1f} right, ECE {error:4.1f}" for n, (right, error) in self.judged.items()]
        return "\n".join(lines)


def measure(session: LabellingSession, work: Background, answers: int) -> Waits:
    """Answer with the gold, sentence after sentence."""
    total, written, write, keys, judged = [], [], session.file.write, 0, {}

    def timed(rows) -> None:
        started = time.perf_counter()
        write(rows)
        written.append(time.perf_counter() - started)

    session.file.write = timed  # type: ignore[method-assign]
    for count in range(answers):
        while is_due(work.points, session.words_answered, len(session.answers)):  # a person takes longer
            time.sleep(0.002)
        if count in JUDGED:
            judged[count] = judge(session)
        number = session.current
        assert number is not None
        suggested, gold = (
            {e.label for e in some} for some in (session.suggest(number), session.texts[number].gold or ())
        )
        keys += 1 + (len(suggested ^ gold) if session.manner.several else suggested != gold)
        started = time.perf_counter()
        with session.lock:
            session.answer(number, session.texts[number].gold or ())
            session.view()
        total.append(time.perf_counter() - started)
        work.answered()
    return Waits(total, written, keys, judged)


def judge(session: LabellingSession) -> tuple[float, float]:
    """F1 of entities, or the share of right topics, and the calibration error, in percent, of texts without an answer;
    of several topics all must be right, and their probability is that of the least sure."""
    rest = [n for n in session.pool.numbers if n not in session.answers]
    suggested = session.suggest_all(rest)
    if not session.manner.whole:
        gold = [session.texts[n].gold or () for n in rest]
        found = [[replace(e, score=None) for e in own] for own in suggested]
        right = [e in own for own, entities in zip(gold, found, strict=True) for e in entities]
        scores = [e.score or 0.0 for e in chain(*suggested)]
        return score_entities(gold, found, {}).value, 100 * reliability(scores, right).error
    right = [
        {e.label for e in own} == {e.label for e in session.texts[n].gold or ()}
        for n, own in zip(rest, suggested, strict=True)
    ]
    scores = [min([e.score or 0.0 for e in own], default=0.0) for own in suggested]
    return 100 * float(np.mean(right)), 100 * reliability(scores, right).error


def main(
    texts: Path,
    task: str = "tag",
    labels: tuple[str, ...] = (),
    encoder: str | None = None,
    order: str = "uncertain",
    several: bool = False,
    sentences: int = 2000,
    answers: int = 300,
    runs: int = 1,
    threads: int | None = None,
) -> None:
    """Measure on sentences of a labelled file: the first ones, of topics or in several runs as many at random."""
    if threads:
        torch.set_num_threads(threads)
    manner = manner_of(task, several, Path("none"))
    found = manner.read(texts, "auto", DEFAULT_OPTIONS)
    kinds = sorted({e.label for text in found for e in text.gold or ()})
    options = LabellingOptions(task=task, labels=labels)
    means = dict(zip(kinds, options.labels or kinds, strict=True))
    source = choose_source(encoder, options, RunOptions(cache=False), manner, means=means)
    keys = []
    for seed in range(runs):
        chosen = (
            np.random.default_rng(seed).permutation(len(found)) if manner.whole or runs > 1 else np.arange(len(found))
        )
        to_label = [found[n] for n in chosen[:sentences]]
        with tempfile.TemporaryDirectory() as folder, AnswerFile(Path(folder) / "a", manner.answer).open() as file:
            session = LabellingSession(to_label, file, kinds, manner=manner, order=order)  # type: ignore[arg-type]
            started = time.perf_counter()
            with Background(session, source) as work:
                work.wait_ready()
                print(f"first sentences ready after {time.perf_counter() - started:.1f} s")
                while len(session.pool) < len(to_label):
                    time.sleep(0.1)
                words = sum(len(text.sentence) for text in to_label)
                took = time.perf_counter() - started
                print(f"all {len(to_label):,} sentences ({words:,} words) after {took:.1f} s")
                waits = measure(session, work, min(answers, len(to_label)))
        print(waits.show())
        keys.append(waits.keys)
    if manner.whole:
        print(f"keys: {' '.join(map(str, keys))}; mean {np.mean(keys):.1f}")


if __name__ == "__main__":
    tyro.cli(main)
