"""The routes of `boustro serve`: predictions, vectors, what is served, and how it is; what they take and answer.

    service = Service(open_models, ServeLimits())
    app = make_service(service, HttpOptions())

The models are opened in the background while the server already says that it is starting (503). What computes is in
`models`, what surrounds a request in `middleware`. Requests and answers are validated, and said in `/openapi.json`, by
the classes here.

    curl "$SERVER/v1/predict" -H 'Content-Type: application/json' -d '{"model": "ner", "inputs": ["Ada left."]}'
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files as package_files
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from prometheus_client import generate_latest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from boustro.apps.serve.http import PAGE_HEADERS, HttpOptions, Refused, ServeLimits, make_app, start_beside
from boustro.apps.serve.live import LiveStreams, read_delays
from boustro.apps.serve.middleware import TEXT_TYPE, Bounds, RequestMonitor, ServiceMetrics, other_media
from boustro.apps.serve.models import Batcher, Full, Served, find_model
from boustro.tasks import TASKS
from boustro.version import __version__

INPUT = "; ".join(f"{name}: {entry.takes}" for name, entry in TASKS.items())
OUTPUT = "; ".join(f"{name}: {entry.answer}" for name, entry in TASKS.items())
ModelName = Annotated[str | None, Field(description="Name of the model; not needed where there is only one.")]
Delay = Annotated[str | None, Field(description="Words after a word until its tag is final: 8, or `all` for the end.")]
Wait = Annotated[str | None, Field(description="Words after an entity until it is told provisionally: 2.")]
EVENTS = "text/event-stream"
COMPUTING = ("/v1/predict", "/v1/embed")
LEAST_NORM = 1e-12  # an empty text has the zero vector, which has no direction
OPEN_PATHS = ("/", "/openapi.json", "/livez", "/readyz", "/health")


def _one_or_several(value: Any) -> Any:
    """Refuse what is neither, in one sentence: those of pydantic are one for each type of a union."""
    if isinstance(value, (list, str, dict)):
        return value
    raise PydanticCustomError("inputs", "give a list of inputs, or one input as a text or an object")


class Inputs(BaseModel):
    """Inputs for a model: a list, or one by itself."""

    model_config = ConfigDict(extra="forbid", strict=True)

    inputs: Annotated[
        list[Any] | str | dict[str, Any],
        BeforeValidator(_one_or_several),
        Field(
            description=f"A list of inputs, or one by itself if it is no list. An input is for {INPUT}.",
            examples=[["Ada Brandt flew to Port Lisse."], "Ada Brandt flew to Port Lisse."],
        ),
    ]
    model: ModelName = None

    def answered(self, name: str, values: list[Any]) -> dict[str, Any]:
        """Return the field of an answer: `outputs` for a list of inputs, `output` for one by itself."""
        return {f"{name}s": values} if isinstance(self.inputs, list) else {name: values[0]}


class PredictRequest(Inputs):
    """Inputs to label."""

    min_score: Annotated[
        float | None, Field(ge=0, le=1, description="Leave out entities with a lower probability.")
    ] = None
    recall: Annotated[
        float | None,
        Field(ge=0.5, le=0.999, description="Longer lists that hold this share of all entities, on average."),
    ] = None
    threshold: Annotated[
        float | None,
        Field(ge=0, le=1, description="Also every word that is in an entity with at least this probability."),
    ] = None
    explain: Annotated[
        bool,
        Field(
            description="Add to each output, as `explained`, what decided it: what each LM of a pair answers alone, "
            "and how much each word counted for the label or number of a text."
        ),
    ] = False


class EmbedRequest(Inputs):
    """Texts to embed."""

    normalize: Annotated[bool, Field(description="Divide each vector by its length.")] = False


Output = Annotated[
    dict[str, Any],
    Field(
        description=f"{OUTPUT}. start and end are half-open, in code points; in words for a list of words.",
        examples=[{"entities": [{"label": "PER", "start": 0, "end": 10, "text": "Ada Brandt", "score": 0.98}]}],
    ),
]


class PredictAnswer(BaseModel):
    """An output for every input of a list, in order."""

    model: str
    task: str
    outputs: list[Output]


class OneAnswer(BaseModel):
    """The output for one input by itself."""

    model: str
    task: str
    output: Output


class EmbedAnswer(BaseModel):
    """A vector for every text of a list, in order."""

    model: str
    width: int
    vectors: list[list[float]]


class OneVector(BaseModel):
    """The vector of one text by itself."""

    model: str
    width: int
    vector: list[float]


class Problem(BaseModel):
    """An error: a code for programs and a sentence for people."""

    code: str
    message: str
    type: str
    param: str | None = None


class ErrorAnswer(BaseModel):
    """The answer to every request that cannot be answered."""

    error: Problem


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": what}
    for status, what in {
        400: "not JSON, or an option that the model does not have",
        401: "no token, or an unknown one",
        403: "a host or an origin that is not allowed",
        404: "no such model",
        408: "the body came too slowly",
        413: "too large",
        415: "not application/json",
        422: "JSON, but not what is expected",
        429: "too much at once; Retry-After says when to come back",
        503: "starting or stopping",
        504: "not answered in time",
    }.items()
}
NOT_ASKED: dict[int | str, dict[str, Any]] = {status: ERRORS[status] for status in (401, 403)}
"""The answers of the guard to requests that reach no model."""


class LineResponse(StreamingResponse):
    """A body that is made while the request's is still read, which waiting for the client's end would take away."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.stream_response(send)


