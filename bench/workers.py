"""Two workers against one: `boustro predict --workers` on one file, and on a folder of shards, there with Ray too.

    python bench/workers.py --folder ner --text sentences.txt --lines 20000 --shards 40

Each run is a command of its own with one thread a worker, timed from start to end. The same command over one line a
worker tells how long it takes to start: importing, loading the model, for Ray starting the cluster. A machine needs a
free core for each worker. The answers of all runs must be the same bytes. Rounds are in turn, the best counts.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import tyro

from boustro.output import as_json, give


def run(words: list[str]) -> float:
    """Seconds of a command; what it says where it fails is raised."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "BOUSTRO_CACHE_LIMIT": "0"}
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "boustro", *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"boustro {' '.join(words)}: {done.stderr.strip()[-2000:]}")
    return time.perf_counter() - started


def main(
    folder: Path,
    text: Path,
    lines: int = 20_000,
    shards: int = 40,
    workers: tuple[int, ...] = (1, 2),
    rounds: int = 1,
    ray: bool = True,
    json: Path | None = None,
) -> None:
    """Measure, check that all answers are equal, and print a table."""
    given = [line for line in text.read_text("utf-8").splitlines() if line.strip()]
    rows = [as_json({"text": line}) + "\n" for line in islice(cycle(given), lines)]
    engines = ("predict", "folder, local", *(("folder, ray",) if ray else ()))
    start = {(engine, number): math.inf for engine in engines for number in workers}
    seconds = dict(start)
    with tempfile.TemporaryDirectory() as name:
        whole, few = Path(name, "whole"), Path(name, "few")
        _write(rows, whole, shards)
        _write(rows[: max(workers)], few, max(workers))
        answers: dict[str, set[bytes]] = {"predict": set(), "folder": set()}
        for turn in range(rounds):
            for engine, number in seconds:
                for place, taken in ((few, start), (whole, seconds)):
                    out = place / f"{engine.replace(', ', '-')}-{number}-{turn}"
                    spent = run(_command(engine, number, folder, place, out))
                    taken[engine, number] = min(taken[engine, number], spent)
                answers[engine.partition(",")[0]].add(_read(out))
    different = [command for command, outputs in answers.items() if len(outputs) > 1]
    if different:
        raise RuntimeError(f"the answers of {' and '.join(different)} differ between numbers of workers")
    table = [{"engine": e, "workers": n, "start": start[e, n], "seconds": s} for (e, n), s in seconds.items()]
    give({"lines": len(rows), "runs": table}, json, lambda: show(len(rows), table), indent=1)


def _write(rows: list[str], place: Path, shards: int) -> None:
    """One file of all rows, and a folder of shards."""
    (place / "in").mkdir(parents=True)
    (place / "in.jsonl").write_text("".join(rows), "utf-8")
    size = math.ceil(len(rows) / shards)
    for number in range(shards):
        part = rows[number * size : (number + 1) * size]
        (place / "in" / f"part-{number:04}.jsonl").write_text("".join(part), "utf-8")


def _command(engine: str, workers: int, folder: Path, place: Path, out: Path) -> list[str]:
    if engine == "predict":
        file = out.with_suffix(".jsonl")
        return [
            "predict",
            str(folder),
            str(place / "in.jsonl"),
            "--out",
            str(file),
            "--workers",
            str(workers),
            "--quiet",
        ]
    how = ["--engine", engine.rpartition(" ")[2], "--workers", str(workers), "--quiet"]
    return ["predict", str(folder), str(place / "in"), "--out", str(out), *how]


def _read(out: Path) -> bytes:
    """The answers of a run, all shards together."""
    files = sorted(out.glob("part-*.jsonl")) if out.is_dir() else [out.with_suffix(".jsonl")]
    return b"".join(file.read_bytes() for file in files)


def show(lines: int, table: list[dict[str, Any]]) -> None:
    """The table; the speed-ups are against the first number of workers of the same engine."""
    first = {row["engine"]: row for row in reversed(table)}
    print(f"{lines:,} lines; the answers of all runs are equal\n")
    print("| engine | workers | seconds | of these to start | times as fast | the same without the start |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in table:
        one = first[row["engine"]]
        whole = one["seconds"] / row["seconds"]
        work = (one["seconds"] - one["start"]) / (row["seconds"] - row["start"])
        name, figures = row["engine"], f"{row['seconds']:,.1f} | {row['start']:.1f} | {whole:.2f} | {work:.2f}"
        print(f"| {name} | {row['workers']} | {figures} |")


if __name__ == "__main__":
    tyro.cli(main)
