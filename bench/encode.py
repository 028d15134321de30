"""Encoding: words per second and memory of several encoders, over the same sentences, with the same threads.

    OMP_NUM_THREADS=1 python bench/encode.py --encoders starter-forward starter fused:my-fusion --data dev.txt

Every round runs each encoder in turn, so other load on the machine affects all equally; the best round counts. CPU
seconds are of all threads together. Memory is the peak of a separate process that loads the encoder and encodes, with
PyTorch and Python. Features of all layers are computed and discarded.
"""

import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

import tyro

from boustro.encoders.spec import load_encoder
from boustro.lab.pretrain.progress import PeakMemory
from boustro.tasks.data import read_data
from boustro.types import Sentence

WARM = 16  # sentences encoded before the measurement


def held(spec: str, context: str, sentences: list[Sentence]) -> int | None:
    """The peak memory of this process, in bytes, while it loads and encodes."""
    with PeakMemory() as peak:
        encoder = load_encoder(spec, context=context)
        for _ in encoder.encode(sentences):
            pass
    return peak.bytes


def main(
    encoders: list[str],
    data: Path,
    sentences: int = 1000,
    rounds: int = 3,
    context: Literal["document", "sentence"] = "document",
) -> None:
    """Measure the encoders, and print a table."""
    given = read_data(data)[:sentences]
    words = sum(map(len, given))
    loaded = [load_encoder(spec, context=context) for spec in encoders]
    wall, cpu = [math.inf] * len(encoders), [math.inf] * len(encoders)
    for _ in range(rounds):
        for i, encoder in enumerate(loaded):
            list(encoder.encode(given[:WARM]))
            started, used = time.perf_counter(), time.process_time()
            for _ in encoder.encode(given):
                pass
            wall[i] = min(wall[i], time.perf_counter() - started)
            cpu[i] = min(cpu[i], time.process_time() - used)
    print(f"{len(given):,} sentences, {words:,} words, best of {rounds} rounds\n")
    print("| encoder | parameters | values per word | words/s | ratio | CPU s | memory |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for i, encoder in enumerate(loaded):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            memory = alone.submit(held, encoders[i], context, given).result()
        size = sum(stream.num_layers * stream.width for stream in encoder.streams)
        print(
            f"| {encoders[i]} | {encoder.num_parameters / 1e6:.1f}M | {size:,} | {words / wall[i]:,.0f} "
            f"| {wall[0] / wall[i]:.2f} | {cpu[i]:.1f} | {f'{memory / 1e6:,.0f} MB' if memory else ''} |",
            flush=True,
        )


if __name__ == "__main__":
    tyro.cli(main)
