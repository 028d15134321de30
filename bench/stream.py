"""Tagging text as it arrives (`Tagger.live`): what a delay costs and brings, and whether the promises hold.

    python bench/stream.py f1 --data ../shared/data --out results        F1 and edits at every delay, resumable
    python bench/stream.py promises --data ../shared/data                random chunkings: released early, differences
    python bench/stream.py speed                                         one word's time, on one core
    python bench/stream.py memory                                        memory while 1,000,000 words arrive

The last three train on the sample in the package, or open the tagger of a folder (`--folder`).

`f1` trains on the first sentences of each training set (`--train-sentences`) and streams the first documents of each
development set (`--dev-words`), word by word as the data split them; every trained head and every score is kept in
`--out`, so a run that is stopped goes on. Heads of one encoder share what is read for a delay.
"""

import gc
import json
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from boustro import Tagger
from boustro.apps.live.engine import Engine
from boustro.apps.live.stream import Live, Standing, Word
from boustro.metrics.spans import score_entities
from boustro.tasks.data.schemes import gold_entities
from boustro.text.alignment import guess_spaces
from boustro.text.words import join_words
from boustro.types import Entity, Sentence

DELAYS = (0, 1, 2, 4, 8, 16)
SETS = {
    "conll2003": ("ner/conll2003/train.txt", "ner/conll2003/dev.txt"),
    "wnut17": ("ner/wnut17/train.txt", "ner/wnut17/dev.txt"),
    "politics": ("ner/crossner_politics/train.txt", "ner/crossner_politics/dev.txt"),
    "personal data": ("pii/train.jsonl", "pii/dev.jsonl"),
}
ENCODERS = {"pair": "starter", "pair with memory": "starter-memory", "forward only": "starter-forward"}


@dataclass(frozen=True)
class Cell:
    """One trained head."""

    data: str
    encoder: str
    live: bool
    seed: int

    @property
    def name(self) -> str:
        return "-".join([self.data, self.encoder, "live" if self.live else "plain", str(self.seed)]).replace(" ", "_")


class Results:
    """Scores by key, one a line of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                key, value = json.loads(line)
                self.known[key] = value

    def add(self, key: str, value: Any) -> None:
        """Keep it, and write it at once."""
        self.known[key] = value
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, value]) + "\n")
        print(key, value, flush=True)


def documents(sentences: list[Sentence], most_words: int) -> list[list[Sentence]]:
    """The first documents, of so many words in all."""
    chosen, count = [], 0
    runs = groupby(enumerate(sentences), key=lambda pair: pair[1].document or str(pair[0]))
    for _, run in runs:
        if count >= most_words:
            break
        chosen.append([sentence for _, sentence in run])
        count += sum(map(len, chosen[-1]))
    return chosen


def as_items(document: list[Sentence]) -> Iterator[Word | None]:
    """What a stream's segmenter would give, with the words of the data; places are not needed."""
    for sentence in document:
        spaces = sentence.spaces or guess_spaces(sentence.words)
        for n, (word, space) in enumerate(zip(sentence.words, spaces, strict=True)):
            yield Word(word, 0, 0, space, n == 0)
        yield None


class Remembered:
    """The streams of rows, read once for all heads: each reads the same rows in the same order."""

    def __init__(self) -> None:
        self._found: dict[Any, Any] = {}

    def over(self, engine: Engine, key: Any) -> None:
        """Let the engine of a document (`key`) read what an earlier one has read."""
        original, number = engine.vectors, iter(range(1 << 40))

        def read(rows: Any) -> Any:
            place = key, next(number)
            if place not in self._found:
                self._found[place] = original.read(rows)
            return self._found[place]

        first = (key, 0) in self._found
        append = (lambda first: None) if first else original.append
        engine.vectors = type(
            "Read", (), {"read": staticmethod(read), "append": staticmethod(append), "keeps": 1 << 40}
        )()


def stream_f1(tagger: Tagger, dev: list[list[Sentence]], delay: int, remembered: Remembered) -> float:
    """Entity F1 of what is final."""
    gold, predicted = [], []
    for number, document in enumerate(dev):
        engine = Engine(tagger.fitted, delay)
        remembered.over(engine, number)
        done = [*engine.push(as_items(document)), *engine.end()]
        first = 0
        for sentence in document:
            stop = first + len(sentence)
            spans = [Entity(f.label, f.start - first, f.stop - first) for f in done if first <= f.start < stop]
            gold.append(gold_entities(sentence))
            predicted.append(tuple(spans))
            first = stop
    return score_entities(gold, predicted, {}).value


