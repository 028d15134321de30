"""What requests contain and what answers look like, for validation and for `/openapi.json`."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from boustro.tasks import TASKS

INPUT = "; ".join(f"{name}: {entry.takes}" for name, entry in TASKS.items())
OUTPUT = "; ".join(f"{name}: {entry.answer}" for name, entry in TASKS.items())


ModelName = Annotated[str | None, Field(description="Name of the model; not needed where there is only one.")]
MinScore = Annotated[float | None, Field(ge=0, le=1, description="Leave out entities with a lower probability.")]
Recall = Annotated[
    float | None,
    Field(ge=0.5, le=0.999, description="Longer lists that hold this share of all entities, on average."),
]
Explain = Annotated[
    bool,
    Field(
        description="Add to each output, as `explained`, what decided it: what each LM of a pair answers alone, and "
        "how much each word counted for the label or number of a text."
    ),
]
Delay = Annotated[str | None, Field(description="Words after a word until its tag is final: 8, or `all` for the end.")]
Wait = Annotated[str | None, Field(description="Words after an entity until it is told provisionally: 2.")]


class Request(BaseModel):
    """Inputs for a model."""

    model_config = ConfigDict(extra="forbid", strict=True)

    inputs: Annotated[list[Any], Field(description=INPUT, examples=[["Ada Brandt flew to Port Lisse."]])]
    model: ModelName = None


class PredictRequest(Request):
    """Inputs to label."""

    min_score: MinScore = None
    recall: Recall = None
    explain: Explain = False


class EmbedRequest(Request):
    """Texts to embed."""

    inputs: Annotated[list[Any], Field(description="Texts.", examples=[["Ada Brandt flew to Port Lisse."]])]
    normalize: Annotated[bool, Field(description="Divide each vector by its length.")] = False


class PredictAnswer(BaseModel):
    """An output for every input, in order."""

    model: str
    task: str
    outputs: Annotated[
        list[dict[str, Any]],
        Field(
            description=f"{OUTPUT}. start and end are half-open, in code points; in words for a list of words.",
            examples=[[{"entities": [{"label": "PER", "start": 0, "end": 10, "text": "Ada Brandt", "score": 0.98}]}]],
        ),
    ]


class EmbedAnswer(BaseModel):
    """A vector for every text, in order."""

    model: str
    width: int
    vectors: list[list[float]]


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
