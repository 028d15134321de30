"""What an exported tagger costs and loses: agreement, F1, size, speed on one core, memory, the first answer.

    python bench/export.py agreement --folder ner --texts a.conll b.conll …   float32 against the folder, word by word
    python bench/export.py f1 --folder ner --dev dev.conll                    the folder, and each precision
    python bench/export.py speed --folder ner --texts dev.conll               torch bf16, torch float32, int8 … in turn
    python bench/export.py rivals --folder ner --texts dev.conll              int8 against transformers' pipeline
    python bench/export.py served --folder ner                                memory of boustro serve, first answers
    python bench/export.py browser --folder ner --texts dev.conll             the page in Chromium, one thread of wasm

Each prints a line of JSON, and with --out keeps it there, so that what is measured already is not measured again.
Exports are made beside the folder, once, and without the check of `boustro export`, whose agreement `f1` prints too.
Speed is of raw lines through `predict`, one thread, all systems in turn in one process, the best CPU seconds of
several rounds: on a machine with other load they are the fair measure.
"""

import http.client
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import tyro

from boustro.apps.export.check import compare_answers
from boustro.apps.export.command import ExportOptions
from boustro.apps.export.folder import export_folder, open_exact
from boustro.apps.export.page import html_page
from boustro.apps.runtime import load
from boustro.store import write_file
from boustro.tasks.data import read_data
from boustro.text.words import join_words
from predict import rivals

PRECISIONS = ("float32", "float16", "int8")
CHUNK = 500  # sentences, whose features of all layers fit a small memory
LINE = "Jane Villanueva of United Airlines spoke in Berlin."
REQUESTS = 200
BATCHES = (1, 8, 32)  # of the pipeline


def exported(folder: Path, precision: Any) -> Path:
    """The export of a folder, beside it."""
    out = folder.with_name(f"{folder.name}-{precision}")
    if not (out / "manifest.json").is_file():
        export_folder(folder, out, ExportOptions(precision=precision, agreement=0.0))
    return out


def sentences_of(texts: tuple[Path, ...], most: int) -> list[Any]:
    """The first sentences of each file, as they are labelled, without their tags."""
    each = math.ceil(most / len(texts))
    sentences = [s for path in texts for s in read_data(path)[:each]]
    return [replace(s, tags=None, entities=None) for s in sentences[:most]]


def agreement(folder: Path, texts: tuple[Path, ...], most: int) -> dict[str, Any]:
    """Words with another tag, and the largest difference of two scores, in two batchings."""
    sentences, exact = sentences_of(texts, most), open_exact(folder)
    model = load(exported(folder, "float32"))
    wanted = [a for start in range(0, len(sentences), CHUNK) for a in exact.answer(sentences[start : start + CHUNK])]
    figures: dict[str, Any] = {"sentences": len(sentences), "words": sum(map(len, sentences))}
    for name, size in ((f"{CHUNK} together", CHUNK), ("one by one, of the first 500", 1)):
        sentences = sentences if size > 1 else sentences[:500]
        got = [a for start in range(0, len(sentences), size) for a in model.answer(sentences[start : start + size])]
        pairs = list(zip(wanted, got, strict=False))
        figures[f"other tags, {name}"] = sum(x != y for a, b in pairs for x, y in zip(a.tags, b.tags, strict=True))
        difference = max(abs(x - y) for a, b in pairs for x, y in zip(a.scores, b.scores, strict=True))
        figures[f"score difference, {name}"] = round(difference, 7)
    return figures


def f1(folder: Path, dev: Path, precisions: tuple[str, ...]) -> dict[str, Any]:
    """F1 on labelled data: the folder as this machine computes it, in float32, and its exports."""
    data, exact = read_data(dev), open_exact(folder)
    plain = load(folder, cache=False)
    scores = {"torch, default": plain.evaluate(data).f1, "torch, float32": exact.evaluate(data).f1}
    for precision in precisions:
        model = load(exported(folder, precision))
        scores[precision] = model.evaluate(data).f1
        scores[f"{precision}, same entities"] = 100 * (compare_answers(exact, model, data[:500]).entities or 0)
    return {name: round(float(value), 2) for name, value in scores.items()}


def speed(folder: Path, texts: tuple[Path, ...], most: int, rounds: int) -> dict[str, Any]:
    """Words a second of the folder and of its exports."""
    lines, words = lines_of(texts, most)
    systems = {"torch, default": load(folder, cache=False).predict, "torch, float32": open_exact(folder).predict}
    systems |= {f"onnx, {precision}": load(exported(folder, precision)).predict for precision in ("float32", "int8")}
    rates = measured(systems, lines, words, rounds)
    ratios = {f"int8 / {name}": round(rates["onnx, int8"] / rates[name], 2) for name in list(rates)[:2]}
    return {"lines": len(lines), "words": words, **rates, **ratios}


def against(folder: Path, texts: tuple[Path, ...], most: int, rounds: int) -> dict[str, Any]:
    """Words a second of the export in int8, and of the fastest of the pipelines of `bench/predict.py`."""
    lines, words = lines_of(texts, most)
    model = load(folder, cache=False)
    size = model.record["encoder_parameters"] + model.record["head_parameters"]
    systems: dict[str, Callable] = {"onnx, int8": load(exported(folder, "int8")).predict}
    for system in rivals(lines, BATCHES, size):
        systems[system.name] = lambda _, rival=system: list(rival.read(rival.lines))
    rates = measured(systems, lines, words, rounds)
    best = max(list(rates)[1:], key=lambda name: rates[name])
    shown = {"onnx, int8": rates["onnx, int8"], best: rates[best], "times": round(rates["onnx, int8"] / rates[best], 2)}
    return {"lines": len(lines), "words": words, "pipelines": len(rates) - 1, **shown}


