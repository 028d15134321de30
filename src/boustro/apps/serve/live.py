"""`/v1/live`: a text is tagged as it arrives, over a WebSocket or as the body of a POST.

    WebSocket   a text message is the next part of the text, an empty one its end; every part has an answer:
                {"events": [{"kind": "final", "label": "PER", …}], "safe": 10, "length": 24}
                and the last one also has "end": true. The next part is read when the answer has been sent.
    POST        a body of text/plain, answered by server-sent events while it is being sent: `provisional`, `revised`
                and `final` with an event each, `safe` behind every part, `end` at the end, `error` where it breaks off

Streams and other requests take turns in the one thread that computes, a long part in pieces. A stream has a bound of
characters and of the time in which nothing comes, and there is a bound of streams at once.

Many clients read only after they have sent all. Their answers would fill the connection, and then nobody would read
what they send; so answers that the client does not take yet go to a file on disk (`Spool`).
"""

import asyncio
import codecs
import contextlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from boustro.apps.serve.http import Refused, as_refused, in_time
from boustro.apps.serve.middleware import error_facts
from boustro.apps.serve.models import Served
from boustro.output import as_json

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.websockets import WebSocket

    from boustro.apps.serve.app import Service

PIECE = 2048
"""Characters that are read in one turn."""
CLOSED = {413: 1009, 429: 1013, 503: 1013, 500: 1011}
"""Codes with which a WebSocket is closed; 1008 (policy) for other refusals."""
SPOOL_BYTES, READ_BYTES = 1 << 20, 1 << 16
"""What waits for a client in memory, and what it is sent at once."""


