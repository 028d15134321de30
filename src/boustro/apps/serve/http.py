"""Common parts of the web apps: options, who may ask, one shape of errors, a server that starts and stops cleanly.

    app = make_app("boustro", HttpOptions(), open_paths={"/"})
    @app.get("/x")
    async def x(): raise Refused(404, "unknown_model", "there is no model ner")
    run_app(app, HttpOptions())

Every error of an app has one shape, that of OpenAI's services, which their clients read:

    {"error": {"code": "unknown_model", "message": "there is no model ner", "type": "not_found_error", "param": null}}

A request must name a host of ours (a page elsewhere cannot reach a server on 127.0.0.1 through a name of its own, "DNS
rebinding"), may not come from the page of another origin, and needs the bearer token where there is one. Nothing here
knows a model, and there is no TLS: that is the work of a proxy before the server.
"""

import asyncio
import contextlib
import errno
import hmac
import json
import logging
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from boustro.options import Count, Positive, PositiveOrZero, Range, check_options
from boustro.text.rows import STRICT

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.responses import Response


LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERY_ADDRESS = ("0.0.0.0", "::", "")
ANY_HOST = "*"
"""Of `HttpOptions.allow_hosts`: whatever name a client uses."""
# load balancers keep a connection for 60 s by default: the server must not be the first to close it
KEEP_ALIVE_SECONDS = 75
DRAIN_BYTES, DRAIN_SECONDS = 1 << 24, 5.0
"""How much of a body is read, and forgotten, and for how long, before a request is refused."""
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Of a page that is whole in itself: the browser may load nothing else and may talk only to this server."""
CODES = {400: "not_json", 404: "not_found", 405: "method_not_allowed"}
ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """Where a server listens, and who may ask."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is all addresses of the machine."""
    port: Annotated[int, Range(0, 65535)] = 8000
    """Port to listen on; 0 takes a free one."""
    token_file: Path | None = None
    """File with the tokens that requests may give (Authorization: Bearer TOKEN), one a line. By default none."""
    allow_hosts: tuple[str, ...] = ()
    """Names under which clients may address the server; * is any name. By default its own; any with --host 0.0.0.0."""
    allow_origins: tuple[str, ...] = ()
    """Web origins, such as https://example.org, whose pages may ask. By default only the server's own pages."""
    grace_seconds: PositiveOrZero = 30.0
    """How long a stopping server waits for the requests that it has taken."""

    __post_init__ = check_options


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """How much the service takes at once. What is beyond is refused with a reason; nothing is cut."""

    requests: Count = 128
    """Requests that are read, wait or are answered at once; further ones are told to come back (429)."""
    body_kb: Count = 1024
    """Size of a request's body in KiB (413)."""
    inputs: Count = 1000
    """Inputs of a request (413)."""
    characters: Count = 100_000
    """Characters of an input (413)."""
    waiting: Count = 1_000_000
    """Characters that wait for a model; a request that finds as many is told to come back (429)."""
    batch: Count = 8192
    """Characters that a model is given at once, of all requests that wait: more are faster for many clients, fewer
    make one client wait less for another."""
    timeout: Positive = 30.0
    """Seconds until a request is given up: to send its body (408), and to be answered (504)."""
    streams: Count = 32
    """Texts that are tagged as they arrive, at once (/v1/live); further ones are told to come back (429)."""
    stream_characters: Count = 1_000_000
    """Characters of such a text (413)."""
    idle: Positive = 60.0
    """Seconds in which nothing of such a text comes, until it is given up (408)."""

    __post_init__ = check_options


