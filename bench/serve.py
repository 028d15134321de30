"""`boustro serve` against a transformers token-classification pipeline behind FastAPI, at the same size.

Boustro serves the shipped pair with an mlp head, trained for a few epochs on the shipped sample. The other service is
one route of FastAPI over the pipeline, run by uvicorn like ours, with one model of as many parameters as the two LMs
together (randomly initialised: its weights do not affect its speed; its classifier finds no entity, so it has no work
after the model). It is measured in two ways: each request in a thread of FastAPI's pool, and one request at a time; the
better one counts. On a machine with other load, answers per CPU second are the fairer measure.

    python bench/serve.py --seconds 15

Each server is a process of its own, one after the other; the clients share another one, keep their connections, and
send one sentence per request, the next as soon as the last is answered. A request that is told to come back (429) is
sent again 50 ms later and is not in the latencies.
"""

import asyncio
import json
import math
import multiprocessing
import random
import re
import socket
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import psutil
import tyro

CONTEXT = multiprocessing.get_context("spawn")
JSON = "Content-Type: application/json\r\n"
SAMPLE = files("boustro") / "data" / "sample"


@dataclass(frozen=True)
class Figures:
    """What some clients saw: answers and words a second, latencies in milliseconds, requests told to come back.

    `cpu` are the milliseconds of all threads of the server for an answer, which other load changes least.
    """

    requests: float
    words: float
    p50: float
    p95: float
    p99: float
    refused: int
    cpu: float = math.nan


def serve_boustro(folder: str, port: int) -> None:
    """Ours."""
    from boustro.apps.cli.main import main

    main(["serve", folder, "--port", str(port)])


def serve_pipeline(port: int, num_parameters: int, kind: str, at_once: bool) -> None:
    """The pipeline behind one route; `at_once` leaves requests to the threads of FastAPI's pool."""
    import uvicorn
    from fastapi import FastAPI

    from predict import rivals

    name, tag = next((s.name, s.read) for s in rivals([], [1], num_parameters) if kind in s.name)
    print(name)
    app, lock = FastAPI(), Lock()

    @app.post("/v1/predict")
    def predict(asked: dict[str, Any]) -> Any:
        if at_once:
            return {"outputs": list(tag(asked["inputs"]))}
        with lock:
            return {"outputs": list(tag(asked["inputs"]))}

    @app.get("/readyz")
    def readyz() -> None:
        return None

    uvicorn.run(app, port=port, log_level="error")


async def ask(
    port: int, texts: list[str], seconds: float, seed: int, times: list[float], counts: dict[str, int]
) -> None:
    """One client: requests over one connection until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    draw, end = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        text = draw.choice(texts)
        body = json.dumps({"inputs": [text]}).encode()
        head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {len(body)}\r\n\r\n"
        started = time.monotonic()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)[1]))  # type: ignore[index]
        status = int(answer[9:12])
        if status == 200:
            times.append(time.monotonic() - started)
            counts["words"] += len(text.split())
        elif status == 429:
            counts["refused"] += 1
            await asyncio.sleep(0.05)
        else:
            raise RuntimeError(f"status {status}")
    writer.close()


def measure(port: int, texts: list[str], clients: int, seconds: float) -> Figures:
    """So many clients for so long."""
    times: list[float] = []
    counts = {"words": 0, "refused": 0}

    async def run() -> None:
        await asyncio.gather(*(ask(port, texts, seconds, seed, times, counts) for seed in range(clients)))

    started = time.monotonic()
    asyncio.run(run())
    took = time.monotonic() - started
    cuts = statistics.quantiles([1e3 * t for t in times], n=100)
    return Figures(len(times) / took, counts["words"] / took, cuts[49], cuts[94], cuts[98], counts["refused"])


def measured(pid: int, work: Any, *arguments: Any) -> Figures:
    """The figures of `work`, with the time of the server's processor."""
    before = sum(psutil.Process(pid).cpu_times()[:2])
    figures = work(*arguments)
    took = sum(psutil.Process(pid).cpu_times()[:2]) - before
    return replace(figures, cpu=1e3 * took / (figures.requests * arguments[-1]))


def wait(port: int, process: Any) -> None:
    """Until the server is ready."""
    while True:
        if not process.is_alive():
            raise RuntimeError("the server has ended")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if b" 200 " in connection.recv(64):
                    return
        except OSError:
            pass
        time.sleep(0.2)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(target: Any, texts: list[str], clients: tuple[int, ...], seconds: float) -> list[Figures]:
    """Start a server, measure it, end it."""
    port = free_port()
    process = CONTEXT.Process(target=partial(target, port=port))
    process.start()
    try:
        wait(port, process)
        measure(port, texts, 4, min(2, seconds))  # to warm up
        return [measured(process.pid, measure, port, texts, number, seconds) for number in clients]
    finally:
        process.terminate()
        process.join(60)


def main(
    clients: tuple[int, ...] = (1, 32, 256),
    seconds: float = 15.0,
    epochs: int = 5,
    kind: Literal["BERT", "Llama"] = "BERT",
    json_file: Path | None = None,
) -> None:
    """Measure ours and the pipeline's two ways with each number of clients, and print the figures."""
    import torch

    import boustro
    from boustro.tasks.data import read_data

    texts = [" ".join(sentence.words) for sentence in read_data(Path(str(SAMPLE / "dev.conll")))]
    with tempfile.TemporaryDirectory() as place:
        folder = str(Path(place) / "ner")
        tagger = boustro.Tagger("starter", "mlp", epochs=epochs).fit(Path(str(SAMPLE / "train.conll")), seed=1)
        tagger.save_pretrained(folder)
        size = tagger.record["encoder_parameters"] + tagger.record["head_parameters"]
        systems = {
            "boustro serve": partial(serve_boustro, folder),
            "pipeline, in threads": partial(serve_pipeline, num_parameters=size, kind=kind, at_once=True),
            "pipeline, one at a time": partial(serve_pipeline, num_parameters=size, kind=kind, at_once=False),
        }
        runs = {name: run(target, texts, clients, seconds) for name, target in systems.items()}
    print(f"{len(texts)} sentences, {torch.get_num_threads()} threads, {size / 1e6:.1f}M parameters, {kind}")
    print(
        f"{'':24} {'clients':>7} {'req/s':>7} {'words/s':>8} {'p50':>7} {'p95':>7} {'p99':>7} {'429':>6} {'CPU ms':>7}"
    )
    for name, rows in runs.items():
        for number, f in zip(clients, rows, strict=True):
            figures = (
                f"{f.requests:7.1f} {f.words:8.0f} {f.p50:7.1f} {f.p95:7.1f} {f.p99:7.1f} {f.refused:6d} {f.cpu:7.1f}"
            )
            print(f"{name:24} {number:7d} {figures}")
    for index, number in enumerate(clients):
        ours, *others = (rows[index] for rows in runs.values())
        faster, cheaper = ours.requests / max(o.requests for o in others), min(o.cpu for o in others) / ours.cpu
        print(f"{number} clients: {faster:.2f} times the answers of the better pipeline, {cheaper:.2f} per CPU second")
    if json_file:
        json_file.write_text(json.dumps({name: [vars(row) for row in rows] for name, rows in runs.items()}, indent=1))


if __name__ == "__main__":
    tyro.cli(main)
