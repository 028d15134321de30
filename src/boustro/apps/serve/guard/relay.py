"""One request through the guard: read, checked, asked, and the answer checked on its way back.

If the client goes away, the upstream's connection is closed at once. If the upstream breaks off, is silent, or says
what is not understood, or if the tagger fails, the client gets an error, in the middle of a stream too, and what was
held is forgotten.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from boustro.apps.serve.guard.checker import Checker
from boustro.apps.serve.guard.conversation import Conversation
from boustro.apps.serve.guard.errors import upstream_error
from boustro.apps.serve.guard.events import Inbox
from boustro.apps.serve.guard.fields import KINDS, Kind, read_models
from boustro.apps.serve.guard.options import GuardLimits, GuardOptions
from boustro.apps.serve.guard.reading import Reading, Unchecked, as_bytes, filled, read_json
from boustro.apps.serve.guard.streams import DONE, Stream
from boustro.apps.serve.guard.upstream import MOST_ERROR, Upstream, media_type, passed_back
from boustro.apps.serve.http import Refused

EVENT_STREAM = "text/event-stream"


class SlowClient(Exception):
    """The client did not take what it was sent."""


class Relay:
    """What all requests share."""

    def __init__(self, checker: Checker, upstream: Upstream, options: GuardOptions, limits: GuardLimits) -> None:
        self.checker, self.upstream, self.options, self.limits = checker, upstream, options, limits

    async def complete(self, scope: Any, receive: Any, send: Any, name: str) -> None:
        """Answer a request for `chat/completions` or `completions`."""
        body = await _read(receive)
        if body is not None:
            await self._until_gone(scope, receive, send, lambda sending: self._complete(scope, sending, name, body))

    async def models(self, scope: Any, receive: Any, send: Any, path: str) -> None:
        """Answer a request for the list of models, or for one."""
        await self._until_gone(scope, receive, send, lambda sending: self._models(scope, sending, path))

    async def _complete(self, scope: Any, sending: "Sending", name: str, body: bytes) -> None:
        kind, conversation = KINDS[name], Conversation(self.checker, self.options, self.limits)
        try:
            asked = await conversation.ask(kind, read_json(body))
        except Unchecked as error:
            raise Refused(400, "unchecked_request", str(error), error.place or None) from None
        headers = self.upstream.headers(scope["headers"], conversation.is_streamed)
        async with self.upstream.ask("POST", name, headers, as_bytes(asked)) as response:
            try:
                if response.status_code != 200:
                    raise await self._refusal(response, conversation)
                if conversation.is_streamed:
                    await self._stream(sending, kind, conversation, response)
                else:
                    answer = read_json(await self.upstream.read(response))
                    answer = await self.checker.run(conversation.read_answer, kind, answer)
                    await sending.whole(answer, passed_back(response))
            except Unchecked as error:
                raise Refused(502, "unchecked_answer", f"the upstream's answer is not passed on: {error}") from None

    async def _stream(self, sending: "Sending", kind: Kind, conversation: Conversation, response: Any) -> None:
        if media_type(response) != EVENT_STREAM:
            raise Refused(502, "unchecked_answer", "the upstream's answer is not a stream of events")
        stream, inbox = Stream(conversation, kind), Inbox()
        await sending.start(EVENT_STREAM, passed_back(response))
        filling = asyncio.create_task(inbox.fill(self.upstream.events(response)))
        try:
            while not stream.is_done and (events := await inbox.take()):
                for chunk in await self.checker.run(stream.take, events):
                    await sending.event(as_bytes(chunk))
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
        if not stream.is_done:
            raise Refused(502, "upstream_broken", "the upstream ended its stream before it was complete")
        await sending.event(DONE)
        await sending.end()

    async def _models(self, scope: Any, sending: "Sending", path: str) -> None:
        async with self.upstream.ask("GET", path, self.upstream.headers(scope["headers"], False)) as response:
            if response.status_code != 200:
                raise await self._refusal(response, None)
            reading = Reading(keep=False)
            try:
                answer = read_models(read_json(await self.upstream.read(response)), reading)
            except Unchecked as error:
                raise Refused(502, "unchecked_answer", f"the upstream's answer is not passed on: {error}") from None
            await sending.whole(filled(answer), passed_back(response))

    async def _refusal(self, response: httpx.Response, conversation: Conversation | None) -> Refused:
        """What the client is told of an upstream's error."""
        status = response.status_code if response.status_code >= 400 else 502
        try:
            body = read_json(await self.upstream.read(response, MOST_ERROR))
        except (Unchecked, Refused):
            body = None
        refusal = await self.checker.run(upstream_error, status, body, conversation)
        refusal.headers = {name.decode(): value.decode() for name, value in passed_back(response)}
        return refusal

    async def _until_gone(
        self, scope: Any, receive: Any, send: Any, work: Callable[["Sending"], Awaitable[None]]
    ) -> None:
        """Do the work, or give it up when the client goes away; a `Refused` becomes an answer, or the end of one."""
        sending = Sending(scope, receive, send, self.limits.idle)

        async def answer() -> None:
            try:
                await work(sending)
            except Refused as error:
                scope["state"]["notes"] |= {"code": error.code}
                await sending.refuse(error)
            except SlowClient:
                scope["state"]["notes"] |= {"code": "slow_client"}

        job, gone = asyncio.create_task(answer()), asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not job.done():
                scope["state"]["notes"] |= {"code": "client_gone"}
        finally:
            job.cancel()
            gone.cancel()
            await asyncio.gather(job, gone, return_exceptions=True)
        if not job.cancelled():
            job.result()


class Sending:
    """The answer to a client; each of its parts must be taken within `idle` seconds, else `SlowClient` is raised."""

    def __init__(self, scope: Any, receive: Any, send: Any, idle: float) -> None:
        self.scope, self.receive, self._send, self.idle = scope, receive, send, idle
        self.has_started = False

    async def start(self, media: str, headers: list[tuple[bytes, bytes]]) -> None:
        """The head of an answer of status 200."""
        own = [(b"content-type", f"{media}; charset=utf-8".encode()), (b"cache-control", b"no-store"), *headers]
        await self._give({"type": "http.response.start", "status": 200, "headers": own})
        self.has_started = True

    async def whole(self, body: Any, headers: list[tuple[bytes, bytes]]) -> None:
        """An answer in one piece."""
        data = as_bytes(body)
        await self.start("application/json", [*headers, (b"content-length", str(len(data)).encode())])
        await self._give({"type": "http.response.body", "body": data})

    async def event(self, data: bytes) -> None:
        """An event of a stream."""
        await self._give({"type": "http.response.body", "body": b"data: %b\n\n" % data, "more_body": True})

    async def end(self) -> None:
        """The end of a stream."""
        await self._give({"type": "http.response.body", "body": b""})

    async def refuse(self, error: Refused) -> None:
        """An error: as the whole answer, or as the last event of one that has begun."""
        if self.has_started:
            await self.event(as_bytes(error.body()))
            await self.end()
        else:
            await error.response()(self.scope, self.receive, self._give)

    async def _give(self, message: Any) -> None:
        try:
            async with asyncio.timeout(self.idle):
                await self._send(message)
        except TimeoutError:
            raise SlowClient(f"the client took nothing for {self.idle:g} s") from None


async def _read(receive: Any) -> bytes | None:
    """The body of a request, which has been bounded before; `None` where the client is gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