class Service:
    """The models and their state: starting, ready, stopping."""

    def __init__(self, open_models: Callable[[], dict[str, Served]], limits: ServeLimits) -> None:
        self.limits, self.figures = limits, ServiceMetrics()
        self.models: dict[str, Served] = {}
        self.batcher = Batcher(limits.waiting, limits.batch, self.figures.batch_done)
        self.failure: Exception | None = None
        self.is_stopping = False
        self._open_models = open_models
        self.figures.waiting.set_function(lambda: self.batcher.waiting)

    @property
    def state(self) -> str:
        """starting, ready or stopping."""
        return "stopping" if self.is_stopping else "ready" if self.models else "starting"

    def start(self, failed: Callable[[], None]) -> None:
        """Open the models in the background; `failed` is called where this is not possible, with `failure` set."""

        def work() -> None:
            try:
                opened = self._open_models()
                for model in opened.values():  # what is made at its first answer: a client would wait for it
                    model.answer([model.parse(model.example, "the example")])
                self.models = opened
            except Exception as error:
                self.failure = error
                failed()

        start_beside(work, "open models")  # the server says /livez while models load

    def stop(self) -> None:
        """Take nothing more; what was taken is finished."""
        self.is_stopping = True

    def find(self, name: str | None) -> Served:
        """Return the model of a request; `Refused` where it is not there, or not now."""
        if self.state != "ready":
            raise Refused(503, self.state, f"the service is {self.state}; try again a little later", Retry_After="2")
        try:
            return find_model(self.models, name)
        except ValueError as error:
            raise Refused(404 if name else 400, "unknown_model", str(error)) from None

    async def answer(self, model: Served, inputs: Any) -> list[Any]:
        """Return the model's answers to a list of JSON values, or to one; `Refused` for what is no input, too large, or
        too much."""
        values = inputs if isinstance(inputs, list) else [inputs]
        if len(values) > self.limits.inputs:
            message = f"{len(values):,} inputs; a request may have {self.limits.inputs:,}"
            raise Refused(413, "too_many_inputs", message)
        read = [self.read(model, value, f"input {number}") for number, value in enumerate(values, start=1)]
        try:
            answers = await self.batcher.answer(model, [given for given, _ in read], [size for _, size in read])
            if note := model.model.language_note():
                print(f"note: {model.name}: {note}", file=sys.stderr)
            return answers
        except Full as error:
            raise Refused(429, "queue_full", str(error), Retry_After=str(error.seconds)) from None

    def read(self, model: Served, value: Any, place: str) -> tuple[Any, int]:
        """Return an input and its size in characters."""
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            text.encode()
            if len(text) > self.limits.characters:
                message = f"{place} has {len(text):,} characters; at most {self.limits.characters:,} are taken"
                raise Refused(413, "input_too_large", f"{message}, so split it")
            return model.parse(value, place), max(1, len(text))
        except UnicodeEncodeError:
            raise Refused(422, "not_valid", f"{place} contains half a character (a lone surrogate)") from None
        except (ValueError, RecursionError) as error:
            raise Refused(422, "not_valid", str(error)) from None