def edits(tagger: Tagger, dev: list[list[Sentence]], delay: int) -> dict[int, tuple[int, int]]:
    """How many provisional entities were told, and withdrawn or changed, word by word; for each number of words that
    must follow an entity before it is told."""
    counts = {wait: [0, 0] for wait in range(min(delay, 2) + 1)}
    for document in dev:
        engine, standing = Engine(tagger.fitted, delay), {wait: Standing() for wait in counts}
        for item in as_items(document):
            done = [Entity(f.label, f.start, f.stop) for f in engine.push([item])]
            pending = [Entity(f.label, f.start, f.stop) for f in engine.pending()]
            for wait, state in standing.items():
                now = [e for e in pending if e.end + wait <= engine.words.stop]
                for event in state.change(done, now):
                    counts[wait][0] += event.kind == "provisional"
                    counts[wait][1] += event.was is not None
    return {wait: (told, changed) for wait, (told, changed) in counts.items()}


def trained(cell: Cell, data: Path, out: Path, num_sentences: int) -> Tagger:
    """The tagger of a cell, from its folder where it has one."""
    folder = out / "taggers" / cell.name
    if not folder.exists():
        train = Tagger.read(data / SETS[cell.data][0])[:num_sentences]
        started = time.monotonic()
        tagger = Tagger(ENCODERS[cell.encoder], live=cell.live, cache=out / "cache").fit(train, seed=cell.seed)
        print(f"{cell.name}: {time.monotonic() - started:.0f} s", flush=True)
        tagger.save_pretrained(folder)
    return Tagger.from_pretrained(folder, cache=out / "cache")


