"""`boustro guard` with a real tagger: leaks, added time, and many streams at once that break on either side.

    python bench/guard.py --data ../shared/data/pii

The tagger is starter-memory with the default head, trained on `train.jsonl`; it reads texts of `dev.jsonl`.

**Leaks.** Random runs of those texts, cut at random places, also inside a word. The redactor writes nothing for an
entity, so what it released must be the text without every entity that its tagger called final, and at every moment the
beginning of that. The same text in one piece must have the same entities.

**Time.** Of one `feed`, a word at a time; and of a whole stream through the guard beside the same stream without it, in
turn. The upstream waits `--pause` milliseconds between words.

**Streams.** `--streams` clients at once, through a guard in a process of its own. Of every seven, one upstream is
killed, one is cut off, one sends what is no JSON, one client leaves and one is slow. What a client sees must be the
beginning of what the redactor gives for the text, and all of it where nothing broke.

All is computed in float32: in bf16 an entity between two labels may get the other one where its chunks are others.
"""

import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import tyro

from boustro.apps.live.masks import Masks
from boustro.apps.live.redactor import Redactor, Region, merged, rewrite

FATES = ("whole", "whole", "killed", "cut off", "garbled", "client leaves", "slow client")


def train(data: Path, folder: Path) -> None:
    """A tagger in `folder`, unless there is one."""
    import boustro

    if not folder.exists():
        tagger = boustro.Tagger("starter-memory").fit(data / "train.jsonl", data / "dev.jsonl", seed=1)
        tagger.save_pretrained(folder)
        print(f"trained on {data}: F1 {tagger.record['dev_scores']['f1']:.1f}")


def make_texts(data: Path, count: int, seed: int) -> list[str]:
    """Runs of one to six texts of the development set."""
    draw = random.Random(seed)
    texts = [json.loads(line)["text"] for line in (data / "dev.jsonl").read_text("utf-8").splitlines()]
    return [" ".join(draw.choices(texts, k=draw.randint(1, 6))) for _ in range(count)]


def cut(text: str, draw: random.Random) -> list[str]:
    """A text in pieces: letters, about words, or long ones."""
    size = draw.choice([1, 4, 4, 12, 80])
    pieces, at = [], 0
    while at < len(text):
        length = draw.randint(1, 2 * size - 1)
        pieces.append(text[at : at + length])
        at += length
    return pieces


class Recorded:
    """A tagger whose live taggers remember what they called final."""

    def __init__(self, tagger: Any) -> None:
        self.types, self._tagger = tagger.types, tagger

    def live(self, delay: int | None) -> Any:
        live = self._tagger.live(delay=delay)
        self.spans: set[tuple[int, int]] = set()
        for name in ("feed", "end"):
            setattr(self, f"_{name}", getattr(live, name))
        self._live = live
        return self

    @property
    def safe(self) -> int:
        return self._live.safe

    def feed(self, chunk: str) -> Any:
        return self._kept(self._feed(chunk))

    def end(self) -> Any:
        return self._kept(self._end())

    def _kept(self, events: Any) -> Any:
        self.spans |= {(event.start, event.end) for event in events if event.kind == "final"}
        return events


def without(text: str, spans: set[tuple[int, int]]) -> str:
    """The text without some of its characters."""
    gone = {place for start, end in spans for place in range(start, end)}
    return "".join(character for place, character in enumerate(text) if place not in gone)


def measure_leaks(tagger: Any, texts: list[str], delays: tuple[int, ...]) -> None:
    """Print how many characters of entities were released, and how many texts had other entities in one piece."""
    print("\ndelay   texts   chunks entities  leaked  differ held p50    max")
    for delay in delays:
        draw, chunks, entities, leaked, differ, held = random.Random(delay), 0, 0, 0, 0, []
        for text in texts:
            recorded = Recorded(tagger)
            redactor, released = Redactor(recorded, delay, write="event"), []
            for piece in cut(text, draw):
                released.append(redactor.feed(piece).text)
                held.append(redactor.held)
            released.append(redactor.end().text)
            expected, seen = without(text, recorded.spans), ""
            for part in released:
                seen += part
                if not expected.startswith(seen):
                    leaked += len(seen) - len(expected) if len(seen) > len(expected) else 1
                    break
            whole = Recorded(tagger)
            Redactor(whole, delay, write="event").feed(text)
            whole.end()
            chunks, entities, differ = (
                chunks + len(released),
                entities + len(recorded.spans),
                differ + (whole.spans != recorded.spans),
            )
        cuts = statistics.quantiles(held, n=100)
        counts = f"{delay:5d} {len(texts):7d} {chunks:8d} {entities:8d} {leaked:7d} {differ:7d}"
        print(f"{counts} {cuts[49]:8.0f} {max(held):6d}", flush=True)