def lines_of(texts: tuple[Path, ...], most: int) -> tuple[list[str], int]:
    """Raw lines, and how many words they have."""
    sentences = sentences_of(texts, most)
    return [join_words(s.words) for s in sentences], sum(map(len, sentences))


def measured(
    systems: Mapping[str, Callable[[list[str]], Any]], lines: list[str], words: int, rounds: int
) -> dict[str, int]:
    """Words a second of each system, from the best of its CPU seconds; they take turns."""
    torch.set_num_threads(1)
    best = dict.fromkeys(systems, math.inf)
    for number in range(rounds):
        for name, read in systems.items():
            if not number:
                read(lines[:32])
            began = time.process_time()
            read(lines)
            best[name] = min(best[name], time.process_time() - began)
    return {name: round(words / seconds) for name, seconds in best.items()}


def served(folder: Path, rounds: int) -> dict[str, Any]:
    """MB of a service after some requests, and seconds (CPU, wall) of the command for one line."""
    figures: dict[str, Any] = {}
    line = folder.with_name("line.txt")
    line.write_text(LINE + "\n")
    for name, place in (("torch", folder), ("onnx, int8", exported(folder, "int8"))):
        figures[f"{name}, MB served"] = service_memory(place)
        best = (math.inf, math.inf)
        for _ in range(rounds):
            before, began = os.times(), time.perf_counter()
            command = [sys.executable, "-m", "boustro", "predict", str(place), str(line), "--no-cache"]
            subprocess.run(command, capture_output=True, check=True)
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            best = min(best, (cpu, time.perf_counter() - began))
        figures[f"{name}, first answer, CPU seconds"], figures[f"{name}, first answer, seconds"] = (
            round(value, 2) for value in best
        )
    sizes = {p: exported(folder, p) for p in PRECISIONS}
    return figures | {f"{p}, MB on disk": round(_size(path) / 1e6, 1) for p, path in sizes.items()}


def service_memory(folder: Path) -> int:
    """MB that `boustro serve` holds after `REQUESTS` requests of a line."""
    command = [sys.executable, "-m", "boustro", "serve", f"ner={folder}", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = next(int(said[1]) for line in process.stderr if (said := re.search(r"http://127\.0\.0\.1:(\d+)", line)))
        while asked(port, "GET", "/readyz") != 200:
            time.sleep(0.1)
        body = json.dumps({"inputs": [LINE]})
        assert all(asked(port, "POST", "/v1/predict", body) == 200 for _ in range(REQUESTS))
        status = Path(f"/proc/{process.pid}/status").read_text()
        return round(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024)  # type: ignore[index]
    finally:
        process.terminate()
        process.wait()


def asked(port: int, method: str, path: str, body: str | None = None) -> int:
    """The status that the service answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def browser(folder: Path, texts: tuple[Path, ...], most: int, rounds: int, runtime: Path) -> dict[str, Any]:
    """The page from disk: seconds from opening to the first answer, and words a second of a long text."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from browser import open_browser

    lines, words = lines_of(texts, most)
    page_file = folder.with_name(f"{folder.name}.html")
    write_file(page_file, html_page(exported(folder, "int8"), runtime, folder.name))
    firsts, rates = [], []
    for _ in range(rounds):
        with open_browser() as chromium:
            began = time.perf_counter()
            page = chromium.open(page_file.resolve().as_uri())
            page.wait("document.getElementById('text')")
            page.run(f"document.getElementById('text').value = {json.dumps(LINE)}")
            page.wait("document.getElementById('found')?.hidden === false")
            firsts.append(time.perf_counter() - began)
            page.run(f"document.getElementById('text').value = {json.dumps(chr(10).join(lines))}")
            page.click("#go")
            page.wait("document.getElementById('go').disabled === false", 300)
            said = re.search(r"in ([\d.]+) seconds", page.text("#state"))
            assert said, page.text("#state")
            rates.append(words / float(said[1]))
    size = round(page_file.stat().st_size / 1e6, 1)
    figures = {"seconds to the first answer": round(min(firsts), 2), "words a second": round(max(rates)), "MB": size}
    return {"words": words, **figures}


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(
    what: tyro.conf.Positional[Literal["agreement", "f1", "speed", "rivals", "served", "browser"]],
    folder: Path,
    texts: tuple[Path, ...] = (),
    dev: Path | None = None,
    most: int = 10_000,
    rounds: int = 5,
    precisions: tuple[str, ...] = ("float32", "int8"),
    onnxruntime_web: Path = Path("node_modules/onnxruntime-web"),
    out: Path | None = None,
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
        onnxruntime_web: The folder of the npm package, which a page holds.
        out: A file of results, to which this one is added; a result that it has is not measured again.
    """
    key = {"what": what, "folder": folder.name, "texts": [path.name for path in texts], "most": most}
    done = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    if same := [record for record in done if key.items() <= record.items()]:
        print(json.dumps(same[0]))
        return
    if what == "f1":
        assert dev is not None, "name --dev"
    measure: dict[str, Callable[[], dict[str, Any]]] = {
        "agreement": lambda: agreement(folder, texts, most),
        "f1": lambda: f1(folder, dev or Path(), precisions),
        "speed": lambda: speed(folder, texts, most, rounds),
        "rivals": lambda: against(folder, texts, most, rounds),
        "served": lambda: served(folder, rounds),
        "browser": lambda: browser(folder, texts, most, rounds, onnxruntime_web),
    }
    line = json.dumps({**key, **measure[what]()})
    print(line)
    if out:
        with out.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    tyro.cli(main)
