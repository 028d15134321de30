"""Cost against size: time and peak memory of `boustro predict` as a stream, for 1, 10 and 100 times the words.

    OMP_NUM_THREADS=1 python bench/linear.py --folder ner --text sentences.txt --figure docs/figures/linear.svg

The first `--lines` lines of the text are written once, ten times and a hundred times into a file, one after the other,
and each file is tagged to another file by a process of its own. Loading the model, measured in that process with a file
of eight lines, is taken off. Memory is what the process has of its own at most, with Python and PyTorch. Linear is a
constant number of words a second and memory that does not grow.
"""

import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import tyro

from boustro.apps.batch.command import OutputOptions, PredictOptions
from boustro.apps.batch.models import OpenedFolder
from boustro.apps.batch.predict import predict_files
from boustro.apps.drawing import WIDTH, Scale, dots, path, picture, standalone, text_line, ticks
from boustro.lab.pretrain.progress import PeakMemory
from boustro.output import RunOptions, give
from boustro.store import write_file
from boustro.text.files import DataFile
from boustro.text.words import split_text

HEIGHT, LEFT, TOP, BETWEEN = 110, 52, 30, 66


def tag(folder: Path, source: Path, out: Path) -> dict[str, Any]:
    """Seconds and bytes of one run; a short file goes first, so that imports and loading are not counted."""
    opened, short = OpenedFolder(folder, cache=False), source.with_suffix(".short.txt")
    with source.open(encoding="utf-8") as lines:
        short.write_text("".join(islice(lines, 8)), "utf-8")

    def seconds(file: Path) -> float:
        started = time.perf_counter()
        output = OutputOptions(out=out, overwrite=True)
        predict_files(opened, [DataFile(file)], PredictOptions(), output, RunOptions(quiet=True))
        return time.perf_counter() - started

    with PeakMemory() as peak:
        seconds(short)
        loading = seconds(short)
        whole = seconds(source)
    size = out.stat().st_size
    return {"seconds": whole - loading, "load_seconds": loading, "peak_bytes": peak.bytes, "out_bytes": size}


def main(
    folder: Path,
    text: Path,
    lines: int = 500,
    times: tuple[int, ...] = (1, 10, 100),
    figure: Path | None = None,
    json: Path | None = None,
) -> None:
    """Measure, print a table, and draw it where `--figure` says."""
    given = [line for line in text.read_text("utf-8").splitlines() if line.strip()][:lines]
    words = sum(len(placed.sentence) for line in given for placed in split_text(line))
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for many in times:
            source = Path(place) / "in.txt"
            with source.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in islice(cycle(given), many * len(given)))
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                cost = alone.submit(tag, folder, source, Path(place) / "out.jsonl").result()
            rows.append({"times": many, "lines": many * len(given), "words": many * words, **cost})
    if figure is not None:
        write_file(figure, draw(rows))
    give(rows, json, lambda: show(rows), indent=1)


def show(rows: list[dict[str, Any]]) -> None:
    """The table."""
    print("| | lines | words | seconds | words/s | peak memory | answers |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        memory = f"{row['peak_bytes'] / 2**20:,.0f} MB" if row["peak_bytes"] else ""
        print(
            f"| {row['times']}x | {row['lines']:,} | {row['words']:,} | {row['seconds']:,.1f} | "
            f"{row['words'] / row['seconds']:,.0f} | {memory} | {row['out_bytes'] / 2**20:,.1f} MB |"
        )


def draw(rows: list[dict[str, Any]]) -> str:
    """Seconds above, memory below, by words; the dashed line is proportional to the largest."""
    words, seconds = [row["words"] for row in rows], [row["seconds"] for row in rows]
    memory = [(row["peak_bytes"] or 0) / 2**20 for row in rows]
    across = Scale(0, max(words), LEFT + 6, WIDTH - 12)
    parts: list[str] = []
    for number, (name, values, style) in enumerate(
        (("seconds", seconds, "s0"), ("peak memory of the process, MB", memory, "s1"))
    ):
        top = TOP + number * (HEIGHT + BETWEEN)
        marks = ticks(0, max(*values, 1e-9), 4)
        up = Scale(0, marks[-1], top + HEIGHT, top)
        parts.append(text_line(LEFT, top - 10, name, style="b"))
        for mark in marks:
            parts.append(path([(LEFT, up(mark)), (WIDTH - 8, up(mark))], "g"))
            parts.append(text_line(LEFT - 6, up(mark) + 4, f"{mark:,g}", "end", "m"))
        if number == 0:
            parts.append(path([(across(0), up(0)), (across(words[-1]), up(values[-1]))], "d"))
        points = [(across(w), up(v)) for w, v in zip(words, values, strict=True)]
        parts += [path(points, f"l {style}"), dots(points, style, 7)]
        for mark in ticks(0, max(words), 3)[:-1]:
            parts.append(text_line(across(mark), top + HEIGHT + 16, f"{mark:,.0f}", "middle", "m"))
        parts.append(text_line((LEFT + WIDTH) / 2, top + HEIGHT + 34, "words", "middle", "m"))
    title = f"Time and memory of boustro predict for up to {max(words):,} words"
    return standalone(picture(WIDTH, TOP + 2 * (HEIGHT + BETWEEN) - 24, title, *parts))


if __name__ == "__main__":
    tyro.cli(main)
