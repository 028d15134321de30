"""The server behind the guard: which headers it gets, what of its answer is read, and within which bounds.

Redirects are not followed, no proxy or password is taken from the environment, and nothing that is compressed is read.
"""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from boustro import __version__
from boustro.apps.serve.guard.events import Events
from boustro.apps.serve.guard.options import GuardLimits
from boustro.apps.serve.http import Refused

PASSED_ON = ("authorization", "api-key", "openai-organization", "openai-project", "openai-beta")
"""Headers of a request for the upstream. All others end here, hop-by-hop headers and cookies among them."""
PASSED_BACK = re.compile(r"x-request-id|retry-after|retry-after-ms|openai-processing-ms|x-ratelimit-[a-z-]+")
VALUE = re.compile(r"[\w .:,;=+-]{0,128}", re.ASCII)
CONNECT_SECONDS = 15.0
MOST_EVENT = 1 << 20
MOST_ERROR = 1 << 16
KEPT_CONNECTIONS = 64


class Upstream:
    """Asks the upstream.

    Args:
        url: Its address, up to and with `/v1`.
        limits: Bounds of its answers.
        key: Sent as the bearer token instead of what the client sends.
        transport: How it is reached, for tests.
    """

    def __init__(self, url: str, limits: GuardLimits, key: str | None = None, transport: Any = None) -> None:
        self.url, self.limits, self.key = url, limits, key
        bounds = httpx.Limits(max_connections=limits.requests, max_keepalive_connections=KEPT_CONNECTIONS)
        times = httpx.Timeout(limits.idle, connect=CONNECT_SECONDS)
        self.client = httpx.AsyncClient(limits=bounds, timeout=times, trust_env=False, transport=transport)

    def headers(self, given: Iterable[tuple[bytes, bytes]], is_streamed: bool) -> dict[str, str]:
        """What the upstream gets of the client's headers."""
        named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in given}
        own = {name: named[name] for name in PASSED_ON if name in named}
        if self.key is not None:
            own = {name: value for name, value in own.items() if name != "api-key"}
            own["authorization"] = f"Bearer {self.key}"
        kind = "text/event-stream" if is_streamed else "application/json"
        fixed = {"accept": kind, "accept-encoding": "identity", "user-agent": f"boustro/{__version__}"}
        return own | fixed

    @asynccontextmanager
    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[httpx.Response]:
        """The answer, whose body is still to come; the connection ends with the block. Raises `Refused`."""
        own = dict(headers) | ({"content-type": "application/json"} if body is not None else {})
        with_reasons = _Reasons(self.limits.idle)
        with with_reasons:
            response = await self.client.send(
                self.client.build_request(method, f"{self.url}/{path}", headers=own, content=body), stream=True
            )
        try:
            with with_reasons:
                if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
                    raise Refused(
                        502, "upstream_encoded", "the upstream's answer is compressed, which is not read here"
                    )
                yield response
        finally:
            await response.aclose()

    async def read(self, response: httpx.Response, most: int | None = None) -> bytes:
        """The body; `Refused` for one that is too large."""
        most, parts, size = most or 1024 * self.limits.answer_kb, [], 0
        async for chunk in response.aiter_raw():
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                raise Refused(502, "upstream_too_large", f"the upstream's answer has more than {most:,} bytes")
        return b"".join(parts)

    async def events(self, response: httpx.Response) -> AsyncIterator[list[bytes]]:
        """The events of a stream, as they come."""
        events = Events(MOST_EVENT)
        async for chunk in response.aiter_raw():
            if found := events.feed(chunk):
                yield found


def passed_back(response: httpx.Response) -> list[tuple[bytes, bytes]]:
    """What the client gets of the upstream's headers."""
    own = ((name.lower(), value) for name, value in response.headers.items())
    return [(n.encode(), v.encode()) for n, v in own if PASSED_BACK.fullmatch(n) and VALUE.fullmatch(v)]


def media_type(response: httpx.Response) -> str:
    """What an answer is said to be."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


class _Reasons:
    """A block in which what httpx raises becomes a `Refused`."""

    def __init__(self, idle: float) -> None:
        self.idle = idle

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                raise Refused(502, "upstream_unreachable", "the upstream cannot be reached") from None
            case httpx.TimeoutException():
                raise Refused(504, "upstream_timeout", f"nothing came from the upstream for {self.idle:g} s") from None
            case httpx.HTTPError() | httpx.StreamError():
                message = "the connection to the upstream broke before its answer was complete"
                raise Refused(502, "upstream_broken", message) from None