def make_service(service: Service, http: HttpOptions, failed: Callable[[], None] = lambda: None) -> FastAPI:
    """Return the app; raises as `make_app`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start(failed)
        yield
        service.stop()

    def behind_guard(app: FastAPI) -> None:
        bounds: dict[str, Any] = {"limits": service.limits, "paths": COMPUTING}
        app.add_middleware(Bounds, figures=service.figures, **bounds)

    app = make_app("Boustro", http, OPEN_PATHS, behind_guard, version=__version__, lifespan=lifespan)
    _add_predictions(app, service)
    _add_streams(app, LiveStreams(service))
    _add_state(app, service)
    page = (package_files("boustro.apps.serve") / "page.html").read_text("utf-8")

    @app.get("/", include_in_schema=False)
    async def home() -> Any:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    paths = [path for route in app.routes if (path := getattr(route, "path", None))]
    app.add_middleware(RequestMonitor, figures=service.figures, paths=paths)
    return app


def _add_predictions(app: FastAPI, service: Service) -> None:
    @app.post("/v1/predict", responses=ERRORS, response_model=PredictAnswer | OneAnswer)
    async def predict(request: Request, asked: PredictRequest) -> Any:
        """Label inputs: `outputs`, one for each, in order; for one input that is in no list its `output`."""
        model = service.find(asked.model)
        model = with_options(model, asked)
        outputs = await within(service, request, service.answer(model, asked.inputs))
        if (least := asked.min_score) is not None:
            outputs = [o | {"entities": [e for e in o["entities"] if e["score"] >= least]} for o in outputs]
        return answered(
            request, len(outputs), {"model": model.name, "task": model.task, **asked.answered("output", outputs)}
        )

    @app.post("/v1/embed", responses=ERRORS, response_model=EmbedAnswer | OneVector)
    async def embed(request: Request, asked: EmbedRequest) -> Any:
        """Vectors of texts: `vectors`, one for each, in order; for one text that is in no list its `vector`."""
        model = service.find(asked.model)
        if model.width is None:
            raise Refused(
                400, "wrong_task", f"{model.name} is a model of the task {model.task}, which gives no vectors"
            )
        outputs = await within(service, request, service.answer(model, asked.inputs))
        vectors = [output["vector"] for output in outputs]
        if asked.normalize and vectors:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = (np.array(vectors) / np.maximum(lengths, LEAST_NORM)).tolist()
        return answered(
            request, len(vectors), {"model": model.name, "width": model.width, **asked.answered("vector", vectors)}
        )


def _add_streams(app: FastAPI, streams: LiveStreams) -> None:
    body = {"required": True, "content": {TEXT_TYPE: {"schema": {"type": "string"}}}}
    events = {"description": "The events.", "content": {EVENTS: {"schema": {"type": "string"}}}}

    @app.post(
        "/v1/live",
        responses={200: events, **ERRORS},
        response_class=StreamingResponse,
        openapi_extra={"requestBody": body},
    )
    async def live(request: Request, model: ModelName = None, delay: Delay = None, wait: Wait = None) -> Any:
        """Tag a text while it is being sent, as text/plain: server-sent events provisional, revised, final, safe, end.

        A tag is final when `delay` words follow its word, by default 8; an entity is told provisionally when `wait`
        words follow it, by default 2. With a WebSocket at the same address every text
        message is a part of the text, an empty one its end, and each is answered by the events.
        """
        if other := other_media(dict(request.scope["headers"]), TEXT_TYPE, "not_text"):
            raise other
        streams.find(model)
        read_delays(request.query_params)
        streams.check()
        return LineResponse(streams.answer_post(request), media_type=EVENTS)

    @app.websocket("/v1/live")
    async def live_socket(socket: WebSocket) -> None:
        await streams.answer_socket(socket)


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/v1/models", responses=NOT_ASKED | {503: ERRORS[503]})
    async def models() -> Any:
        """Answer with the models that are served: names, tasks, labels, an example."""
        service.find(next(iter(service.models), None))
        return {"models": [model.to_dict() for model in service.models.values()], "version": __version__}

    @app.get("/livez", responses={403: ERRORS[403]})
    async def livez() -> Any:
        """Return whether the program runs."""
        return {"status": "alive"}

    @app.get("/readyz", responses={403: ERRORS[403], 503: {"description": ERRORS[503]["description"]}})
    @app.get("/health", include_in_schema=False)
    async def readyz() -> Any:
        """Return whether it answers: 200 when all models are loaded, 503 before and while it stops."""
        return JSONResponse({"status": service.state}, 200 if service.state == "ready" else 503)

    @app.get("/metrics", responses=NOT_ASKED, response_class=PlainTextResponse)
    async def metrics() -> Any:
        """Figures for Prometheus."""
        return PlainTextResponse(generate_latest(service.figures.registry), media_type="text/plain; version=0.0.4")


def with_options(model: Served, asked: PredictRequest) -> Served:
    """Return the model with what the request asks for; `Refused` for an option that it does not have."""
    if asked.min_score is not None and not model.has_entities:
        message = f"min_score is for entities; {model.name} is a model of the task {model.task}"
        raise Refused(400, "no_min_score", message)
    try:
        model = model.asking(asked.recall, asked.threshold)
    except ValueError as error:
        raise Refused(400, "no_recall" if asked.threshold is None else "no_threshold", str(error)) from None
    try:
        return model.with_explanation() if asked.explain else model
    except ValueError as error:
        raise Refused(400, "no_explanation", str(error)) from None


async def within(service: Service, request: Request, work: Awaitable[list[Any]]) -> list[Any]:
    """Return the result of `work`, given up when the client goes away or the time is over."""
    job, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({job, gone}, timeout=service.limits.timeout, return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            return job.result()
        if gone.done():
            raise Refused(499, "client_closed_request", "the client went away")
        message = f"not answered within {service.limits.timeout:g} s; send fewer inputs, or try again"
        raise Refused(504, "timeout", message)
    finally:
        job.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def answered(request: Request, inputs: int, body: dict[str, Any]) -> JSONResponse:
    """Return the answer; the log learns the model and the number of inputs."""
    request.state.notes |= {"model": body["model"], "inputs": inputs}
    return JSONResponse(body)
