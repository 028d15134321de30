"""`boustro serve` in a process of its own: many clients, slow ones, broken ones, and signals."""

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")

import boustro
from children import finish
from served import TAGGED, same, serving

WORDS = [*sorted({word for record in TAGGED for word in record["words"]}), "Zürich", "🦬", "e\u0301toile", "1,250"]
LINES = 1600  # twelve megabytes
MEGABYTES = 400
"""How much a server may grow under hundreds of requests; their answers together have less than one."""


@pytest.fixture(scope="module")
def tagger_folder(tiny_pair, tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "tag"
    boustro.Tagger(tiny_pair, cache=False, epochs=8, lr=0.01).fit(TAGGED, seed=1).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def live(tagger_folder, tmp_path_factory):
    """A server with small bounds: (address, process, what it writes to standard error)."""
    errors = tmp_path_factory.mktemp("log") / "errors"
    bounds = "--requests 150 --body-kb 256 --timeout 20 --batch 2000".split()
    with serving([tagger_folder], errors, *bounds) as (address, process):
        yield address, process, errors


@pytest.fixture
def tagger(tagger_folder):
    return boustro.Tagger.from_pretrained(tagger_folder, cache=False)


def make_requests(count: int) -> list[list[str]]:
    """Requests of one to four texts, all different, of one to thirty words; some with sixty texts."""
    draw = random.Random(5)

    def text(number: int) -> str:
        return f"{number} " + " ".join(draw.choice(WORDS) for _ in range(draw.choice([1, 3, 8, 30])))

    sizes = [60 if n % 100 == 7 else draw.choice([1, 1, 1, 2, 4]) for n in range(count)]
    return [[text(1000 * n + k) for k in range(size)] for n, size in enumerate(sizes)]


def expect(tagger: boustro.Tagger, requests: list[list[str]]) -> list[list[dict]]:
    answers = iter(tagger.predict([text for texts in requests for text in texts]))
    return [[{"entities": [e.to_dict() for e in next(answers)]} for _ in texts] for texts in requests]


def memory(process) -> float:
    """Resident megabytes."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024


def raw(address: str, data: bytes) -> socket.socket:
    """A connection to a server after some bytes."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(data)
    return connection


def head(length: int, path: str = "/v1/predict") -> bytes:
    kind = "Content-Type: application/json\r\n"
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {length}\r\n\r\n".encode()


def test_hundreds_of_requests_at_once_get_their_own_answers_in_bounded_memory(live, tagger):
    address, process, _ = live
    requests = make_requests(200)
    before, peak, refused = memory(process), 0.0, 0
    answers: list = [None] * len(requests)

    async def ask(client: httpx.AsyncClient, number: int) -> None:
        nonlocal peak, refused
        while answers[number] is None:
            answer = await client.post("/v1/predict", json={"inputs": requests[number]})
            if answer.status_code == 200:
                answers[number] = answer.json()["outputs"]
            else:
                assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1, answer.text
                refused += 1
                await asyncio.sleep(random.uniform(0.1, 1))
            peak = max(peak, memory(process))

    async def run() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=address, timeout=300, limits=limits) as client:
            await asyncio.gather(*(ask(client, number) for number in range(len(requests))))

    asyncio.run(run())
    wrong = [n for n, (a, b) in enumerate(zip(answers, expect(tagger, requests), strict=True)) if not same(a, b)]
    assert not wrong and sum(len(output["entities"]) for outputs in answers for output in outputs) > 200
    assert refused > 0 and peak - before < MEGABYTES


def test_a_slow_client_is_given_up_and_holds_up_nobody(tagger_folder, tmp_path):
    with serving([tagger_folder], tmp_path / "errors", "--timeout", "2", "--requests", "5") as (address, _):
        slow = [raw(address, head(1000) + b'{"inputs": [') for _ in range(4)]
        assert httpx.post(f"{address}/v1/predict", json={"inputs": ["Ada left."]}, timeout=60).status_code == 200
        for connection in slow:
            assert b"408" in connection.recv(65536).splitlines()[0]
            connection.close()
        assert httpx.post(f"{address}/v1/predict", json={"inputs": ["Ada left."]}, timeout=60).status_code == 200


