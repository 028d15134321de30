"""`/docs` of the service: for each route a command to copy, and what the models answer to it.

The page puts its own address in the place of $SERVER. Where a token is needed, nothing of the models is shown to those
who have none: the example is then a made-up one.
"""

import html
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from boustro.apps.serve.models import Served

SERVER = "$SERVER"
TOKEN = "-H 'Authorization: Bearer TOKEN'"
TYPE, TEXT = "-H 'Content-Type: application/json'", "-H 'Content-Type: text/plain'"
STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.6 system-ui,sans-serif;max-width:50rem;margin:2rem auto;"
    "padding:0 1rem;overflow-wrap:anywhere}h2{margin-top:2.5rem}code,pre{font:.9rem ui-monospace,monospace}"
    "pre{padding:.8rem;border:1px solid #8888;border-radius:.4rem;overflow:auto}table{border-collapse:collapse}"
    "td,th{text-align:left;vertical-align:top;padding:.2rem 1rem .2rem 0;overflow-wrap:break-word}"
    "th,td code{white-space:nowrap}.try{position:relative}.try pre{padding-right:5rem;white-space:pre-wrap}"
    ".try button{position:absolute;right:.5rem;top:.5rem;font:inherit;font-size:.85rem;cursor:pointer}"
)
SCRIPT = f"""<script>
for (const made of document.querySelectorAll(".try")) {{
  const command = made.querySelector("pre"), button = made.querySelector("button");
  command.textContent = command.textContent.replaceAll("{SERVER}", location.origin);
  button.onclick = async () => {{
    try {{ await navigator.clipboard.writeText(command.textContent); button.textContent = "Copied"; }}
    catch {{ getSelection().selectAllChildren(command); button.textContent = "Selected"; }}
  }};
}}
</script>"""


class ServedExample(NamedTuple):
    """A model's example, and its answer; `is_vector` for what /v1/embed answers."""

    model: str
    task: str
    given: Any
    output: Any
    is_vector: bool = False


MADE_UP = (
    ServedExample(
        "ner",
        "tag",
        "Ada Brandt flew to Port Lisse.",
        {"entities": [{"label": "PER", "start": 0, "end": 10, "text": "Ada Brandt", "score": 0.98}]},
    ),
    ServedExample("vectors", "embed", "Ada Brandt flew to Port Lisse.", {"vector": [0.1, -0.2]}, is_vector=True),
)


def example_of(model: Served) -> ServedExample:
    """Answer a model's own example."""
    (output,) = model.answer([model.parse(model.example, "the example")]).outputs
    return ServedExample(model.name, model.task, model.example, output, model.width is not None)


def examples_of(path: str, method: str, examples: Sequence[ServedExample], token: bool) -> Iterator[tuple[str, str]]:
    """(command, answer) for a route, one for each model that it is for; the answer may be empty."""
    guard = f" {TOKEN}" if token else ""
    if method != "post":
        yield f'curl "{SERVER}{path}"{guard}', ""
        return
    if path.endswith("/live"):
        tagger = next((e for e in examples if isinstance(e.given, str) and "entities" in e.output), None)
        if tagger:
            sent = f'curl "{SERVER}{path}?model={tagger.model}"{guard} {TEXT} -N --data-binary @-'
            yield f"echo {shlex.quote(tagger.given)} | {sent}", "event: final\ndata: …"
        return
    vectors = path.endswith("/embed")
    for example in (e for e in examples if e.is_vector == vectors):
        body = _json({"model": example.model, "inputs": [example.given]})
        answer = {"model": example.model, "task": example.task, "outputs": [example.output]}
        if vectors:
            numbers = example.output["vector"]
            answer = {"model": example.model, "width": len(numbers), "vectors": [[*numbers[:3], "…"]]}
        yield f'curl "{SERVER}{path}"{guard} {TYPE} -d {shlex.quote(body)}', _json(answer, 2)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def documentation(openapi: Mapping[str, Any], examples: Sequence[ServedExample] = MADE_UP, token: bool = False) -> str:
    """HTML that describes every route: a command to copy and its answer, what it takes, its errors."""
    info = openapi["info"]
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width,initial-scale=1'>",
        f"<title>{html.escape(info['title'])}: for programs</title><style>{STYLE}</style></head><body>",
        f"<h1>{html.escape(info['title'])} {html.escape(info['version'])}</h1>",
        "<p><a href='/'>Try a model</a> · <a href='/openapi.json'>OpenAPI</a></p>",
        "<p>Each route below has a command to copy into a terminal, and what it answers.</p>",
    ]
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            shown = list(examples_of(path, method, examples, token))
            parts += _route(openapi, f"{method.upper()} {path}", route, shown)
    return "\n".join([*parts, SCRIPT, "</body></html>"])


def _route(
    openapi: Mapping[str, Any], title: str, route: Mapping[str, Any], examples: Sequence[tuple[str, str]]
) -> Iterator[str]:
    yield f"<h2><code>{html.escape(title)}</code></h2><p>{_prose(route.get('description', ''))}</p>"
    for command, said in examples:
        yield f"<div class=try><button>Copy</button><pre>{html.escape(command)}</pre></div>"
        yield f"<pre>{html.escape(said)}</pre>" if said else ""
    rows = [(p["name"], p.get("schema", {}), p.get("required", False)) for p in route.get("parameters", ())]
    if body := _schema(openapi, route.get("requestBody", {})):
        rows += [(name, field, name in body.get("required", ())) for name, field in body["properties"].items()]
    if rows:
        yield "<table><tr><th>field<th>type<th>meaning</tr>"
        for name, schema, required in rows:
            said = schema.get("description", "")
            meaning = _prose(said.removesuffix(".") + "." if said else "") + (" Required." if required else "")
            yield f"<tr><td><code>{html.escape(name)}</code><td>{html.escape(_kind(schema))}<td>{meaning}</tr>"
        yield "</table>"
    answers = route.get("responses", {})
    errors = [
        f"<td>{status}<td>{html.escape(said['description'])}" for status, said in answers.items() if status > "399"
    ]
    if errors:
        yield f"<details><summary>errors</summary><table><tr>{'</tr><tr>'.join(errors)}</tr></table></details>"


def _prose(said: str) -> str:
    """Text with `names` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(said))


def _schema(openapi: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the JSON content of a request's or an answer's description; empty where it names none."""
    reference = part.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
    return openapi["components"]["schemas"][reference.rpartition("/")[2]] if reference else {}


def _kind(schema: Mapping[str, Any]) -> str:
    """`string`, `array`, `number or null`"""
    return schema.get("type") or " or ".join(one.get("type", "any") for one in schema.get("anyOf", ())) or "any"