class Refused(Exception):
    """A request that cannot be answered: an HTTP status, a code for programs and a sentence for people.

    `param` is the field of the request that is at fault, where it is one.
    """

    def __init__(self, status: int, code: str, message: str, param: str | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, headers

    def to_dict(self) -> dict[str, Any]:
        """Return the error as a line of a longer answer; a half character of the request is escaped."""
        return {"error": {"code": self.code, "message": str(self).encode("utf-8", "backslashreplace").decode()}}

    def body(self) -> dict[str, Any]:
        """Return the whole body of an answer."""
        kind = ERROR_TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": self.to_dict()["error"] | {"type": kind, "param": self.param}}

    def response(self) -> "Response":
        """Return the answer."""
        from starlette.responses import JSONResponse

        headers = {name.replace("_", "-"): value for name, value in self.headers.items()}
        return JSONResponse(self.body(), self.status, headers)


def as_refused(error: Exception) -> Refused:
    """Return the answer to a request that broke off, without the text of an unforeseen error, which may quote an
    input."""
    if isinstance(error, Refused):
        return error
    return Refused(500, "internal", f"internal error ({type(error).__name__}); the server's log says more")


def require_serve(what: str) -> None:
    """`ImportError` with the command to install, where the packages of the extra are missing."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{what} needs {error.name}; install it with: pip install 'boustro[serve]'") from error


def _strict_route() -> Any:
    """FastAPI's route, for bodies that `read_body` reads."""
    from fastapi.routing import APIRoute
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

    class StrictRequest(Request):
        async def json(self) -> Any:
            try:
                return read_body(await self.body())
            except Refused as error:  # FastAPI lets no other exception through
                raise HTTPException(error.status, str(error)) from None

    class StrictRoute(APIRoute):
        def get_route_handler(self) -> Any:
            handler = super().get_route_handler()

            async def handle(request: Request) -> Any:
                return await handler(StrictRequest(request.scope, request.receive))

            return handle

    return StrictRoute


def make_app(
    title: str,
    http: HttpOptions,
    open_paths: Collection[str] = (),
    behind_guard: Callable[["FastAPI"], None] = lambda app: None,
    **options: Any,
) -> "FastAPI":
    """Return an app without routes: errors in our shape, and a guard before it.

    Args:
        title: Its name.
        http: Who may ask.
        open_paths: Paths that need no token.
        behind_guard: Adds middleware that only sees requests that may ask.
        options: FastAPI's.

    Raises `OSError` or `ValueError` for the file of tokens.
    """
    require_serve(title)
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.middleware.cors import CORSMiddleware

    # FastAPI's pages load scripts from elsewhere; a redirect of `/x/` leads out of the path that a proxy gives
    app = FastAPI(title=title, docs_url=None, redoc_url=None, redirect_slashes=False, servers=[{"url": "."}], **options)
    app.router.route_class = _strict_route()

    async def refused(_: Any, error: Any) -> "Response":
        return error.response()

    async def not_valid(_: Any, error: Any) -> "Response":
        first = error.errors()[0]  # the first place that is wrong
        if first["type"] == "missing" and first["loc"] == ("body",):
            return Refused(422, "not_valid", "the body is empty; send a JSON object").response()
        place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
        return Refused(422, "not_valid", f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}").response()

    async def unknown(_: Any, error: Any) -> "Response":
        return Refused(error.status_code, CODES.get(error.status_code, "refused"), str(error.detail)).response()

    async def broken(_: Any, error: Exception) -> "Response":
        return as_refused(error).response()

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestValidationError, not_valid)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(Exception, broken)
    app.add_middleware(Heads)
    behind_guard(app)
    app.add_middleware(Guard, http=http, tokens=read_tokens(http.token_file), open_paths=open_paths)
    app.openapi = _with_token(app.openapi, open_paths, http.token_file is not None)
    if http.allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(http.allow_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return app


def _with_token(
    described: Callable[[], dict[str, Any]], open_paths: Collection[str], is_needed: bool
) -> Callable[[], dict[str, Any]]:
    """Return the description of an app (OpenAPI) with the token of its guard: of each path but the open ones."""

    def describe() -> dict[str, Any]:
        made = described()
        made.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path in made["paths"].keys() - open_paths:
            for operation in made["paths"][path].values():
                operation["security"] = [{"token": []}, *([] if is_needed else [{}])]
        return made

    return describe


class Heads:
    """ASGI middleware that answers HEAD, which monitors send, as GET without the body."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def sending(message: Any) -> None:
            await send(message | {"body": b""} if message["type"] == "http.response.body" else message)

        await self.app(scope | {"method": "GET"}, receive, sending)


class Guard:
    """ASGI middleware that refuses requests for other hosts, from other origins, without the token, and compressed."""

    def __init__(self, app: Any, *, http: HttpOptions, tokens: Collection[str], open_paths: Collection[str]) -> None:
        self.app, self.origins, self.open_paths = app, http.allow_origins, frozenset(open_paths)
        self.tokens = [token.encode() for token in tokens]
        self.hosts = {name.lower() for name in http.allow_hosts}
        if ANY_HOST in self.hosts:
            self.hosts = set[str]()
        elif http.host not in EVERY_ADDRESS:
            self.hosts |= {http.host.lower(), *(LOOPBACK if http.host in LOOPBACK else ())}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        refusal = self.refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal and scope["type"] == "websocket":
            await _refuse_socket(refusal, scope, receive, send)
        elif refusal:
            await drain(receive)
            await refusal.response()(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def refusal(self, scope: Any) -> Refused | None:
        """Why a request is refused, if it is."""
        headers = dict(scope["headers"])
        host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
        if self.hosts and host_name(host) not in self.hosts:
            return Refused(403, "host", f"this server does not answer for the host {host!r}; see --allow-hosts")
        if origin and origin not in self.origins and address_in(origin) != host.lower():
            may = "if they are its own, the proxy must pass on Host; else see --allow-origins of boustro serve"
            return Refused(403, "origin", f"pages of {origin!r} may not ask the host {host!r}; {may}")
        if self.tokens and scope["path"] not in self.open_paths:
            scheme, _, given = (headers.get(b"authorization", b"") or _protocol_token(scope)).partition(b" ")
            same = [hmac.compare_digest(given.strip(), token) for token in self.tokens]  # all, in constant time
            if scheme.lower() != b"bearer" or not any(same):
                message = "this server needs a token that it knows: Authorization: Bearer TOKEN"
                return Refused(401, "token", message, WWW_Authenticate="Bearer")
        encoding = headers.get(b"content-encoding", b"").decode("latin-1").strip()
        if encoding.lower() not in ("", "identity"):
            message = f"the body is encoded as {encoding}, which is not read here; send it without Content-Encoding"
            return Refused(415, "encoded", message, Accept_Encoding="identity")
        return None


def _protocol_token(scope: Any) -> bytes:
    """Return the token that a page sends when it opens a WebSocket, which can have no other header: `bearer.` and its
    bytes in hexadecimal, among the subprotocols."""
    with contextlib.suppress(ValueError):
        for name in scope.get("subprotocols", ()):
            if name.startswith("bearer."):
                return b"Bearer " + bytes.fromhex(name.removeprefix("bearer."))
    return b""


async def _refuse_socket(refusal: Refused, scope: Any, receive: Any, send: Any) -> None:
    """Refuse a WebSocket before it is opened, with the answer where the server can send one."""
    from starlette.websockets import WebSocket

    socket = WebSocket(scope, receive, send)
    await receive()
    if "websocket.http.response" in scope.get("extensions", {}):
        await socket.send_denial_response(refusal.response())
    else:
        await socket.close(1008, str(refusal))


async def drain(receive: Any) -> None:
    """Read a body, within bounds, and forget it: a client that is still sending would see a reset, not a refusal."""
    size, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while more and size < DRAIN_BYTES:
                message = await receive()
                size, more = size + len(message.get("body", b"")), message.get("more_body", False)


async def in_time(parts: AsyncIterator[Any], seconds: float, late: Refused) -> AsyncIterator[Any]:
    """Yield the parts; raise `late` where nothing comes for so many seconds."""
    with contextlib.suppress(StopAsyncIteration):
        while True:
            try:
                async with asyncio.timeout(seconds):
                    part = await anext(parts)
            except TimeoutError:
                raise late from None
            yield part


def host_name(header: str) -> str:
    """`"LocalHost:8000"` → `"localhost"`, `"[::1]:8000"` → `"::1"`"""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def address_in(origin: str) -> str | None:
    """Return the host and port of an origin, as a Host header has them; `None` for `null` and for what is none."""
    with contextlib.suppress(ValueError):
        return urlsplit(origin).netloc.lower() or None
    return None


def read_tokens(file: Path | None) -> list[str]:
    """Return the tokens of a file, one per line; `ValueError` where it holds none, or one that no header can have."""
    if file is None:
        return []
    try:
        tokens = [line.strip() for line in file.read_text("ascii").split("\n") if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{file}: a token may have only ASCII characters") from None
    if not tokens:
        raise ValueError(f"{file}: no token in this file; write one per line")
    return tokens


def listen(http: HttpOptions) -> socket.socket:
    """Return a listening socket; `OSError` with what to do where the address or the port cannot be had."""
    where = f"{http.host or '0.0.0.0'}, port {http.port}"
    try:
        addresses = socket.getaddrinfo(http.host or None, http.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, ValueError):
        raise OSError(f"{http.host}: no address of this name; name an address of this machine with --host") from None
    family, kind, protocol, _, address = addresses[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)  # uvicorn's own default: clients that wait here are counted by no limit of ours
    except OSError as error:
        listener.close()
        advice = {
            errno.EADDRINUSE: "another program listens there; choose another --port, or 0 for a free one",
            errno.EACCES: "this needs more rights; choose a --port from 1024 on",
            errno.EADDRNOTAVAIL: "this machine does not have that address; choose another --host",
        }.get(error.errno or 0, str(error.strerror))
        raise OSError(f"{where}: {advice}") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """`http://127.0.0.1:8000`"""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def start_beside(work: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread that computes while a server answers; nothing waits for it at the end (`__main__`)."""
    thread = threading.Thread(target=work, daemon=True, name=name)
    thread.start()
    return thread


def run_app(
    app: Any,
    http: HttpOptions,
    listener: socket.socket | None = None,
    stopping: Callable[[], None] | None = None,
    address: str | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was taken, within the grace, and return.

    `stopping` is called when the signal comes; `address` is what is said of where the page is. Raises as `listen` does.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)  # who reads the address may stop the server by a signal: it is ready for one
            if self.started:
                print(f"{address or address_of(bound)} (Ctrl+C stops)", file=sys.stderr, flush=True)

        def handle_exit(self, sig: int, frame: Any) -> None:  # uvicorn's own would end the program by the signal
            if stopping is not None:
                stopping()
            if self.should_exit:  # the second one, at which all breaks off; that would be said with a traceback
                self.force_exit = True
                logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            self.should_exit = True

    with listener or listen(http) as bound:
        grace = None if http.grace_seconds == 0 else max(1, round(http.grace_seconds))
        config = uvicorn.Config(
            app,
            log_config=None,  # dictConfig would close the handlers that the program has
            log_level="error",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=grace,
        )
        Server(config).run([bound])


def read_body(raw: bytes) -> Any:
    """Return the JSON of a request; `Refused`, with the line and the column, for what is none, as files of JSON are
    read."""
    try:
        return json.loads(raw.decode("utf-8-sig"), **STRICT)
    except json.JSONDecodeError as error:
        why = f"{error.msg[:1].lower()}{error.msg[1:]} (line {error.lineno}, column {error.colno})"
    except UnicodeDecodeError as error:
        why = f"byte {error.start + 1} is not UTF-8"
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:
        why = str(error)
    raise Refused(400, "not_json", f"the body is not JSON: {why}")