def test_broken_clients_leave_nothing_behind(live):
    address, _, errors = live
    body = json.dumps({"inputs": ["Ada left Vellmar."] * 200}).encode()
    for number in range(60):
        kinds = [head(len(body)) + body, head(len(body)) + body[:40], head(9, "/v1/embed"), b"\x16\x03\x01\x02", b"GET"]
        connection = raw(address, kinds[number % len(kinds)])
        if number % 2:  # a reset, where the other half is an orderly end
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    end = time.monotonic() + 60
    while "boustro_open_requests 0.0" not in httpx.get(f"{address}/metrics", timeout=60).text:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert httpx.post(f"{address}/v1/predict", json={"inputs": ["Ada left."]}, timeout=60).status_code == 200
    assert "Traceback" not in errors.read_text()


def test_sigterm_under_load_finishes_what_was_taken(tagger_folder, tmp_path, tagger):
    requests = make_requests(200)
    expected = expect(tagger, requests)
    outcomes: list[str] = []
    with serving([tagger_folder], tmp_path / "errors") as (address, process):
        stop = threading.Event()

        async def client(number: int, session: httpx.AsyncClient) -> None:
            while not stop.is_set():
                number = (number * 7 + 1) % len(requests)
                try:
                    answer = await session.post("/v1/predict", json={"inputs": requests[number]})
                except httpx.RemoteProtocolError as error:  # an idle connection, closed before its next request
                    assert "without sending a response" in str(error)
                    return outcomes.append("closed")
                except httpx.TransportError:
                    return outcomes.append("not accepted")
                if answer.status_code == 503:
                    return outcomes.append(answer.json()["error"]["code"])
                assert answer.status_code == 200 and same(answer.json()["outputs"], expected[number])
                outcomes.append("right")
                if len(outcomes) == 100:
                    os.kill(process.pid, signal.SIGTERM)

        async def run() -> None:
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as session:
                await asyncio.gather(*(client(number, session) for number in range(30)))

        asyncio.run(run())
        assert finish(process, 60) == 0
    assert outcomes.count("right") >= 100
    assert {*outcomes} <= {"right", "stopping", "closed", "not accepted"}
    log = (tmp_path / "errors").read_text()
    statuses = [json.loads(line)["status"] for line in log.splitlines() if line.startswith("{")]
    assert statuses.count(200) == outcomes.count("right") and {*statuses} <= {200, 503}


COMPUTING = """
import sys
import torch
from boustro import __main__
import {module} as module

def compute(*_, **__):
    print("computes", file=sys.stderr, flush=True)
    while True:
        torch.randn(200).sort()

module.{name} = compute
sys.argv = ["boustro", *sys.argv[1:]]
sys.exit(__main__.main())
"""
"""A command whose work beside the server has no end, and is nearly always inside torch."""


@contextlib.contextmanager
def computing(place: str, *arguments: object):
    """The process of such a command; `place` is the function that has no end."""
    module, _, name = place.partition(":")
    script = COMPUTING.format(module=module, name=name)
    command = [sys.executable, "-c", script, *map(str, arguments), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def said_by(process, *expressions: str) -> list[re.Match]:
    """What matches in lines of standard error, which are waited for, in any order."""
    assert process.stderr
    said = ""
    while not all(found := [re.search(expression, said) for expression in expressions]):
        line = process.stderr.readline()
        assert line, said
        said += line
    return found


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_models_load_ends_the_service_in_order(sig, tagger_folder):
    for _ in range(3):
        with computing("boustro.apps.serve.models:open_model", "serve", tagger_folder) as process:
            said_by(process, "http://", "computes")
            process.send_signal(sig)
            assert process.wait(60) == 0, process.stderr.read()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_tagger_is_trained_ends_the_labelling_in_order(sig, tiny_pair, tmp_path):
    (tmp_path / "texts.txt").write_text("Ada left Vellmar.\nNobody reads.\n")
    given = ["label", tmp_path / "texts.txt", "--out", tmp_path / "a.jsonl", "--encoder", tiny_pair, "--no-browser"]
    with computing("boustro.apps.label.background:read_sets", *given, "--labels", "PER") as process:
        address, token = said_by(process, r"(http://\S+)/#(\S+)")[0].groups()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"{address}/api", headers=headers, timeout=60) as page:
            page.headers["X-Boustro-Key"] = page.post("claim", json={"page": "one"}).json()["key"]
            while page.post("panel").json()["ready"] < 2:
                time.sleep(0.1)
            assert page.post("train").status_code == 200
        said_by(process, "computes")
        process.send_signal(sig)
        assert process.wait(60) == 0, process.stderr.read()