class LiveStreams:
    """The streams that are open."""

    def __init__(self, service: "Service") -> None:
        self.service, self.open = service, 0

    def check(self) -> None:
        """`Refused` where there are too many."""
        if self.open >= self.service.limits.streams:
            raise Refused(
                429, "too_many_streams", f"{self.open} streams are open; come back a little later", Retry_After="5"
            )

    @contextlib.contextmanager
    def admit(self) -> Iterator[None]:
        """Yield one more; raises as `check`."""
        self.check()
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def find(self, name: str | None) -> Served:
        """Return the model of a stream; `Refused` where it is not there, not now, or needs the whole text."""
        served = self.service.find(name)
        try:
            served.refuse_stream()
        except ValueError as error:
            raise Refused(400, "no_stream", str(error)) from None
        return served

    async def answer(
        self, model: Served, given: Mapping[str, str], parts: AsyncIterator[str]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield a message for each part of a text, and one for its end; `Refused` for what cannot be answered."""
        limits, length = self.service.limits, 0
        live = await self._compute(model.live, *read_delays(given))
        async for part in parts:
            length += len(part)
            if length > limits.stream_characters:
                message = f"a stream may have {limits.stream_characters:,} characters; begin another"
                raise Refused(413, "stream_too_long", message)
            events: list[Any] = []
            for start in range(0, len(part), PIECE):
                events += await self._compute(live.feed, part[start : start + PIECE])
            yield _message(live, events)
        yield _message(live, await self._compute(live.end)) | {"end": True}

    async def _compute(self, work: Callable[..., Any], *given: Any) -> Any:
        thread = self.service.batcher.thread
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work, *given)
        except ValueError as error:
            raise Refused(422, "not_valid", str(error)) from None

    async def answer_post(self, request: "Request") -> AsyncIterator[bytes]:
        """Yield the server-sent events for the text in a request's body."""

        async def told() -> AsyncIterator[bytes]:
            served = self.find(request.query_params.get("model"))
            texts = decoded_text(self._in_time(request.stream()))
            async for message in self.answer(served, request.query_params, texts):
                for event in message.pop("events"):
                    yield sent(event["kind"], event)
                yield sent("end" if message.pop("end", False) else "safe", message)

        def broken(error: Exception) -> bytes:
            if (refused := as_refused(error)) is not error:
                request.state.notes |= error_facts(error)
            return sent("error", refused.to_dict())

        with self.admit():
            async with contextlib.aclosing(spooled(told(), broken)) as parts:
                async for data in parts:
                    yield data

    def _in_time(self, parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the parts; raise `Refused` where nothing comes for a while."""
        idle = self.service.limits.idle
        return in_time(parts, idle, Refused(408, "idle", f"nothing came for {idle:g} s, so the stream has ended"))

    async def answer_socket(self, socket: "WebSocket") -> None:
        """Answer a WebSocket until the text ends."""
        given = socket.query_params
        offered = [name for name in socket.scope.get("subprotocols", []) if name == "boustro"]
        await socket.accept(subprotocol=offered[0] if offered else None)
        try:
            with self.admit():
                model = self.find(given.get("model"))
                async for message in self.answer(model, given, self._in_time(_messages(socket))):
                    await socket.send_text(as_json(message))
            await socket.close()
        except Left:
            return
        except Exception as error:
            refused = as_refused(error)
            await socket.send_text(as_json(refused.to_dict()))
            await socket.close(CLOSED.get(refused.status, 1008))
            if refused is not error:  # for the log
                raise


class Left(Exception):
    """The client went away."""


def read_delays(given: Mapping[str, str]) -> tuple[int | None, int]:
    """`delay` and `wait` as an address has them, see `Live`; the delay `all` waits for the end.

    Raises `Refused` for what is no number.
    """
    try:
        delay, wait = given.get("delay", "8"), int(given.get("wait", "2"))
        return None if delay == "all" else int(delay), wait
    except ValueError:
        message = "give delay and wait as numbers of words, or the delay all to wait for the end"
        raise Refused(422, "not_valid", message) from None


def sent(kind: str, value: Any) -> bytes:
    """Return a server-sent event."""
    return f"event: {kind}\ndata: {as_json(value)}\n\n".encode()


async def decoded_text(parts: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Text in UTF-8, in parts that cut no character; `Refused` for other bytes."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        async for part in parts:
            if text := decoder.decode(part):
                yield text
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Refused(400, "not_text", f"the body is not UTF-8 ({error.reason})") from None


async def _messages(socket: "WebSocket") -> AsyncIterator[str]:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise Left
        if message.get("text") is None:
            raise Refused(422, "not_text", "send text messages, not bytes")
        if not message["text"]:
            return
        yield message["text"]


def _message(live: Any, events: list[Any]) -> dict[str, Any]:
    return {"events": [event.to_dict() for event in events], "safe": live.safe, "length": live.length}


class Spool:
    """Bytes between a writer and a reader that may be far behind: in memory, then on disk."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 (closed by read)
        self._written, self._ended, self._news = 0, False, asyncio.Event()

    def write(self, data: bytes) -> None:
        """Append; at once, because the operating system keeps what the disk does not have yet."""
        self._file.seek(self._written)
        self._written += self._file.write(data)
        self._news.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._news.set()

    async def read(self) -> AsyncIterator[bytes]:
        """Yield all that is written, as it comes."""
        place = 0
        with self._file:
            while place < self._written or not self._ended:
                if place == self._written:
                    self._news.clear()
                    await self._news.wait()
                    continue
                self._file.seek(place)
                data = self._file.read(min(READ_BYTES, self._written - place))
                place += len(data)
                yield data


async def spooled(parts: AsyncIterator[bytes], broken: Callable[[Exception], bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the parts, made whether or not the reader keeps up; after an error comes what `broken` makes of it, the
    last."""
    spool = Spool()

    async def work() -> None:
        try:
            async for part in parts:
                spool.write(part)
        except Exception as error:
            spool.write(broken(error))
        finally:
            spool.end()

    job = asyncio.create_task(work())
    try:
        async for data in spool.read():
            yield data
        await job
    finally:
        job.cancel()
