"""What an exported tagger costs and loses: agreement, F1, size, speed on one core, memory, the first answer.

    python bench/export.py agreement --folder ner --texts a.conll b.conll …   float32 against the folder, word by word
    python bench/export.py f1 --folder ner --dev dev.conll                    the folder, and each precision
    python bench/export.py speed --folder ner --texts dev.conll               paired: torch bf16, torch float32, int8 …
    python bench/export.py served --folder ner                                memory of a process, and the first answer

Each prints a line of JSON. Exports are made beside the folder, once, and without the check of `boustro export`, whose
agreement `f1` prints too. Speed is of raw lines through `predict`, one thread, all systems in turn in one process, the
best CPU seconds of several rounds: on a machine with other load they are the fair measure.
"""

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import tyro

from boustro.export.check import compare
from boustro.export.options import ExportOptions
from boustro.export.run import export_folder, open_exact
from boustro.runtime import load, open_model
from boustro.tasks.data import read_data
from boustro.text.scripts import join_words

PRECISIONS = ("float32", "float16", "int8")
CHUNK = 500  # sentences, whose features of all layers fit a small memory
LINE = "Jane Villanueva of United Airlines spoke in Berlin."
PROBE = """
import sys, time
began = time.perf_counter()
from boustro.runtime import open_model
model = open_model(sys.argv[1], **({"cache": False} if sys.argv[2] == "torch" else {}))
model.predict([sys.argv[3]] * 64)
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1])
"""


def exported(folder: Path, precision: Any) -> Path:
    """The export of a folder, beside it."""
    out = folder.with_name(f"{folder.name}-{precision}")
    if not (out / "manifest.json").is_file():
        export_folder(folder, out, ExportOptions(precision=precision, agreement=0.0))
    return out


def sentences_of(texts: tuple[Path, ...], most: int) -> list[Any]:
    """The first sentences of each file, as they are labelled, without their tags."""
    each = math.ceil(most / len(texts))
    found = [s for path in texts for s in read_data(path)[:each]]
    return [replace(s, tags=None, entities=None) for s in found[:most]]


def agreement(folder: Path, texts: tuple[Path, ...], most: int) -> dict[str, Any]:
    """Words with another tag, and the largest difference of two scores, in two batchings."""
    sentences, exact = sentences_of(texts, most), open_exact(folder)
    own = load(exported(folder, "float32"))
    wanted = [a for start in range(0, len(sentences), CHUNK) for a in exact.answer(sentences[start : start + CHUNK])]
    found: dict[str, Any] = {"sentences": len(sentences), "words": sum(map(len, sentences))}
    for name, size in ((f"{CHUNK} together", CHUNK), ("one by one, of the first 500", 1)):
        sentences = sentences if size > 1 else sentences[:500]
        got = [a for start in range(0, len(sentences), size) for a in own.answer(sentences[start : start + size])]
        pairs = list(zip(wanted, got, strict=False))
        found[f"other tags, {name}"] = sum(x != y for a, b in pairs for x, y in zip(a.tags, b.tags, strict=True))
        difference = max(abs(x - y) for a, b in pairs for x, y in zip(a.scores, b.scores, strict=True))
        found[f"score difference, {name}"] = round(difference, 7)
    return found


def f1(folder: Path, dev: Path, precisions: tuple[str, ...]) -> dict[str, Any]:
    """F1 on labelled data: the folder as this machine computes it, in float32, and its exports."""
    data, exact = read_data(dev), open_exact(folder)
    plain = open_model(folder, cache=False)
    found = {"torch, default": plain.evaluate(data).f1, "torch, float32": exact.evaluate(data).f1}
    for precision in precisions:
        own = load(exported(folder, precision))
        found[precision] = own.evaluate(data).f1
        found[f"{precision}, same entities"] = 100 * (compare(exact, own, data[:500]).entities or 0)
    return {name: round(float(value), 2) for name, value in found.items()}


def speed(folder: Path, texts: tuple[Path, ...], most: int, rounds: int) -> dict[str, Any]:
    """Words a second of each system, from CPU seconds."""
    torch.set_num_threads(1)
    sentences = sentences_of(texts, most)
    lines, words = [join_words(s.words) for s in sentences], sum(map(len, sentences))
    systems = {"torch, default": open_model(folder, cache=False), "torch, float32": open_exact(folder)}
    systems |= {f"onnx, {precision}": load(exported(folder, precision)) for precision in ("float32", "int8")}
    best = dict.fromkeys(systems, math.inf)
    for _ in range(rounds):
        for name, model in systems.items():
            model.predict(lines[:32])
            began = time.process_time()
            model.predict(lines)
            best[name] = min(best[name], time.process_time() - began)
    rates = {name: round(words / seconds) for name, seconds in best.items()}
    ratios = {f"int8 / {name}": round(rates["onnx, int8"] / rates[name], 2) for name in list(rates)[:2]}
    return {"lines": len(lines), "words": words, **rates, **ratios}


def served(folder: Path, rounds: int) -> dict[str, Any]:
    """MB of a process that has answered 64 lines, and seconds (CPU, wall) of the command for one line."""
    found: dict[str, Any] = {}
    line = folder.with_name("line.txt")
    line.write_text(LINE + "\n")
    for name, place in (("torch", folder), ("onnx, int8", exported(folder, "int8"))):
        probe = [sys.executable, "-c", PROBE, str(place), name, LINE]
        found[f"{name}, MB"] = round(int(subprocess.run(probe, capture_output=True, text=True).stdout) / 1024)
        best = (math.inf, math.inf)
        for _ in range(rounds):
            before, began = os.times(), time.perf_counter()
            command = [sys.executable, "-m", "boustro", "predict", str(place), str(line), "--no-cache"]
            subprocess.run(command, capture_output=True, check=True)
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            best = min(best, (cpu, time.perf_counter() - began))
        found[f"{name}, first answer, CPU seconds"], found[f"{name}, first answer, seconds"] = (
            round(value, 2) for value in best
        )
    sizes = {p: exported(folder, p) for p in PRECISIONS}
    found |= {f"{p}, MB on disk": round(_size(path) / 1e6, 1) for p, path in sizes.items()}
    return found


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(
    what: tyro.conf.Positional[Literal["agreement", "f1", "speed", "served"]],
    folder: Path,
    texts: tuple[Path, ...] = (),
    dev: Path | None = None,
    most: int = 10_000,
    rounds: int = 5,
    precisions: tuple[str, ...] = ("float32", "int8"),
) -> None:
    """Measure one thing.

    Args:
        what: See the module.
        folder: A tagger that boustro fit wrote.
        texts: Labelled files; their tags are not read.
        dev: Labelled data to score on.
        most: Sentences that are read, of all files together.
        rounds: Times that something is timed; the best counts.
        precisions: Exports that are scored.
    """
    if what == "agreement":
        found = agreement(folder, texts, most)
    elif what == "f1":
        assert dev is not None, "name --dev"
        found = f1(folder, dev, precisions)
    else:
        found = speed(folder, texts, most, rounds) if what == "speed" else served(folder, rounds)
    print(json.dumps({"what": what, "folder": folder.name, **found}))


if __name__ == "__main__":
    tyro.cli(main)