def f1(
    data: Path,
    out: Path = Path("stream"),
    sets: tuple[str, ...] = tuple(SETS),
    encoders: tuple[str, ...] = tuple(ENCODERS),
    seeds: tuple[int, ...] = (1, 2, 3),
    ways: tuple[str, ...] = ("plain", "live"),
    train_sentences: int = 2000,
    dev_words: int = 2500,
    edit_words: int = 1000,
) -> None:
    """Train all cells that are missing and score them at every delay."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    results = Results(out / "f1.jsonl")
    for name in sets:
        sentences = Tagger.read(data / SETS[name][1])
        dev, few = documents(sentences, dev_words), documents(sentences, edit_words)
        for encoder in encoders:
            cells = [Cell(name, encoder, way == "live", seed) for seed in seeds for way in ways]
            cells = [cell for cell in cells if not (cell.live and encoder == "forward only")]
            keys = [(cell, delay) for cell in cells for delay in (*DELAYS, "all", "edits")]
            if all(f"{cell.name} {delay}" in results.known for cell, delay in keys):
                continue
            taggers = {cell: trained(cell, data, out, train_sentences) for cell in cells}
            first = next(iter(taggers.values()))
            for tagger in taggers.values():  # the LMs are in memory once
                tagger.plan.reader.opened.lms.update(first.plan.reader.opened.lms)
                tagger.plan.reader.opened.wide.clear()
            for cell, tagger in taggers.items():
                if f"{cell.name} all" not in results.known:
                    flat = [sentence for document in dev for sentence in document]
                    results.add(f"{cell.name} all", tagger.fitted.score(flat, tagger.answer(flat)).value)
            for delay in DELAYS:
                remembered = Remembered()
                for cell, tagger in taggers.items():
                    if f"{cell.name} {delay}" not in results.known:
                        results.add(f"{cell.name} {delay}", stream_f1(tagger, dev, delay, remembered))
            for cell, tagger in taggers.items():
                if cell.seed == seeds[0] and f"{cell.name} edits" not in results.known:
                    results.add(f"{cell.name} edits", {delay: edits(tagger, few, delay) for delay in (2, 8)})
                elif f"{cell.name} edits" not in results.known:
                    results.add(f"{cell.name} edits", None)


def table(out: Path = Path("stream")) -> None:
    """Print what `f1` has found, as Markdown: means over the seeds that are there, and their number."""
    known = Results(out / "f1.jsonl").known
    columns = [*map(str, DELAYS), "all"]
    print("| data | tagger | " + " | ".join(columns) + " | seeds |\n|" + "---|" * (len(columns) + 3))
    for name in SETS:
        for encoder in ENCODERS:
            for live in (False, True):
                rows = []
                for seed in range(1, 100):
                    cell = Cell(name, encoder, live, seed)
                    row = [known.get(f"{cell.name} {column}") for column in columns]
                    if None not in row:
                        rows.append(row)
                if rows:
                    means = " | ".join(f"{value:.1f}" for value in np.mean(rows, axis=0))
                    print(f"| {name} | {encoder}{', `--live`' if live else ''} | {means} | {len(rows)} |")


def open_tagger(folder: Path | None, encoder: str = "starter-memory", **options: Any) -> Tagger:
    """The tagger of a folder, as it was trained, or else one of the sample in the package with these options."""
    if folder:
        return Tagger.from_pretrained(folder, cache=False)
    train = str(files("boustro") / "data" / "sample" / "train.conll")
    return Tagger(encoder, epochs=10, **options).fit(train, seed=1)


def real_texts(data: Path, texts: int) -> list[str]:
    """Texts with personal data, and as many sentences of each other set, in turn."""
    records = [json.loads(line) for line in (data / "pii" / "dev.jsonl").read_text("utf-8").splitlines()]
    sources = [[record["text"] for record in records]]
    for name, (_, dev) in SETS.items():
        if name != "personal data":
            sources.append([join_words(sentence.words) for sentence in Tagger.read(data / dev)])
    return [text for together in zip(*sources, strict=False) for text in together][:texts]


def promises(
    data: Path,
    chunkings: int = 10_000,
    texts: int = 800,
    delays: tuple[int, ...] = DELAYS,
    seed: int = 1,
    folder: Path | None = None,
) -> None:
    """Count what should never happen over random chunkings of real texts: characters of final entities that were
    called safe before they were told, final entities that differ with the chunks, and, without a delay, answers that
    differ from those of `predict`."""
    torch.set_num_threads(1)
    rng = random.Random(seed)
    given = real_texts(data, texts)
    tagger = open_tagger(folder, dtype="float32")
    early = differ = offline = cut_differently = total = 0
    offline_of: dict[str, list[Entity]] = {}
    known: dict[tuple[str, int], Any] = {}
    for number in range(chunkings):
        text = rng.choice(given)
        count = len(text) if rng.random() < 0.05 else rng.choice((0, 1, 1, 2, 2, 3, 5, 8))
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(count))
        delay = rng.choice(delays)
        if text not in offline_of:
            offline_of[text] = tagger.predict(text)
        chunks = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        done, released = [], 0
        live = Live(tagger, delay)
        for chunk in chunks:
            before = live.safe
            new = [e for e in live.feed(chunk) if e.kind == "final"]
            early += sum(max(0, min(before, e.end) - e.start) for e in new)
            early += sum(max(0, e.end - max(live.safe, e.start)) for e in new)
            done += new
            released = live.safe
        last = [e for e in live.end() if e.kind == "final"]
        early += sum(max(0, min(released, e.end) - e.start) for e in last)
        spans = sorted((e.label, e.start, e.end) for e in done + last)
        if (text, delay) not in known:
            whole = Live(tagger, delay)
            events = [*whole.feed(text), *whole.end()]
            known[text, delay] = sorted((e.label, e.start, e.end) for e in events if e.kind == "final")
        cut_differently += known[text, delay] != spans
        live = Live(tagger, None)
        for chunk in chunks:
            live.feed(chunk)
        at_end = [Entity(e.label, e.start, e.end, e.text, e.score) for e in live.end() if e.kind == "final"]
        differ += at_end != offline_of[text]
        offline += spans != sorted((e.label, e.start, e.end) for e in offline_of[text])
        total += len(spans)
        if number % 500 == 499 or number == chunkings - 1:
            print(
                f"{number + 1:,} chunkings of {len(offline_of)} texts, {total:,} entities: {early} characters released "
                f"early, {cut_differently} differ with the chunks, {differ} differ from predict without a delay "
                f"({offline:,} with one)",
                flush=True,
            )


def speed(words: int = 2000, delay: int = 8, encoder: str = "starter-memory", folder: Path | None = None) -> None:
    """CPU time of one word, on one core."""
    torch.set_num_threads(1)
    tagger = open_tagger(folder, encoder)
    text = (files("boustro") / "data" / "sample" / "dev.conll").read_text("utf-8")
    given = [line.split()[0] for line in text.splitlines() if line.strip()]
    live, cpu, wall = Live(tagger, delay), [], []
    for number in range(words + 100):
        before = time.process_time(), time.perf_counter()
        live.feed(given[number % len(given)] + " ")
        cpu.append(time.process_time() - before[0])
        wall.append(time.perf_counter() - before[1])
    for name, times in (("CPU", cpu[100:]), ("wall", wall[100:])):
        p50, p99 = np.percentile(np.array(times) * 1000, [50, 99])
        shown = f"{p50:.1f} ms (50th percentile), {p99:.1f} ms (99th)"
        print(f"{tagger.encoder().spec}, delay {delay}: {name} time of a word {shown}")


def memory(
    words: int = 1_000_000,
    delay: int = 8,
    encoder: str = "starter-memory",
    chunk: int = 200,
    folder: Path | None = None,
) -> None:
    """Resident memory while words arrive in chunks."""
    torch.set_num_threads(1)
    live = Live(open_tagger(folder, encoder), delay)
    text = (files("boustro") / "data" / "sample" / "dev.conll").read_text("utf-8")
    given = [line.split()[0] for line in text.splitlines() if line.strip()]
    rng = random.Random(1)
    for number in range(0, words, chunk):
        live.feed(" ".join(rng.choice(given) for _ in range(chunk)) + " ")
        if number % (words // 20) < chunk:
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            resident = pages * resource.getpagesize() / 2**20
            print(f"{number:>9,} words  {resident:,.0f} MB resident, at most {most:,.0f} MB", flush=True)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict(
        {"f1": f1, "table": table, "promises": promises, "speed": speed, "memory": memory}
    )