def measure_feeds(tagger: Any, texts: list[str], delay: int) -> None:
    """Print the time of one `feed` of a word."""
    times, ends = [], []
    for number, text in enumerate(texts):
        redactor = Redactor(tagger, delay)
        for word in re.findall(r"\s*\S+", text):
            started = time.perf_counter()
            redactor.feed(word)
            times.append(1e3 * (time.perf_counter() - started))
        started = time.perf_counter()
        redactor.end()
        ends.append(1e3 * (time.perf_counter() - started))
        if number == 0:  # warm now
            times, ends = [], []
    cuts = statistics.quantiles(times, n=100)
    print(f"\nfeed of a word, delay {delay}: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms", end="; ")
    print(f"the end: {statistics.median(ends):.1f} ms")


@dataclass
class FakeLM:
    """An upstream on a free port that streams `texts[number]` for the prompt `number`."""

    texts: list[str]
    pause: float = 0.0
    fates: list[str] = field(default_factory=list)
    open: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
            number = int(json.loads(await reader.readexactly(length))["messages"][-1]["content"])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            await self._say(writer, number)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _say(self, writer: asyncio.StreamWriter, number: int) -> None:
        fate, draw = self.fates[number] if self.fates else "whole", random.Random(number)
        pieces = cut(self.texts[number], draw) if self.fates else re.findall(r"\s*\S+", self.texts[number])
        if fate in ("killed", "cut off", "garbled"):
            pieces = pieces[: max(1, len(pieces) * 2 // 3)]
        for piece in pieces:
            await self._event(writer, {"index": 0, "delta": {"content": piece}, "finish_reason": None})
            await asyncio.sleep(self.pause)
        if fate == "killed":
            writer.transport.abort()
        elif fate == "garbled":
            writer.write(b'data: {"choices": [{\n\n')
        elif fate != "cut off":
            await self._event(writer, {"index": 0, "delta": {}, "finish_reason": "stop"})
            writer.write(b"data: [DONE]\n\n")
            await writer.drain()

    async def _event(self, writer: asyncio.StreamWriter, choice: dict[str, Any]) -> None:
        own = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        writer.write(f"data: {json.dumps(own)}\n\n".encode())
        await writer.drain()


@asynccontextmanager
async def guard(folder: Path, upstream: str, delay: int) -> AsyncIterator[tuple[str, psutil.Process]]:
    """The address of `boustro guard` in a process of its own, once it answers, and the process."""
    words = [
        "guard",
        str(folder),
        "--upstream",
        upstream,
        "--port",
        "0",
        "--direction",
        "answers",
        "--delay",
        str(delay),
    ]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-m", "boustro.apps.cli.main", *words], stderr=log)
        try:
            found = None
            while found is None:
                await asyncio.sleep(0.2)
                log.seek(0)
                found = re.search(r"http://127\S+:(?!\d+/v1)\d+", log.read().decode())
                if process.poll() is not None:
                    raise RuntimeError("the guard has ended")
            yield f"{found[0]}/v1", psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)


async def ask(client: httpx.AsyncClient, url: str, number: int, fate: str, leave: int) -> tuple[str, str, float]:
    """What a client sees, how it ends, and when its first text came."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": str(number)}]}
    seen, first, started = "", 0.0, time.perf_counter()
    async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            data = line.removeprefix("data: ")
            if data == "[DONE]":
                return seen, "end", first
            if not data:
                continue
            event = json.loads(data)
            if "error" in event:
                return seen, event["error"]["code"], first
            seen += "".join(choice["delta"].get("content", "") for choice in event["choices"])
            first = first or time.perf_counter() - started
            if fate == "client leaves" and len(seen) > leave:
                return seen, "left", first
            if fate == "slow client":
                await asyncio.sleep(0.05)
    return seen, "broken", first


def expected_answer(tagger: Any, prompt: str, text: str, delay: int) -> str:
    """What a client should see of a text: names have masks, which those of the prompt, a number, have first."""
    masks = Masks(tagger.types)
    rewrite(prompt, merged(Region(e.start, e.end, e.label, e.score) for e in tagger.predict(prompt)), masks, "mask")
    redactor = Redactor(tagger, delay, masks=masks)
    return redactor.feed(text).text + redactor.end().text


async def measure_streams(folder: Path, tagger: Any, texts: list[str], delay: int, rounds: int, pause: float) -> None:
    """Print what many clients at once have seen, and the guard's memory after every round."""
    expected = [expected_answer(tagger, str(number), text, delay) for number, text in enumerate(texts)]
    lm = FakeLM(texts, pause, [FATES[number % len(FATES)] for number in range(len(texts))])
    limits = httpx.Limits(max_connections=None)
    async with lm.running() as upstream, guard(folder, upstream, delay) as (url, process):
        for turn in range(rounds):
            started, cpu = time.perf_counter(), sum(process.cpu_times()[:2])
            async with httpx.AsyncClient(timeout=300, limits=limits) as client:
                jobs = [ask(client, url, n, lm.fates[n], len(expected[n]) // 3) for n in range(len(texts))]
                found = await asyncio.wait_for(asyncio.gather(*jobs), 600)
            leaks = sum(not own.startswith(seen) for own, (seen, _, _) in zip(expected, found, strict=True))
            short = sum(end == "end" and seen != own for own, (seen, end, _) in zip(expected, found, strict=True))
            ends = {end: sum(one[1] == end for one in found) for end in sorted({one[1] for one in found})}
            await asyncio.sleep(1)
            print(
                f"round {turn + 1}: {len(texts)} streams in {time.perf_counter() - started - 1:.1f} s, "
                f"{sum(process.cpu_times()[:2]) - cpu:.1f} s of CPU; leaks {leaks}, incomplete {short}, ends {ends}, "
                f"upstream connections left {lm.open}, memory {process.memory_info().rss / 2**20:.0f} MiB, "
                f"at most {peak(process) / 2**20:.0f}",
                flush=True,
            )


def peak(process: psutil.Process) -> int:
    """The most bytes of memory that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]


async def measure_time(folder: Path, texts: list[str], delay: int, pause: float) -> None:
    """Print the time of single streams with and without the guard, in turn."""
    lm = FakeLM(texts, pause)
    totals: dict[str, list[float]] = {"with": [], "without": []}
    firsts: dict[str, list[float]] = {"with": [], "without": []}
    client = httpx.AsyncClient(timeout=300)
    async with client, lm.running() as upstream, guard(folder, upstream, delay) as (url, process):
        await ask(client, url, 0, "whole", 0)  # to warm up
        cpu = sum(process.cpu_times()[:2])
        for number in range(len(texts)):
            for name, address in (("without", upstream), ("with", url)):
                started = time.perf_counter()
                _, _, first = await ask(client, address, number, "whole", 0)
                totals[name].append(time.perf_counter() - started)
                firsts[name].append(first)
        cpu = sum(process.cpu_times()[:2]) - cpu
    words = [len(text.split()) for text in texts]
    added = [1e3 * (a - b) / n for a, b, n in zip(totals["with"], totals["without"], words, strict=True)]
    later = [1e3 * (a - b) for a, b in zip(firsts["with"], firsts["without"], strict=True)]
    print(
        f"\na stream of a word every {1e3 * pause:.0f} ms, delay {delay}, {len(texts)} texts: "
        f"{statistics.median(added):.2f} ms added a word; the first text {statistics.median(later):.0f} ms later; "
        f"{1e3 * cpu / sum(words):.2f} ms of CPU a word"
    )


def main(
    data: Path,
    folder: Path | None = None,
    delays: tuple[int, ...] = (0, 2, 8),
    texts: int = 4000,
    streams: int = 200,
    rounds: int = 4,
    timed: int = 30,
    pause: float = 20.0,
) -> None:
    """Measure all of it.

    Args:
        data: Folder with train.jsonl and dev.jsonl.
        folder: Where the tagger is, or will be.
        delays: Words of right context.
        texts: Chunkings for each delay; 0 leaves them out.
        streams: Streams at once; 0 leaves them out.
        rounds: How often.
        timed: Texts for the times; 0 leaves them out.
        pause: Milliseconds between words of the upstream.
    """
    import boustro

    os.environ["BOUSTRO_BF16"] = "0"  # of the guard's process too
    with tempfile.TemporaryDirectory() as place:
        folder = folder or Path(place) / "ner"
        train(data, folder)
        tagger = boustro.Tagger.from_pretrained(folder, cache=False)
        if texts:
            measure_leaks(tagger, make_texts(data, texts, 1), delays)
        if timed:
            measure_feeds(tagger, make_texts(data, timed, 2), delays[-1])
            asyncio.run(measure_time(folder, make_texts(data, timed, 2), delays[-1], pause / 1e3))
        if streams:
            asyncio.run(measure_streams(folder, tagger, make_texts(data, streams, 3), delays[-1], rounds, pause / 1e3))


if __name__ == "__main__":
    tyro.cli(main)
