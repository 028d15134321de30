"""What the documentation of a service shows for each route: a command to copy, and what the models here answer to it.

    curl "$SERVER/v1/predict" -H 'Content-Type: application/json' -d '{"model": "ner", "inputs": ["Ada left."]}'

The page puts its own address in the place of $SERVER. Where a token is needed, nothing of the models is shown to those
who have none: the example is then a made-up one.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SERVER = "$SERVER"
TOKEN = "-H 'Authorization: Bearer TOKEN'"
TYPE, LINES = "-H 'Content-Type: application/json'", "-H 'Content-Type: application/x-ndjson'"
TEXT = "-H 'Content-Type: text/plain'"


class Example(NamedTuple):
    """A model's example, and its answer; `is_vector` for what /v1/embed answers."""

    model: str
    task: str
    given: Any
    output: Any
    is_vector: bool = False


MADE_UP = (
    Example(
        "ner",
        "tag",
        "Ada Brandt flew to Port Lisse.",
        {"entities": [{"label": "PER", "start": 0, "end": 10, "text": "Ada Brandt", "score": 0.98}]},
    ),
    Example("vectors", "embed", "Ada Brandt flew to Port Lisse.", {"vector": [0.1, -0.2]}, is_vector=True),
)


def examples_of(path: str, method: str, examples: Sequence[Example], token: bool) -> Iterator[tuple[str, str]]:
    """(command, answer) for a route, one for each model that it is for; the answer may be empty."""
    guard = f" {TOKEN}" if token else ""
    if method != "post":
        yield f'curl "{SERVER}{path}"{guard}', ""
        return
    if path.endswith("/live"):
        found = [own for own in examples if isinstance(own.given, str) and "entities" in own.output]
        for own in found[:1]:
            sent = f'curl "{SERVER}{path}?model={own.model}"{guard} {TEXT} -N --data-binary @-'
            yield f"echo {shlex.quote(own.given)} | {sent}", "event: final\ndata: …"
        return
    vectors = path.endswith("/embed")
    for own in (own for own in examples if own.is_vector == vectors):
        if path.endswith("/file"):
            fields = {"text": own.given} if isinstance(own.given, str) else own.given
            sent = f'curl "{SERVER}{path}?model={own.model}"{guard} {LINES} --data-binary @-'
            answer = fields | own.output if isinstance(fields, dict) else own.output
            yield f"echo {shlex.quote(_json(fields))} | {sent}", _json(answer)
            continue
        body = _json({"model": own.model, "inputs": [own.given]})
        answer = {"model": own.model, "task": own.task, "outputs": [own.output]}
        if vectors:
            numbers = own.output["vector"]
            answer = {"model": own.model, "width": len(numbers), "vectors": [[*numbers[:3], "…"]]}
        yield f'curl "{SERVER}{path}"{guard} {TYPE} -d {shlex.quote(body)}', _json(answer, 2)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
