"""A guard in a thread, and behind it an upstream that does as a test says."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from boustro.apps.serve.guard.app import make_guard
from boustro.apps.serve.guard.checker import Checker
from boustro.apps.serve.guard.options import GuardLimits, GuardOptions
from boustro.apps.serve.guard.relay import Relay
from boustro.apps.serve.guard.upstream import Upstream
from boustro.apps.serve.http import HttpOptions, address_of, listen
from toy_tagger import ToyTagger

CHUNK = {"id": "c-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 0}}


@dataclass
class Asked:
    """A request that the upstream got, and the connection to answer on."""

    path: str
    headers: dict[str, str]
    body: Any
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, *parts: bytes | str) -> None:
        """Bytes, each part on its own."""
        for part in parts:
            self.writer.write(part if isinstance(part, bytes) else part.encode())
            await self.writer.drain()

    async def start(self, kind: str = "text/event-stream", status: int = 200, **headers: str) -> None:
        """The head of an answer that ends with the connection."""
        own = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.send(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n{own}\r\n")

    async def answer(self, body: Any, status: int = 200, **headers: str) -> None:
        """A whole answer."""
        await self.start("application/json", status, **headers)
        await self.send(body if isinstance(body, bytes) else json.dumps(body))

    async def stream(self, *events: Any, done: bool = True) -> None:
        """Events, each in a piece of its own."""
        await self.start()
        await self.events(*events, done=done)

    async def events(self, *events: Any, done: bool = True) -> None:
        """The same without the head."""
        for event in [*events, *(["[DONE]"] if done else [])]:
            await self.send(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")


Act = Callable[[Asked], Awaitable[None]]


class FakeUpstream:
    """A server on a free port; `act` answers, `asked` are the requests so far."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.act: Act = echo
        self.open = 0

    @contextlib.contextmanager
    def running(self) -> Iterator["FakeUpstream"]:
        ready, loop = threading.Event(), asyncio.new_event_loop()

        async def serve() -> None:
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 24)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            self._stop = asyncio.Event()
            ready.set()
            await self._stop.wait()
            server.close()

        thread = threading.Thread(target=loop.run_until_complete, args=[serve()], daemon=True)
        thread.start()
        assert ready.wait(20)
        yield self
        loop.call_soon_threadsafe(self._stop.set)
        thread.join(20)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(head[0].split()[1], headers, json.loads(body) if body else None, writer)
            self.asked.append(asked)
            watching = asyncio.create_task(self._watch(reader, asked))
            await self.act(asked)
            watching.cancel()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _watch(self, reader: asyncio.StreamReader, asked: Asked) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1024):
                pass
        asked.gone.set()


async def echo(asked: Asked) -> None:
    """Say the last message, or the prompt, again: letter by letter where it is streamed."""
    chat = "messages" in asked.body
    said = asked.body["messages"][-1]["content"] if chat else asked.body["prompt"]
    if asked.body.get("stream"):
        await asked.stream(
            *(delta(letter) if chat else text(letter) for letter in said), finish() if chat else text("", "stop")
        )
    elif chat:
        await asked.answer(message(said))
    else:
        own = {"index": 0, "text": said, "finish_reason": "stop", "logprobs": None}
        await asked.answer({"id": "t-1", "object": "text_completion", "created": 7, "model": "m", "choices": [own]})


def message(content: str | None, **more: Any) -> dict[str, Any]:
    """A whole answer with one choice."""
    own = {"index": 0, "message": {"role": "assistant", "content": content, **more}, "finish_reason": "stop"}
    return {"id": "c-1", "object": "chat.completion", "created": 7, "model": "m", "choices": [own], "usage": USAGE}


def delta(content: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A chunk of a streamed chat."""
    own = ({} if content is None else {"content": content}) | more
    return CHUNK | {"choices": [{"index": index, "delta": own, "finish_reason": None}]}


def finish(index: int = 0, reason: str = "stop") -> dict[str, Any]:
    """The last chunk of a choice."""
    return CHUNK | {"choices": [{"index": index, "delta": {}, "finish_reason": reason}]}


def text(content: str, reason: str | None = None, index: int = 0) -> dict[str, Any]:
    """A chunk of a streamed text completion."""
    own = {"index": index, "text": content, "finish_reason": reason, "logprobs": None}
    return CHUNK | {"object": "text_completion", "choices": [own]}


@contextlib.contextmanager
def guarding(
    url: str, tagger: Any = None, limits: GuardLimits | None = None, http: dict[str, Any] | None = None, **options: Any
) -> Iterator[str]:
    """The base URL of a guard before `url`, with a `ToyTagger` unless another is given."""
    options, limits = GuardOptions(**{"delay": 2, **options}), limits or GuardLimits()
    checker = Checker(tagger or ToyTagger(), options.wanted, options.with_, options.delay, limits.timeout)
    own = HttpOptions(port=0, **http or {})
    key = options.key_file.read_text().strip() if options.key_file else None
    app = make_guard(Relay(checker, Upstream(url, limits, key), options, limits), own, limits)
    listener = listen(own)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    address = address_of(listener)
    thread.start()
    try:
        yield f"{address}/v1"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
