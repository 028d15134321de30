"""One encoder loaded in several forms: F1 of a tagger, words a second, and the peak memory of the process.

    OMP_NUM_THREADS=1 python bench/large.py --train train.conll --dev dev.conll

fp32, bf16, and fp32 with layers up to the half. Every form has processes of
its own: one that trains, over `--seeds` seeds, and `--rounds` that only load the encoder, encode the development set
without a head, and are timed, all forms in turn, so that other load affects all; the best round counts. Memory is what
such a process has of its own at most, with Python and PyTorch; `weights` is the part of the parameters.
"""

import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from boustro.encoders.spec import load_encoder
from boustro.lab.pretrain.progress import PeakMemory
from boustro.output import give
from boustro.tasks.data import read_data
from boustro.tasks.tagger import Tagger

WARM = 16  # sentences encoded before the clock starts
FORMS: dict[str, dict[str, Any]] = {
    "fp32": {"dtype": "float32"},
    "bf16": {"dtype": "bfloat16"},
    "fp32, up to the half": {"dtype": "float32", "layers": "0%,25%,50%"},
}


class Data(NamedTuple):
    """Which sentences."""

    train: Path
    dev: Path
    train_sentences: int
    dev_sentences: int


def score(encoder: str, form: dict[str, Any], data: Data, seeds: int, epochs: int) -> list[float]:
    """Entity F1 on the development set, seed by seed; the features are computed once."""
    train, dev = read_data(data.train)[: data.train_sentences], read_data(data.dev)[: data.dev_sentences]
    scores = []
    with tempfile.TemporaryDirectory() as cache:
        for seed in range(1, seeds + 1):
            tagger = Tagger(encoder, "mlp", epochs=epochs, cache=cache, **form).fit(train, seed=seed)
            scores.append(float(tagger.evaluate(dev).value))
    return scores


def speed(encoder: str, form: dict[str, Any], data: Data) -> dict[str, float]:
    """Words a second of the encoder, seconds of loading, and bytes."""
    dev = read_data(data.dev)[: data.dev_sentences]
    with PeakMemory() as peak:
        started = time.perf_counter()
        opened = load_encoder(encoder, context="document", **form)
        loaded = time.perf_counter() - started
        list(opened.encode(dev[:WARM]))
        started, used = time.perf_counter(), time.process_time()
        for _ in opened.encode(dev):
            pass
        wall, cpu = time.perf_counter() - started, time.process_time() - used
    parts = getattr(opened, "parts", [opened])
    weights = sum(p.numel() * p.element_size() for part in parts for p in part.model.parameters())
    words = sum(map(len, dev))
    speeds = {"words_per_second": words / wall, "words_per_cpu_second": words / cpu, "load_seconds": loaded}
    return speeds | {
        "peak_bytes": peak.bytes or math.nan,
        "weight_bytes": weights,
        "bytes_per_word": opened.bytes_per_word,
    }


def alone(work: Callable[..., Any], *given: Any) -> Any:
    """The result of a function in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def main(
    train: Path,
    dev: Path,
    encoder: str = "starter",
    forms: tuple[str, ...] = tuple(FORMS),
    seeds: int = 3,
    epochs: int = 8,
    train_sentences: int = 4000,
    dev_sentences: int = 2000,
    rounds: int = 3,
    json: Path | None = None,
) -> None:
    """Measure all forms, and print a table; `--json FILE` for the figures."""
    data = Data(train, dev, train_sentences, dev_sentences)
    figures: dict[str, dict[str, Any]] = {form: {} for form in forms}
    for _ in range(rounds):
        for form in forms:
            now, best = alone(speed, encoder, FORMS[form], data), figures[form]
            faster = max(best.get("words_per_second", 0), now["words_per_second"])
            figures[form] = {**(best or now), "words_per_second": faster}
            key = "words_per_cpu_second"
            figures[form][key] = max(best.get(key, 0), now[key])
    for form in forms:
        figures[form]["f1"] = alone(score, encoder, FORMS[form], data, seeds, epochs) if seeds else []
    give({"encoder": encoder, "seeds": seeds, "forms": figures}, json, lambda: show(encoder, rounds, figures), indent=1)


def show(encoder: str, rounds: int, figures: dict[str, dict[str, Any]]) -> None:
    """The table."""
    first = next(iter(figures.values()))
    print(f"{encoder}, best of {rounds} rounds\n")
    print("| form | dev F1 | words/s | ratio | by CPU seconds | weights | peak memory | features a word |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for form, row in figures.items():
        f1 = row["f1"]
        spread = f" ± {statistics.stdev(f1):.2f}" if len(f1) > 1 else ""
        score = f"{statistics.mean(f1):.2f}{spread}" if f1 else ""
        ratios = (row[k] / first[k] for k in ("words_per_second", "words_per_cpu_second"))
        print(
            f"| {form} | {score} | {row['words_per_second']:,.0f} | {' | '.join(f'{r:.2f}' for r in ratios)} | "
            f"{row['weight_bytes'] / 2**20:.1f} MB | {row['peak_bytes'] / 2**20:,.0f} MB | "
            f"{row['bytes_per_word'] / 2**10:.1f} KB |"
        )


if __name__ == "__main__":
    tyro.cli(main)
