"""The routes of `boustro guard`: completions and the list of models. Every other is refused, not passed on unread."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import generate_latest
from starlette.routing import Route

from boustro.apps.serve.guard.fields import KINDS
from boustro.apps.serve.guard.options import GuardLimits
from boustro.apps.serve.guard.reading import PLAIN
from boustro.apps.serve.guard.relay import Relay
from boustro.apps.serve.http import HttpOptions, Refused, make_app
from boustro.apps.serve.middleware import Bounds, Figures, Watch

OPEN = ("/livez", "/metrics")
COMPLETIONS = tuple(f"/v1/{name}" for name in KINDS)
PASSED = (*COMPLETIONS, "/v1/models", "/v1/models/{name}")


class Endpoint:
    """An ASGI app for a route: Starlette gives a class that is none of its own the whole request."""

    def __init__(self, answer: Callable[..., Any], name: str) -> None:
        self.answer, self.name = answer, name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        name = self.name
        if own := scope.get("path_params", {}).get("name"):
            if not PLAIN.fullmatch(own) or ".." in own:
                raise Refused(404, "not_found", "there is no model of this name")
            name = f"{name}/{own}"
        await self.answer(scope, receive, send, name)


def make_guard(relay: Relay, http: HttpOptions, limits: GuardLimits) -> FastAPI:
    """The app; raises as `make_app`."""
    figures = Figures()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await relay.upstream.client.aclose()

    def behind_guard(app: FastAPI) -> None:
        app.add_middleware(Bounds, limits=limits, figures=figures, paths=COMPLETIONS, streamed=())  # type: ignore[arg-type]

    app = make_app("Boustro guard", http, OPEN, behind_guard, lifespan=lifespan, openapi_url=None)
    for name in KINDS:
        app.router.routes.append(Route(f"/v1/{name}", Endpoint(relay.complete, name), methods=["POST"]))
    for path in ("/v1/models", "/v1/models/{name:path}"):
        app.router.routes.append(Route(path, Endpoint(relay.models, "models"), methods=["GET"]))

    @app.get("/livez")
    async def livez() -> Any:
        return JSONResponse({"status": "alive"})

    @app.get("/metrics")
    async def metrics() -> Any:
        return PlainTextResponse(generate_latest(figures.registry), media_type="text/plain; version=0.0.4")

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
    async def other(request: Request, path: str) -> Any:
        message = f"only {', '.join(PASSED)} are passed on; what another address takes and gives is not checked"
        raise Refused(404, "not_passed", message)

    paths = [*COMPLETIONS, "/v1/models", *OPEN]
    app.add_middleware(Watch, figures=figures, paths=paths)
    return app
