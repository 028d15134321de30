"""Around every request: its id, the bounds on what is read, a line of log, and figures for Prometheus.

The body is read here, within its bound and its time, before a route sees it. The log has one JSON object a
line on standard error and never a text of a user:

    {"time": "2031-05-04T10:00:00.123Z", "id": "4f0c…", "method": "POST", "path": "/v1/predict", "status": 200, …}
"""

import asyncio
import re
import sys
import time
import traceback
import uuid
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from boustro.apps.serve.http import DRAIN_BYTES, Refused, ServeLimits, as_refused, drain
from boustro.apps.serve.models import Served
from boustro.errors import count_of
from boustro.output import as_json

TRACED = 8  # frames of a failure that the log has
UNLOGGED = ("/livez", "/readyz", "/health", "/metrics")
REQUEST_ID = re.compile(rb"[\w.:-]{1,64}")
# from one text on a GPU to many long ones on a CPU
SECOND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXT_TYPE, JSON_TYPE = "text/plain", "application/json"
INPUT_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # batches double in cost, so buckets double


class ServiceMetrics:
    """Counters and histograms of `/metrics`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        shared: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("boustro_requests", "Requests", ["path", "status"], **shared)
        self.seconds = Histogram(
            "boustro_request_seconds", "Time to the end of an answer", ["path"], buckets=SECOND_BUCKETS, **shared
        )
        self.open = Gauge("boustro_open_requests", "Requests that are read, wait or are answered", **shared)
        self.waiting = Gauge("boustro_waiting_characters", "Characters that wait for a model", **shared)
        self.inputs = Counter("boustro_inputs", "Inputs that a model has answered", ["model"], **shared)
        self.words = Counter("boustro_words", "Words that a model has read", ["model"], **shared)
        self.batch = Histogram("boustro_batch_inputs", "Inputs of a batch", ["model"], buckets=INPUT_BUCKETS, **shared)
        self.busy = Counter("boustro_model_seconds", "Seconds that a model has computed", ["model"], **shared)

    def batch_done(self, model: Served, inputs: int, words: int, seconds: float) -> None:
        """Count a batch, as `Batcher` reports it."""
        self.inputs.labels(model.name).inc(inputs)
        self.words.labels(model.name).inc(words)
        self.batch.labels(model.name).observe(inputs)
        self.busy.labels(model.name).inc(seconds)


class RequestMonitor:
    """ASGI middleware, the outermost: ids, log and figures. Requests for paths not in `paths` are counted together."""

    def __init__(self, app: Any, *, figures: ServiceMetrics, paths: Collection[str]) -> None:
        self.app, self.figures, self.paths = app, figures, frozenset(paths)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            try:
                await self.app(scope, receive, send)
            except Exception as error:
                _log(path=scope.get("path", ""), **error_facts(error))
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()
        notes = scope.setdefault("state", {})["notes"] = {}
        path = scope["path"] if scope["path"] in self.paths else "other"
        started, status = time.monotonic(), 499  # the client went away before an answer

        async def sending(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id)]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:
            notes |= error_facts(error)
            if status == 499:
                await as_refused(error).response()(scope, receive, sending)
        finally:
            seconds = time.monotonic() - started
            self.figures.requests.labels(path, status).inc()
            self.figures.seconds.labels(path).observe(seconds)
            if path not in UNLOGGED:
                fields = {"id": request_id.decode(), "method": scope["method"], "path": path, "status": status}
                _log(**fields, ms=round(1e3 * seconds, 1), **notes)


class Bounds:
    """ASGI middleware, behind the guard: bounds how many requests read a body and compute, and their bodies."""

    def __init__(self, app: Any, *, limits: ServeLimits, figures: ServiceMetrics, paths: Collection[str]) -> None:
        self.app, self.limits, self.figures = app, limits, figures
        self.paths = frozenset(paths)
        self.open = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] not in self.paths or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        if self.open >= self.limits.requests:
            message = f"{count_of(self.open, 'requests are being answered')}; come back a little later"
            await drain(receive)
            await Refused(429, "too_many_requests", message, Retry_After="1").response()(scope, receive, send)
            return
        self._count(1)
        try:
            admitted = await self._admit(scope["path"], dict(scope["headers"]), receive)
            await self.app(scope, admitted, send)
        except Gone:
            return
        except Refused as error:
            await error.response()(scope, receive, send)
        finally:
            self._count(-1)

    def _count(self, number: int) -> None:
        self.open += number
        self.figures.open.set(self.open)

    async def _admit(self, path: str, headers: dict[bytes, bytes], receive: Any) -> Any:
        """Return the `receive` for the app; `Refused` for a body that is too large or too slow, or no JSON."""
        if other := other_media(headers, JSON_TYPE, "not_json"):
            await drain(receive)
            raise other
        most = 1024 * self.limits.body_kb
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced) > most:
            await drain(receive)
            raise _too_large(self.limits)
        try:
            async with asyncio.timeout(self.limits.timeout):
                body = await _read(receive, most)
        except TimeoutError:
            raise Refused(408, "slow_body", f"the body did not come within {self.limits.timeout:g} s") from None
        if body is None:
            raise _too_large(self.limits)
        told = False

        async def again() -> Any:
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again


def other_media(headers: Mapping[bytes, bytes], wanted: str, code: str) -> Refused | None:
    """Why a body that is not said to be of a media type is refused; `None` for one that is."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    given = f"not as {kind}" if kind else "with the header Content-Type, which is missing"
    return None if kind == wanted else Refused(415, code, f"send the body as {wanted}, {given}")


class Gone(Exception):
    """The client went away before its body was there."""


def _too_large(limits: ServeLimits) -> Refused:
    return Refused(413, "too_large", f"the body has more than {limits.body_kb:,} KiB; send fewer inputs at once")


async def _read(receive: Any, most: int) -> bytes | None:
    """Return the body; `None` where it is larger than `most` bytes."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            parts.clear()
        if size > most + DRAIN_BYTES or not message.get("more_body"):
            return None if size > most else b"".join(parts)


def error_facts(error: Exception) -> dict[str, Any]:
    """Return the kind and the place of an unforeseen error; its message may quote a text, so the log lacks it."""
    frames = traceback.extract_tb(error.__traceback__)[-TRACED:]
    return {"error": type(error).__name__, "trace": [f"{f.filename}:{f.lineno} {f.name}" for f in frames]}


def _log(**fields: Any) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    print(as_json({"time": now, **fields}), file=sys.stderr, flush=True)
